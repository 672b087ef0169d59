// Sealed agents: a pod for hostile code. What its commands may reach, at each start before the first of them; what comes out;
// what each end of a session says; what is refused. Packets go to this machine's own bridge and loopback alone.
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { Fleet, top } from './lib/fleet.mjs';
import { until } from './lib/until.mjs';
import { GATE, Vendor } from './lib/vendor.mjs';

const OWNER = 61234;
const STRANGE = '203.0.113.77'; // becomes an address of this machine for a moment, on its loopback

const fleet = await Fleet.start({ conf: { harness_dir: path.join(top, 'build/harness') } });

function project(name, files = {}, owner = OWNER) {
    const dir = fleet.path(name);
    for (const [file, text] of Object.entries({ '.keep': '', ...files })) {
        fs.mkdirSync(path.join(dir, path.dirname(file)), { recursive: true });
        fs.writeFileSync(path.join(dir, file), text);
    }
    for (const each of ['', ...fs.readdirSync(dir, { recursive: true })])
        fs.chownSync(path.join(dir, each), owner, owner);
    return dir;
}

/** A program in the network namespace of an agent's executor, from outside. */
const beside = (name, ...words) => spawnSync('nsenter', ['-t', String(fleet.part('executor', name).pid), '-n', ...words], { encoding: 'utf8' });
const rules = name => JSON.parse(beside(name, 'nft', '-j', 'list', 'ruleset').stdout).nftables;
const local = name => JSON.stringify(rules(name).find(o => o.set?.name === 'local4').set.elem);
/** What the rules have refused, in packets. */
const refused = name => rules(name).filter(o => o.rule?.expr.some(e => e.jump?.target === 'refuse'))
    .reduce((sum, o) => sum + o.rule.expr.find(e => e.counter).counter.packets, 0);
/** The rules without their counters: what is in force. */
const inForce = name => JSON.stringify(rules(name).filter(o => o.rule || o.chain).map(o => o.chain ?? [o.rule.chain, o.rule.comment]),
    (key, value) => key === 'handle' ? undefined : value);
const knock = port => `timeout 5 bash -c 'echo x >/dev/tcp/${GATE}/${port}'`;
/** What the manager has kept for the chats of an agent; it lets nobody look while it runs. */
function notes(name) {
    const ask = 'import sqlite3,sys\nfor r in sqlite3.connect(sys.argv[1]).execute("SELECT text FROM events WHERE agent=? AND kind=\'note\'", sys.argv[2:]): print(r[0])';
    return spawnSync('python3', ['-c', ask, fleet.path('var/lib/agent-cage/manager/fleet.db'), name], { encoding: 'utf8' }).stdout;
}

/** A chat that stays open: all that it has shown so far is in .text. */
function chat(name) {
    const child = fleet.spawn(['chat', name], { stdio: ['pipe', 'pipe', 'inherit'] });
    const it = { text: '' };
    child.stdout.on('data', d => { it.text += d; });
    return it;
}
const ABROAD = '203.0.113.9';
/** A way for packets to an address of the internet: a cable within the executor's own network, at whose other end nobody is. */
function leadAway(name) {
    for (const words of ['link add away type veth peer name nobody', 'link set away up', 'link set nobody up', 'addr add 203.0.113.8/31 dev away',
        `neigh add ${ABROAD} lladdr 02:00:00:00:00:01 dev away nud permanent`])
        assert.equal(beside(name, 'ip', ...words.split(' ')).status, 0, words);
}
/** Another warden than this one, and it has its links. */
async function another(warden) {
    await fleet.waitForPart('warden', '', warden);
    await until('the new warden', 60_000, () => {
        const said = fleet.cage('status', 'strange', '--json');
        return said.status === 0 && !said.stdout.includes('warden cannot be reached');
    });
}
const datagrams = (name, n) => fleet.sh(name, `for i in $(seq ${n}); do echo x >/dev/udp/${ABROAD}/4444; done`);
const outboxes = () => fs.readdirSync(fleet.path('root/agent-cage-outbox')).filter(n => n !== 'README').sort();

let accepted = 0;
const server = net.createServer(s => { accepted++; s.destroy(); });
after(() => server.close());
/** A port of this machine at the bridge, which is there once a room stands on it. */
async function listening() {
    if (!server.listening)
        server.listen(0, GATE);
    await until('the listener', 10_000, () => server.listening);
    return server.address().port;
}

const dir = project('stranger', { Makefile: 'all:\n\ttrue\n', 'a.c': 'int main;' });

