// A command is exact: argv, descriptors, status, folder; by `exec` and through the shim of the harness room.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { randomBytes } from 'node:crypto';
import { Fleet, binary } from './lib/fleet.mjs';
import { inRoom } from './lib/room.mjs';
import { ended } from './lib/until.mjs';
import * as proc from './lib/proc.mjs';

const fleet = await Fleet.start();
fleet.new('pod');
fleet.new('bare', '--mode', 'bare');

/** The two ways to a command: by the operator's `exec`, and by the harness's shell, which is the shim. */
const ways = [
    ['exec in a pod', (command, opts = {}) => fleet.exec('pod', opts, ...command)],
    ['exec in bare', (command, opts = {}) => fleet.exec('bare', opts, ...command)],
    ['the shim in a pod', (command, opts = {}) => inRoom(fleet, 'harness', 'pod', ['/bin/bash', '-c', 'exec "$@"', 'bash', ...command], opts)],
    ['the shim in bare', (command, opts = {}) => inRoom(fleet, 'harness', 'bare', ['/bin/bash', '-c', 'exec "$@"', 'bash', ...command], opts)],
];

for (const [way, run] of ways) {
    test(`${way}: argv comes through byte for byte`, () => {
        const words = ['', ' ', 'a b', 'new\nline', 'tab\t', '"', "'", '\\', '$HOME', '`id`', '*', '--', '-n', 'é—漢', '\u2028', '\u0001\u001b[31m'];
        const done = run(['/usr/bin/printf', '%s\\0', ...words]);
        assert.equal(done.status, 0, done.stderr);
        assert.deepEqual(done.stdout.split('\0').slice(0, -1), words);
    });

    // The kernel's own bounds: 128 KiB an argument; a quarter of the stack's limit (2 MiB of 8) for all, with the variables.
    test(`${way}: an argument of 128 KiB, and 2 MiB of arguments but for the last 8 KiB, which variables need too`, () => {
        const longest = 'x'.repeat(131071);
        assert.equal(run(['/usr/bin/printf', '%s', longest]).stdout, longest);
        const many = [...Array.from({ length: 15 }, (_, i) => String.fromCharCode(97 + i).repeat(131000)), 'z'.repeat(2 ** 21 - 8192 - 15 * 131000)];
        const done = run(['/bin/sh', '-c', 'echo $#; printf %s "$@" | wc -c', 'sh', ...many]);
        assert.equal(done.stdout, `16\n${2 ** 21 - 8192}\n`, done.stderr.slice(0, 500));
    });

    test(`${way}: standard input, output and error are apart and binary`, () => {
        const bytes = randomBytes(1 << 20);
        const done = run(['/bin/sh', '-c', 'cat; printf error >&2'], { input: bytes, raw: true });
        assert.ok(bytes.equals(done.stdout), 'a megabyte of random bytes came back changed');
        assert.equal(done.stderr.toString(), 'error');
    });

    test(`${way}: the status is the command's own`, () => {
        for (const status of [0, 1, 2, 42, 124, 125, 126, 127, 128, 255])
            assert.equal(run(['/bin/sh', '-c', `exit ${status}`]).status, status);
        for (const [name, number] of [['TERM', 15], ['KILL', 9], ['SEGV', 11], ['PIPE', 13]]) {
            const done = run(['/bin/sh', '-c', `kill -${name} $$`]);
            assert.ok(done.status === 128 + number || done.signal === `SIG${name}`, `${name}: ${done.status} ${done.signal}`);
        }
    });

    test(`${way}: what cannot be run is said in one sentence`, () => {
        const absent = run(['/no/such/program']);
        assert.equal(absent.status, 127);
        assert.match(absent.stderr.trim(), /no such|not found/i);
        assert.equal(absent.stderr.trim().split('\n').length, 1);
        const folder = run(['/usr']);
        assert.equal(folder.status, 126);
    });

    test(`${way}: standard input ends when its writer does, and a command need not read it`, () => {
        assert.equal(run(['/bin/cat']).stdout, '');
        assert.equal(run(['/bin/sh', '-c', 'read x; echo "[$x]"']).stdout, '[]\n');
        assert.equal(run(['/bin/true'], { input: 'x'.repeat(1 << 20) }).status, 0);
    });

    test(`${way}: a background process does not hold the answer up`, () => {
        const start = Date.now();
        const done = run(['/bin/sh', '-c', 'sleep 60 >/dev/null 2>&1 & echo done']);
        assert.equal(done.stdout, 'done\n');
        assert.ok(Date.now() - start < 10_000);
    });

    test(`${way}: time zone, locale, shared memory are usable`, () => {
        assert.equal(run(['/bin/sh', '-c', 'TZ=Asia/Tokyo date +%z']).stdout, '+0900\n');
        assert.equal(run(['/usr/bin/python3', '-c', 'print("é—漢")']).stdout, 'é—漢\n');
        const df = run(['/bin/sh', '-c', 'df --output=size -k /dev/shm | tail -1']);
        assert.ok(Number(df.stdout) >= 256 * 1024, df.stdout);
    });
}

