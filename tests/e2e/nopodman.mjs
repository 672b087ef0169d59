// After a pod's start commands run without any execution of podman.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { Fleet } from './lib/fleet.mjs';
import { inRoom } from './lib/room.mjs';
import { ended, until } from './lib/until.mjs';
import * as proc from './lib/proc.mjs';

const fleet = await Fleet.start();
fleet.new('pod');

/** strace of every part of the fleet while `work` runs: the lines of execve. */
async function traced(work) {
    const file = fleet.path('trace');
    const pids = proc.parts(fleet).flatMap(p => ['-p', String(p.pid)]);
    const strace = spawn('strace', ['-f', '-qq', '-e', 'trace=execve,execveat', '-o', file, ...pids], { stdio: 'ignore' });
    await until('strace to be attached', 20_000, () => proc.parts(fleet).every(p => proc.status(p.pid).TracerPid !== '0'));
    await work();
    strace.kill('SIGINT');
    await ended(strace);
    return fs.readFileSync(file, 'utf8').split('\n').filter(l => l.includes('execve'));
}

test('ten commands each way, zero executions of podman', async () => {
    const lines = await traced(() => {
        for (let i = 0; i < 10; i++) {
            assert.equal(fleet.exec('pod', '/bin/true').status, 0);
            assert.equal(inRoom(fleet, 'harness', 'pod', ['/bin/bash', '-c', 'true']).status, 0);
        }
        assert.match(fleet.must('send', 'pod', 'id -u', '--wait').stdout, /60000/);
    });
    assert.deepEqual(lines.filter(l => /podman|conmon|runc|crun/.test(l)), []);
    assert.ok(lines.filter(l => l.includes('/true')).length >= 10, 'the trace saw nothing');
});

test('the same trace does see podman when a room starts', async () => {
    const lines = await traced(() => {
        fleet.must({ timeout: 120_000 }, 'restart', 'pod');
        fleet.must('exec', 'pod', '--', 'true');
    });
    assert.ok(lines.some(l => l.includes('podman')), lines.slice(0, 20).join('\n'));
});

test('no trusted part starts a program in a folder that a cage can write', () => {
    for (const part of ['warden', 'relay', 'manager']) {
        const { pid } = fleet.part(part);
        const cwd = spawnSync('readlink', [`/proc/${pid}/cwd`], { encoding: 'utf8' }).stdout.trim();
        assert.equal(cwd, '/', part);
    }
});
