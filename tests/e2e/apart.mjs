// In a sealed agent the harness's program and a command cannot meet at a socket with a name; in a pod, the control arm, they do, and
// a descriptor passes. A double stands in for Claude Code (lib/meet.py), which is the command of the other room too.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { Fleet, top } from './lib/fleet.mjs';

const OWNER = 61234, GATE = '10.88.0.1';
const TOKEN = `sk-ant-oat01-${'planted'.repeat(13)}-Zz_9`;
const double = path.join(top, 'tests/e2e/lib/meet.py');

const fleet = await Fleet.start({ conf: fleet => {
    const harness_dir = fleet.path('programs');
    for (const [, name, version] of fs.readFileSync(path.join(top, 'src/warden/programs.def'), 'utf8')
        .matchAll(/^PROGRAM\("(claude)", "\w+", "[^"]+", "([^"]+)"/gm)) {
        const dir = path.join(harness_dir, `${name}-${version}`);
        fs.mkdirSync(dir, { recursive: true });
        fs.copyFileSync(double, path.join(dir, name));
        fs.chmodSync(path.join(dir, name), 0o755);
    }
    return { harness_dir };
} });

for (const [name, mode] of [['sealed', 'sealed'], ['plain', 'pod']]) {
    const dir = fleet.path(`${name}-project`);
    fs.mkdirSync(dir);
    fs.copyFileSync(double, path.join(dir, 'meet.py'));
    for (const file of ['', 'meet.py'])
        fs.chownSync(path.join(dir, file), OWNER, OWNER);
    fleet.new(name, '--mode', mode, '--harness', 'claude', '--project', dir, '--upstream', `anthropic+http://${GATE}:9`);
}
fleet.must({ input: TOKEN }, 'auth', '--sealed', '--token-file', '-');
fleet.must({ input: TOKEN }, 'auth', 'plain', '--token-file', '-');

const command = (name, ...words) => fleet.exec(name, 'python3', '/project/meet.py', ...words);
/** The same in the harness room: what its program answered. */
const program = (name, ...words) => fleet.must({ timeout: 90_000 }, 'send', name, words.join(' '), '--wait');
const rooms = { command, program };

/** The attempts of a kind, and how each ended. */
const ends = text => Object.fromEntries([...text.matchAll(/^([a-z]+(?: \/[\w/]+)?): ([A-Z]+)$/gm)].map(m => [m[1], m[2]]));
const OWN = ['/tmp', '/home/cage', '/dev/shm'];
const expected = made => Object.fromEntries([...['stream', 'dgram', 'seqpacket', 'mknod', 'proc'].map(w => [w, made]),
    ...OWN.flatMap(d => [...['rename', 'link', 'folder'].map(w => [`${w} ${d}`, 'EXDEV']), [`own ${d}`, 'OK']])]);

for (const [room, run] of Object.entries(rooms))
    for (const folder of ['/project', '/scratch'])
        test(`a ${room} makes no socket in ${folder} of a sealed agent, by no way; files go where they went`, () => {
            assert.deepEqual(ends(run('sealed', 'tries', folder).stdout), expected('EACCES'));
            assert.deepEqual(ends(run('plain', 'tries', folder).stdout), expected('OK'), 'the control arm');
            assert.match(run('sealed', 'plain', folder).stdout, /^OK$/m);
        });

test('the control arm: in a pod the two meet, each way, and a descriptor passes', async () => {
    const start = (...words) => {
        const child = fleet.spawn(words, { stdio: ['ignore', 'pipe', 'inherit'] });
        let text = '';
        child.stdout.on('data', d => { text += d; });
        return new Promise(resolve => child.on('close', () => resolve(text)));
    };
    for (const folder of ['/project', '/scratch']) {
        const there = `${folder}/meeting`, back = `${folder}/back`;
        const waits = start('exec', 'plain', '--', 'python3', '/project/meet.py', 'wait', there);
        assert.match(program('plain', 'meet', there).stdout, /passed by 60000/);
        assert.match(await waits, /handed over/);
        const meets = start('exec', 'plain', '--', 'python3', '/project/meet.py', 'meet', back);
        assert.match(program('plain', 'wait', back).stdout, /handed over/);
        assert.match(await meets, /passed by 55000/);
    }
});

test('programs that make sockets find a folder that takes them; git and a package work', () => {
    const done = fleet.exec('sealed', 'bash', '-c', 'echo $TMPDIR; python3 -c "import multiprocessing.managers as m; x=m.SyncManager(); x.start(); print(x.list([7])[0])"' +
        ' && mkdir r && cd r && git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git gc -q && git status -s' +
        ' && mkdir node_modules && mkdir -p .p/a && echo x >.p/a/f && mv .p/a node_modules/a && cat node_modules/a/f && cd .. && rm -r r');
    assert.equal(done.status, 0, done.stderr);
    assert.equal(done.stdout, '/home/cage/.tmp\n7\nx\n');
    assert.equal(fleet.exec('plain', 'bash', '-c', 'echo $TMPDIR').stdout, '/scratch\n');
});
