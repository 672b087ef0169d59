// `rm` leaves no account, container, mount or folder; the project stays; a range of uids is never given twice.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { Fleet, names } from './lib/fleet.mjs';
import { agentAccounts, living } from './lib/leftovers.mjs';
import { until } from './lib/until.mjs';

const fleet = await Fleet.start();
fleet.new('kept');

for (const mode of ['pod', 'bare'])
    test(`rm of a ${mode} agent with a running command and survivors`, async () => {
        const base = () => living(fleet, fleet.ranges).length + agentAccounts(fleet).length;
        const before = base();
        fleet.new('gone', '--mode', mode);
        const range = fleet.uidBase('gone');
        const done = fleet.sh('gone', 'setsid sleep 98765 >/dev/null 2>&1 </dev/null & echo data >data');
        assert.equal(done.status, 0, done.stderr);
        fleet.spawn(['exec', 'gone', '--', 'sleep', '98766']);
        await until('the command to run', 20_000, () => fleet.status('gone').processes > 1);
        const project = fleet.status('gone').project;
        fleet.must({ timeout: 120_000 }, 'rm', 'gone');
        assert.deepEqual(names(fleet.must('ls', '--json').stdout), ['kept']);
        await until('all of it to be gone', 10_000, () => base() <= before);
        for (const file of ['etc/agent-cage/agents/gone.conf', 'var/lib/agent-cage/agents/gone', 'run/agent-cage/mnt/gone', 'run/agent-cage/shim/gone'])
            assert.ok(!fs.existsSync(fleet.path(file)), file);
        assert.ok(fs.existsSync(project), 'the project went too');
        fs.rmSync(project, { recursive: true });
        fleet.new('gone', '--mode', mode);
        assert.ok(fleet.uidBase('gone') > range, 'a freed range was given again');
        fleet.must({ timeout: 120_000 }, 'rm', 'gone');
    });

test('the neighbour has not noticed', () => {
    assert.equal(fleet.exec('kept', 'echo', 'alive').stdout, 'alive\n');
});
