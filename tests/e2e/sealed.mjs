// `agent-cage sealed`: a command on a stranger's code, as root and as an ordinary user; what goes in, what comes out, what is
// said afterwards, and that nothing stays, however it ends. No packet leaves this machine: local addresses are refused, and
// nothing else is asked for.
import { test, describe } from 'node:test';
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { Sealed, running } from './lib/sealed.mjs';
import { emptyNetworks } from './lib/leftovers.mjs';
import { ended, until } from './lib/until.mjs';

const cages = new Sealed();
const networks = emptyNetworks();
const quietly = result => `${result.stdout}\n${result.stderr}`;
/** Words before a program for which one file is another, in a mount namespace of its own. */
const hide = (file, with_) => ['unshare', '--mount', 'sh', '-c', `mount --bind ${with_} ${file} && exec "$@"`, 'sh'];

// What may become of nft: it fails, it says that all is well, or it loads nothing and reads back what there really is.
const nft = '/usr/sbin/nft';
const real = cages.path('nft-real');
fs.copyFileSync(nft, real);
fs.chmodSync(real, 0o755);
const fakes = [
    ['fails', 'exit 1', /the network rules "sealed" do not load/],
    ['silent', 'cat >/dev/null', /network rules/],
    ['idle', `[ "$1" = -j ] && exec ${real} "$@"; cat >/dev/null`, /network rules/],
];

/** No run, container, mount (an overlay too) or network without a process is left of `who`. */
async function nothingStays(who) {
    await until('the run and its container to go', 20_000, () => cages.runs(who).length + cages.containers(who).length === 0);
    const mounts = fs.readFileSync('/proc/mounts', 'utf8').split('\n').filter(l => l.includes(`${cages.root}/`) && !l.includes(` ${cages.path('images')} `));
    assert.deepEqual(mounts, []);
    await until('no network to be left', 10_000, () => emptyNetworks(networks).length === 0);
}

// In a terminal of 33 lines and 77 columns: use: resizes it when the command says "ready", then types Ctrl-C, and tells how the
// program ended; leave: closes it.
const TERMINAL = `
import fcntl, os, pty, re, select, struct, sys, termios, time
def size(lines, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
def see(word):
    text, end = b"", time.time() + 60
    while not re.search(word, text):
        if not select.select([fd], [], [], max(0, end - time.time()))[0]:
            sys.exit("no %s in %s" % (word, text))
        text += os.read(fd, 4096)
    sys.stdout.buffer.write(text)
go, wait = os.pipe()
pid, fd = pty.fork()
if pid == 0:
    os.close(wait)
    os.read(go, 1)
    os.execvp(sys.argv[2], sys.argv[2:])
size(33, 77)
os.close(wait)
see(rb"ready.*\\n")
if sys.argv[1] == "leave":
    sys.stdout.flush()
    os._exit(0)
size(44, 111)
see(rb"resized.*\\n")
os.write(fd, b"\\x03")
see(rb"interrupted.*\\n")
sys.stdout.flush()
print("exit", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`;

function terminal(who, what, ...args) {
    const { env, before } = cages.as(who);
    return spawnSync('/usr/bin/python3', ['-c', TERMINAL, what, ...before, cages.path('agent-cage'), ...args], { env, cwd: '/', encoding: 'utf8', timeout: 120_000 });
}

// Root makes the workbench when there is none yet.
assert.equal(cages.run('root', cages.project('first'), 'true').status, 0);

test('what only root may begin says so to an ordinary user', () => {
    for (const words of [['new', 'demo'], ['ls'], ['rm', 'demo']]) {
        const done = cages.cage('person', ...words);
        assert.equal(done.status, 125, quietly(done));
        assert.match(done.stderr, /^agent-cage: no fleet is up on this machine below .*: start it with `sudo \S*agent-cage up`\n$/);
    }
    assert.match(cages.cage('person', 'up').stderr, /`sudo \S*agent-cage up`/);
});

