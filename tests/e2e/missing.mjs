// A host without a program that cages need: the fleet says so in a sentence, and makes no weaker cage.
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

// The fleet's `up` runs in a mount namespace of its own, in which a program can be covered later; for everybody else it stays. What
// the engine mounts for rooms is seen everywhere: by other fleets' engine too, which would not list a container otherwise.
const top = path.resolve(path.dirname(new URL(import.meta.url).pathname), '../..');
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-cage-wrapper-'));
const wrapper = path.join(dir, 'agent-cage');
const nft = '/usr/sbin/nft';
const real = process.env.AGENT_CAGE_BINARY ?? path.join(top, 'build/agent-cage');
fs.writeFileSync(wrapper, `#!/bin/sh
[ "$1" = up ] || exec ${real} "$@"
ip netns add $$-there && ip netns del $$-there # /run/netns is a mount of its own from now on
exec unshare --mount --propagation unchanged sh -c 'mount --make-private "$(stat -c %m ${nft})" && exec "$@"' sh ${real} "$@"
`, { mode: 0o755 });
process.env.AGENT_CAGE_BINARY = wrapper;
const { Fleet, binary, names } = await import('./lib/fleet.mjs');
const { until } = await import('./lib/until.mjs');
const fleet = await Fleet.start();
after(() => fs.rmSync(dir, { recursive: true })); // behind the fleet's own end
fleet.new('there');

function containers() {
    const done = spawnSync('podman', ['ps', '-a', '--format', '{{.Names}}'], { encoding: 'utf8' });
    assert.equal(done.status, 0, done.stderr);
    return done.stdout.split('\n');
}

const accounts = prefix => fs.readFileSync('/etc/passwd', 'utf8').split('\n').filter(l => l.startsWith(`${prefix}cage`));
const sayings = done => done.stderr.trim().split('\n').filter(l => l.startsWith('agent-cage: '));

/** What `new` makes: nothing of it may be there after a refusal. */
const inventory = () => JSON.stringify([
    names(fleet.must('ls', '--json').stdout), fs.readdirSync(fleet.path('etc/agent-cage/agents')).sort(),
    fs.readdirSync(fleet.path('var/lib/agent-cage/agents')).sort(), fs.readdirSync(fleet.path('srv/agent-cage')).sort(),
    accounts(fleet.prefix).length, containers().filter(n => n.startsWith(fleet.prefix)).sort(),
]);

/** Covers a program with nothing in a mount namespace of its own: for everybody else it stays. */
function without(program, ...args) {
    const where = spawnSync('sh', ['-c', `command -v ${program}`], { encoding: 'utf8' }).stdout.trim();
    const real = fs.realpathSync(where);
    const script = `for f in ${where} ${real} /usr/sbin/${program} /sbin/${program} /usr/bin/${program} /bin/${program}; do [ -e "$f" ] && mount --bind /dev/null "$f"; done; exec "$@"`;
    return spawnSync('unshare', ['--mount', 'sh', '-c', script, 'sh', binary, ...args], { env: fleet.env, encoding: 'utf8', input: '', timeout: 120_000 });
}

for (const program of ['podman', 'nft'])
    test(`doctor without ${program} says what is missing and what mends it`, () => {
        const done = without(program, 'doctor');
        assert.notEqual(done.status, 0, done.stdout);
        assert.match(done.stdout + done.stderr, new RegExp(program));
        assert.match(done.stdout + done.stderr, /apt/);
    });

test('doctor as root notes a /dev/net/tun that ordinary users cannot open', () => {
    const node = path.join(dir, 'tun'), script = `mknod -m 600 ${node} c 10 200 && mount --bind ${node} /dev/net/tun && exec "$@"`;
    const done = spawnSync('unshare', ['--mount', 'sh', '-c', script, 'sh', binary, 'doctor', '--json'], { env: fleet.env, encoding: 'utf8', timeout: 120_000 });
    const tun = JSON.parse(done.stdout).checks.find(c => c.name === 'tun');
    assert.equal(tun.status, 'note', done.stderr);
    assert.match(tun.found, /mode 0600/);
});