test('arguments that are not UTF-8 come through', () => {
    const script = `exec "${binary}" exec "$1" -- /usr/bin/printf '%s\\0' $'\\xff\\xfe\\xed\\xa0\\x80' $'a\\xc3'`;
    for (const agent of ['pod', 'bare']) {
        const done = spawnSync('bash', ['-c', script, 'bash', agent], { env: { ...fleet.env, LC_ALL: 'C' }, input: '' });
        assert.equal(done.stdout.toString('latin1'), '\xff\xfe\xed\xa0\x80\0a\xc3\0', done.stderr.toString());
    }
});

test('arguments that are not UTF-8 come through the shim', () => {
    const script = 'import os; os.execv("/bin/bash", [b"/bin/bash", b"-c", b"exec \\"$@\\"", b"bash", b"/usr/bin/printf", b"%s\\\\0", b"\\xff\\xfe\\xed\\xa0\\x80", b"a\\xc3"])';
    for (const agent of ['pod', 'bare']) {
        const done = inRoom(fleet, 'harness', agent, ['/usr/bin/python3', '-c', script], { raw: true });
        assert.equal(done.stdout.toString('latin1'), '\xff\xfe\xed\xa0\x80\0a\xc3\0', done.stderr.toString());
    }
});

test('files and folders whose names are not UTF-8: made, seen from both sides, named in a command, worked in', () => {
    const name = Buffer.from('caf\xe9 \xff\xed\xa0\x80', 'latin1');
    const script = `exec "${binary}" exec "$1" -- /bin/cat $'caf\\xe9 \\xff\\xed\\xa0\\x80/in'`;
    const inside = 'import os; os.chdir(b"caf\\xe9 \\xff\\xed\\xa0\\x80"); os.execv("/bin/bash", [b"/bin/bash", b"-c", b"pwd | od -An -tx1 | tr -d \' \\n\'; cat in"])';
    for (const agent of ['pod', 'bare']) {
        assert.equal(fleet.sh(agent, "mkdir $'caf\\xe9 \\xff\\xed\\xa0\\x80' && cd caf* && echo within >in").status, 0);
        const project = fleet.status(agent).project;
        assert.ok(fs.readdirSync(project, { encoding: 'buffer' }).some(n => n.equals(name)), agent);
        const read = spawnSync('bash', ['-c', script, 'bash', agent], { env: { ...fleet.env, LC_ALL: 'C' }, input: '', encoding: 'utf8' });
        assert.equal(read.stdout, 'within\n', read.stderr);
        const place = agent === 'pod' ? '/project' : fleet.path('run/agent-cage/mnt/bare/project');
        const worked = inRoom(fleet, 'harness', agent, ['/usr/bin/python3', '-c', `import os; os.chdir("${place}"); ${inside}`]);
        assert.match(worked.stdout, new RegExp(`2f${name.toString('hex')}0awithin\n$`), worked.stderr);
        const row = fleet.must('log', agent).stdout.split('\n').find(l => l.includes('/bin/cat') && l.includes('caf')) ?? '';
        assert.match(row, /\$'caf\\351 \\377\\355\\240\\200\/in'/);
    }
});

