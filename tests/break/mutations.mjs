// One protection less at a time, in the closed network of lib/world.mjs: the product's own judge must see it. Every run takes
// a sample (those with '*' in mutations.txt, and one more that changes from day to day); MUTATIONS=all takes all of them, and
// MUTATIONS=NAME,… some.
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { binary, top } from '../e2e/lib/fleet.mjs';
import { World } from './lib/world.mjs';
import { faults, hostKinds } from './lib/rows.mjs';

const mutants = path.join(top, 'build/tests/break/mutants');
const all = fs.readFileSync(path.join(top, 'tests/break/mutations.txt'), 'utf8').split('\n').filter(l => l && !l.startsWith('#'))
    .map(l => l.split('\t')).map(([name, rows]) => ({ name: name.replace(/^\*/, ''), sample: name[0] === '*', rows: rows.split('|') }));
const REFUSED = 'refused: ', COLLECTOR = 'collector: ';
const which = process.env.MUTATIONS ?? 'sample';
const oneMore = all[Math.floor(Date.now() / 86_400_000) % all.length];
const chosen = all.filter(m => which === 'all' || which.split(',').includes(m.name) || (which === 'sample' && (m.sample || m === oneMore)));

const world = new World();
await world.serve('internet', 'tcp:53', 'tcp:80', 'udp:53');
const prefix = `m${Math.random().toString(36).slice(2, 6)}`;
const root = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-cage-test-'));
fs.chmodSync(root, 0o755);
fs.mkdirSync(path.join(root, 'etc/agent-cage'), { recursive: true });
fs.mkdirSync(path.join(root, 'tmp'));
fs.writeFileSync(path.join(root, 'etc/agent-cage/agent-cage.conf'),
    `prefix = ${prefix}\nimage_dir = ${path.join(top, 'build/images')}\n`);
after(() => {
    world.remove();
    spawnSync(path.join(top, 'scripts/forget-ids'), [prefix]); // the ranges that runs were lent
    fs.rmSync(root, { recursive: true, force: true });
});

function judge(name) {
    fs.writeFileSync(path.join(root, 'mutant'), name);
    const done = world.run('machine', [mutants, 'break', '--json'], { env: { PATH: process.env.PATH, HOME: '/root', AGENT_CAGE_ROOT: root, TMPDIR: path.join(root, 'tmp') } });
    world.assertClosed();
    if (done.status === 125)
        return { refused: done.stderr.trim() };
    assert.ok([0, 1].includes(done.status), `exit ${done.status}: ${done.stderr}`);
    return JSON.parse(done.stdout);
}

/** The unit tests that a collector fails which opens carelessly. */
function failing() {
    const done = spawnSync(path.join(top, 'build/tests/break/careless'), { encoding: 'utf8', timeout: 60_000 });
    const of = word => [...(done.stdout + done.stderr).matchAll(new RegExp(`^\\[ +${word} +\\] (\\w+)$`, 'gm'))].map(m => m[1]);
    assert.ok(of('OK').includes('plain_file'), done.stdout + done.stderr);
    return of('FAILED');
}

for (const { name, rows } of chosen)
    test(name, t => {
        if (rows[0].startsWith(COLLECTOR)) {
            const failed = failing();
            for (const row of [rows[0].slice(COLLECTOR.length), ...rows.slice(1)])
                assert.ok(failed.includes(row), `survived: ${row} does not fail; these do: ${failed.join('; ')}`);
            return;
        }
        const said = judge(name);
        if (said.refused) {
            t.diagnostic(`${name}: ${said.refused}`);
            assert.ok(rows[0].startsWith(REFUSED), `no cage: ${said.refused}`);
            assert.match(said.refused, new RegExp(rows[0].slice(REFUSED.length)));
            return;
        }
        const red = said.rows.filter(r => r.verdict === 'red').map(r => r.row);
        t.diagnostic(`${name}: ${red.length} red: ${red.slice(0, 12).join('; ')}`);
        if (name === 'NONE')
            return assert.deepEqual(faults(said.rows, hostKinds(false)), []);
        assert.ok(!rows[0].startsWith(REFUSED), 'the product makes such a cage');
        for (const row of rows)
            assert.ok(red.some(r => r.startsWith(row)), `survived: no row ${row}… is red; red are: ${red.join('; ')}`);
    });

test('nothing of the mutants is in the shipped binary', () => {
    const bytes = fs.readFileSync(binary);
    for (const word of ['BREAK_TEST_MUTANT', 'NFT-HOLE', 'SEC-ONE', '__wrap_'])
        assert.equal(bytes.indexOf(word), -1, word);
    assert.notEqual(fs.readFileSync(mutants).indexOf('BREAK_TEST_MUTANT'), -1);
});

test('a file or variable by which the mutants choose is nothing to the shipped binary', () => {
    fs.writeFileSync(path.join(root, 'mutant'), 'SEC-DEFAULT');
    const done = spawnSync(...(([p, ...a]) => [p, a])([...world.enter('machine'), binary, 'break', '--json']),
        { encoding: 'utf8', env: { PATH: process.env.PATH, HOME: '/root', AGENT_CAGE_ROOT: root, BREAK_TEST_MUTANT: 'SEC-DEFAULT' } });
    assert.equal(done.status, 0, done.stdout + done.stderr);
    assert.equal(JSON.parse(done.stdout).red, 0);
});