test('doctor --json is an array of judgements', () => {
    const done = fleet.cage({ timeout: 120_000 }, 'doctor', '--json');
    const { checks } = JSON.parse(done.stdout);
    assert.ok(checks.length > 8);
    for (const c of checks) {
        assert.deepEqual(Object.keys(c), ['name', 'status', 'found', 'means', 'mend']);
        assert.match(c.status, /^(ok|note|lacks)$/, c.name);
    }
});

test('doctor, interrupted, leaves nothing of what it tried', async () => {
    const left = () => fs.readdirSync(fleet.path('run')).filter(n => n.startsWith('agent-cage-doctor-'));
    for (const [signal, number] of [['SIGINT', 2], ['SIGTERM', 15], ['SIGHUP', 1]]) {
        const child = fleet.spawn(['doctor'], { stdio: 'ignore' });
        const ended = once(child, 'exit');
        await until('its folder', 20_000, () => left().length > 0);
        child.kill(signal);
        assert.deepEqual(await ended, [128 + number, null]);
        assert.deepEqual(left(), []);
    }
});

test('doctor --clean finds and removes what nobody owns any more', () => {
    const stray = `${fleet.prefix}cage-gone.executor`, label = 'org.agent-cage.';
    const made = spawnSync('podman', ['create', '--name', stray, '--label', `${label}fleet=${fleet.root}`, '--label', `${label}agent=gone`,
        '--label', `${label}room=executor`, '--network', 'none', '--rootfs', '/', 'true'], { encoding: 'utf8' });
    assert.equal(made.status, 0, made.stderr);
    try {
        assert.ok(containers().includes(stray));
        const done = fleet.cage({ timeout: 120_000 }, 'doctor', '--clean');
        assert.match(done.stdout, new RegExp(`^removed +container ${stray.replace('.', '\\.')} of agent gone, which is gone$`, 'm'), done.stderr);
        assert.ok(!containers().includes(stray));
    } finally {
        spawnSync('podman', ['rm', '-f', stray]);
    }
    assert.equal(fleet.exec('there', 'echo', 'alive').stdout, 'alive\n');
});

test('a fleet without podman is none: one sentence, and nothing is made', async () => {
    const other = new Fleet({}, {});
    const done = spawnSync('unshare', ['--mount', 'sh', '-c', 'mount --bind /dev/null "$(readlink -f "$(command -v podman)")"; exec "$@"', 'sh',
        'timeout', '-s', 'TERM', '60', binary, 'up', '--demo'], { env: other.env, encoding: 'utf8', input: '' });
    assert.equal(done.status, 125, done.stderr);
    assert.equal(done.stderr, 'agent-cage: podman is not installed, and without it no cage can be made: apt install podman\n');
    assert.ok(!fs.existsSync(path.join(other.root, 'etc/agent-cage/agents/demo.conf')));
    assert.deepEqual(accounts(other.prefix), []);
    await other.stop();
});

test('NW-16 a pod whose rules do not come into force does not start, and nothing of it stays', () => {
    const fake = path.join(dir, 'nft');
    const inFleet = (...words) => spawnSync('nsenter', [`--mount=/proc/${fleet.part('warden').pid}/ns/mnt`, ...words], { encoding: 'utf8' });
    const before = inventory();
    for (const script of ['exit 1', 'cat >/dev/null']) {
        fs.writeFileSync(fake, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
        assert.equal(inFleet('mount', '--bind', fake, nft).status, 0);
        try {
            const done = fleet.cage('new', 'unruled');
            assert.equal(done.status, 125, done.stdout + done.stderr);
            assert.equal(sayings(done).length, 1, done.stderr);
            assert.match(sayings(done)[0], /network rules/);
            assert.equal(inventory(), before, script);
        } finally {
            inFleet('umount', nft);
        }
    }
    assert.equal(fleet.exec('there', 'echo', 'alive').stdout, 'alive\n');
    fleet.new('unruled'); // the same with the real nft
    assert.notEqual(inventory(), before);
});
