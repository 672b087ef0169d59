// A whole fleet in a folder of its own, with account names of its own, so that tests run beside a real one and beside each
// other. What a fleet makes on the machine is taken away again when its test file ends, and that is checked.
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after } from 'node:test';
import { until } from './until.mjs';
import { leftovers } from './leftovers.mjs';
import { images, top, workbench } from './workbench.mjs';
import * as proc from './proc.mjs';

export { top };
export const binary = process.env.AGENT_CAGE_BINARY ?? path.join(top, 'build/agent-cage');

const MINUTE = 60_000;

// A run that is ended from outside still cleans up: `exit` handlers run only when somebody asks for the exit.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.once(signal, () => process.exit(130));

export class Fleet {
    /**
     * Makes the folder and starts `agent-cage up`; resolves when the fleet answers. conf: lines of agent-cage.conf, or a function
     * that makes, in the fleet's folder, what these lines speak of.
     * disk: MiB of a file system of its own for the whole fleet.
     */
    static async start({ conf = {}, env = {}, disk = 0 } = {}) {
        const fleet = new Fleet(conf, env, disk);
        after(() => fleet.stop());
        await fleet.up();
        return fleet;
    }

    constructor(conf, env, disk = 0) {
        workbench();
        this.root = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-cage-test-'));
        if (disk)
            mountDisk(this.root, disk);
        fs.chmodSync(this.root, 0o755);
        this.prefix = 't' + Math.random().toString(36).slice(2, 7);
        this.extraEnv = env;
        this.stopped = false;
        const etc = path.join(this.root, 'etc/agent-cage');
        fs.mkdirSync(etc, { recursive: true });
        const all = { prefix: this.prefix, image_dir: images(), web: 'off', ...typeof conf === 'function' ? conf(this) : conf };
        fs.writeFileSync(path.join(etc, 'agent-cage.conf'), Object.entries(all).map(([k, v]) => `${k} = ${v}\n`).join(''));
        process.once('exit', () => this.abandon());
    }

    get env() {
        return { PATH: process.env.PATH, HOME: '/root', LC_ALL: 'C.UTF-8', AGENT_CAGE_ROOT: this.root, ...this.extraEnv };
    }

    path(...parts) {
        return path.join(this.root, ...parts);
    }

    /** Starts `up` without a terminal and waits until it answers. */
    async up(...args) {
        const log = fs.openSync(this.path('up.log'), 'a');
        this.warden = spawn(binary, ['up', ...args], { env: this.env, stdio: ['ignore', log, log], detached: true });
        fs.closeSync(log);
        let ended = null;
        this.warden.once('exit', (status, signal) => { ended = signal ?? status; });
        await until('the fleet to answer', 5 * MINUTE, () => {
            if (ended !== null)
                throw new Error(`up ended with ${ended}:\n${this.upLog()}`);
            return this.cage({ timeout: MINUTE }, 'ls', '--json').status === 0;
        });
        return this;
    }

    upLog() {
        return fs.readFileSync(this.path('up.log'), 'utf8').split('\n').slice(-40).join('\n');
    }

    /** Runs agent-cage to its end. The first argument may be { input, timeout, env, raw, cwd }. raw: Buffers, not text. */
    cage(...args) {
        const opts = typeof args[0] === 'object' ? args.shift() : {};
        const done = spawnSync(binary, args, {
            env: { ...this.env, ...opts.env }, input: opts.input ?? '', timeout: opts.timeout ?? 2 * MINUTE,
            cwd: opts.cwd ?? '/', maxBuffer: 1 << 28, encoding: opts.raw ? 'buffer' : 'utf8',
        });
        // A command need not read its input: then writing it fails, which is nobody's fault.
        if (done.error && done.error.code !== 'EPIPE')
            throw new Error(`agent-cage ${args.join(' ')}: ${done.error.message}\n${done.stderr ?? ''}`);
        return { status: done.status, signal: done.signal, stdout: done.stdout, stderr: done.stderr };
    }

    /** As cage(), and the test fails unless it exits 0. */
    must(...args) {
        const done = this.cage(...args);
        if (done.status !== 0)
            throw new Error(`agent-cage ${args.filter(a => typeof a === 'string').join(' ')}: exit ${done.status ?? done.signal}\n` +
                `${done.stdout}${done.stderr}\n${this.upLog()}`);
        return done;
    }

    /** Does the agent answer with this word? False also when it takes too long. */
    says(name, word) {
        try {
            return this.cage({ timeout: 30_000 }, 'send', name, `echo ${word}`, '--wait').stdout.includes(word);
        } catch {
            return false;
        }
    }

