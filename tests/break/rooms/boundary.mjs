// What rooms of an ordinary pod must refuse, tried from inside: the executor by the product's own `break NAME`, the harness
// room, where the product never lets anybody in, through the engine. No row of theirs sends a packet.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { binary, top } from '../../e2e/lib/fleet.mjs';
import { fleet } from '../lib/rooms.mjs';
import { engineExec } from '../../e2e/lib/room.mjs';
import { hostKinds, judge } from '../lib/rows.mjs';

const executor = fleet.cage({ timeout: 120_000 }, 'break', 'pod', '--json');

test('break says so by its exit status', () => {
    assert.equal(executor.status, 0, executor.stdout + executor.stderr);
});
judge('pod', JSON.parse(executor.stdout).rows, hostKinds(false));

function harness() {
    const inside = engineExec(fleet, 'harness', 'pod', ['/cage/agent-cage', 'probe', 'kind=harness room'], { cwd: '/project' });
    assert.equal(inside.status, 0, inside.stderr);
    const said = spawnSync(path.join(top, 'build/tests/break/judge'), ['harness room'], { input: inside.stdout, encoding: 'utf8' });
    assert.equal(said.status, 0, said.stderr);
    return said.stdout.trim().split('\n').map(l => l.split('\t')).map(([verdict, row, why]) => ({ verdict, row, why }));
}
judge('harness', harness(), hostKinds(false));

test('the probe outside a cage does nothing without being told what room it is in', () => {
    const done = spawnSync(binary, ['probe'], { encoding: 'utf8' });
    assert.equal(done.status, 2);
    assert.equal(done.stdout, '');
});