test('a sealed agent is made, and says what it is', () => {
    const made = fleet.new('strange', '--mode', 'sealed', '--project', dir);
    assert.match(made.stdout, /^sealed strange started · executor broker as uid 60000 · harness shell · network sealed/m);
    assert.match(made.stdout, / · results come out in \S+\/root\/agent-cage-outbox\/strange-\d{8}-\d{6}$/m);
    assert.match(made.stderr, /the internet and nothing local/);
    const status = fleet.status('strange');
    assert.equal(status.mode, 'sealed');
    assert.equal(fleet.json('ls')[0].net, 'sealed');
});

test('its executor: uid 60000, no user namespace in any form, public resolvers, nothing of a credential', () => {
    const done = fleet.sh('strange', 'id -u; unshare -U true; echo $?; grep -v "^#" /etc/resolv.conf; grep -E "^(CapEff|NoNewPrivs|Seccomp):" /proc/self/status');
    assert.equal(done.stdout, '60000\n1\nnameserver 1.1.1.1\nnameserver 9.9.9.9\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n');
    assert.match(done.stderr, /unshare failed/);
});

test('a local address is refused by the kernel, counted, and not for a pod', async () => {
    const port = await listening();
    fleet.new('plain', '--project', project('plain-project'));
    assert.equal(fleet.sh('plain', knock(port)).status, 0, 'the control arm does not reach the listener');
    await until('the listener to see the control arm', 10_000, () => accepted === 1);
    const before = refused('strange');
    const done = fleet.sh('strange', knock(port));
    assert.notEqual(done.status, 0);
    assert.match(done.stderr, /refused/);
    assert.ok(refused('strange') > before, 'the refusal is not the rules\'');
    assert.equal(accepted, 1);
});

test('the rules follow when this machine gets another address', async () => {
    assert.ok(!local('strange').includes(STRANGE));
    try {
        assert.equal(spawnSync('ip', ['addr', 'add', `${STRANGE}/32`, 'dev', 'lo']).status, 0);
        await until('the rules to follow', 20_000, () => local('strange').includes(STRANGE));
    } finally {
        spawnSync('ip', ['addr', 'del', `${STRANGE}/32`, 'dev', 'lo']);
    }
    await until('the rules to follow back', 20_000, () => !local('strange').includes(STRANGE));
});

test('results come out through an outbox of this session, the owner\'s', () => {
    assert.equal(fleet.sh('strange', 'echo result >/outbox/report; ln -s /etc/shadow /outbox/link').status, 0);
    const [box] = outboxes();
    assert.match(box, /^strange-\d{8}-\d{6}$/);
    const folder = fleet.path('root/agent-cage-outbox', box);
    assert.equal(fs.statSync(path.join(folder, 'report')).uid, OWNER);
    assert.equal(fleet.must('outbox', 'cat', folder, 'report').stdout, 'result\n');
    assert.notEqual(fleet.cage('outbox', 'cat', folder, 'link').status, 0);
});

test('an executor that died is made again behind the same rules, in the same session', async () => {
    const port = await listening(), before = inForce('strange'), old = fleet.part('executor', 'strange').pid;
    leadAway('strange');
    assert.equal(datagrams('strange', 2).status, 0);
    process.kill(old, 'SIGKILL');
    let first;
    await until('a command to run again', 60_000, () => (first = fleet.sh('strange', `echo ran; ${knock(port)}`)).stdout.includes('ran') &&
        fleet.part('executor', 'strange').pid !== old);
    assert.match(first.stderr, /refused/);
    assert.equal(inForce('strange'), before);
    assert.equal(fleet.sh('strange', 'cat /outbox/report').stdout, 'result\n');
    assert.equal(outboxes().length, 1);
    assert.equal(accepted, 1);
});

let room;

test('what a room reached is known through the death of the warden', async () => {
    const warden = fleet.part('warden').pid, old = fleet.part('executor', 'strange').pid;
    leadAway('strange');
    assert.equal(datagrams('strange', 3).status, 0);
    process.kill(warden, 'SIGKILL');
    await another(warden);
    await until('a command to run again', 60_000, () => fleet.sh('strange', 'true').status === 0);
    assert.equal(fleet.part('executor', 'strange').pid, old);
    assert.equal(datagrams('strange', 1).status, 0);
});

