// A disk that fills up: below the reserve the agent that fills it is stopped from writing, that is said, and the fleet goes
// on; a disk that is full refuses in a sentence and leaves nothing half-made.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { Fleet } from './lib/fleet.mjs';
import { ended, until } from './lib/until.mjs';

const fleet = await Fleet.start({ conf: { disk_reserve: '64m' }, disk: 400 });
fleet.new('filler');
fleet.new('quiet');
const project = fleet.status('filler').project;
const MIB = 2 ** 20;
const free = () => Number(spawnSync('df', ['--output=avail', '-k', fleet.root], { encoding: 'utf8' }).stdout.split('\n')[1]) * 1024;

test('below the reserve the room that writes is frozen, its status says so, the others and the fleet answer', async () => {
    // A look every two seconds, at most 5 MiB written in one: what is left of the reserve says whether it was heeded.
    spawnSync('fallocate', ['-l', String(free() - 96 * MIB), fleet.path('ballast')]);
    const child = fleet.spawn(['exec', 'filler', '--', 'sh', '-c', 'for i in $(seq 1000); do head -c 1M /dev/zero >>fill || exit 1; sleep 0.4; done']);
    const end = ended(child, 180_000);
    try {
        await until('the status to speak of the disk', 90_000, () => {
            const status = fleet.status('filler');
            return /disk|space|reserve/i.test(status.why + status.state) || /frozen/.test(status.state);
        });
        const left = free();
        for (const ask of [['ls'], ['status', 'filler'], ['exec', 'quiet', '--', 'true'], ['send', 'quiet', 'echo here', '--wait']]) {
            const start = Date.now();
            assert.equal(fleet.cage(...ask).status, 0, ask.join(' '));
            assert.ok(Date.now() - start < 2000, ask.join(' '));
        }
        assert.ok(left >= 48 * MIB && free() >= left - MIB, `${left} bytes were free, then ${free()}`);
    } finally {
        child.kill('SIGKILL');
        fs.truncateSync(`${project}/fill`); // what is frozen may hold it open: a name less would free nothing
        fs.rmSync(fleet.path('ballast'));
    }
    await end;
    await until('it to go on', 90_000, () => fleet.says('filler', 'goes-on'));
    assert.equal(fleet.status('filler').state, 'running');
});

test('a message on a full disk ends refused or done, never lost, and the fleet recovers', async () => {
    const filler = fleet.path('filler');
    spawnSync('sh', ['-c', 'head -c 1G /dev/zero >"$1"; sync', 'sh', filler]);
    const sent = ended(fleet.spawn(['send', 'quiet', 'echo full', '--wait', '--json']), 240_000);
    const made = fleet.cage({ timeout: 60_000 }, 'new', 'late');
    assert.notEqual(made.status, 0);
    assert.equal(made.stderr.trim().split('\n').filter(l => l.startsWith('agent-cage:')).length, 1, made.stderr);
    assert.ok(!fs.existsSync(fleet.path('etc/agent-cage/agents/late.conf')));
    assert.ok(!fs.existsSync(fleet.path('var/lib/agent-cage/agents/late')));
    fs.rmSync(filler);
    const done = await sent;
    const last = done.stdout.split('\n').filter(Boolean).map(l => JSON.parse(l)).pop();
    if (last?.kind === 'report')
        assert.match(last.text, /full/);
    else if (last)
        assert.equal(last.kind, 'refused', done.stdout);
    else
        assert.match(done.stderr, /disk|space|full/i);
    await until('a turn to work again', 90_000, () => fleet.says('quiet', 'room-again'));
    fleet.must({ timeout: 120_000 }, 'new', 'late');
});
