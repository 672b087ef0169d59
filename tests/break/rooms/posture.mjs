// Each part's posture, read from the host's /proc, and each room's declared sets, by equality.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { spawnSync } from 'node:child_process';
import { fleet } from '../lib/rooms.mjs';
import { UID, inRoom } from '../../e2e/lib/room.mjs';
import * as proc from '../../e2e/lib/proc.mjs';

const ROOMS = ['agent', 'harness', 'executor'];
const NAMESPACES = ['mnt', 'pid', 'net', 'ipc', 'uts', 'cgroup', 'user'];
const accounts = Object.fromEntries(fs.readFileSync('/etc/passwd', 'utf8').split('\n').map(l => l.split(':')).map(f => [f[0], Number(f[2])]));

/** Every thread of a process: its /proc status. */
const threads = pid => fs.readdirSync(`/proc/${pid}/task`).map(tid => proc.status(`${pid}/task/${tid}`));

function assertUnprivileged(pid, uid, what) {
    for (const s of threads(pid)) {
        for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
            assert.match(s[set], /^0+$/, `${what}: ${set} ${s[set]}`);
        assert.equal(s.NoNewPrivs, '1', `${what}: NoNewPrivs`);
        assert.deepEqual(s.Uid.split(/\s+/).map(Number), [uid, uid, uid, uid], `${what}: uid`);
        assert.deepEqual(s.Gid.split(/\s+/).map(Number), [uid, uid, uid, uid], `${what}: gid`);
        assert.ok(s.Groups.trim() === '' || s.Groups.trim() === String(uid), `${what}: groups ${s.Groups}`);
    }
}

for (const name of ['pod', 'other'])
    for (const room of ROOMS)
        test(`${name}: the ${room} room runs as its own kernel uid with no privilege, filtered`, () => {
            const part = fleet.part(room, name);
            assertUnprivileged(part.pid, fleet.uidBase(name) + UID[room], room);
            for (const s of threads(part.pid))
                assert.equal(s.Seccomp, '2', `${room}: Seccomp`);
        });

for (const room of ROOMS)
    test(`bare: the ${room} runs as its own account with no privilege`, () => {
        const suffix = { agent: '', harness: '_h', executor: '_x' }[room];
        const uid = accounts[`${fleet.prefix}cage-bare${suffix}`];
        assert.equal(uid, fleet.uidBase('bare') + UID[room]);
        assertUnprivileged(fleet.part(room, 'bare').pid, uid, room);
    });

for (const part of ['relay', 'manager'])
    test(`the ${part} runs as its own account with no privilege, filtered`, () => {
        const uid = accounts[`${fleet.prefix}cage_${part}`];
        assert.ok(uid > 0);
        const { pid } = fleet.part(part);
        for (const s of threads(pid)) {
            assert.match(s.CapEff + s.CapPrm + s.CapBnd + s.CapInh + s.CapAmb, /^0+$/);
            assert.deepEqual(s.Uid.split(/\s+/).map(Number), [uid, uid, uid, uid]);
            assert.equal(s.NoNewPrivs, '1');
            assert.equal(s.Seccomp, '2');
        }
    });

test('no two parts share a kernel uid, and none is an account of anybody else', () => {
    const all = proc.parts(fleet);
    const uids = all.map(p => p.uid);
    assert.equal(new Set(uids).size, all.length, JSON.stringify(all));
    for (const { uid, part } of all)
        for (const [name, owner] of Object.entries(accounts))
            assert.ok(owner !== uid || part === 'warden' || name.startsWith(`${fleet.prefix}cage`), `${part} runs as ${name}`);
});

