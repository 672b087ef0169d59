// Verdicts of `agent-cage break` as tests: a row is a test, and a row that is not judged must be one that is known not to be
// judged on this kind of host, with a reason (not-judged.txt).
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const list = path.join(path.dirname(fileURLToPath(import.meta.url)), '../not-judged.txt');

/** The lines of the list: { kinds, row, why }. */
export const known = fs.readFileSync(list, 'utf8').split('\n').filter(l => l && !l.startsWith('#'))
    .map(l => l.split('\t')).map(([kinds, row, why]) => ({ kinds: kinds.split(','), row, why }));

/** What this host is: the words that lines of the list begin with. */
export function hostKinds(rootless) {
    const v2 = fs.existsSync('/sys/fs/cgroup/cgroup.controllers');
    return ['any', rootless ? 'rootless' : 'root', `${rootless ? 'rootless' : 'root'}-${v2 ? 'v2' : 'v1'}`];
}

/** Red rows, and rows that are not judged without being known as such, as sentences. */
export function faults(rows, kinds) {
    return rows.filter(r => r.verdict !== 'green').filter(r => r.verdict === 'red' ||
        !known.some(k => k.row === r.row && k.kinds.some(kind => kinds.includes(kind))))
        .map(r => `${r.verdict}: ${r.row}: ${r.why}`);
}

/** A test for each row that this kind of host can judge; the others are said. */
export function judge(room, rows, kinds) {
    for (const r of rows) {
        const is = known.find(k => k.row === r.row && k.kinds.some(kind => kinds.includes(kind)));
        if (r.verdict === 'not judged' && is)
            console.error(`not judged: ${room}: ${r.row}: ${is.why}`);
        else
            test(`${room}: ${r.row}`, () => assert.equal(r.verdict, 'green', r.why));
    }
}