for (const who of ['root', 'person'])
    describe(`as ${who}`, () => {
        const project = cages.project(`plain-${who}`, { 'src/main.c': 'int main;', Makefile: 'all:\n\ttrue\n', '.git/config': '[core]\n' });

        test('standard streams and exit status pass', () => {
            const done = cages.cage(who, { input: 'some\0bytes' }, 'sealed', project, '--', 'sh', '-c', 'cat; echo bad >&2; exit 7');
            assert.equal(done.status, 7, quietly(done));
            assert.equal(done.stdout, 'some\0bytes');
            assert.match(done.stderr, /^bad\n/);
            assert.match(done.stderr, /sealed run over: exit status 7/);
            assert.equal(cages.sh(who, project, 'kill -SEGV $$').status, 139);
            const absent = cages.run(who, project, 'no-such-program');
            assert.equal(absent.status, 127);
            assert.match(absent.stderr, /^agent-cage: the command could not be run: .*no-such-program.*\nagent-cage: sealed run over/m);
            assert.equal(absent.stderr.match(/could not be run: /g).length, 1);
            assert.equal(cages.cage(who, 'sealed', project, '--timeout', '300ms', '--', 'sleep', '60').status, 124);
        });

        test('an untouched project gives no finding, and no program ran in it', () => {
            const done = cages.run(who, project, 'ls', '-laR');
            assert.match(done.stderr, /nothing in .* changed/);
            assert.doesNotMatch(done.stderr, /untrusted from now on/);
        });

        test('nothing of the caller is inside: environment, descriptors, accounts', () => {
            const done = cages.sh(who, project, 'env | sort; echo --; ls /proc/self/fd | wc -w; id -u; grep -E "^(CapEff|NoNewPrivs|Seccomp):" /proc/self/status');
            const [env, rest] = done.stdout.split('--\n');
            assert.doesNotMatch(env, /SECRET|not-for-the-cage|AGENT_CAGE|XDG|SUDO/);
            assert.deepEqual(env.trim().split('\n').map(l => l.split('=')[0]),
                ['HOME', 'LANG', 'LOGNAME', 'PATH', 'PWD', 'SHELL', 'SHLVL', 'TERM', 'TMPDIR', 'USER', '_']);
            assert.equal(rest, '4\n60000\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n'); // 4: ls has the folder open
        });

        test('nothing of the caller is inside: a log-in, a conversation, a token of the environment, an agent that holds keys', () => {
            const { home, before } = cages.as(who);
            const token = `planted-${cages.prefix}-${who}`, socket = cages.path(`agent-${who}.sock`);
            for (const file of ['.claude/.credentials.json', '.claude/projects/-x/talk.jsonl', '.codex/auth.json', '.ssh/id_test']) {
                fs.mkdirSync(path.dirname(path.join(home, file)), { recursive: true });
                fs.writeFileSync(path.join(home, file), `{"accessToken":"${token}"}\n`);
            }
            if (who === 'person')
                assert.equal(spawnSync('chown', ['-R', `${cages.person}:`, ...['.claude', '.codex', '.ssh'].map(d => path.join(home, d))]).status, 0);
            const agent = net.createServer().listen(socket);
            const around = ['env', `SSH_AUTH_SOCK=${socket}`, `CLAUDE_CODE_OAUTH_TOKEN=${token}`];
            // The pattern is not what it finds, so that no trace of this command is taken for one.
            const script = `f() { grep -rsha -D skip --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr 'planted[-]${cages.prefix}-${who}' "$1"
                cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -a 'planted[-]${cages.prefix}-${who}'; env | grep SSH_AUTH
                python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print("a socket answers")' ${socket} 2>/dev/null; }; f`;
            try {
                const inside = cages.cage(who, { around }, 'sealed', project, '--', 'sh', '-c', `${script} /; echo over`);
                assert.equal(inside.stdout, 'over\n', quietly(inside));
                fs.chmodSync(socket, 0o777);
                const outside = spawnSync('env', [...around.slice(1), ...before, 'sh', '-c', `${script} ${home}; echo over`], { encoding: 'utf8' });
                assert.ok(outside.stdout.split(token).length >= 6, outside.stdout); // four files, an environment
                assert.match(outside.stdout, /SSH_AUTH_SOCK=.*a socket answers\nover/s);
            } finally {
                agent.close();
            }
        });

        test('what the command makes belongs to the person, outside', () => {
            const done = cages.sh(who, project, 'id -u; touch ~/home /tmp/a /var/tmp/b && stat -c %u src; umask 0; echo x >made; chmod 0666 made; stat -c %U made');
            assert.equal(done.stdout, '60000\n60000\nexecutor\n');
            assert.equal(fs.statSync(path.join(project, 'made')).uid, cages.uid);
            fs.rmSync(path.join(project, 'made'));
        });

        test('names that are not UTF-8 come out as they are, and are escaped where they are shown', () => {
            const dir = cages.project(`bytes-${who}`);
            const done = cages.sh(who, dir, "cp /bin/true $'caf\\xe9'; printf x >/outbox/$'\\xff\\xc3-name'");
            assert.match(done.stderr, /1 file changed or new; what could run later, as you \(1\):\n +caf\\xe9: /, quietly(done));
            assert.match(done.stderr, /outbox +1 file, 1 B, untrusted/);
            const session = path.basename(done.stderr.match(/untrusted: (\S+)/)[1]);
            assert.match(cages.cage(who, 'outbox', 'ls', session).stdout, /^file +1 {2}\\xff\\xc3-name$/m);
            assert.match(cages.cage(who, 'aftermath', dir).stdout, /^after .*: 1 file changed or new, 0 gone, 1 could run later\n +caf\\xe9: /);
            const tar = cages.path(`bytes-${who}.tar`), { home } = cages.as(who);
            assert.equal(cages.cage('root', 'outbox', 'pack', path.join(home, 'agent-cage-outbox', session), tar).status, 0);
            assert.match(spawnSync('tar', ['-tf', tar], { encoding: 'utf8' }).stdout, /-name$/m);
        });

        test('a project is named without the ways that were taken to it', () => {
            const dir = cages.project(`plainly-${who}`);
            const done = cages.run(who, `${dir}/../${path.basename(dir)}/.`, 'true');
            assert.ok(done.stderr.includes(`nothing in ${dir} changed`), quietly(done));
        });

        test('results come out through the outbox, and traps in it are not sprung', () => {
            const done = cages.sh(who, project, "printf 'a\\033[31mb\\n' >/outbox/report; ln -s /etc/shadow /outbox/link; mkfifo /outbox/fifo; echo x >'/outbox/-n\nx'");
            const box = done.stderr.match(/untrusted: (\S+)/)[1];
            assert.equal(path.dirname(path.dirname(box)), cages.as(who).home);
            const session = path.basename(box);
            const list = cages.cage(who, 'outbox', 'ls', session).stdout;
            assert.match(list, /^link .* link -> \/etc\/shadow$/m);
            assert.match(list, /^file .* -n\\nx$/m);
            assert.equal(cages.cage(who, 'outbox', 'cat', session, 'report').stdout, 'a\x1b[31mb\n');
            for (const [file, why] of [['link', /link/], ['fifo', /not a regular file/], ['../../x', /out of the folder/]]) {
                const refused = cages.cage(who, 'outbox', 'cat', session, file);
                assert.notEqual(refused.status, 0);
                assert.match(refused.stderr, why);
                assert.equal(refused.stdout, '');
            }
            const tar = path.join(os.tmpdir(), `${cages.prefix}-${who}.tar`);
            assert.equal(cages.cage('root', 'outbox', 'pack', box, tar).status, 0);
            assert.deepEqual(spawnSync('tar', ['tf', tar], { encoding: 'utf8' }).stdout.trim().split('\n').sort(), ['_n_x', 'report']);
            fs.rmSync(tar);
        });

        test('what could run later is said, each with a reason', () => {
            const planted = {
                '.git/hooks/post-checkout': /git runs it/, '.git/config': /core\.fsmonitor/, Makefile: /a build runs/, '.envrc': /entering the folder/,
                'package.json': /scripts/, '.vscode/tasks.json': /editor/, 'CLAUDE.md': /agent/, out: /link out/, fifo: /FIFO/, tool: /program/ };
            const dir = cages.project(`planted-${who}`, { '.git/config': '[core]\n', '.git/HEAD': 'ref: refs/heads/main\n', '.git/objects/x': '', '.git/refs/x': '',
                Makefile: 'all:\n', 'a.c': 'x' });
            const sprung = cages.path(`sprung-${who}`);
            fs.mkdirSync(sprung);
            fs.chmodSync(sprung, 0o777);
            const done = cages.sh(who, dir, `mkdir -p .git/hooks .vscode; printf '#!/bin/sh\\ntouch ${sprung}/hook\\n' | tee .git/hooks/post-checkout >.git/hooks/post-index-change; ` +
                `chmod +x .git/hooks/*; printf '[core]\\n fsmonitor = touch ${sprung}/monitor\\n hooksPath = .git/hooks\\n' >.git/config; ` +
                'echo x >>Makefile; echo x >.envrc; echo \'{"scripts":{}}\' >package.json; echo x >.vscode/tasks.json; echo x >CLAUDE.md; ln -s /etc out; mkfifo fifo; cp /bin/true tool; echo y >a.c');
            for (const [file, why] of Object.entries(planted)) {
                const line = done.stderr.split('\n').find(l => l.trim().startsWith(`${file}:`));
                assert.ok(line, `${file} is not in\n${done.stderr}`);
                assert.match(line, why);
            }
            assert.match(done.stderr, /12 files changed or new/);
            assert.match(done.stderr, /untrusted from now on/);
            assert.match(cages.cage(who, 'aftermath', dir).stdout, /post-checkout/);
            // No git or other program was run in the folder to find that out; one would have sprung it.
            const trace = cages.path(`trace-${who}`);
            const traced = cages.cage(who, { around: ['strace', '-f', '-qq', '-e', 'trace=execve,execveat', '-o', trace] }, 'aftermath', dir);
            assert.match(traced.stdout, /post-checkout/);
            const started = fs.readFileSync(trace, 'utf8').split('\n').filter(l => l.includes('execve') && !l.includes('/setpriv"'));
            assert.equal(started.length, 1, started.join('\n'));
            assert.ok(started[0].includes(cages.path('agent-cage')));
            assert.deepEqual(fs.readdirSync(sprung), []);
            spawnSync('git', ['-c', 'safe.directory=*', 'status'], { cwd: dir });
            assert.ok(fs.readdirSync(sprung).some(n => n.startsWith('monitor')), 'the trap would not have been sprung');
        });

        test('a set-uid program that is put there from outside during a run is said', async () => {
            const dir = cages.project(`outside-${who}`);
            const done = ended(cages.spawn(who, 'sealed', dir, '--', 'sh', '-c', 'touch began; while [ ! -e go ]; do sleep 0.1; done'));
            await until('the command to run', 30_000, () => fs.existsSync(path.join(dir, 'began')));
            fs.copyFileSync('/bin/true', path.join(dir, 'risen'));
            fs.chmodSync(path.join(dir, 'risen'), 0o4755);
            fs.writeFileSync(path.join(dir, 'go'), '');
            assert.match((await done).stderr, /risen: a set-uid or set-gid program/);
        });

        test('--keep-clean: nothing reaches the project until it is taken', () => {
            const dir = cages.project(`kept-${who}`, { b: 'two', gone: 'x', 'del/x': 'x', 'sub/a': 'one' });
            const state = () => spawnSync('find', ['.', '-printf', '%P %y %s\n'], { cwd: dir, encoding: 'utf8' }).stdout.split('\n').sort().join('\n');
            const before = state();
            const done = cages.cage(who, 'sealed', dir, '--keep-clean', '--', 'bash', '-c',
                'echo three >b; rm gone; rm -r del; mkdir del; echo z >del/z; ln -s /etc/passwd l; mkfifo f; echo new >sub/n; echo all: >Makefile');
            assert.equal(done.status, 0, quietly(done));
            assert.match(done.stderr, /untouched; \d+ changes wait/);
            assert.equal(state(), before);
            const diff = cages.cage(who, 'aftermath', dir, '--diff').stdout;
            for (const line of [/^changed +file +b /m, /^deleted +file +gone$/m, /^deleted +all in +del$/m, /^new +link +l -> \/etc\/passwd$/m, /^new +FIFO +f$/m])
                assert.match(diff, line);
            assert.match(cages.cage(who, 'aftermath', dir).stdout, /Makefile: a build/);
            if (who === 'root') { // an ordinary user's layer has no other owners
                const upper = spawnSync('find', [cages.path('var'), '-path', '*/upper/f'], { encoding: 'utf8' }).stdout.trim();
                assert.notEqual(upper, '');
                fs.writeFileSync(path.join(path.dirname(upper), 'odd'), 'odd');
                fs.chownSync(path.join(path.dirname(upper), 'odd'), 4242, 4242);
                fs.chmodSync(path.join(path.dirname(upper), 'odd'), 0o4755);
                assert.match(cages.cage(who, 'aftermath', dir, '--diff').stdout, /^new +file +odd .*mode 4755\) \(belongs to uid 4242\)$/m);
                assert.equal(cages.cage(who, 'aftermath', dir, '--take', 'odd').status, 0);
                const taken = fs.statSync(path.join(dir, 'odd'));
                assert.deepEqual([taken.uid, taken.mode & 0o7777], [cages.uid, 0o755]);
                fs.rmSync(path.join(dir, 'odd'));
            }
            assert.equal(cages.cage(who, 'aftermath', dir, '--take', 'b').status, 0);
            assert.equal(fs.readFileSync(path.join(dir, 'b'), 'utf8'), 'three\n');
            assert.equal(fs.statSync(path.join(dir, 'b')).uid, cages.uid);
            assert.ok(fs.existsSync(path.join(dir, 'gone')), 'more was taken than was asked for');
            const all = cages.cage(who, 'aftermath', dir, '--take', '.');
            assert.match(all.stderr, /l: it is a link that leads away/);
            assert.deepEqual(fs.readdirSync(dir).sort(), ['Makefile', 'b', 'del', 'sub']);
            assert.deepEqual(fs.readdirSync(path.join(dir, 'del')), ['z']);
            assert.equal(cages.cage(who, 'aftermath', dir, '--drop').status, 0);
            assert.equal(cages.cage(who, 'aftermath', dir, '--diff').status, 127);
        });

        test('local addresses are refused at once and counted', async () => {
            let accepted = 0;
            const server = net.createServer(s => { accepted++; s.destroy(); }).listen(0, '0.0.0.0');
            await until('a listener', 5000, () => server.listening);
            const addresses = Object.values(os.networkInterfaces()).flat().filter(a => a.family === 'IPv4' && !a.internal).map(a => a.address);
            const script = 'import errno,socket,sys,time\nfor a in sys.argv[2:]:\n s=socket.socket(); s.settimeout(5); t=time.time()\n' +
                ' r=s.connect_ex((a,int(sys.argv[1])))\n print(a, errno.errorcode.get(r,r), time.time()-t<1)\n';
            const child = cages.spawn(who, 'sealed', project, '--', 'python3', '-c', script, String(server.address().port), ...addresses, '10.88.0.1', '10.0.2.2', '169.254.169.254', '192.168.1.1');
            const done = await ended(child);
            server.close();
            const lines = done.stdout.trim().split('\n');
            assert.equal(lines.length, addresses.length + 4, quietly(done));
            for (const line of lines)
                assert.match(line, / ECONNREFUSED True$/);
            assert.equal(accepted, 0);
            assert.match(done.stderr, new RegExp(`; ${lines.length} packets to local addresses were refused`));
        });

        test('the resolvers are public ones, and no domain is searched', () => {
            const text = cages.run(who, project, 'cat', '/etc/resolv.conf').stdout.split('\n').filter(l => l && !l.startsWith('search .'));
            assert.deepEqual(text, ['nameserver 1.1.1.1', 'nameserver 9.9.9.9']);
        });

        test('in a terminal the command has a terminal of its own', async () => {
            const { env, before } = cages.as(who);
            const inner = [...before, cages.path('agent-cage'), 'sealed', project, '--', 'bash', '-c', '"test -t 0 && test -t 1 && stty -a | head -1; tty; echo x >\\$(tty); exit 5"'].join(' ');
            // Its input stays open: at the end of it `script` would type a character.
            const done = await ended(spawn('script', ['-qec', inner, '/dev/null'], { env: { ...env, SHELL: '/bin/sh' }, cwd: '/', stdio: ['pipe', 'pipe', 'inherit'] }));
            assert.match(done.stdout, /^speed \d+ baud; rows [^\n]*\n\/dev\/pts\/0\r?\nx\r?\nagent-cage: /);
            assert.equal(done.status, 5, done.stdout);
        });

        test('the window\'s size and Ctrl-C reach the command', () => {
            const script = 'trap "echo resized \\$(stty size)" WINCH; trap "echo interrupted; exit 9" INT; echo ready $(stty size); while :; do sleep 0.1; done';
            const done = terminal(who, 'use', 'sealed', project, '--', 'bash', '-c', script);
            assert.match(done.stdout, /ready 33 77\r\n[^]*resized 44 111\r\n[^]*interrupted\r\n/, done.stdout + done.stderr);
            assert.match(done.stdout, /\nexit 9\n$/);
        });

        test('when its terminal goes, everything ends with it', async () => {
            const mark = `95${String(process.pid).padStart(5, '0')}${who === 'root' ? 1 : 2}`;
            const done = terminal(who, 'leave', 'sealed', project, '--', 'bash', '-c', `trap "" HUP; (trap "" HUP TERM; sleep ${mark}) & echo ready $(stty size); sleep ${mark}`);
            assert.match(done.stdout, /ready 33 77/, done.stderr);
            await until('the cage to end', 20_000, () => running(mark).length === 0);
            await nothingStays(who);
        });

        for (const options of [[], ['--keep-clean']])
            test(`killed with SIGKILL, everything ends with it ${options}`, async () => {
                const dir = cages.project(`killed-${who}${options}`), mark = `98${String(process.pid).padStart(5, '0')}${who === 'root' ? 1 : 2}${options.length}`;
                const child = cages.spawn(who, 'sealed', dir, ...options, '--', 'bash', '-c', `trap "" TERM INT HUP; setsid nohup sleep ${mark} & sleep ${mark}`);
                await until('the command to run', 30_000, () => running(mark).length >= 2);
                assert.equal(cages.runs(who).length, 1);
                child.kill('SIGKILL');
                await until('the cage to end', 10_000, () => running(mark).length === 0);
                await until('the container to go', 20_000, () => cages.containers(who).length === 0);
                assert.equal(cages.cage(who, 'sealed', dir, ...options, '--', 'true').status, 0); // and clears what is left
                await nothingStays(who);
            });

        test('a command that takes no notice of Ctrl-C is ended', async () => {
            const mark = `97${String(process.pid).padStart(5, '0')}${who === 'root' ? 1 : 2}`;
            const child = cages.spawn(who, 'sealed', project, '--', 'bash', '-c', `trap "" INT TERM; echo ready; sleep ${mark}; sleep ${mark}`);
            const done = ended(child);
            await until('the command to run', 30_000, () => running(mark).length >= 1);
            child.kill('SIGINT');
            assert.equal((await done).status, 130);
            assert.equal(running(mark).length, 0);
            assert.deepEqual(cages.runs(who), []);
            assert.deepEqual(cages.containers(who), []);
        });

        test('folders that no hostile code may have are refused', () => {
            const keys = cages.project(`keys-${who}`, { '.ssh/id': 'x' });
            fs.symlinkSync(project, cages.path(`link-${who}`));
            const ssh = cages.path('home/.ssh'), other = cages.path(`other-name-${who}`);
            for (const dir of [ssh, other]) {
                fs.mkdirSync(dir, { recursive: true });
                fs.chownSync(dir, cages.uid, cages.uid);
            }
            assert.equal(spawnSync('mount', ['--bind', ssh, other]).status, 0);
            const refused = [cages.path('home'), cages.path(), '/', '/etc', keys, cages.path(`link-${who}`), `${cages.path('home')}/../home/.`, ssh];
            if (who === 'root') // podman's mount namespace of an ordinary user, which lasts, has not got a mount that is made now
                refused.push(other);
            try {
                for (const dir of refused) {
                    const done = cages.run(who, dir, 'true');
                    assert.equal(done.status, 126, `${dir}: ${quietly(done)}`);
                }
                assert.match(cages.run(who, refused.at(-1), 'true').stderr, /a private folder of/);
            } finally {
                spawnSync('umount', [other]);
            }
            const strangers = cages.path(`strangers-${who}`);
            fs.mkdirSync(strangers); // root's
            assert.equal(cages.run(who, strangers, 'true').status, 126);
            assert.equal(cages.run(who, cages.path('not-there'), 'true').status, 127);
        });

        test('a host that lacks something is refused with what to install', () => {
            const closed = cages.path(`closed-${who}`);
            fs.writeFileSync(closed, '', { mode: 0 });
            const rows = [['/usr/sbin/nft', closed, /nft is not installed.*apt install nftables/], ['/usr/bin/podman', closed, /podman is not installed.*apt install podman/]];
            if (who === 'person')
                rows.push(['/dev/net/tun', closed, /\/dev\/net\/tun cannot be opened.*chmod 0666/], ['/etc/subuid', '/dev/null', /\/etc\/subuid.*usermod --add-subuids/]);
            for (const [file, with_, why] of rows) {
                const done = cages.cage(who, { around: hide(file, with_) }, 'sealed', project, '--', 'true');
                assert.equal(done.status, 125, `${file}: ${quietly(done)}`);
                assert.match(done.stderr, why);
            }
        });

        test('NW-16 rules that do not come into force stop the start: nothing of the command runs', () => {
            const dir = cages.project(`no-rules-${who}`);
            const marker = path.join(dir, 'ran');
            for (const [name, script, why] of fakes) {
                const file = cages.path(`nft-${name}-${who}`);
                fs.writeFileSync(file, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
                cages.engineAnew(who);
                const done = cages.cage(who, { around: hide(nft, file) }, 'sealed', dir, '--', 'touch', 'ran');
                assert.equal(done.status, 125, `${name}: ${quietly(done)}`);
                assert.match(done.stderr, why);
                assert.ok(!fs.existsSync(marker), `${name}: the command ran`);
                assert.deepEqual([cages.runs(who), cages.containers(who)], [[], []], name);
            }
            cages.engineAnew(who);
            assert.equal(cages.run(who, dir, 'touch', 'ran').status, 0);
            assert.ok(fs.existsSync(marker), 'the same command with the real nft');
        });
    });

test('root: doctor --clean takes away what a killed run left', async () => {
    const project = cages.project('left');
    const mark = `96${process.pid}`;
    const child = cages.spawn('root', 'sealed', project, '--', 'sleep', mark);
    await until('the command to run', 30_000, () => running(mark).length);
    const { env } = cages.as('root');
    const clean = () => spawnSync(cages.path('agent-cage'), ['doctor', '--clean'], { env, encoding: 'utf8' }).stdout;
    assert.match(clean(), /nothing was left behind/);
    assert.equal(running(mark).length, 1);
    child.kill('SIGKILL');
    await until('the cage to end', 10_000, () => running(mark).length === 0);
    assert.match(clean(), /removed sealed run/);
    assert.deepEqual(cages.runs('root'), []);
    assert.match(clean(), /nothing was left behind/);
});

test('a run of an ordinary user says which limits are missing, where groups are v1', () => {
    const v2 = fs.existsSync('/sys/fs/cgroup/cgroup.controllers');
    const done = cages.run('person', cages.project('limits'), 'true');
    assert.equal(/memory, processors and number of processes were not limited/.test(done.stderr), !v2);
});
