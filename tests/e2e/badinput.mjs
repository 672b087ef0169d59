// Wrong words and missing things: one clear sentence, the right status, nothing half-made.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { Fleet, binary, names } from './lib/fleet.mjs';
import { ended, until } from './lib/until.mjs';

const fleet = await Fleet.start();
fleet.new('there');

function refused(status, pattern, ...args) {
    const done = fleet.cage(...args);
    const said = done.stderr.trim();
    assert.equal(done.status, status, `${args.join(' ')}: ${said}`);
    assert.match(said, pattern);
    assert.equal(said.split('\n').length, 1, `more than one line: ${said}`);
    // eslint-disable-next-line no-control-regex
    assert.doesNotMatch(said, /[\x00-\x08\x0b-\x1f\x7f]/);
    return done;
}

/** What `new` makes: nothing of it may be there after a refusal. */
const inventory = () => JSON.stringify([
    names(fleet.must('ls', '--json').stdout), fs.readdirSync(fleet.path('etc/agent-cage/agents')).sort(),
    fs.readdirSync(fleet.path('var/lib/agent-cage/agents')).sort(),
    fs.readFileSync('/etc/passwd', 'utf8').split('\n').filter(l => l.startsWith(fleet.prefix)).length,
    spawnSync('podman', ['ps', '-a', '--format', '{{.Names}}'], { encoding: 'utf8' }).stdout.split('\n').filter(n => n.startsWith(fleet.prefix)).sort(),
]);

test('names outside [a-z][a-z0-9-]{0,19} are refused everywhere', () => {
    const before = inventory();
    for (const bad of ['A', '1a', 'a_b', 'a.b', '../x', 'a/b', 'a'.repeat(21), 'é', 'a b', 'a\nb', '$(id)', "'; touch /tmp/pwn", 'a\u001b[31m', ' a'])
        for (const verb of [['new'], ['status'], ['start'], ['stop'], ['restart'], ['rm'], ['send', null, 'x'], ['exec', null, '--', 'true'], ['log']]) {
            const words = verb.includes(null) ? verb.map(w => w ?? bad) : [...verb, bad];
            const done = fleet.cage(...words);
            assert.ok([2, 127].includes(done.status), `${words.join(' ')}: ${done.status} ${done.stderr}`);
            assert.equal(done.stderr.trim().split('\n').length, 1, done.stderr);
        }
    assert.equal(inventory(), before);
});

test('an agent that exists, and agents that do not', () => {
    const before = inventory();
    refused(126, /there already: take another name/, 'new', 'there');
    for (const verb of [['status'], ['start'], ['stop'], ['restart'], ['rm']])
        refused(127, /nobody/, ...verb, 'nobody');
    refused(127, /nobody/, 'exec', 'nobody', '--', 'true');
    refused(127, /nobody/, 'send', 'nobody', 'hello');
    assert.equal(inventory(), before);
});

test('projects that cannot be one', () => {
    const before = inventory();
    refused(127, /no-such/, 'new', 'p', '--project', fleet.path('no-such'));
    fs.writeFileSync(fleet.path('a-file'), '');
    for (const bad of ['relative/path', fleet.path('a-file'), '/etc', '/', '/usr/../etc', '/proc', fleet.path('var'), fleet.path('etc/agent-cage'),
        fleet.path('var/lib/agent-cage/agents/there'), fleet.root]) {
        const done = fleet.cage('new', 'p', '--project', bad);
        assert.ok([2, 126, 127].includes(done.status), `${bad}: ${done.status} ${done.stderr}`);
        assert.equal(done.stderr.trim().split('\n').length, 1, done.stderr);
    }
    fs.symlinkSync('/etc', fleet.path('a-link'));
    refused(126, /link|system/, 'new', 'p', '--project', fleet.path('a-link'));
    assert.equal(inventory(), before);
});

test('values that are none', () => {
    const before = inventory();
    for (const [option, values] of Object.entries({ mode: ['vm', 'POD'], net: ['most', 'allow'], memory: ['-1', '4x', '99999999999999999999g', 'x'],
        cpus: ['0', '-2', 'two'], pids: ['0', '-1', '1e3', 'many'], harness: ['nothing-such'] }))
        for (const value of values) {
            const done = fleet.cage('new', 'v', `--${option}`, value);
            assert.ok([2, 126, 127].includes(done.status), `--${option} '${value}': ${done.status} ${done.stderr}`);
            assert.equal(done.stderr.trim().split('\n').length, 1, done.stderr);
        }
    assert.equal(inventory(), before);
});

test('words of the command line', () => {
    for (const args of [['no-such-verb'], ['exec'], ['exec', 'there'], ['new'], ['send', 'there'], ['ls', 'surplus'], ['ls', '--no-such'],
        ['exec', 'there', '--timeout', 'x', '--', 'true'], ['exec', 'there', '--timeout', '-1', '--', 'true'], ['log'], ['status', 'a', 'b']]) {
        const done = fleet.cage(...args);
        if (args[0] === 'log' && done.status === 0)
            continue;
        assert.equal(done.status, 2, `${args.join(' ')}: ${done.status} ${done.stderr}`);
    }
});