test('a restart ends the session: what changed is said, in the answer and in the chat; rules hold before the first command', async () => {
    const port = await listening(), before = inForce('strange');
    fleet.sh('strange', 'mkdir -p .git/hooks .vscode; echo x >.git/hooks/post-checkout; echo x >>Makefile; echo "{}" >.vscode/tasks.json; ln -s /etc out; mkfifo fifo; echo y >>a.c');
    room = chat('strange');
    await until('the chat', 20_000, () => room.text.includes('[strange]'));
    const said = fleet.must('restart', 'strange').stdout, first = fleet.sh('strange', knock(port));
    assert.match(first.stderr, /refused/);
    assert.equal(inForce('strange'), before);
    await until('the chat to say it', 20_000, () => room.text.includes('sealed strange restarted'));
    for (const text of [said, room.text]) {
        for (const row of ['.git/hooks/post-checkout: git runs it', 'Makefile: a build', '.vscode/tasks.json', 'out: ', 'fifo: '])
            assert.ok(text.includes(row), `${row} is not in\n${text}`);
        assert.match(text, /untrusted from now on/);
        assert.match(text, /outbox +1 file, .*, 1 link or other thing that is no file/);
        assert.doesNotMatch(text, /a\.c/);
        // Of both rooms that the session had: whom they turned to, how often, and that they were refused.
        assert.match(text, /^ +network +sent 6 packets \(.*\) to the internet, 0 came back .*; \d+ packets? to local addresses (was|were) refused$/m);
        assert.match(text, new RegExp(`^ +udp ${ABROAD}:4444, 6 times$`, 'm'));
    }
    assert.match(fleet.must('aftermath', dir).stdout, /post-checkout/);
    assert.equal(fleet.sh('strange', 'ls -A /outbox').stdout, '');
    assert.equal(outboxes().length, 2);
    assert.equal(accepted, 1);
});

test('stop says it for a session in which nothing changed; an empty outbox goes; a folder of keys that the code made blocks no start', () => {
    fleet.sh('strange', 'mkdir -p .ssh');
    const said = fleet.must('stop', 'strange').stdout;
    assert.match(said, /nothing in .* changed/);
    assert.match(said, /outbox +empty/);
    assert.match(said, /^ +network +nothing went out; \d+ packets? to local/m);
    assert.doesNotMatch(said, /times?$|not known/m);
    assert.match(said, /^sealed strange stopped$/m);
    assert.equal(outboxes().length, 1);
    fleet.must('start', 'strange');
    assert.match(fleet.must('stop', 'strange').stdout, /is over/);
});

test('what a room did that ended while there was no warden is not passed off as nothing', async () => {
    fleet.must('start', 'strange');
    const warden = fleet.part('warden').pid, old = fleet.part('executor', 'strange').pid;
    process.kill(warden, 'SIGKILL');
    process.kill(old, 'SIGKILL');
    await another(warden);
    await fleet.waitForPart('executor', 'strange', old);
    await until('a command to run again', 60_000, () => fleet.sh('strange', 'true').status === 0);
    assert.match(fleet.must('stop', 'strange').stdout, /^ +network +nothing that was seen went out\n.* ended while nobody watched is not known$/m);
});

test('the fleet goes down: the session is over, and that is said', async () => {
    fleet.must('start', 'strange');
    leadAway('strange');
    fleet.sh('strange', `echo x >.envrc; echo x >/dev/udp/${ABROAD}/53`); // asked there, names are refused
    datagrams('strange', 1);
    const said = fleet.must('down').stdout;
    assert.match(said, new RegExp(`^ +network +sent 1 packet .*; 1 packet to local addresses was refused\\n +udp ${ABROAD}:4444, 1 time$`, 'm'));
    assert.match(said, /^the sealed session of strange is over, after \d[^]*^ +outbox [^]*^ +\.envrc: .*$[^]*untrusted from now on/m);
    assert.match(said, /^the fleet is down$/m);
    assert.equal(fs.existsSync(fleet.path('run/agent-cage/farewells')), false);
    assert.match(notes('strange'), /\.envrc: .* on entering the folder/);
    await fleet.up();
    await until('the agent', 60_000, () => fleet.sh('strange', 'true').status === 0);
});

test('rm says it too', () => {
    fleet.sh('strange', 'for i in $(seq 30); do d=$(printf "é%.0s" $(seq 40))$i; mkdir -p $d; echo x >$d/.envrc; done; d=$(printf "%0250d" 1)/$(printf "%0250d" 2); mkdir -p $d; echo x >$d/Makefile');
    const said = fleet.must('rm', 'strange').stderr;
    assert.match(said, /31 files changed or new; what could run later, as you \(31\)/);
    assert.match(said, new RegExp(`and 27 more: a shell or a tool loads it|and more: \`agent-cage aftermath ${dir}\`$`, 'm'));
    assert.match(said, /untrusted from now on/);
    assert.equal(fleet.must('aftermath', dir).stdout.match(/\.envrc: /g).length, 30);
    assert.ok(fs.existsSync(dir));
});

