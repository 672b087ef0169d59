// A room seen and entered from outside, by root of the host: what no part of the product can do.
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { top } from './fleet.mjs';

const helper = name => path.join(top, 'build/tests/bench', `help-${name}`);
export const UID = { agent: 50000, harness: 55000, executor: 60000 };

/** The arguments that start a command as the room's own uid in all of the room's namespaces. No filter of calls. */
function entering(fleet, room, name, options, command) {
    const part = fleet.part(room, name);
    if (!part)
        throw new Error(`no ${room} of ${name}`);
    const mode = fleet.agentConf(name).mode;
    const uid = mode === 'bare' ? fleet.uidBase(name) + UID[room] : UID[room];
    return ['-e', part.pid, '-u', uid, ...options, '--', ...command].map(String);
}

/** Runs a command in the harness room, as the harness would. In /bin there, every shell and git is the shim. */
export function inRoom(fleet, room, name, command, opts = {}) {
    const done = spawnSync(helper('spawn'), entering(fleet, room, name, opts.helper ?? [], command), {
        env: opts.env ?? { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/home/cage' }, input: opts.input ?? '',
        timeout: opts.timeout ?? 120_000, maxBuffer: 1 << 28, encoding: opts.raw ? 'buffer' : 'utf8',
    });
    if (done.error && done.error.code !== 'EPIPE')
        throw done.error;
    return { status: done.status, signal: done.signal, stdout: done.stdout, stderr: done.stderr };
}

export function spawnInRoom(fleet, room, name, command, opts = {}) {
    return spawn(helper('spawn'), entering(fleet, room, name, opts.helper ?? [], command), {
        env: { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/home/cage' }, ...opts,
    });
}

/** The container of a pod's room. */
export const container = (fleet, room, name) => `${fleet.prefix}cage-${name}.${room}`;

/** Shows a folder of the host in a room that runs, read-only. */
export function graft(fleet, room, name, folder, place) {
    const done = spawnSync(helper('graft'), [folder, String(fleet.part(room, name).pid), place], { encoding: 'utf8' });
    if (done.status !== 0)
        throw new Error(`graft: ${done.stderr}`);
}

/**
 * A command in a pod's room under the room's own filter and limits: started by the engine, by hand. The product never does
 * that, and takes the mount of the room's root away after the start; the runtime wants that folder to be there.
 */
export function engineExec(fleet, room, name, command, opts = {}) {
    const box = container(fleet, room, name);
    const root = spawnSync('podman', ['inspect', '--format', '{{.Rootfs}}', box], { encoding: 'utf8' }).stdout.trim();
    fs.mkdirSync(root, { recursive: true });
    const env = Object.entries(opts.env ?? {}).flatMap(([k, v]) => ['--env', `${k}=${v}`]);
    const done = spawnSync('podman', ['exec', '-i', '--user', `${UID[room]}:${UID[room]}`, ...env, ...(opts.cwd ? ['--workdir', opts.cwd] : []),
        box, ...command], { input: opts.input ?? '', encoding: 'utf8', timeout: opts.timeout ?? 120_000 });
    fs.rmdirSync(root);
    return done;
}
