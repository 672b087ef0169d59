// Files both ways, over a whole fleet: into the in-tray, out of the outbox, and what of them is refused.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import crypto from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { Fleet } from './lib/fleet.mjs';
import { until } from './lib/until.mjs';

const fleet = await Fleet.start();
fleet.new('pod');
fleet.new('bare', '--mode', 'bare');

const here = fleet.path('here');
fs.mkdirSync(here);
const big = crypto.randomBytes(5 * 2 ** 20 + 7);
fs.writeFileSync(`${here}/big file.bin`, big);
fs.writeFileSync(`${here}/note.txt`, 'hello\n');

const run = (...args) => fleet.cage({ cwd: here }, ...args);
const inbox = { pod: '/inbox', bare: fleet.path('run/agent-cage/mnt/bare/inbox') };
const outbox = { pod: '/outbox', bare: fleet.path('run/agent-cage/mnt/bare/outbox') };

// mount(2) with MS_REMOUNT|MS_BIND: writable
const REMOUNT = `import ctypes, os, sys; libc = ctypes.CDLL(None, use_errno=True); ` +
    `sys.exit(os.strerror(ctypes.get_errno()) if libc.mount(None, sys.argv[1].encode(), None, 4096 | 32, None) else 0)`;

const ATTACKS = ['echo x >"$1"', 'rm -f "$1"', 'mv "$1" "$1.2"', 'chmod 777 "$1"', 'ln "$1" "$1.3"', 'touch "$(dirname "$1")/new"',
    'ln -s /etc "$(dirname "$1")/l"', `python3 -c '${REMOUNT}' "$(dirname "$1")"`, 'cp "$1" /tmp/a && chmod +x "$1"'];

for (const name of ['pod', 'bare']) {
    test(`${name}: a file arrives whole; executor and harness read it, and can neither change nor replace it`, () => {
        const sent = run('send', name, '--file', './big file.bin');
        assert.equal(sent.status, 0, sent.stderr);
        const place = `${inbox[name]}/big file.bin`;
        assert.equal(sent.stdout, `${place}\n`);
        const sum = fleet.exec(name, 'sha256sum', place);
        assert.equal(sum.stdout.split(' ')[0], crypto.createHash('sha256').update(big).digest('hex'), sum.stderr);
        for (const attack of ATTACKS) {
            const done = fleet.exec(name, 'bash', '-c', attack, '-', place);
            assert.notEqual(done.status, 0, `${attack}: ${done.stdout}`);
            assert.match(done.stderr, /Read-only|denied|permitted|Operation not|busy/, attack);
        }
        // In the harness room, as its process sees it.
        const pid = fleet.part('harness', name).pid;
        assert.equal(fs.statSync(`/proc/${pid}/root${place}`).uid, fleet.uidBase(name) + 55000);
        const mount = fs.readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n').map(l => l.split(' ')).find(f => f[4] === inbox[name]);
        for (const flag of ['ro', 'noexec', 'nosuid', 'nodev'])
            assert.ok(mount[5].split(',').includes(flag), `${flag}: ${mount[5]}`);
    });

    test(`${name}: a taken name gets a number, the message says where the file is, the chat shows it`, () => {
        assert.equal(run('send', name, '--file', 'note.txt').stdout, `${inbox[name]}/note.txt\n`);
        const sent = run('send', name, 'cat <<"E"\nlook at this', '--file', 'note.txt', '--wait');
        assert.match(sent.stdout, new RegExp(`\\[file: ${inbox[name]}/note-2\\.txt\\]`), sent.stderr);
        assert.equal(fleet.exec(name, 'cat', `${inbox[name]}/note-2.txt`).stdout, 'hello\n');
        assert.doesNotMatch(sent.stdout, new RegExp(`^${inbox[name]}`)); // the report alone
        assert.match(run('send', name, 'true', '--file', 'note.txt').stdout, new RegExp(`^${inbox[name]}/note-3\\.txt\n${name} has it as #\\d+\n$`));
        run('send', name, 'true', '--wait'); // its report is not to be taken for one of the chat's
        const chat = fleet.cage({ input: `/use ${name}\n/file ${here}/note.txt\n` }, 'chat', name).stdout;
        assert.match(chat, /terminal:0 sent a file, 6 bytes: .*\/note-4\.txt/);
    });

    test(`${name}: a file is fetched whole, over no other`, () => {
        const made = fleet.sh(name, `head -c 3M /dev/urandom >${outbox[name]}/out.bin && sha256sum <${outbox[name]}/out.bin`);
        assert.equal(made.status, 0, made.stderr);
        assert.equal(run('get', name, 'out.bin', '--to', `${name}.bin`).status, 0);
        assert.equal(crypto.createHash('sha256').update(fs.readFileSync(`${here}/${name}.bin`)).digest('hex'), made.stdout.split(' ')[0]);
        assert.equal(fs.statSync(`${here}/${name}.bin`).mode & 0o7777, 0o600);
        const again = run('get', name, 'out.bin', '--to', `${name}.bin`);
        assert.equal(again.status, 125);
        assert.match(again.stderr, /exists and is not written over/);
        assert.equal(fleet.cage({ raw: true }, 'get', name, 'out.bin', '--to', '-').stdout.length, 3 * 2 ** 20);
    });

    test(`${name}: a file that is called "-" is saved under that name, not shown`, () => {
        assert.equal(fleet.sh(name, `printf '\\033]0;x' >${outbox[name]}/-`).status, 0);
        const got = run('get', name, '-');
        assert.equal(got.stdout, '-\n', got.stderr);
        assert.equal(fs.readFileSync(`${here}/-`, 'utf8'), '\x1b]0;x');
        fs.unlinkSync(`${here}/-`);
    });

    test(`${name}: traps in the outbox are refused at once, and leave no file`, () => {
        fleet.sh(name, `cd ${outbox[name]} && ln -s /etc/passwd link && ln -sf /proc/self/environ magic && mkfifo fifo && mkdir folder &&
            echo x >one && ln one two && truncate -s 2147483649 large && touch "$(printf 'a\\033[2Jb')"; python3 -c '
import socket; socket.socket(socket.AF_UNIX).bind("sock")'; cd .. && rm -rf elsewhere && true`);
        const names = ['link', 'magic', 'fifo', 'folder', 'one', 'two', 'large', 'sock', '..', '../project', '/etc/passwd', 'a\x1b[2Jb', '.', ''];
        for (const file of names) {
            const began = Date.now();
            const got = run('get', name, file, '--to', 'trap');
            assert.equal(got.status, 126, `${file}: ${got.stderr}`);
            assert.ok(Date.now() - began < 30_000);
            assert.ok(!got.stderr.includes('\x1b'));
            assert.ok(!fs.existsSync(`${here}/trap`));
        }
        assert.equal(run('get', name, 'missing').status, 127);
        assert.equal(fleet.sh(name, `rm -rf ${outbox[name]} 2>/dev/null; ls ${outbox[name]}; true`).status, 0);
    });
}