test('more arguments than a message holds are refused with a sentence', () => {
    const script = `ulimit -s unlimited; exec "${binary}" exec pod -- /bin/echo $(printf 'x%.0s' $(seq 1 66000) | sed 's/./& /g')`;
    const done = spawnSync('bash', ['-c', script], { env: fleet.env, input: '', encoding: 'utf8' });
    assert.notEqual(done.status, 0);
    assert.equal(done.stderr.trim().split('\n').length, 1, done.stderr);
    assert.equal(fleet.exec('pod', 'echo', 'alive').stdout, 'alive\n');
});

test('the operator\'s variables and the caller\'s folder stay outside', () => {
    const done = fleet.exec('pod', { env: { SECRET: 'x', LD_PRELOAD: '/tmp/x.so', BASH_ENV: '/tmp/y' }, cwd: '/tmp' }, 'sh', '-c', 'env; pwd');
    assert.doesNotMatch(done.stdout, /SECRET|LD_PRELOAD|BASH_ENV|AGENT_CAGE_ROOT/);
    assert.match(done.stdout, /^\/project$/m);
});

test('the shim keeps the harness\'s folder, and says so when it has vanished', () => {
    const made = fleet.sh('pod', 'mkdir -p /project/deep/er');
    assert.equal(made.status, 0);
    assert.equal(inRoom(fleet, 'harness', 'pod', ['/bin/bash', '-c', 'pwd'], { helper: ['-d', '/project/deep/er'] }).stdout, '/project/deep/er\n');
    const gone = inRoom(fleet, 'harness', 'pod', ['/bin/bash', '-c', 'echo ran'], { helper: ['-d', '/project/deep/er', '-r'] });
    assert.equal(gone.status, 126, gone.stdout);
    assert.match(gone.stderr, /the working directory is gone/);
    assert.equal(gone.stdout, '');
});

test('the shim stands for every shell and git', () => {
    for (const shell of ['/bin/sh', '/bin/bash', '/bin/dash', '/usr/bin/bash', '/usr/bin/sh']) {
        const done = inRoom(fleet, 'harness', 'pod', [shell, '-c', 'id -u; echo $0']);
        assert.match(done.stdout, /^60000\n/, `${shell}: ${done.stdout}${done.stderr}`);
    }
    assert.match(inRoom(fleet, 'harness', 'pod', ['/usr/bin/git', '--version']).stdout, /^git version/);
});

test('git works in a project: init, commit, worktree, status', () => {
    const script = 'cd /project && git init -q repo && cd repo && git config user.email a@example.org && git config user.name a && ' +
        'echo 1 >f && git add f && git commit -qm one && git worktree add -q ../wt && cd ../wt && git status --porcelain && git log --oneline | wc -l';
    const done = fleet.sh('pod', script);
    assert.equal(done.status, 0, done.stderr);
    assert.equal(done.stdout.trim(), '1');
});

test('64 commands at once, each with its own output', async () => {
    const all = Array.from({ length: 64 }, (_, i) => {
        const child = fleet.spawn(['exec', 'pod', '--', 'bash', '-c', 'read x; echo "$1 $x"; exit $1', 'bash', String(i)]);
        child.stdin.end(`line ${i}\n`);
        return ended(child, 120_000);
    });
    for (const [i, done] of (await Promise.all(all)).entries()) {
        assert.equal(done.stdout, `${i} line ${i}\n`, done.stderr);
        assert.equal(done.status, i);
    }
});

