// kill -9 at the n-th write, sync and send of the manager and of the agent, and at the relay's sends, so also between every two
// commit points of a message's delivery: it ends done, refused or unknown, runs at most once, and the next message works.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { Fleet } from '../e2e/lib/fleet.mjs';
import { ended, until } from '../e2e/lib/until.mjs';
import * as proc from '../e2e/lib/proc.mjs';

const fleet = await Fleet.start();
const project = fleet.path('project');
fs.mkdirSync(project);
fs.chownSync(project, 61234, 61234);
fleet.new('pod', '--project', project);

const MOST = 64;

const ran = mark => (fs.existsSync(`${project}/runs`) ? fs.readFileSync(`${project}/runs`, 'utf8') : '').split('\n').filter(l => l === mark).length;

/** One message while `part` dies at its n-th call of this kind. True when the call was reached. */
async function one(part, name, calls, n) {
    const victim = await fleet.waitForPart(part, name);
    const mark = `${part}-${calls.split(',')[0]}-${n}`;
    const strace = spawn('strace', ['-f', '-qq', '-o', '/dev/null', '-e', `trace=${calls}`, '-e', `inject=${calls}:signal=SIGKILL:when=${n}`,
        '-p', String(victim.pid)], { stdio: 'ignore' });
    const traced = ended(strace, 180_000);
    // A call of its own, before the message's, counts too: then the part is made again and the message comes after that.
    await until('strace to be attached', 20_000, () => !proc.isAlive(victim.pid) || !['0', undefined].includes(proc.status(victim.pid).TracerPid));
    if (!proc.isAlive(victim.pid))
        await fleet.waitForPart(part, name, victim.pid);
    const done = await ended(fleet.spawn(['send', 'pod', `echo ${mark} >>runs`, '--wait', '--json']), 120_000);
    const reached = !proc.isAlive(victim.pid);
    strace.kill('SIGINT');
    await traced;
    await fleet.waitForPart(part, name, reached ? victim.pid : -1);
    const kind = done.stdout.split('\n').filter(Boolean).map(l => JSON.parse(l).kind).pop();
    assert.ok(ran(mark) <= 1, `${mark} ran ${ran(mark)} times`);
    if (kind === 'report' && done.status === 0)
        assert.equal(ran(mark), 1, `${mark} is said to be done and did not run`);
    assert.ok(['report', 'refused', 'unknown'].includes(kind) || /unknown|report/.test(done.stderr), `${mark}: ${kind} ${done.stderr}`);
    return reached;
}

const each = ['fsync,fdatasync', 'sendmsg', 'write,pwrite64,writev'];
for (const [part, name, kinds] of [['manager', '', each], ['agent', 'pod', each], ['relay', '', ['sendmsg']]])
    for (const calls of kinds)
        test(`kill -9 of the ${part} at each ${calls}`, async () => {
            let reached = 0;
            while (reached < MOST && await one(part, name, calls, reached + 1))
                reached++;
            await until('the next message to work', 90_000, () => fleet.says('pod', 'fine'));
            // What a message needs at least: it is kept before it is passed on, and its end before it is told.
            assert.ok(reached >= (calls.startsWith('fsync') ? 2 : 1), `${reached} calls of this kind were made`);
        });