test('rooms share no namespace with each other, another agent or the host', () => {
    const pods = ['pod', 'other'].flatMap(name => ROOMS.map(room => fleet.part(room, name).pid));
    for (const kind of NAMESPACES) {
        const seen = [...pods, 'self'].map(pid => proc.namespace(pid, kind));
        assert.ok(seen.every(Boolean));
        assert.equal(new Set(seen).size, seen.length, `${kind}: ${seen.join(' ')}`);
    }
    const bare = ROOMS.map(room => fleet.part(room, 'bare').pid);
    for (const kind of ['mnt', 'net']) {
        assert.notEqual(proc.namespace(bare[1], kind), proc.namespace('self', kind), `bare harness: ${kind}`);
        assert.notEqual(proc.namespace(bare[1], kind), proc.namespace(bare[2], kind), `bare harness and executor: ${kind}`);
    }
});

test('a command in a pod has the same posture as its room', () => {
    const done = fleet.exec('pod', 'cat', '/proc/self/status');
    const s = Object.fromEntries([...done.stdout.matchAll(/^(\w+):[ \t]*(.*)$/gm)].map(m => [m[1], m[2]]));
    for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
        assert.match(s[set], /^0+$/, set);
    assert.equal(s.NoNewPrivs, '1');
    assert.equal(s.Seccomp, '2');
    assert.match(s.Uid, /^60000\s+60000\s+60000\s+60000$/);
    assert.ok(['', '60000'].includes(s.Groups.trim()), s.Groups);
});

test('CP-14 the environment of a command is the declared set', () => {
    const names = fleet.exec('pod', { env: { SECRET_TOKEN: 'x', ANTHROPIC_API_KEY: 'y' } }, 'env', '-0').stdout
        .split('\0').filter(Boolean).map(l => l.split('=')[0]).sort();
    // LC_ALL is one of those that the caller's terminal and language may set; the tests do.
    assert.deepEqual(names, ['HOME', 'LANG', 'LC_ALL', 'LOGNAME', 'PATH', 'SHELL', 'TMPDIR', 'USER']);
});

test('FS-11 a command has the descriptors 0, 1 and 2 alone', () => {
    const script = 'import os\nfor n in range(1024):\n  try: print(n, os.readlink(f"/proc/self/fd/{n}"))\n  except OSError: pass';
    const done = fleet.exec('pod', 'python3', '-c', script);
    const fds = done.stdout.trim().split('\n').map(l => l.split(' '));
    assert.deepEqual(fds.map(f => f[0]), ['0', '1', '2'], done.stdout);
    for (const [n, to] of fds)
        assert.match(to, /^(pipe:|socket:|\/dev\/null|anon_inode:)/, `descriptor ${n} is ${to}`);
});

test('FS-02 the places where a command can write are the declared set', () => {
    const done = fleet.sh('pod', 'cut -d" " -f5 /proc/self/mountinfo | sort -u | while read -r d; do [ -d "$d" ] && [ -w "$d" ] && echo "$d"; done; true');
    const writable = done.stdout.trim().split('\n').filter(d => !d.startsWith('/proc/')).sort();
    assert.deepEqual(writable, ['/dev/mqueue', '/dev/shm', '/home/cage', '/outbox', '/project', '/run/lock', '/scratch', '/tmp', '/var/tmp']);
});

