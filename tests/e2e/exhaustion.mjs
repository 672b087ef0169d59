// An agent that takes all it can harms itself alone. Its status says so.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { Fleet } from './lib/fleet.mjs';
import { ended, until } from './lib/until.mjs';
import * as proc from './lib/proc.mjs';

const fleet = await Fleet.start();
fleet.new('greedy', '--memory', '256m', '--pids', '256', '--cpus', '1');
fleet.new('quiet');

function answersIn(most, ...ask) {
    const start = process.hrtime.bigint();
    assert.equal(fleet.cage(...ask).status, 0);
    const ms = Number(process.hrtime.bigint() - start) / 1e6;
    assert.ok(ms < most, `${ask.join(' ')} took ${ms} ms`);
}

/** The neighbour and the chat answer in time. */
function othersAnswer() {
    for (const ask of [['exec', 'quiet', '--', 'true'], ['send', 'quiet', 'echo here', '--wait'], ['ls'], ['status', 'greedy']])
        answersIn(2000, ...ask);
}

/** Runs a greedy script while the others are asked. */
async function meanwhile(script, ready, timeout = 20, more = () => {}) {
    const child = fleet.spawn(['exec', 'greedy', '--timeout', String(timeout), '--', 'bash', '-c', script]);
    const end = ended(child, 120_000);
    await until('the greed to begin', 20_000, ready);
    othersAnswer();
    await more();
    const done = await end;
    await until('the greedy agent to work again', 60_000, () => fleet.exec('greedy', 'true').status === 0);
    return done;
}

const count = name => proc.processesOf([[fleet.uidBase(name), fleet.uidBase(name) + 65536]]).length;

test('a fork bomb', async () => {
    let strip = '';
    await meanwhile('f() { f | f & }; f; sleep 15', () => {
        if (count('greedy') < 200)
            return false;
        strip = fleet.must('status', 'greedy').stdout;
        return /no more than 256 may be/.test(strip);
    }, 10);
    assert.match(strip, /2\d\d processes \(no more than 256 may be\)/);
    assert.ok(count('greedy') < 300);
    assert.equal(fleet.status('greedy').processes_max, 256);
});

/** The memory that the kernel lets the agent's executor have. */
function limitOf(name) {
    const groups = fs.readFileSync(`/proc/${fleet.part('executor', name).pid}/cgroup`, 'utf8');
    const v1 = /^\d+:(?:\w+,)*memory(?:,\w+)*:(.*)$/m.exec(groups)?.[1];
    const file = v1 ? `/sys/fs/cgroup/memory${v1}/memory.limit_in_bytes` : `/sys/fs/cgroup${/^0::(.*)$/m.exec(groups)[1]}/memory.max`;
    return Number(fs.readFileSync(file, 'utf8'));
}

const halfFull = () => fleet.status('greedy').memory_used > 96 * 2 ** 20;

test('a memory bomb is killed, the host keeps its memory, and the status says so', async () => {
    const done = await meanwhile(`exec python3 -c 'import time
all = []
while True:
    all.append(b"x" * (8 << 20)); time.sleep(0.2)'`, halfFull, 60);
    assert.equal(done.status, 137, done.stderr);
    assert.equal(limitOf('greedy'), 256 * 2 ** 20);
    const status = fleet.status('greedy');
    assert.equal(status.memory_max, 256 * 2 ** 20);
    assert.ok(status.memory_used <= status.memory_max && status.memory_kills >= 1, JSON.stringify(status));
    assert.match(fleet.must('status', 'greedy').stdout, /process(es)? (was|were) killed for lack of memory/);
    assert.equal(fleet.status('quiet').memory_kills, 0);
    assert.doesNotMatch(fleet.must('status', 'quiet').stdout, /lack of memory/);
});

test('RX-03 a full /tmp, /var/tmp, /run/lock or /dev/shm ends with ENOSPC, and the status says so', () => {
    for (const place of ['/tmp', '/var/tmp', '/run/lock', '/dev/shm']) {
        const done = fleet.sh('quiet', `exec dd if=/dev/zero of=${place}/fill bs=1M`);
        assert.equal(done.status, 1);
        assert.match(done.stderr, /No space left/, place);
        assert.equal(fleet.status('quiet').full, place);
        assert.match(fleet.must('status', 'quiet').stdout, new RegExp(` · full: ${place}( ·|$)`, 'm'));
        othersAnswer();
        fleet.sh('quiet', `rm -f ${place}/fill`);
        assert.equal(fleet.status('quiet').full, '');
    }
});

test('a /tmp that is larger than the memory ends the room alone, and the room comes back', async () => {
    const was = fleet.part('executor', 'greedy').pid, kills = fleet.status('greedy').memory_kills;
    const script = 'for i in $(seq 20); do head -c 8M /dev/zero >>/tmp/slowly; sleep 0.2; done; exec dd if=/dev/zero of=/tmp/fill bs=1M';
    const done = await meanwhile(script, halfFull, 60);
    assert.notEqual(done.status, 0);
    assert.ok(fleet.part('executor', 'greedy').pid !== was || fleet.status('greedy').memory_kills > kills, 'nothing ended for it');
    fleet.sh('greedy', 'rm -f /tmp/slowly /tmp/fill');
});

test('RX-06 descriptors run out at the limit, inside', () => {
    const done = fleet.exec('greedy', 'python3', '-c', 'import os,errno\nn=0\ntry:\n  while True:\n    os.open("/dev/null",0); n+=1\nexcept OSError as e:\n  print(errno.errorcode[e.errno], n)');
    assert.match(done.stdout, /^EMFILE \d+/);
});

test('RX-11 processors: spinners do not hold the others up', async () => {
    await meanwhile('for i in 1 2 3 4 5 6; do (while :; do :; done) & done; sleep 8', () => count('greedy') > 6, 8);
});

// The product sets no limit of I/O: what is judged is that the others answer, and write, while a disk is kept busy.
test('RX-12 a disk that is written and synced all the time does not hold the others up', async () => {
    const rounds = path.join(fleet.status('greedy').project, 'rounds');
    const written = () => fs.existsSync(rounds) ? fs.statSync(rounds).size : 0;
    const script = 'while dd if=/dev/zero of=io bs=1M count=8 conv=fsync 2>/dev/null && printf x >>rounds; do :; done';
    let before = 0;
    await meanwhile(script, () => (before = written()) > 0, 10, async () => {
        answersIn(5000, 'exec', 'quiet', '--', 'dd', 'if=/dev/zero', 'of=synced', 'bs=4k', 'count=1', 'conv=fsync');
        await until('more to be written', 5000, () => written() > before);
    });
    fleet.sh('greedy', 'rm -f io rounds');
});

test('and after all of it the agent runs, with nothing against it', () => {
    const status = fleet.status('greedy');
    assert.equal(status.why, '');
    assert.equal(status.state, 'running', JSON.stringify(status));
    assert.ok(fleet.says('greedy', 'still-here'));
});