test('what is no project for hostile code is refused, and leaves nothing', () => {
    const keys = project('keys', { '.ssh/id': 'x' }), roots = project('roots', {}, 0);
    for (const [why, ...words] of [
        [/belongs to root/, '--project', roots], [/holds \.ssh/, '--project', keys], [/holds \.ssh/, '--project', `${keys}/../keys/.`],
        [/never has an open network/, '--project', dir, '--net', 'open'],
        [/shell or claude/, '--project', dir, '--harness', 'codex'], [/shell or claude/, '--project', dir, '--harness', 'acp:x']]) {
        const done = fleet.cage('new', 'no', '--mode', 'sealed', ...words);
        assert.equal(done.status, 126, `${words}: ${done.stdout}${done.stderr}`);
        assert.match(done.stderr, why);
    }
    assert.ok(!fs.existsSync(fleet.path('etc/agent-cage/agents/no.conf')));
    assert.ok(!fs.existsSync(fleet.path('var/lib/agent-cage/agents/no')));
});

// ---- Claude Code, the real one, against a double of its vendor's model ----

const PORT = 20000 + process.pid % 20000; // other runs of this file may be at work
const OWN = `sk-ant-oat01-${'0123456789abcdef'.repeat(4)}-own`, MACHINES = `sk-ant-oat01-${'fedcba9876543210'.repeat(4)}-machine`;
let vendor;

const asked = id => vendor.asked(id).at(-1);
function turn(name, s) {
    const done = fleet.cage({ timeout: 90_000 }, 'send', name, `SCRIPT ${JSON.stringify(s)}`, '--wait', '--json');
    return { status: done.status, report: JSON.parse(done.stdout.trim().split('\n').at(-1)), said: done.stdout + done.stderr };
}
/** Where on disk, and in which process's environment, of an agent's three rooms a text stands. */
function traces(name, text) {
    const files = spawnSync('grep', ['-rlF', '-D', 'skip', text, fleet.path('var/lib/agent-cage/agents', name)], { encoding: 'utf8' }).stdout;
    const rooms = ['agent', 'harness', 'executor'].map(room => fleet.part(room, name).pid)
        .filter(pid => [`/proc/${pid}/environ`, `/proc/${pid}/cmdline`].some(f => fs.readFileSync(f, 'latin1').includes(text)));
    return [...files.split('\n').filter(Boolean), ...rooms];
}

test('sealed claude: until a sealed-token is saved, new, status and the turn say how', async () => {
    const made = fleet.new('mind', '--mode', 'sealed', '--harness', 'claude', '--project', project('mind-project'), '--upstream', `http://${GATE}:${PORT}`);
    assert.match(made.stderr, /no sealed-token .*agent-cage auth --sealed/s);
    vendor = await Vendor.start(fleet, PORT);
    assert.match(fleet.status('mind').login, /SEALED-TOKEN.*auth --sealed/);
    const t = turn('mind', { id: 'early', say: 'x' });
    assert.equal(t.status, 126, t.said);
    assert.match(t.said, /auth --sealed/);
    const own = fleet.cage({ input: OWN }, 'auth', 'mind', '--token-file', '-');
    assert.equal(own.status, 126);
    assert.match(own.stderr, /never has a credential of yours/);
    assert.match(fleet.cage({ input: '/auth\n' }, 'chat', 'mind').stdout, /never has a credential of yours/);
});

test('the sealed-token is the warden\'s, serves every sealed agent through its gateway, and is in no room', () => {
    for (const bad of ['', 'two words here', 'short'])
        assert.equal(fleet.cage({ input: bad }, 'auth', '--sealed', '--token-file', '-').status, 2, bad);
    fleet.must({ input: `${MACHINES}\n` }, 'auth', '--sealed', '--token-file', '-');
    const file = fs.statSync(fleet.path('var/lib/agent-cage/warden/sealed-token'));
    assert.deepEqual([file.uid, file.mode & 0o777], [0, 0o600]);
    const t = turn('mind', { id: 'token', tools: ['id -u; env; cat /proc/[0-9]*/environ; grep -rsha fedcba9[8] /home /scratch /tmp /outbox /cage/shim; true'] });
    assert.equal(t.status, 0, t.said);
    assert.match(t.report.text, /60000/);
    assert.doesNotMatch(t.said, /fedcba98/);
    assert.ok(asked('token').credential.includes(MACHINES));
    assert.deepEqual(traces('mind', MACHINES), []);
    assert.equal(spawnSync('grep', ['-rlF', MACHINES, fleet.path('var/lib/agent-cage/warden')], { encoding: 'utf8' }).stdout.split('\n').length, 2, 'the search finds nothing anywhere');
});

