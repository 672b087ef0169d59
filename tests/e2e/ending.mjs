// A command ends with its whole tree when it must, and only then.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { Fleet } from './lib/fleet.mjs';
import { spawnInRoom } from './lib/room.mjs';
import { ended, until, within } from './lib/until.mjs';
import * as proc from './lib/proc.mjs';

const fleet = await Fleet.start();
fleet.new('pod');
fleet.new('bare', '--mode', 'bare');

const MARK = 'sleep 98765';
/** Kernel pids of the processes of an agent whose command line is the mark. */
const marked = name => proc.processesOf([[fleet.uidBase(name), fleet.uidBase(name) + 65536]])
    .filter(pid => proc.cmdline(pid).join(' ') === MARK);

/** Trees that hold on to life: each leaves a marked sleep in another way. */
const trees = {
    'a plain child': `${MARK}`,
    'setsid nohup': `setsid nohup ${MARK} >/dev/null 2>&1 & wait`,
    'a double fork': `( ( setsid ${MARK} >/dev/null 2>&1 & ) & ); sleep 54321`,
    'everything trapped': `trap '' TERM INT HUP QUIT; ${MARK}`,
    'a child that keeps forking': `trap '' TERM; while :; do ${MARK} & sleep 0.02; done`,
};

for (const name of ['pod', 'bare'])
    for (const [what, script] of Object.entries(trees)) {
        test(`${name}: a time-out ends ${what}`, async () => {
            const done = fleet.cage({ timeout: 60_000 }, 'exec', name, '--timeout', '1', '--', 'bash', '-c', `echo begun; ${script}`);
            assert.equal(done.status, 124, done.stderr);
            assert.equal(done.stdout, 'begun\n');
            await until('the tree to be gone', 5000, () => marked(name).length === 0);
        });

        test(`${name}: when the asker dies, ${what} ends`, async () => {
            const child = fleet.spawn(['exec', name, '--', 'bash', '-c', script]);
            await until('the tree to stand', 20_000, () => marked(name).length > 0);
            child.kill('SIGKILL');
            await until('the tree to be gone', 5000, () => marked(name).length === 0);
        });
    }

test('pod: when the shim dies, its command\'s tree ends', async () => {
    for (const script of Object.values(trees)) {
        const child = spawnInRoom(fleet, 'harness', 'pod', ['/bin/bash', '-c', script], { stdio: 'ignore' });
        await until('the tree to stand', 20_000, () => marked('pod').length > 0);
        for (const pid of proc.pids().filter(p => proc.parent(p) === child.pid))
            process.kill(pid, 'SIGKILL'); // the shim itself: the helper's child
        await until('the tree to be gone', 5000, () => marked('pod').length === 0);
        await ended(child);
    }
});

// The same uid, so only the namespace is between them: outside it, this signal stops the broker for good.
test('bare: a command cannot stop what runs it', async () => {
    const broker = fleet.part('executor', 'bare').pid;
    const state = proc.status(broker);
    assert.match(state.NSpid, /\t1$/);
    const done = fleet.cage({ timeout: 60_000 }, 'exec', 'bare', '--timeout', '1', '--', 'bash', '-c',
        `cat /proc/1/comm; kill -STOP 1; kill -KILL 1; kill -STOP ${broker} 2>/dev/null; echo tried; ${MARK}`);
    assert.equal(done.status, 124, done.stderr);
    assert.match(done.stdout, /^agent-cage\ntried\n$/);
    assert.equal(fleet.part('executor', 'bare').pid, broker);
    assert.doesNotMatch(proc.status(broker).State, /^T/);
    await until('the tree to be gone', 5000, () => marked('bare').length === 0);
});

test('asked twice to end, exec leaves, whatever the command does', async () => {
    const child = fleet.spawn(['exec', 'bare', '--', 'bash', '-c', `trap '' TERM; echo ready; ${MARK}`]);
    let text = '';
    child.stdout.on('data', d => { text += d; });
    const end = ended(child);
    await until('the command to be ready', 20_000, () => text.includes('ready'));
    child.kill('SIGTERM');
    await new Promise(done => setTimeout(done, 300));
    child.kill('SIGTERM');
    const done = await within('the end', 5000, end);
    assert.equal(done.status, 125);
    assert.match(done.stderr, /asked to end twice/);
    await until('the tree to be gone', 5000, () => marked('bare').length === 0);
});

test('Ctrl-C and TERM reach the command', async () => {
    for (const [signal, number] of [['SIGINT', 2], ['SIGTERM', 15]]) {
        const child = fleet.spawn(['exec', 'pod', '--', 'bash', '-c', `trap 'echo got ${number}; exit 9' ${number}; echo ready; while :; do sleep 0.05; done`]);
        let text = '';
        child.stdout.on('data', d => { text += d; });
        const end = ended(child);
        await until('the command to be ready', 20_000, () => text.includes('ready'));
        child.kill(signal);
        const done = await end;
        assert.match(done.stdout, new RegExp(`got ${number}`));
        assert.equal(done.status, 9);
    }
});

test('a command that ends normally may leave a process: it is listed, and ends with stop', async () => {
    const done = await within('the answer', 10_000, Promise.resolve(fleet.sh('pod', `setsid ${MARK} >/dev/null 2>&1 </dev/null & echo left`)));
    assert.equal(done.stdout, 'left\n');
    await until('the survivor to be listed', 10_000, () => fleet.status('pod').survivors > 0);
    assert.match(fleet.status('pod').survivor_text, /sleep/);
    assert.equal(marked('pod').length, 1);
    fleet.must('stop', 'pod');
    await until('the survivor to be gone', 10_000, () => marked('pod').length === 0);
    fleet.must('start', 'pod');
    assert.equal(fleet.exec('pod', 'echo', 'again').stdout, 'again\n');
});

test('a survivor that holds the pipe does not hold the reply', () => {
    const done = fleet.cage({ timeout: 30_000 }, 'send', 'pod', `setsid ${MARK} & echo answered`, '--wait');
    assert.match(done.stdout, /answered/);
    fleet.must('stop', 'pod');
    fleet.must('start', 'pod');
});

test('a fork storm that ignores TERM is gone in time', async () => {
    const storm = 'trap "" TERM HUP INT; f() { f & f & sleep 98765; }; f';
    const done = fleet.cage({ timeout: 60_000 }, 'exec', 'pod', '--timeout', '2', '--', 'bash', '-c', storm);
    assert.equal(done.status, 124);
    await until('the storm to be over', 10_000, () => fleet.exec('pod', 'true').status === 0 && marked('pod').length === 0);
});

test('partial output is kept at a time-out', () => {
    const done = fleet.cage({ timeout: 60_000 }, 'exec', 'pod', '--timeout', '1', '--', 'bash', '-c', 'for i in 1 2 3; do echo $i; done; sleep 99');
    assert.equal(done.stdout, '1\n2\n3\n');
    assert.equal(done.status, 124);
});