test('text of the chat is never a shell line outside', () => {
    const canary = fleet.path('pwn');
    fleet.cage('send', 'there', `'; touch ${canary}; $(touch ${canary}) \`touch ${canary}\` \n--flag`, '--wait');
    assert.ok(!fs.existsSync(canary));
    assert.equal(fleet.exec('there', 'echo', 'alive').stdout, 'alive\n');
});

test('no fleet: one sentence that says what to do', () => {
    const empty = fleet.path('empty');
    fs.mkdirSync(empty);
    for (const verb of [['ls'], ['status'], ['exec', 'a', '--', 'true'], ['send', 'a', 'x'], ['new', 'a']]) {
        const done = spawnSync(binary, verb, { env: { ...fleet.env, AGENT_CAGE_ROOT: empty }, encoding: 'utf8', input: '' });
        assert.ok([125, 127].includes(done.status), `${verb[0]}: ${done.status} ${done.stderr}`);
        assert.equal(done.stderr.trim().split('\n').length, 1, done.stderr);
    }
    for (const words of [['web', 'foo'], ['new', 'a', '--mode', 'foo'], ['new', 'a', '--net', 'foo'], ['inbox', 'foo', 'a'], ['aftermath', empty, 'a', '--drop']]) {
        const done = spawnSync(binary, words, { env: { ...fleet.env, AGENT_CAGE_ROOT: empty }, encoding: 'utf8', input: '' });
        assert.equal(done.status, 2, `${words.join(' ')}: ${done.status} ${done.stderr}`);
        assert.match(done.stderr, /foo|--take alone: a/);
    }
    for (const root of ['relative', `/${'x'.repeat(300)}`]) {
        const done = spawnSync(binary, ['ls'], { env: { ...fleet.env, AGENT_CAGE_ROOT: root }, encoding: 'utf8', input: '' });
        assert.notEqual(done.status, 0);
        assert.match(done.stderr, /AGENT_CAGE_ROOT/);
    }
});

test('a second up in the same root is refused', () => {
    const done = fleet.cage({ timeout: 30_000 }, 'up');
    assert.notEqual(done.status, 0);
    assert.match(done.stderr, /runs|running|already/);
    assert.equal(fleet.cage('ls').status, 0);
    const demo = fleet.cage({ timeout: 30_000 }, 'up', '--demo');
    assert.equal(demo.status, 125, demo.stdout);
    assert.match(demo.stderr, /already.*without demo, which `\S*agent-cage new demo` makes/);
});

test('up --demo whose demo cannot be made stays up, says why, and ends with a failure', async () => {
    const other = new Fleet();
    fs.mkdirSync(other.path('srv/agent-cage'), { recursive: true });
    fs.writeFileSync(other.path('srv/agent-cage/demo'), ''); // where its project should be
    const child = other.spawn(['up', '--demo'], { stdio: ['ignore', 'pipe', 'pipe'] }), over = ended(child, 300_000);
    let said = '';
    child.stdout.on('data', text => { said += text; });
    await until('up to be done with it', 240_000, () => said.includes('ends the fleet'));
    assert.deepEqual(names(other.must('ls', '--json').stdout), []);
    other.must('down');
    const done = await over;
    assert.equal(done.status, 125, done.stderr);
    assert.match(done.stderr, /the agent demo could not be made: /);
    assert.doesNotMatch(done.stdout, /Talk to it/);
    await other.stop();
});

test('help, version, manual', () => {
    assert.match(fleet.must('help').stdout, /\bexec\b/);
    assert.match(fleet.must('version').stdout, /\d+\.\d+\.\d+/);
    for (const verb of ['up', 'down', 'doctor', 'new', 'ls', 'status', 'start', 'stop', 'restart', 'rm', 'exec', 'send', 'chat', 'log'])
        assert.equal(fleet.cage(verb, '--help').status, 0, verb);
});

test('an unreadable or broken configuration stops up with the file and line', () => {
    const broken = fleet.path('broken');
    fs.mkdirSync(`${broken}/etc/agent-cage`, { recursive: true });
    for (const text of ['prefix = UPPER\n', 'no equals sign\n', 'unknown_key = 1\n', 'prefix = a\nprefix = b\n', 'output_max = lots\n']) {
        fs.writeFileSync(`${broken}/etc/agent-cage/agent-cage.conf`, text);
        const done = spawnSync(binary, ['up'], { env: { ...fleet.env, AGENT_CAGE_ROOT: broken }, encoding: 'utf8', input: '', timeout: 30_000 });
        assert.notEqual(done.status, 0, text);
        assert.match(done.stderr, /agent-cage\.conf/, text);
    }
    fs.rmSync(broken, { recursive: true });
});
