// One-shot sealed runs without a fleet: a folder of their own as $AGENT_CAGE_ROOT, and an ordinary account that owns the
// projects and runs rootless ones. What is made is taken away when the test file ends.
import { spawn, spawnSync } from 'node:child_process';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after } from 'node:test';
import { binary, top } from './fleet.mjs';
import { images, workbench } from './workbench.mjs';

const MINUTE = 60_000;

function must(program, ...args) {
    const done = spawnSync(program, args, { encoding: 'utf8' });
    if (done.status !== 0)
        throw new Error(`${program} ${args.join(' ')}: ${done.stderr}`);
    return done.stdout;
}

/** The living processes of a uid, by number. */
export function processesOf(uid) {
    return fs.readdirSync('/proc').filter(p => /^\d+$/.test(p)).filter(p => {
        try {
            return fs.statSync(`/proc/${p}`).uid === uid && !/^State:\tZ/m.test(fs.readFileSync(`/proc/${p}/status`, 'utf8'));
        } catch {
            return false; // it has ended
        }
    }).map(Number);
}

/** Living processes whose command line has this word. */
export function running(word) {
    return fs.readdirSync('/proc').filter(p => /^\d+$/.test(p)).filter(p => {
        try {
            return fs.readFileSync(`/proc/${p}/cmdline`, 'utf8').split('\0').includes(word);
        } catch {
            return false;
        }
    }).map(Number);
}

export class Sealed {
    constructor() {
        workbench();
        this.root = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-cage-test-'));
        this.prefix = 't' + Math.random().toString(36).slice(2, 7);
        this.person = `${this.prefix}person`;
        after(() => this.close());
        fs.chmodSync(this.root, 0o755);
        fs.mkdirSync(this.path('etc/agent-cage'), { recursive: true });
        fs.writeFileSync(this.path('etc/agent-cage/agent-cage.conf'), `prefix = ${this.prefix}\nimage_dir = ${this.path('images')}\n`);
        // The tree that the build has may lie where an ordinary user cannot look.
        fs.mkdirSync(this.path('images'));
        must('mount', '--bind', images(), this.path('images'));
        fs.copyFileSync(binary, this.path('agent-cage'));
        fs.chmodSync(this.path('agent-cage'), 0o755);
        this.makePerson();
    }

    makePerson() {
        must('useradd', '-m', '-d', this.path('home'), '-s', '/bin/bash', this.person);
        this.uid = Number(must('id', '-u', this.person));
        for (const [file, option] of [['/etc/subuid', '--add-subuids'], ['/etc/subgid', '--add-subgids']])
            if (!fs.readFileSync(file, 'utf8').split('\n').some(l => l.startsWith(`${this.person}:`)))
                must('usermod', option, '1500000000-1500065535', this.person);
        this.tunMode = fs.statSync('/dev/net/tun').mode & 0o777;
        fs.chmodSync('/dev/net/tun', 0o666);
        this.runtime = this.path('xdg');
        fs.mkdirSync(this.runtime, { mode: 0o700 });
        fs.chownSync(this.runtime, this.uid, this.uid);
    }

    path(...parts) {
        return path.join(this.root, ...parts);
    }

    /** A project of the person's: { name: text }. */
    project(name, files = {}) {
        const dir = this.path(name);
        fs.mkdirSync(dir);
        for (const [file, text] of Object.entries(files)) {
            fs.mkdirSync(path.join(dir, path.dirname(file)), { recursive: true });
            fs.writeFileSync(path.join(dir, file), text);
        }
        must('chown', '-R', `${this.person}:`, dir);
        return dir;
    }

    /** Environment and the words before the program, for who: 'root' or 'person'. */
    as(who) {
        const home = this.path(who === 'root' ? 'roothome' : 'home');
        fs.mkdirSync(home, { recursive: true });
        const env = { PATH: '/usr/bin:/bin', HOME: home, AGENT_CAGE_ROOT: this.root, TERM: 'xterm', SECRET: 'not-for-the-cage' };
        if (who === 'root')
            return { env, before: [], home };
        return { env: { ...env, XDG_RUNTIME_DIR: this.runtime }, home,
            before: ['setpriv', '--reuid', this.person, '--regid', this.person, '--init-groups'] };
    }

    /** Runs agent-cage to its end as `who`. The first word may be { input, around: [program…] }. */
    cage(who, ...args) {
        const opts = typeof args[0] === 'object' ? args.shift() : {};
        const { env, before } = this.as(who);
        const [program, ...words] = [...(opts.around ?? []), ...before, this.path('agent-cage'), ...args];
        const done = spawnSync(program, words, {
            env, input: opts.input ?? '', cwd: opts.cwd ?? '/', encoding: 'utf8', timeout: 5 * MINUTE, maxBuffer: 1 << 26 });
        if (done.error && done.error.code !== 'EPIPE')
            throw done.error;
        return done;
    }

    spawn(who, ...args) {
        const { env, before } = this.as(who);
        const [program, ...words] = [...before, this.path('agent-cage'), ...args];
        return spawn(program, words, { env, cwd: '/', stdio: ['pipe', 'pipe', 'pipe'] });
    }

    run(who, dir, ...command) {
        return this.cage(who, 'sealed', dir, '--', ...command);
    }

    sh(who, dir, script) {
        return this.run(who, dir, 'bash', '-c', script);
    }

    /** The folders of runs that are there: one for each that goes on, or was killed. */
    runs(who) {
        const dir = who === 'root' ? this.path('run/agent-cage/sealed') : path.join(this.runtime, 'agent-cage');
        return fs.existsSync(dir) ? fs.readdirSync(dir).filter(n => /^\d/.test(n)) : [];
    }

    containers(who) {
        const { env, before } = this.as(who);
        const [program, ...words] = [...before, 'podman', 'ps', '--all', '--format', '{{.Names}}'];
        return spawnSync(program, words, { env: who === 'root' ? { ...env, HOME: '/root' } : env, cwd: '/', encoding: 'utf8' })
            .stdout.split('\n').filter(n => n.startsWith(`${this.prefix}sealed-`));
    }

    /** An ordinary user's podman keeps its namespaces in a process of its own: without it the next command makes them anew. */
    engineAnew(who) {
        const { env, before } = this.as(who);
        if (who === 'person')
            assert.equal(spawnSync(before[0], [...before.slice(1), 'podman', 'system', 'migrate'], { env, cwd: '/' }).status, 0);
    }

    close() {
        for (const pid of processesOf(this.uid)) // podman's own, which keeps the user namespace
            try { process.kill(pid, 'SIGKILL'); } catch { /* it has ended */ }
        spawnSync('umount', [this.path('images')]);
        fs.chmodSync('/dev/net/tun', this.tunMode);
        spawnSync('userdel', [this.person]);
        spawnSync('groupdel', [this.person]);
        spawnSync(path.join(top, 'scripts/forget-ids'), [this.prefix]);
        fs.rmSync(this.root, { recursive: true, force: true });
    }
}