    json(...args) {
        return JSON.parse(this.must(...args, '--json').stdout);
    }

    /** A command of agent NAME's executor. Options as for cage(). */
    exec(name, ...command) {
        const opts = typeof command[0] === 'object' ? [command.shift()] : [];
        return this.cage(...opts, 'exec', name, '--', ...command);
    }

    sh(name, script, opts = {}) {
        return this.exec(name, opts, 'bash', '-c', script);
    }

    /** Starts agent-cage and returns the child; the fleet's end kills it. */
    spawn(args, opts = {}) {
        const child = spawn(binary, args, { env: this.env, cwd: '/', ...opts });
        this.children ??= new Set();
        this.children.add(child);
        child.once('exit', () => this.children.delete(child));
        return child;
    }

    /** Makes an agent and waits until its executor runs a command. */
    new(name, ...args) {
        const made = this.must({ timeout: 5 * MINUTE }, 'new', name, ...args);
        this.must({ timeout: MINUTE }, 'exec', name, '--', 'true');
        return made;
    }

    status(name) {
        return this.json('status', name);
    }

    /** The configuration of an agent that the warden wrote, as { key: text }. */
    agentConf(name) {
        const text = fs.readFileSync(this.path('etc/agent-cage/agents', `${name}.conf`), 'utf8');
        return Object.fromEntries([...text.matchAll(/^\s*(\w+)\s*=\s*(.*?)\s*$/gm)].map(m => [m[1], m[2]]));
    }

    uidBase(name) {
        return Number(this.agentConf(name).uid_base);
    }

    /** The uid ranges of all agents that this fleet has or had. */
    get ranges() {
        this.knownBases ??= new Set();
        const dir = this.path('etc/agent-cage/agents');
        for (const file of fs.existsSync(dir) ? fs.readdirSync(dir) : [])
            if (file.endsWith('.conf'))
                this.knownBases.add(this.uidBase(file.slice(0, -5)));
        return [...this.knownBases].filter(Number.isFinite).map(base => [base, base + 65536]);
    }

    /** The process that is a part: part('relay'), part('executor', 'demo'). null when there is none. */
    part(part, name = '') {
        return proc.parts(this).find(p => p.part === part && p.name === name) ?? null;
    }

    async waitForPart(part, name = '', but = -1) {
        return until(`${part} ${name} to run`, MINUTE, () => {
            const found = this.part(part, name);
            return found && found.pid !== but ? found : null;
        });
    }

    /** Ends the fleet, takes away what it made, and throws if anything is left. */
    async stop() {
        if (this.stopped)
            return;
        const ranges = this.ranges;
        for (const child of this.children ?? [])
            child.kill('SIGKILL');
        const faults = [];
        if (this.warden) {
            const list = this.cage('ls', '--json');
            for (const agent of list.status === 0 ? names(list.stdout) : []) {
                const gone = this.cage({ timeout: 2 * MINUTE }, 'rm', agent);
                if (gone.status !== 0)
                    faults.push(`rm ${agent}: exit ${gone.status}: ${gone.stderr}`);
            }
            const down = this.cage({ timeout: 2 * MINUTE }, 'down');
            if (down.status !== 0)
                faults.push(`down: exit ${down.status}: ${down.stderr}`);
        }
        faults.push(...await leftovers(this, ranges));
        const log = fs.existsSync(this.path('up.log')) ? this.upLog() : '';
        this.abandon();
        if (faults.length)
            throw new Error(`left behind:\n  ${faults.join('\n  ')}\nlog of up:\n${log}`);
    }

    /** The hard way, without questions: for the end of the process. */
    abandon() {
        if (this.stopped)
            return;
        this.stopped = true;
        spawnSync(path.join(top, 'scripts/clean-fleet'), [this.root, this.prefix], { stdio: 'inherit', timeout: 2 * MINUTE });
    }
}

/** An ext4 of so many MiB in a file that nobody sees any more. */
function mountDisk(place, mib) {
    const image = `${place}.img`;
    const script = 'truncate -s "$1" "$2" && mkfs.ext4 -q -m 0 "$2" && mount -o loop "$2" "$3"; s=$?; rm -f "$2"; exit $s';
    const done = spawnSync('sh', ['-c', script, 'sh', `${mib}M`, image, place], { encoding: 'utf8' });
    if (done.status !== 0)
        throw new Error(`a disk for a test: ${done.stderr}`);
}

/** The names in what `ls --json` printed. */
export function names(text) {
    const value = JSON.parse(text);
    return (Array.isArray(value) ? value : value.agents).map(a => a.name ?? a.agent);
}
