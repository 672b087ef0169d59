// Every figure is a ratio of two things measured side by side in one run, in turns, so that a busy machine slows both.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { Fleet, binary, top } from '../e2e/lib/fleet.mjs';
import { container, inRoom } from '../e2e/lib/room.mjs';
import * as proc from '../e2e/lib/proc.mjs';
import { until } from '../e2e/lib/until.mjs';
import { conf, conversation } from './conversation.mjs';
import { conf as frontsConf, fronts } from './fronts.mjs';
import { certificates, gateway } from './gateway.mjs';

const spawnHelper = path.join(top, 'build/tests/bench/help-spawn');
const raw = {}, table = [];
const progress = text => process.stderr.write(`bench: ${text}\n`);

const sorted = list => [...list].sort((a, b) => a - b);
const p50 = list => sorted(list)[Math.floor(list.length / 2)];

function row(name, text, ratio, goal, meets) {
    table.push([name, text, typeof ratio === 'number' ? ratio.toFixed(2) : ratio, goal, meets === null ? '' : meets ? 'yes' : 'no']);
}

/** The environment that a command gets in a cage: bash reads its locale at each start, here and there. */
const commandEnv = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root', LANG: 'C.UTF-8' };

/** What a step printed; one that failed has no figure. */
function good(what, done) {
    if (done.status !== 0)
        throw new Error(`${what}: exit ${done.status ?? done.signal}: ${done.error?.message ?? ''}${done.stderr ?? ''}`);
    return done.stdout;
}

/** Microseconds of each start, out of what the helper printed; each must have ended well. */
function startsUs(what, done) {
    const { times, ended, us } = JSON.parse(good(what, done));
    if (ended['exit 0'] !== times)
        throw new Error(`${what}: ended ${JSON.stringify(ended)}`);
    return us;
}

/** Microseconds of each of `n` starts, as the helper counts them. Standard input is no socket: with one, bash reads ~/.bashrc. */
const times = (n, command, env = commandEnv) => startsUs(command.join(' '),
    spawnSync(spawnHelper, ['-n', String(n), '--', ...command], { encoding: 'utf8', maxBuffer: 1 << 28, env, stdio: ['ignore', 'pipe', 'pipe'] }));

const shimTimes = (fleet, n) => startsUs('the shim', inRoom(fleet, 'harness', 'pod', ['/bin/bash', '-c', 'true'], { helper: ['-n', String(n)] }));

function seconds(script, env = {}) {
    const start = process.hrtime.bigint();
    const done = spawnSync('bash', ['-o', 'pipefail', '-c', script], { env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'inherit'] });
    good(script, done);
    return Number(process.hrtime.bigint() - start) / 1e9;
}

function workbenchTree() {
    const dir = path.join(top, 'build/images');
    return fs.readdirSync(dir).map(n => path.join(dir, n, 'root')).find(p => fs.existsSync(path.join(p, 'usr/bin/bash')));
}

/** A word of the engine about the pod's executor. */
const inspect = (fleet, format) => good('podman inspect', spawnSync('podman', ['inspect', '--format', format, container(fleet, 'executor', 'pod')], { encoding: 'utf8' })).trim();

function commands(fleet) {
    progress('a command: host, shim, bwrap, podman exec, in turns');
    const host = [], shim = [], bwrap = [], engine = [];
    // The runtime wants the room's root, whose mount the product takes away after the start, to be a folder.
    const root = inspect(fleet, '{{.Rootfs}}');
    fs.mkdirSync(root, { recursive: true });
    for (let turn = 0; turn < 8; turn++) {
        host.push(...times(250, ['/bin/bash', '-c', 'true']));
        shim.push(...shimTimes(fleet, 250));
        bwrap.push(...times(25, ['/usr/bin/bwrap', '--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc', '--unshare-all', '/bin/bash', '-c', 'true']));
        engine.push(...times(4, ['/usr/bin/podman', 'exec', container(fleet, 'executor', 'pod'), '/bin/bash', '-c', 'true']));
    }
    fs.rmdirSync(root);
    Object.assign(raw, { host_us: host, shim_us: shim, bwrap_us: bwrap, podman_exec_us: engine });
    const say = list => `${(p50(list) / 1000).toFixed(2)} ms`;
    const ratio = p50(shim) / p50(host), engineRatio = p50(engine) / p50(shim);
    row('shim/host', `${say(shim)} against ${say(host)}`, ratio, '≤ 1.6', ratio <= 1.6);
    row('shim/bwrap', `${say(shim)} against ${say(bwrap)}`, p50(shim) / p50(bwrap), '', null);
    row('podman-exec/shim', `${say(engine)} against ${say(shim)}`, engineRatio, '≥ 60', engineRatio >= 60);
}