test('what is not sent: no regular file, a hostile name, more than 2 GiB', () => {
    fs.symlinkSync('/dev/zero', `${here}/zero`);
    fs.writeFileSync(`${here}/a\x1b[2Jb`, 'x');
    fs.writeFileSync(`${here}/.hidden`, 'x');
    fs.writeFileSync(`${here}/large`, '');
    fs.truncateSync(`${here}/large`, 2 ** 31 + 1);
    for (const file of ['zero', 'a\x1b[2Jb', '.hidden', 'large', '/']) {
        const sent = run('send', 'pod', '--file', file);
        assert.equal(sent.status, 126, `${file}: ${sent.stderr}`);
        assert.ok(!sent.stderr.includes('\x1b'));
    }
    assert.equal(run('send', 'pod', '--file', 'nothing').status, 127);
    assert.equal(run('send', 'pod').status, 2);
    assert.equal(run('send', 'nobody', '--file', 'note.txt').status, 127);
});

test('the in-tray is seen and cleared by root of the host, also while the agent is stopped; no trap in it is sprung', () => {
    const tray = fleet.path('var/lib/agent-cage/agents/pod/inbox'), kept = fleet.path('kept');
    fs.writeFileSync(kept, 'kept');
    fs.symlinkSync(kept, `${tray}/link`); // as the agent's own account could
    fs.symlinkSync('/etc', `${tray}/way`);
    fs.writeFileSync(`${tray}/a\x1b[2J`, 'x');
    const list = run('inbox', 'ls', 'pod');
    assert.match(list.stdout, /^file +\d+ {2}note\.txt$/m, list.stderr);
    assert.match(list.stdout, /^link +0 {2}way -> \/etc$/m);
    assert.match(list.stdout, /a\\x1b\[2J/);
    assert.ok(!list.stdout.includes('passwd'));
    assert.equal(run('inbox', 'rm', 'pod', 'link').status, 0);
    assert.equal(fs.readFileSync(kept, 'utf8'), 'kept');
    for (const [status, ...words] of [[127, 'pod', 'nothing'], [126, 'pod', '../outbox'], [126, 'pod', '.'], [126, 'pod', 'way/passwd'], [2, 'pod'], [127, 'nobody', 'x']])
        assert.equal(run('inbox', 'rm', ...words).status, status, words.join(' '));
    fs.unlinkSync(`${tray}/a\x1b[2J`);
    const sent = run('send', 'pod', '--file', 'note.txt').stdout.trim().split('/').pop();
    fleet.must('stop', 'pod');
    assert.equal(run('inbox', 'rm', 'pod', sent, 'way').stdout, `removed ${sent}\nremoved way\n`);
    fleet.must({ timeout: 60_000 }, 'start', 'pod');
    assert.ok(!fleet.exec('pod', 'ls', '/inbox').stdout.split('\n').includes(sent));
    assert.match(run('inbox', 'ls', 'pod').stdout, /note\.txt$/m);
});

test('in-tray and outbox are their rooms\' own on the host, and go with the agent', () => {
    for (const [folder, room] of [['inbox', 50000], ['outbox', 60000]]) {
        const st = fs.statSync(fleet.path('var/lib/agent-cage/agents/pod', folder));
        assert.equal(st.uid, fleet.uidBase('pod') + room);
        assert.equal(st.mode & 0o7777, 0o700);
    }
    assert.equal(fleet.exec('bare', 'cat', fleet.path('var/lib/agent-cage/agents/pod/inbox/note.txt')).status, 1);
    assert.equal(fleet.exec('bare', 'ls', fleet.path('var/lib/agent-cage/agents/bare/inbox')).status, 2);
    fleet.must('rm', 'pod');
    assert.ok(!fs.existsSync(fleet.path('var/lib/agent-cage/agents/pod')));
});

test('a sealed agent: a file is read and not changed, and is there in its session and conversation alone', async () => {
    const project = fleet.path('project');
    fs.mkdirSync(project);
    fs.chownSync(project, 12345, 12345);
    fleet.new('shut', '--mode', 'sealed', '--project', project);
    const list = () => fleet.sh('shut', 'ls -mA /inbox').stdout;
    const send = () => assert.equal(run('send', 'shut', '--file', 'note.txt').stdout, '/inbox/note.txt\n');
    send();
    assert.equal(fleet.exec('shut', 'cat', '/inbox/note.txt').stdout, 'hello\n');
    for (const attack of ATTACKS) {
        const done = fleet.exec('shut', 'bash', '-c', attack, '-', '/inbox/note.txt');
        assert.notEqual(done.status, 0, `${attack}: ${done.stdout}`);
        assert.match(done.stderr, /Read-only|denied|permitted|Operation not|busy/, attack);
    }
    for (const room of ['harness', 'executor']) {
        const { pid } = fleet.part(room, 'shut');
        const mount = fs.readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n').map(l => l.split(' ')).find(f => f[4] === '/inbox');
        for (const flag of ['ro', 'noexec', 'nosuid', 'nodev'])
            assert.ok(mount[5].split(',').includes(flag), `${room}, ${flag}: ${mount[5]}`);
        assert.equal(fs.readFileSync(`/proc/${pid}/root/inbox/note.txt`, 'utf8'), 'hello\n');
    }
    const agent = fleet.part('agent', 'shut').pid; // a room that is healed is in the same session
    process.kill(agent, 'SIGKILL');
    await fleet.waitForPart('agent', 'shut', agent);
    await until('the agent', 60_000, () => fleet.sh('shut', 'true').status === 0);
    assert.equal(list(), 'note.txt\n');
    fleet.must({ input: '/new\n' }, 'chat', 'shut');
    assert.equal(list(), '');
    for (const end of ['restart', 'stop']) {
        send();
        assert.match(run('inbox', 'ls', 'shut').stdout, /^file +6 +note\.txt$/m);
        fleet.must(end, 'shut');
        assert.equal(fs.existsSync(fleet.path('var/lib/agent-cage/agents/shut/session')), end === 'restart');
        assert.equal(spawnSync('grep', ['-rlF', 'hello', fleet.path('var/lib/agent-cage/agents/shut')], { encoding: 'utf8' }).stdout, '', 'it is kept');
        if (end === 'stop')
            assert.match(run('inbox', 'ls', 'shut').stderr, /no session goes on/);
        fleet.must('start', 'shut');
        assert.equal(list(), '');
    }
    assert.equal(fleet.sh('shut', 'echo result >/outbox/r.txt').status, 0);
    assert.equal(run('get', 'shut', 'r.txt', '--to', '-').stdout, 'result\n');
});

test('seal takes no file of the pod\'s along', () => {
    const project = fleet.path('other-project');
    fs.mkdirSync(project);
    fs.chownSync(project, 12345, 12345);
    fleet.new('later', '--project', project);
    assert.equal(run('send', 'later', '--file', 'note.txt').stdout, '/inbox/note.txt\n');
    assert.equal(fleet.sh('later', 'ls -A /inbox').stdout, 'note.txt\n'); // the control arm
    fleet.must('seal', 'later');
    assert.equal(fleet.sh('later', 'ls -A /inbox').stdout, '');
    assert.equal(fs.readFileSync(fleet.path('var/lib/agent-cage/agents/later/inbox/note.txt'), 'utf8'), 'hello\n'); // still the person's
});
