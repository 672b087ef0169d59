// The way of a message: from the chat to the executor and back.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { Fleet, binary, names } from './lib/fleet.mjs';
import { ended, until } from './lib/until.mjs';

const fleet = await Fleet.start();
fleet.new('pod');
fleet.new('bare', '--mode', 'bare');

test('a message is a command line for the executor', () => {
    assert.match(fleet.must('send', 'pod', 'id -u', '--wait').stdout, /^60000$/m);
    const uid = fleet.uidBase('bare') + 60000;
    assert.match(fleet.must('send', 'bare', 'id -u', '--wait').stdout, new RegExp(`^${uid}$`, 'm'));
});

test('the report says how the command ended', () => {
    const done = fleet.cage('send', 'pod', 'echo out; echo err >&2; exit 3', '--wait');
    assert.match(done.stdout, /out/);
    assert.match(done.stdout, /err/);
    assert.equal(done.status, 3);
});

test('messages to one agent are done in their order, one at a time', async () => {
    fleet.must('send', 'pod', 'rm -f order');
    const all = [];
    for (let i = 0; i < 20; i++)
        fleet.must('send', 'pod', `echo ${i} >>order`);
    all.push(fleet.must('send', 'pod', 'cat order', '--wait').stdout);
    assert.deepEqual(all[0].match(/^\d+$/gm).slice(0, 20), Array.from({ length: 20 }, (_, i) => String(i)));
});

test('two agents work at the same time', async () => {
    const slow = ended(fleet.spawn(['send', 'pod', 'sleep 2; echo slow', '--wait']));
    assert.match(fleet.must('send', 'bare', 'echo quick', '--wait').stdout, /quick/);
    assert.match((await slow).stdout, /slow/);
});

test('the state strip: status as text and as JSON', () => {
    const text = fleet.must('status', 'pod').stdout;
    assert.match(text, /\[pod\] pod — running/);
    assert.match(text, /▪ no login needed/);
    assert.match(text, /◦ \d+ active sessions? · \d+ process/);
    assert.match(text, /◆ last command ran as the executor/);
    assert.match(text, /RAM: .* free of .* used\) · CPU \d+% now/);
    const json = fleet.status('pod');
    assert.equal(json.name, 'pod');
    assert.equal(json.state, 'running');
    assert.ok(json.host.memory_total > 0);
});

test('bare says its trade, at new and in status', () => {
    const made = fleet.must({ timeout: 120_000 }, 'new', 'trade', '--mode', 'bare');
    assert.match(made.stdout + made.stderr, /without a sandbox|no sandbox/i);
    assert.match(fleet.must('status', 'bare').stdout, /without a sandbox|no sandbox/i);
});

test('stop and start: refused while stopped, works after', () => {
    fleet.must('stop', 'pod');
    const done = fleet.cage('exec', 'pod', '--', 'true');
    assert.ok([125, 126].includes(done.status), done.stderr);
    assert.match(done.stderr, /stopped|start/);
    fleet.must({ timeout: 60_000 }, 'start', 'pod');
    assert.equal(fleet.exec('pod', 'echo', 'back').stdout, 'back\n');
    fleet.must({ timeout: 60_000 }, 'restart', 'pod');
    assert.equal(fleet.exec('pod', 'echo', 'again').stdout, 'again\n');
});

test('the home folder lasts over a restart, /tmp does not', () => {
    fleet.sh('pod', 'echo kept >~/kept; echo lost >/tmp/lost');
    fleet.must({ timeout: 60_000 }, 'restart', 'pod');
    assert.equal(fleet.sh('pod', 'cat ~/kept; cat /tmp/lost 2>/dev/null').stdout, 'kept\n');
});

test('--net none: the executor has its own loopback alone', () => {
    fleet.new('offline', '--net', 'none');
    const done = fleet.sh('offline', 'tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " "');
    assert.equal(done.stdout.trim(), 'lo');
});

test('the chat of up: Ctrl-C says that /quit ends the fleet, and ends nothing', async t => {
    const other = new Fleet();
    const child = spawn('script', ['-qec', `exec "${binary}" up`, '/dev/null'], { env: { ...other.env, TERM: 'xterm' } }), over = ended(child, 300_000);
    t.after(() => { child.kill('SIGKILL'); other.abandon(); });
    const decoder = new TextDecoder();
    let said = '';
    child.stdout.on('data', bytes => { said += decoder.decode(bytes, { stream: true }); });
    const see = what => until(`up to say ${what}`, 120_000, () => said.includes(what));
    await see('/quit leaves and ends the fleet');
    await see('fleet ▸');
    assert.ok(said.includes(`\`${binary} new NAME\``), said); // no word that a shell finds
    for (let i = 0; i < 3; i++) {
        said = '';
        child.stdin.write('\x03');
        await see('this chat is the fleet\'s: /quit leaves it and ends the fleet');
    }
    assert.equal(other.cage('ls').status, 0);
    child.stdin.write('/quit\r');
    assert.equal((await over).status, 0, said);
    assert.match(said, /the fleet is down/);
    await other.stop();
});

test('ls as JSON is stable', () => {
    const list = JSON.parse(fleet.must('ls', '--json').stdout);
    assert.ok(names(JSON.stringify(list)).includes('pod'));
    for (const agent of list)
        assert.deepEqual(Object.keys(agent).sort(), ['harness', 'mode', 'name', 'net', 'project', 'since_ms', 'state', 'why']);
});