test('10,000 commands in a row leave no process and no descriptor', () => {
    const parts = ['relay', 'manager', 'agent', 'executor', 'harness'].map(p => fleet.part(p, ['relay', 'manager'].includes(p) ? '' : 'pod'));
    inRoom(fleet, 'harness', 'pod', ['/bin/bash', '-c', 'true']);
    const before = parts.map(p => proc.fds(p.pid).length);
    const processes = proc.processesOf([[fleet.uidBase('pod'), fleet.uidBase('pod') + 65536]]).length;
    const done = inRoom(fleet, 'harness', 'pod', ['/bin/bash', '-c', 'true'], { helper: ['-n', '10000'], timeout: 300_000 });
    const result = JSON.parse(done.stdout);
    assert.deepEqual(result.ended, { 'exit 0': 10000 });
    for (const [i, part] of parts.entries())
        assert.ok(proc.fds(part.pid).length <= before[i], `${part.part}: ${before[i]} descriptors before, ${proc.fds(part.pid).length} after`);
    assert.ok(proc.processesOf([[fleet.uidBase('pod'), fleet.uidBase('pod') + 65536]]).length <= processes);
});

test('1,000 commands by exec leave no process, no descriptor and no memory in any part on the way', () => {
    fleet.exec('pod', 'true');
    const parts = ['warden', 'relay', 'manager', 'agent', 'executor'].map(p => fleet.part(p, ['agent', 'executor'].includes(p) ? 'pod' : ''));
    const processes = () => proc.processesOf([[fleet.uidBase('pod'), fleet.uidBase('pod') + 65536]]).length;
    const before = parts.map(p => ({ fds: proc.fds(p.pid).length, kib: proc.rssKiB(p.pid) })), were = processes();
    for (let i = 0; i < 1000; i++)
        assert.equal(fleet.exec('pod', 'true').status, 0);
    for (const [i, part] of parts.entries()) {
        assert.ok(proc.fds(part.pid).length <= before[i].fds, `${part.part}: ${before[i].fds} descriptors before, ${proc.fds(part.pid).length} after`);
        assert.ok(proc.rssKiB(part.pid) <= before[i].kib + 8192, `${part.part}: ${before[i].kib} KiB before, ${proc.rssKiB(part.pid)} after`);
    }
    assert.ok(processes() <= were);
});

test('64 at once through the shim, 2,000 in all', () => {
    const done = inRoom(fleet, 'harness', 'pod', ['/bin/bash', '-c', 'true'], { helper: ['-n', '2000', '-j', '64'], timeout: 300_000 });
    assert.deepEqual(JSON.parse(done.stdout).ended, { 'exit 0': 2000 });
});

test('1,000 short children leave no zombie', () => {
    const done = fleet.sh('pod', 'for i in $(seq 1000); do (true &) ; done; grep -l "^State:.Z" /proc/[0-9]*/status 2>/dev/null | wc -l');
    assert.ok(Number(done.stdout) < 5, done.stdout);
});

test('a terminal is given as a pty, with its size', () => {
    const done = spawnSync('script', ['-qec', `stty rows 33 cols 77; "${binary}" exec pod -- sh -c 'test -t 0 && test -t 1 && echo terminal; stty size'`, '/dev/null'],
        { env: { ...fleet.env, TERM: 'xterm' }, encoding: 'utf8', timeout: 60_000 });
    assert.match(done.stdout, /terminal[\s^@]+33 77/);
});

test('what each command was is in the audit log, and the chain holds', () => {
    const mark = `mark ${Math.random()}`;
    fleet.exec('pod', 'sh', '-c', 'exit 7', mark);
    const rows = fleet.must('log', 'pod', '--json').stdout.trim().split('\n').flatMap(l => JSON.parse(l));
    const row = rows.find(r => JSON.stringify(r.argv).includes(mark));
    assert.ok(row, 'the command is not in the log');
    assert.deepEqual(row.argv, ['sh', '-c', 'exit 7', mark]);
    assert.equal(row.status, 7);
    assert.equal(row.cwd, '/project');
    assert.equal(fleet.cage('log', 'pod', '--verify').status, 0);
});