function output(fleet) {
    progress('output: passed and copied, against a plain pipe');
    const env = fleet.env, passed = [], plain = [], copied = [], file = [];
    for (let turn = 0; turn < 3; turn++) {
        plain.push(seconds('head -c 4G /dev/zero | cat >/dev/null'));
        passed.push(seconds(`"${binary}" exec pod -- head -c 4G /dev/zero | cat >/dev/null`, env));
        file.push(seconds('head -c 1G /dev/zero | cat >/dev/shm/agent-cage-bench'));
        copied.push(seconds(`"${binary}" exec pod -- head -c 1G /dev/zero >/dev/shm/agent-cage-bench`, env));
    }
    fs.rmSync('/dev/shm/agent-cage-bench', { force: true });
    Object.assign(raw, { plain_s: plain, passed_s: passed, file_s: file, copied_s: copied });
    const rate = (bytes, list) => `${(bytes / p50(list)).toFixed(1)} GiB/s`;
    row('passed/pipe', `${rate(4, passed)} against ${rate(4, plain)}`, p50(plain) / p50(passed), '≥ 0.95', p50(plain) / p50(passed) >= 0.95);
    row('copied/pipe', `${rate(1, copied)} against ${rate(1, file)}`, p50(file) / p50(copied), '≥ 0.35', p50(file) / p50(copied) >= 0.35);
}

function starts(fleet) {
    progress('a pod\'s start, against one podman run of the same tree');
    const tree = workbenchTree();
    const runtime = inspect(fleet, '{{.OCIRuntime}}');
    const engine = [], pod = [];
    for (let turn = 0; turn < 6; turn++) {
        engine.push(seconds(`podman --runtime ${runtime} run --rm --network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --read-only --rootfs ${tree} /bin/true`));
        fleet.must('stop', 'pod');
        pod.push(seconds(`"${binary}" start pod >/dev/null && "${binary}" exec pod -- true`, fleet.env));
    }
    Object.assign(raw, { podman_run_s: engine, pod_start_s: pod });
    row('pod start/podman run', `${p50(pod).toFixed(2)} s against ${p50(engine).toFixed(2)} s`, p50(pod) / p50(engine), '≤ 3', p50(pod) / p50(engine) <= 3);
}

/** Seconds from the start of `words` until the first instruction of its command, `date +%s%N`, and until the end of it all. */
function firstAndWhole(words, env = {}) {
    const start = BigInt(Date.now()) * 1_000_000n;
    const done = spawnSync(words[0], words.slice(1), { env: { ...process.env, ...env }, encoding: 'utf8' });
    const end = BigInt(Date.now()) * 1_000_000n;
    return [Number(BigInt(good(words.join(' '), done).trim()) - start) / 1e9, Number(end - start) / 1e9];
}

function sealed(fleet) {
    progress('a sealed run, against one podman run of the same tree and against bwrap');
    const tree = workbenchTree();
    const runtime = inspect(fleet, '{{.OCIRuntime}}');
    const dir = fleet.path('sealed-project');
    fs.mkdirSync(dir);
    fs.chownSync(dir, 65534, 65534);
    const engine = [], run = [], bwrap = [], date = ['date', '+%s%N'];
    for (let turn = 0; turn < 7; turn++) {
        engine.push(firstAndWhole(['podman', '--runtime', runtime, 'run', '--rm', '--network', 'bridge', '--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=1024:1024', '--read-only', '--rootfs', tree, ...date]));
        run.push(firstAndWhole([binary, 'sealed', dir, '--', ...date], fleet.env));
        bwrap.push(firstAndWhole(['bwrap', '--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc', '--unshare-all', ...date]));
    }
    Object.assign(raw, { sealed_s: run, podman_run_bridge_s: engine, bwrap_s: bwrap });
    const first = list => p50(list.map(x => x[0])), whole = list => p50(list.map(x => x[1]));
    row('sealed run/podman run', `${first(run).toFixed(2)} s against ${first(engine).toFixed(2)} s`, first(run) / first(engine), '≤ 1.5', first(run) / first(engine) <= 1.5);
    row('whole sealed run/podman run', `${whole(run).toFixed(2)} s against ${whole(engine).toFixed(2)} s`, whole(run) / whole(engine), '', null);
    row('sealed run/bwrap', `${first(run).toFixed(2)} s against ${first(bwrap).toFixed(3)} s`, first(run) / first(bwrap), '', null);
}