test('it is given again at each start', () => {
    fleet.must('restart', 'mind');
    const t = turn('mind', { id: 'again', say: 'still here' });
    assert.equal(t.status, 0, t.said);
    assert.ok(asked('again').remembers.includes('token'), 'the conversation did not go on');
});

test('what cannot be sealed goes on as it was: running, or stopped', async () => {
    fleet.new('stays', '--project', project('stays-project'));
    for (const number of [0, 1, 2]) // as a hostile harness names its conversation
        fs.writeFileSync(fleet.path(`var/lib/agent-cage/agents/stays/harness/session-shell-${number}`), '../../etc/shadow 0\n');
    for (const state of ['running', 'stopped']) {
        if (state === 'stopped')
            fleet.must('stop', 'stays');
        const refused = fleet.cage('seal', 'stays');
        assert.notEqual(refused.status, 0, refused.stdout);
        assert.match(refused.stderr, /stays is not sealed, and goes on as it was: .*no name/);
        await until(`stays to be ${state} again`, 60_000, () => fleet.status('stays').state === state);
        assert.equal(fleet.status('stays').mode, 'pod');
    }
    assert.notEqual(fleet.exec('stays', 'true').status, 0);
    fleet.must('rm', 'stays');
});

test('seal moves the running conversation and no other into a sealed cage', async () => {
    const dir = project('talk-project');
    fleet.new('talk', '--harness', 'claude', '--project', dir, '--upstream', `http://${GATE}:${PORT}`);
    fleet.must({ input: OWN }, 'auth', 'talk', '--token-file', '-');
    assert.equal(turn('talk', { id: 'other', say: 'of another conversation' }).status, 0);
    fleet.must({ input: '/new\n' }, 'chat', 'talk');
    assert.equal(turn('talk', { id: 'moved', say: 'of this one', tools: ['echo x >~/mine; echo y >/scratch/mine'] }).status, 0);
    const home = fleet.path('var/lib/agent-cage/agents/talk/harness/.claude/projects/-project');
    assert.equal(fs.readdirSync(home).filter(f => f.endsWith('.jsonl')).length, 2);

    fs.chownSync(dir, 0, 0);
    const refused = fleet.cage('seal', 'talk');
    assert.equal(refused.status, 126);
    assert.match(refused.stderr, /belongs to root/);
    assert.equal(fleet.status('talk').state, 'running');
    fs.chownSync(dir, OWNER, OWNER);

    const sealed = fleet.must('seal', 'talk');
    assert.match(sealed.stdout, /talk is sealed from now on; its conversation \(\d+ KiB\) went in with it, and no other: count on the code in there reading it/);
    assert.deepEqual([fleet.status('talk').mode, fleet.json('ls').find(a => a.name === 'talk').net], ['sealed', 'sealed']);
    assert.equal(fs.readdirSync(home).length, 1);
    assert.doesNotMatch(fs.readFileSync(path.join(home, fs.readdirSync(home)[0]), 'utf8'), /of another conversation/);
    assert.equal(fleet.sh('talk', 'ls -A ~/mine /scratch/mine 2>/dev/null; unshare -U true 2>/dev/null; echo $?').stdout, '1\n');

    const t = turn('talk', { id: 'inside', say: 'from inside' });
    assert.equal(t.status, 0, t.said);
    assert.deepEqual(asked('inside').remembers, ['moved', 'inside']);
    assert.ok(asked('inside').credential.includes(MACHINES));
    assert.deepEqual(traces('talk', OWN), []);
    const away = fleet.path('var/lib/agent-cage/agents/talk/unsealed');
    assert.deepEqual([fs.statSync(away).uid, fs.statSync(away).mode & 0o777, fs.readdirSync(away).sort()], [0, 0o700, ['executor', 'harness', 'scratch']]);
    assert.equal(fleet.cage('seal', 'talk').status, 126); // once
});
