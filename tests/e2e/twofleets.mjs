// Two complete fleets beside each other: no name, socket, account, range or container is shared.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { Fleet, names } from './lib/fleet.mjs';
import * as proc from './lib/proc.mjs';

const one = await Fleet.start();
const two = await Fleet.start();
one.new('same');
two.new('same');

test('each knows its own agents and answers for itself', () => {
    one.new('extra');
    assert.deepEqual(names(one.must('ls', '--json').stdout).sort(), ['extra', 'same']);
    assert.deepEqual(names(two.must('ls', '--json').stdout), ['same']);
    assert.match(one.must('send', 'same', 'echo one', '--wait').stdout, /one/);
    assert.match(two.must('send', 'same', 'echo two', '--wait').stdout, /two/);
});

test('no kernel uid is shared', () => {
    const a = one.ranges, b = two.ranges;
    for (const [from, to] of a)
        for (const [from2, to2] of b)
            assert.ok(to <= from2 || to2 <= from);
    const uids = [...proc.parts(one), ...proc.parts(two)].filter(p => p.part !== 'warden').map(p => p.uid);
    assert.equal(new Set(uids).size, uids.length);
});

test('one ends, the other does not notice', async () => {
    await one.stop();
    assert.equal(two.exec('same', 'echo', 'alive').stdout, 'alive\n');
    assert.match(two.must('send', 'same', 'echo still', '--wait').stdout, /still/);
});