test('FS-02 every mount of every room is nosuid, and the root is read-only', () => {
    for (const name of ['pod', 'other'])
        for (const room of ROOMS) {
            const lines = fs.readFileSync(`/proc/${fleet.part(room, name).pid}/mountinfo`, 'utf8').trim().split('\n').map(l => l.split(' '));
            for (const f of lines) {
                const options = f[5].split(',');
                assert.ok(options.includes('nosuid') || /^\/(dev|proc|sys)\//.test(f[4]), `${room}: ${f[4]} ${f[5]}`);
                assert.ok(!f.slice(6, f.indexOf('-')).some(o => /^(shared|master):/.test(o)), `${room}: ${f[4]} takes part in propagation`);
            }
            const root = lines.find(f => f[4] === '/');
            assert.ok(root[5].split(',').includes('ro'), `${room}: root is ${root[5]}`);
        }
});

test('FS-03 what a harness room can write it cannot execute', () => {
    const lines = fs.readFileSync(`/proc/${fleet.part('harness', 'pod').pid}/mountinfo`, 'utf8').trim().split('\n').map(l => l.split(' '));
    for (const place of ['/project', '/scratch', '/home/cage', '/outbox', '/inbox']) {
        const mount = lines.find(f => f[4] === place);
        assert.ok(mount, `no mount on ${place}`);
        assert.ok(mount[5].split(',').includes('noexec'), `${place}: ${mount[5]}`);
    }
});

test('FS-30 a pod sees no socket file and no abstract socket', () => {
    const done = fleet.sh('pod', 'find / -xdev -type s 2>/dev/null; for d in /tmp /project /scratch /home/cage /dev/shm /run; do find "$d" -type s 2>/dev/null; done; tail -n +2 /proc/net/unix | awk "NF > 7"');
    assert.equal(done.stdout, '');
});

test('FS-13 /dev holds the declared names', () => {
    const done = fleet.exec('pod', 'ls', '/dev');
    assert.deepEqual(done.stdout.trim().split('\n').sort(),
        ['fd', 'full', 'mqueue', 'null', 'ptmx', 'pts', 'random', 'shm', 'stderr', 'stdin', 'stdout', 'tty', 'urandom', 'zero']);
});

test('PR-01 a command sees its room\'s processes alone', () => {
    const done = fleet.sh('pod', 'for p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline 2>/dev/null | cut -c1-60; echo; done');
    const seen = done.stdout.split('\n').filter(Boolean);
    assert.ok(seen.length <= 8, done.stdout);
    for (const line of seen)
        assert.doesNotMatch(line, /warden|relay|manager|podman|conmon/);
});

test('FS-17 a secret of root, of the agent room or of the fleet is found nowhere in a pod', () => {
    const token = `secret-${Math.random().toString(36).slice(2)}`;
    fs.writeFileSync(fleet.path('var/lib/agent-cage/agents/pod/agent/planted'), token, { mode: 0o644 });
    fs.writeFileSync(fleet.path('etc/agent-cage/planted'), token, { mode: 0o644 });
    const sweep = 'grep -rslaF -f - /etc /home /run /tmp /var /cage /project /scratch /outbox /inbox /dev/shm /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/task/*/environ 2>/dev/null';
    assert.equal(fleet.exec('pod', { input: token }, 'sh', '-c', sweep).stdout, '');
    const control = spawnSync('grep', ['-rslF', '-f', '-', fleet.path('etc')], { input: token, encoding: 'utf8' });
    assert.match(control.stdout, /planted/);
    fs.rmSync(fleet.path('etc/agent-cage/planted'));
    fs.rmSync(fleet.path('var/lib/agent-cage/agents/pod/agent/planted'));
});

test('FS-25 one agent finds nothing of another', () => {
    const marker = `marker-${Math.random().toString(36).slice(2)}`;
    const write = 'read -r m; for d in /tmp /project /scratch /outbox /home/cage /dev/shm; do echo "$m" >"$d/planted"; done';
    assert.equal(fleet.exec('pod', { input: `${marker}\n` }, 'bash', '-c', write).status, 0);
    const sweep = 'grep -rslF -f - /tmp /project /scratch /outbox /home /dev/shm /run /var';
    assert.match(fleet.exec('pod', { input: marker }, 'sh', '-c', sweep).stdout, /planted/);
    assert.equal(fleet.exec('other', { input: marker }, 'sh', '-c', sweep).stdout, '');
});

test('PR-02 signals from inside do not reach PID 1', () => {
    const before = fleet.part('executor', 'pod').pid;
    fleet.sh('pod', 'kill -TERM 1; kill -STOP 1; kill -KILL 1; kill -HUP 1; true');
    assert.equal(fleet.exec('pod', 'echo', 'alive').stdout, 'alive\n');
    assert.equal(fleet.part('executor', 'pod').pid, before);
});

test('FS-14 the cgroup hierarchies are read-only inside', () => {
    const done = fleet.sh('pod', 'find /sys/fs/cgroup -name cgroup.procs -writable 2>/dev/null | head; find / -xdev -name release_agent -writable 2>/dev/null | head');
    assert.equal(done.stdout, '');
});

test('CP-18 programs that gain privileges are not there, and no file is set-uid', () => {
    const done = fleet.sh('pod', 'for p in sudo su pkexec newuidmap newgidmap fusermount; do command -v $p; done; find / -xdev -perm /6000 2>/dev/null');
    for (const line of done.stdout.split('\n').filter(Boolean))
        assert.fail(`found ${line}`);
});

/** What the bare executor's account may read or write that not everybody may, below these folders. */
function gifts(...folders) {
    const mine = '( -readable ! -perm -o=r -o -writable ! -perm -o=w ! -type l )';
    const done = fleet.exec('bare', { timeout: 120_000 }, 'find', ...folders.filter(d => fs.existsSync(d)), ...mine.split(' '), '-print');
    return done.stdout.split('\n').filter(Boolean);
}

test('CP-15 the executor\'s account can do outside what everybody can, and nothing more', () => {
    const uid = fleet.uidBase('bare') + UID.executor;
    const own = [fleet.path('var/lib/agent-cage/agents/bare/executor'), fleet.path('var/lib/agent-cage/agents/bare/scratch'),
        fleet.path('run/agent-cage/mnt/bare'), fleet.path('srv/agent-cage/bare')];
    const found = gifts(fleet.root, '/etc', '/root', '/home', '/var', '/run', '/srv', '/opt', '/usr/local').filter(f => !own.some(o => f === o || f.startsWith(`${o}/`)));
    assert.deepEqual(found, []);
    // The control arm: one file given to its group.
    fs.writeFileSync(fleet.path('gift'), 'secret', { mode: 0o640 });
    fs.chownSync(fleet.path('gift'), 0, uid);
    assert.deepEqual(gifts(fleet.root).filter(f => f === fleet.path('gift')), [fleet.path('gift')]);
    fs.rmSync(fleet.path('gift'));
    assert.equal(fleet.exec('bare', 'id', '-G').stdout.trim(), String(uid));
});

test('CP-15 no privileges and no lasting start can be had by that account', () => {
    fs.writeFileSync(fleet.path('planted'), 'secret', { mode: 0o600 });
    const files = [fleet.path('planted'), '/etc/shadow', fleet.path('var/lib/agent-cage/agents/pod/executor'), fleet.path('var/lib/agent-cage/manager'),
        fleet.path('etc/agent-cage/agents/pod.conf'), `/proc/${fleet.part('agent', 'bare').pid}/environ`];
    for (const file of files.filter(f => fs.existsSync(f)))
        assert.notEqual(fleet.exec('bare', fs.statSync(file).isDirectory() ? 'ls' : 'cat', file).status, 0, file);
    for (const place of ['/etc', '/etc/cron.d', '/etc/profile.d', '/etc/systemd/system', '/usr/local/bin', '/usr/lib/systemd/system', '/var/spool/cron', '/var/spool/cron/crontabs', '/root',
        '/var/lib/systemd/linger', '/home', fleet.path('etc/agent-cage'), fleet.path('run/agent-cage')])
        assert.notEqual(fleet.exec('bare', 'touch', `${place}/agent-cage-was-here`).status, 0, place);
    for (const words of [['sudo', '-n', 'true'], ['su', '-c', 'true'], ['crontab', '-'], ['at', 'now'], ['systemctl', '--user', 'enable', 'x.service'], ['loginctl', 'enable-linger'],
        ['systemd-run', '--user', 'true'], ['setpriv', '--reuid=0', 'true'], ['unshare', '--setuid=0', 'true']])
        assert.notEqual(fleet.exec('bare', { input: '' }, ...words).status, 0, words.join(' '));
    fs.rmSync(fleet.path('planted'));
});

test('the harness room reaches its own loopback alone', () => {
    const done = inRoom(fleet, 'harness', 'pod', ['/usr/bin/cat', '/proc/net/dev']);
    const devices = [...done.stdout.matchAll(/^\s*(\S+):/gm)].map(m => m[1]);
    assert.deepEqual(devices, ['lo']);
});
