// What a fleet may leave behind when it is gone: nothing.
import fs from 'node:fs';
import { spawnSync } from 'node:child_process';
import * as proc from './proc.mjs';
import { until } from './until.mjs';

const linesWith = (file, word) => fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').filter(l => l.includes(word)) : [];

function containers(prefix) {
    const done = spawnSync('podman', ['ps', '-a', '--format', '{{.Names}}'], { encoding: 'utf8' });
    return (done.stdout ?? '').split('\n').filter(n => n.includes(prefix));
}

function cgroups(prefix) {
    const done = spawnSync('find', ['/sys/fs/cgroup', '-maxdepth', '6', '-type', 'd', '-name', `*${prefix}*`], { encoding: 'utf8' });
    return done.stdout.split('\n').filter(Boolean);
}

/**
 * The engine's network namespaces (netns-UUID) without a process in them, but those of `before`. One that has just been made, or is
 * just going, may be another test's: ask again.
 */
export function emptyNetworks(before = []) {
    const names = fs.existsSync('/run/netns') ? fs.readdirSync('/run/netns').filter(n => n.startsWith('netns-') && !before.includes(n)) : [];
    const used = new Set(proc.pids().map(pid => /\d+/.exec(proc.namespace(pid, 'net'))?.[0]));
    return names.filter(name => {
        try {
            return !used.has(String(fs.statSync(`/run/netns/${name}`).ino));
        } catch {
            return false; // it has gone
        }
    });
}

/** Mounts, processes, containers, cgroups, network namespaces of the fleet and of its agents' uid ranges, as text. */
export function living(fleet, ranges) {
    const mine = proc.pids().filter(pid => pid !== process.pid && proc.isAlive(pid) &&
        (proc.environ(pid).includes(`AGENT_CAGE_ROOT=${fleet.root}`) || proc.cmdline(pid).some(w => w.includes(fleet.root))));
    return [
        ...new Set([...mine, ...proc.processesOf(ranges)].map(pid => `process ${pid}: ${proc.cmdline(pid).join(' ')}`)),
        ...linesWith('/proc/self/mountinfo', `${fleet.root}/`).map(l => `mount: ${l}`),
        ...containers(fleet.prefix).map(n => `container: ${n}`),
        ...cgroups(fleet.prefix).map(n => `cgroup: ${n}`),
        ...(fs.existsSync('/run/netns') ? fs.readdirSync('/run/netns') : []).filter(n => n.includes(fleet.prefix)).map(n => `network namespace: ${n}`),
    ];
}

/** Agents' accounts (the fleet's own two stay for the next `up`). */
export function agentAccounts(fleet) {
    return ['/etc/passwd', '/etc/group'].flatMap(file => linesWith(file, `${fleet.prefix}cage-`).map(l => `${file}: ${l}`));
}

export async function leftovers(fleet, ranges) {
    let left = [];
    try {
        await until('nothing to be left', 10_000, () => {
            left = [...living(fleet, ranges), ...agentAccounts(fleet)];
            return left.length === 0;
        });
    } catch { /* what is left is the answer */ }
    return left;
}