function memory(fleet) {
    progress('memory of idle daemons');
    for (const p of proc.parts(fleet)) {
        const kib = Number(/^Pss:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${p.pid}/smaps_rollup`, 'utf8'))[1]);
        raw[`pss_kib_${p.part}`] = kib;
        row(`memory of ${p.part}`, `${(kib / 1024).toFixed(1)} MiB PSS`, '', '≤ 8 MiB', kib <= 8192);
    }
}

/** The command's own group as the kernel names it, of a process of the storm. */
function groupOf(pid) {
    const line = fs.readFileSync(`/proc/${pid}/cgroup`, 'utf8').split('\n').find(l => l.startsWith('0::'));
    const at = line?.slice(3);
    return at && at !== '/' ? ['/sys/fs/cgroup/unified', '/sys/fs/cgroup'].map(m => m + at).find(d => fs.existsSync(d)) : null;
}

async function kill(fleet) {
    progress('killing a fork storm that ignores TERM');
    const took = [];
    for (let turn = 0; turn < 5; turn++) {
        const child = fleet.spawn(['exec', 'pod', '--', 'bash', '-c', 'trap "" TERM INT HUP; for i in $(seq 60); do (trap "" TERM; while :; do (sleep 98765 & ); sleep 0.05; done) & done; wait'], { stdio: 'ignore' });
        const range = [[fleet.uidBase('pod') + 60000, fleet.uidBase('pod') + 60001]];
        await until('the storm to stand', 30_000, () => proc.processesOf(range).length > 200);
        const group = groupOf(proc.processesOf(range).find(p => proc.cmdline(p)[0] === 'sleep'));
        if (!group) {
            row('kill', 'no cgroup v2 group here', '', '≤ 50 ms', null);
            child.kill('SIGKILL');
            return;
        }
        const start = process.hrtime.bigint();
        child.kill('SIGKILL');
        for (;;) {
            let events = '';
            try { events = fs.readFileSync(`${group}/cgroup.events`, 'utf8'); } catch { break; }
            if (events.includes('populated 0'))
                break;
        }
        took.push(Number(process.hrtime.bigint() - start) / 1e6);
    }
    raw.kill_ms = took;
    row('kill', `${p50(took).toFixed(1)} ms for over 200 processes`, '', '≤ 50 ms', p50(took) <= 50);
}

function files(fleet) {
    progress('300,000 files in the project');
    const exec = name => times(100, [binary, 'exec', name, '--', '/bin/true'], fleet.env);
    fleet.new('full');
    fleet.must('exec', 'full', '--', 'python3', '-c', 'import os\nfor d in range(300):\n  os.mkdir(f"d{d}")\n  for i in range(1000): os.close(os.open(f"d{d}/{i}", os.O_CREAT|os.O_WRONLY))');
    const full = [], empty = [];
    for (let turn = 0; turn < 5; turn++) {
        empty.push(...exec('pod'));
        full.push(...exec('full'));
    }
    Object.assign(raw, { exec_empty_us: empty, exec_300k_us: full });
    row('files', `${(p50(full) / 1000).toFixed(2)} ms against ${(p50(empty) / 1000).toFixed(2)} ms`, p50(full) / p50(empty), '1.0', p50(full) / p50(empty) < 1.1);
}

/** In a process of its own: rules.mjs. */
function rules() {
    progress('the rules of a sealed cage, with and without, in turns; break');
    const file = path.join(top, 'build/bench-rules.json');
    const done = spawnSync(process.execPath, [path.join(top, 'tests/bench/rules.mjs'), file], { encoding: 'utf8', timeout: 10 * 60_000 });
    good(`rules.mjs: ${done.stdout}`, done);
    const r = JSON.parse(fs.readFileSync(file, 'utf8'));
    Object.assign(raw, r);
    const trips = [p50(r.rules_trip_us), p50(r.open_trip_us)], rates = [p50(r.rules_mib_s), p50(r.open_mib_s)];
    row('rules, round trip', `${trips[0].toFixed(1)} µs against ${trips[1].toFixed(1)} µs without`, trips[0] / trips[1], '', null);
    row('rules, throughput', `${rates[0].toFixed(0)} MiB/s against ${rates[1].toFixed(0)} MiB/s without`, rates[0] / rates[1], '', null);
    row('break', `${(p50(r.break_ms) / 1000).toFixed(1)} s`, '', '≤ 60 s', p50(r.break_ms) <= 60_000);
}

const certificate = certificates(path.join(top, 'build/bench-ca'));
const fleet = new Fleet({ ca_file: certificate, ...conf, ...frontsConf }, {});
try {
    progress('a fleet of its own');
    await fleet.up();
    fleet.new('pod');
    memory(fleet);
    commands(fleet);
    output(fleet);
    progress('the gateway, a direct connection and nginx, in turns');
    await gateway(fleet, path.dirname(certificate), { row, raw, p50 });
    await conversation(fleet, { row, raw, p50, progress });
    await fronts(fleet, { row, raw, progress });
    await kill(fleet);
    starts(fleet);
    sealed(fleet);
    rules();
    files(fleet);
} finally {
    await fleet.stop();
}
fs.writeFileSync(path.join(top, 'build/bench.json'), JSON.stringify(raw));
console.log('| row | measured | ratio | goal | met |\n| --- | --- | --- | --- | --- |');
for (const r of table)
    console.log(`| ${r.join(' | ')} |`);
