// What one sealed run leaves for the next, or has for another beside it: nothing. What is raced while it starts, and what it can
// use up. As root, and as an ordinary user where that is another mechanism. No packet leaves this machine.
import { after, describe, test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { top } from '../e2e/lib/fleet.mjs';
import { Sealed } from '../e2e/lib/sealed.mjs';
import { until } from '../e2e/lib/until.mjs';
import { Caged } from './lib/caged.mjs';

const cages = new Sealed();
const mutants = path.join(top, 'build/tests/break/mutants');
const quietly = result => `${result.stdout}\n${result.stderr}`;

/** A run by the product with one protection less (root alone). */
function mutated(name, ...words) {
    const { env } = cages.as('root');
    fs.writeFileSync(cages.path('mutant'), name);
    return spawnSync(mutants, words, { env, cwd: '/', encoding: 'utf8', timeout: 120_000 });
}

// Every way in which one could leave word for another: files, names of sockets, shared memory, a FIFO.
const places = ['/tmp', '/var/tmp', '/dev/shm', '/dev/mqueue', '/home/cage', '/run/lock', '/run', '/', '/etc', '/outbox'];
const leave = mark => `
import os, socket
out = []
for d in ${JSON.stringify(places)}:
    try:
        open(d + '/${mark}', 'w').write('${mark}'); out.append(d)
        os.mkfifo(d + '/${mark}-fifo')
        s = socket.socket(socket.AF_UNIX); s.bind(d + '/${mark}-socket'); s.listen(1); KEPT.append(s)
    except OSError: pass
s = socket.socket(socket.AF_UNIX); s.bind('\\0${mark}'); s.listen(1); KEPT.append(s)
s = socket.socket(); s.bind(('0.0.0.0', 8080)); s.listen(1); KEPT.append(s)
`;
const find = (mark, address) => `
import ctypes, os, socket
out = []
for d in ${JSON.stringify(places)} + ['/project']:
    for n in os.listdir(d):
        if '${mark}' in n: out.append(d + '/' + n)
    try:
        s = socket.socket(socket.AF_UNIX); s.connect(d + '/${mark}-socket'); out.append('socket in ' + d)
    except OSError: pass
try:
    s = socket.socket(socket.AF_UNIX); s.connect('\\0${mark}'); out.append('abstract')
except ConnectionRefusedError: pass
try:
    s = socket.socket(); s.settimeout(2); s.connect(('${address}', 8080)); out.append('tcp')
except OSError as e: out.append('tcp refused') if not isinstance(e, ConnectionRefusedError) else None
for p in os.listdir('/proc'):
    if p.isdigit():
        try:
            if b'${mark}' in open('/proc/' + p + '/environ', 'rb').read(): out.append('environ of ' + p)
        except OSError: pass
`;

for (const who of ['root', 'person'])
    describe(`as ${who}`, () => {
        const mark = `left${Math.random().toString(36).slice(2)}`;

        test('FS-25 IP-07 FS-24 two cages at once find nothing of each other and do not meet; nor does the next one', async () => {
            const first = await new Caged(null, cages, who, cages.project(`first-${who}`)).ready();
            const second = await new Caged(null, cages, who, cages.project(`second-${who}`)).ready();
            try {
                const left = await first.py(leave(mark));
                assert.deepEqual(left.sort(), ['/dev/mqueue', '/dev/shm', '/home/cage', '/outbox', '/run/lock', '/tmp', '/var/tmp'].filter(d => left.includes(d)));
                assert.ok(left.length >= 6, left.join(' '));
                const { said: address } = await first.ask('address');
                const own = await first.py(find(mark, '127.0.0.1')); // the control arm: the same search where it is
                for (const one of ['/tmp/', 'socket in /tmp', 'abstract', 'tcp'])
                    assert.ok(own.some(f => f.startsWith(one)), `${one} is not in ${own.join(' ')}`);
                assert.deepEqual(await second.py(find(mark, address)), []);
            } finally {
                await first.close();
                await second.close();
            }
            const next = await new Caged(null, cages, who, cages.path(`first-${who}`)).ready();
            assert.deepEqual(await next.py(find(mark, '127.0.0.1')), []);
            await next.close();
        });
    });

test('REUSE: a home that is kept from one run to the next is found', () => {
    const project = cages.project('reused');
    fs.mkdirSync(cages.path('tmp'));
    fs.mkdirSync(cages.path('tmp/kept'));
    fs.chmodSync(cages.path('tmp/kept'), 0o1777);
    const run = (...words) => mutated('REUSE', 'sealed', project, '--', ...words);
    assert.equal(run('sh', '-c', 'echo x >~/kept-word').status, 0);
    assert.match(run('ls', '/home/cage').stdout, /kept-word/);
});

// ---- the image ----

test('FS-08 a tree whose /dev leads away is refused, and nothing is made where it leads', () => {
    const [hash] = fs.readdirSync(cages.path('images')).filter(n => fs.existsSync(cages.path('images', n, 'root/usr/bin/bash')));
    const conf = cages.path('etc/agent-cage/agent-cage.conf'), was = fs.readFileSync(conf, 'utf8');
    const root = cages.path('own-images', hash, 'root'), marker = cages.path('marker');
    for (const dir of ['dev', 'proc', 'sys', 'etc', 'run/lock', 'run/secrets', 'tmp', 'var/tmp', 'home/cage', 'project', 'outbox', 'scratch', 'cage/shim', 'cage/harness', 'bin'])
        fs.mkdirSync(path.join(root, dir), { recursive: true });
    for (const file of ['cage/agent-cage', 'run/.containerenv', 'etc/hosts', 'etc/hostname', 'etc/resolv.conf', 'etc/passwd', 'etc/group'])
        fs.writeFileSync(path.join(root, file), '');
    fs.symlinkSync('/proc/mounts', path.join(root, 'etc/mtab'));
    fs.mkdirSync(marker);
    fs.chmodSync(marker, 0o777);
    fs.writeFileSync(conf, was.replace(/image_dir = .*/, `image_dir = ${cages.path('own-images')}`));
    try {
        const project = cages.project('imaged');
        const version = () => cages.run('root', project, '/cage/agent-cage', '--version');
        assert.match(quietly(version()), /^agent-cage \d/m); // with a folder /dev it is a tree that runs
        fs.rmdirSync(path.join(root, 'dev'));
        fs.symlinkSync(marker, path.join(root, 'dev'));
        const refusal = /root\/dev is not a folder that is root's alone/;
        for (const who of ['root', 'person']) {
            const done = cages.run(who, project, 'true');
            assert.equal(done.status, 125, quietly(done));
            assert.match(done.stderr, refusal);
            assert.deepEqual(fs.readdirSync(marker), []);
        }
        // IMG-DEV: nobody looks before the engine does. One that is mended refuses by itself; others make devices out there.
        const blind = mutated('IMG-DEV', 'sealed', project, '--', '/cage/agent-cage', '--version');
        assert.doesNotMatch(blind.stderr, refusal); // ours is away
        assert.ok(fs.readdirSync(marker).length > 0 || (blind.status !== 0 && /crun|runc|OCI|podman/.test(blind.stderr)), quietly(blind));
    } finally {
        fs.writeFileSync(conf, was);
    }
});

// ---- the path ----

/** Turns `${name}` between a folder and a link to the marker tree, for as long as it runs. */
const flipper = `
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
a, b = sys.argv[1].encode(), sys.argv[2].encode()
print('ready', flush=True)
while True:
    libc.syscall(316, -100, a, -100, b, 2)
    time.sleep(0.00003)
`;

test('FS-19 a project that turns into a link while runs start: it is the folder, or refused, and never what the link leads to', async () => {
    const project = cages.project('flipped', { id: 'mine' });
    const secret = cages.project('secret', { id: 'secret' });
    const other = cages.path('flipped-other');
    fs.symlinkSync(secret, other);
    const child = spawn('python3', ['-c', flipper, project, other], { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
        await until('the flipping', 10_000, () => new Promise(resolve => child.stdout.once('data', () => resolve(true))));
        // Tens of thousands of starts without an engine: the same checks, the same pin, the same clone; and the careless arm beside.
        const race = spawnSync(path.join(top, 'build/tests/break/race'), [project, process.env.RACE ?? '3000'], { encoding: 'utf8' });
        assert.equal(race.status, 0, race.stderr);
        const said = JSON.parse(race.stdout);
        assert.equal(said.astray, 0, race.stdout);
        assert.ok(said.mine >= 1000 && said.refused >= 1000 && said.mine + said.refused >= 10_000, `not judged: ${race.stdout}`);
        assert.ok(said.careless > 0, `not judged: the careless arm was never led astray: ${race.stdout}`);
        // And whole starts.
        const seen = { mine: 0, refused: 0 };
        for (let i = 0; i < Number(process.env.RACE_STARTS ?? 5); i++) {
            const done = cages.run('root', project, 'cat', '/project/id');
            seen[done.status === 0 ? done.stdout : done.status === 126 || done.status === 127 ? 'refused' : quietly(done)]++;
        }
        assert.deepEqual(Object.keys(seen), ['mine', 'refused'], JSON.stringify(seen));
        // PIN-OFF: the path is used again after the checks.
        let astray = false;
        for (let i = 0; i < 40 && !astray; i++)
            astray = mutated('PIN-OFF', 'sealed', project, '--', 'cat', '/project/id').stdout === 'secret';
        assert.ok(astray, 'survived: PIN-OFF never showed what the link leads to');
    } finally {
        child.kill('SIGKILL');
    }
});

// ---- what a run can use up ----

// Circles that nobody holds any more, which the kernel has to find; then as many as may be under way, held until the run's end.
const circles = `
import array, socket, time
def circle():
    a, b = socket.socketpair() # what goes into a waits at b, which so holds itself
    a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [a.fileno(), b.fileno()]))])
    return b
dropped = 0
for i in range(100000):
    try: circle(); dropped += 1
    except OSError: pass
held, end = [], time.monotonic() + 10
while len(held) < 7000 and time.monotonic() < end:
    try: held.append(circle())
    except OSError: time.sleep(0.001) # the kernel is still at the others
print(dropped, len(held), open('/proc/sys/fs/file-nr').read().split()[0])
`;

test('IP-15 sockets sent over each other in circles are gone with the run', async () => {
    const open = () => Number(fs.readFileSync('/proc/sys/fs/file-nr', 'utf8').split('\t')[0]);
    const before = open();
    const done = cages.run('root', cages.project('circles'), 'python3', '-c', circles);
    const [dropped, held, during] = done.stdout.split(' ').map(Number);
    assert.ok(dropped > 1000 && held > 3000, quietly(done));
    // The control arm: the count shows them while they are there.
    assert.ok(during > before + held, `${during} open with ${held} circles, ${before} before`);
    await until('the descriptors to go', 10_000, () => open() < before + held / 2);
});

for (const who of ['root', 'person'])
    test(`RX-07 inotify: as ${who} a cage that has taken all it may leaves another its share`, async () => {
        const take = 'import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\nn = 0\nwhile libc.inotify_init1(0o2000000) >= 0: n += 1\nout = [n, ctypes.get_errno()]';
        const one = 'import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\nout = libc.inotify_init1(0) >= 0';
        const greedy = await new Caged(null, cages, who, cages.project(`greedy-${who}`)).ready();
        const quiet = await new Caged(null, cages, who, cages.project(`quiet-${who}`)).ready();
        try {
            const [n, error] = await greedy.py(take);
            assert.equal(error, 24, `EMFILE after ${n}`);
            // The control arm: another process of the same uid has none left.
            assert.equal(await greedy.py(`import subprocess, sys\nout = subprocess.run([sys.executable, '-c', '''${one}\nprint(out)'''], capture_output=True, text=True).stdout.strip()`), 'False');
            assert.equal(await quiet.py(one), true);
        } finally {
            await greedy.close();
            await quiet.close();
        }
    });

describe('RX-04 a run that fills the disk', () => {
    const disk = cages.path('disk'), image = cages.path('disk.img'), conf = cages.path('etc/agent-cage/agent-cage.conf');
    const was = fs.readFileSync(conf, 'utf8');
    const must = (...words) => assert.equal(spawnSync(words[0], words.slice(1)).status, 0, words.join(' '));
    fs.mkdirSync(disk);
    must('truncate', '-s', '400M', image);
    must('mkfs.ext4', '-q', '-m', '0', '-N', '20000', image);
    must('mount', '-o', 'loop', image, disk);
    after(() => {
        fs.writeFileSync(conf, was);
        spawnSync('umount', [disk]);
    });
    const project = path.join(disk, 'project');
    fs.mkdirSync(project);
    must('chown', `${cages.person}:`, project);
    const free = () => Number(spawnSync('df', ['--output=avail', '-m', disk], { encoding: 'utf8' }).stdout.split('\n')[1]);
    const reserve = text => fs.writeFileSync(conf, `${was}disk_reserve = ${text}\n`);
    const fill = 'for i in $(seq 380); do head -c 1M /dev/zero >>/project/fill || exit 9; sleep 0.03; done';
    const leave = mib => must('fallocate', '-l', `${free() - mib}M`, path.join(disk, 'before'));

    for (const who of ['root', 'person'])
        test(`as ${who}: it ends while the reserve is still there, and says so`, () => {
            reserve('1g');
            const none = cages.run(who, project, 'true');
            assert.equal(none.status, 125, quietly(none));
            assert.match(none.stderr, /MiB are free.*disk_reserve/);
            reserve('128m');
            leave(150);
            const full = cages.sh(who, project, fill);
            assert.equal(full.status, 125, quietly(full));
            assert.match(full.stderr, /MiB are free.*must stay free/);
            assert.ok(free() > 16, `${free()} MiB were left`);
            fs.rmSync(path.join(project, 'fill'));
            fs.rmSync(path.join(disk, 'before'));
        });

    test('files: it ends before no more can be made', () => {
        const files = path.join(disk, 'files');
        fs.mkdirSync(files);
        for (let i = 0; i < 19_600; i++)
            fs.writeFileSync(path.join(files, String(i)), '');
        const many = cages.sh('root', project, 'i=0; while :; do i=$((i+1)); : >/project/f$i || exit 9; [ $((i % 4)) != 0 ] || sleep 0.02; done');
        assert.equal(many.status, 125, quietly(many));
        assert.match(many.stderr, /files can be made/);
        for (const dir of [files, project])
            spawnSync('find', [dir, '-type', 'f', '-delete']);
    });

    test('without a reserve it goes on until nothing is left', () => {
        reserve('0');
        leave(20);
        const full = cages.sh('root', project, 'head -c 50M /dev/zero >/project/fill || exit 9');
        assert.equal(full.status, 9, quietly(full));
        assert.ok(free() < 8, `${free()} MiB were left`);
    });
});
