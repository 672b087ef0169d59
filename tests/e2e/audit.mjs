// Every command that began has one row in the audit log, however its rooms end.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { Fleet } from './lib/fleet.mjs';
import { ended, until } from './lib/until.mjs';

const fleet = await Fleet.start();
fleet.new('pod');
fleet.new('bare', '--mode', 'bare');

let next = 4000;
const rows = name => fleet.must('log', name, '--json').stdout.split('\n').filter(Boolean).map(JSON.parse);
/** The rows of the command that sleeps this long. */
const of = (name, mark) => rows(name).filter(r => r.argv.join(' ').includes(`sleep ${mark}`));

/** A message and a command that run, started and seen in the log as running; resolves to their marks. */
async function running(name) {
    const marks = [++next, ++next];
    const children = [fleet.spawn(['send', name, `sleep ${marks[0]}`, '--wait']), fleet.spawn(['exec', name, '--', 'sleep', `${marks[1]}`])];
    await until('both to be shown as running', 20_000, () => marks.every(m => of(name, m).map(r => r.how).join() === 'running'));
    return { marks, children };
}

/** Each mark has exactly one row, in the end, and the chain is whole. */
async function judge(name, { marks, children }, hows) {
    await until('each to have one row that ended', 20_000, () => marks.every(m => {
        const found = of(name, m);
        assert.ok(found.length <= 1, JSON.stringify(found));
        return found.length === 1 && found[0].how !== 'running';
    }));
    for (const m of marks)
        assert.match(of(name, m)[0].how, hows);
    assert.match(fleet.must('log', name, '--verify').stdout, /^ok: rows 1 to/);
    for (const child of children)
        child.kill('SIGKILL');
    await Promise.all(children.map(c => c.exitCode ?? c.signalCode ?? ended(c)));
}

const SEEN = /^(signal|killed)$/;

for (const name of ['pod', 'bare']) {
    test(`${name}: restart, four times`, async () => {
        for (let i = 0; i < 4; i++) {
            const begun = await running(name);
            fleet.must('restart', name);
            await judge(name, begun, SEEN);
        }
    });

    test(`${name}: stop`, async () => {
        const begun = await running(name);
        const from = Date.now();
        fleet.must('stop', name);
        assert.ok(Date.now() - from < 10_000, 'a stop is quick');
        await judge(name, begun, SEEN);
        fleet.must('start', name);
    });

    for (const parts of [['executor'], ['agent'], ['agent', 'executor'], ['manager', 'agent', 'executor']])
        test(`${name}: kill -9 of ${parts.join(' and ')}`, async () => {
            const begun = await running(name);
            const pids = parts.map(p => fleet.part(p, p === 'manager' ? '' : name).pid);
            for (const pid of pids)
                process.kill(pid, 'SIGKILL');
            await until('the fleet to answer', 30_000, () => fleet.exec(name, 'true').status === 0);
            await judge(name, begun, parts.includes('executor') ? /^unknown$/ : /^(signal|killed)$/);
        });
}

test('down, with commands that do not obey', async () => {
    const mark = ++next;
    const child = fleet.spawn(['exec', 'bare', '--', 'bash', '-c', `trap '' TERM; sleep ${mark} & wait; wait; sleep ${mark}`]);
    await until('it to run', 20_000, () => of('bare', mark).length === 1);
    const begun = await running('pod');
    fleet.must('down');
    child.kill('SIGKILL');
    await fleet.up();
    await judge('pod', begun, SEEN);
    assert.deepEqual(of('bare', mark).map(r => r.how), ['killed']);
});

test('an unknown end is told in lines, not in escapes', async () => {
    const child = fleet.spawn(['send', 'bare', `echo begun; sleep ${++next}`, '--wait']);
    let text = '';
    child.stdout.on('data', d => { text += d; });
    await until('it to run', 20_000, () => of('bare', next).length === 1);
    process.kill(fleet.part('harness', 'bare').pid, 'SIGKILL');
    await ended(child);
    assert.match(text, /unknown/);
    assert.doesNotMatch(text, /\\n/);
});
