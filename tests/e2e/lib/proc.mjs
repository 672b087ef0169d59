// What the host's /proc says: the outside witness.
import fs from 'node:fs';

const read = file => { try { return fs.readFileSync(file, 'utf8'); } catch { return ''; } };

export function pids() {
    return fs.readdirSync('/proc').filter(n => /^\d+$/.test(n)).map(Number);
}

export const cmdline = pid => read(`/proc/${pid}/cmdline`).split('\0').slice(0, -1);
export const environ = pid => read(`/proc/${pid}/environ`).split('\0').filter(Boolean);

/** /proc/PID/status as { Key: text }. */
export function status(pid) {
    return Object.fromEntries([...read(`/proc/${pid}/status`).matchAll(/^(\w+):[ \t]*(.*)$/gm)].map(m => [m[1], m[2]]));
}

/** [real, effective, saved, file system] uid. */
export const uids = pid => (status(pid).Uid ?? '').split(/\s+/).map(Number);
export const gids = pid => (status(pid).Gid ?? '').split(/\s+/).map(Number);
export const rssKiB = pid => parseInt(status(pid).VmRSS ?? '0', 10);
export const peakKiB = pid => parseInt(status(pid).VmHWM ?? '0', 10);
export const fds = pid => { try { return fs.readdirSync(`/proc/${pid}/fd`).map(Number); } catch { return []; } };
export const parent = pid => Number(status(pid).PPid ?? 0);
export const isAlive = pid => { const s = status(pid).State; return Boolean(s) && !s.startsWith('Z'); };
export const namespace = (pid, kind) => { try { return fs.readlinkSync(`/proc/${pid}/ns/${kind}`); } catch { return ''; } };

/** Does this process hold the text, in its memory, its environment or its arguments? */
export function holds(pid, text) {
    const needle = Buffer.from(text);
    if ([...cmdline(pid), ...environ(pid)].some(w => w.includes(text)))
        return true;
    const fd = fs.openSync(`/proc/${pid}/mem`, 'r');
    try {
        return [...read(`/proc/${pid}/maps`).matchAll(/^(\w+)-(\w+) r(?!.*\[v)/gm)].some(([, from, to]) => {
            const at = parseInt(from, 16), bytes = Buffer.alloc(parseInt(to, 16) - at);
            try { fs.readSync(fd, bytes, 0, bytes.length, at); } catch { return false; }
            return bytes.includes(needle);
        });
    } finally {
        fs.closeSync(fd);
    }
}

const inRanges = (uid, ranges) => ranges.some(([from, to]) => uid >= from && uid < to);

const PARTS = ['warden', 'relay', 'manager', 'agent', 'harness', 'executor'];

/** The daemon parts of a fleet: [{ pid, part, name, uid }], found by their command line and by whose they are. */
export function parts(fleet) {
    const found = [], ranges = fleet.ranges;
    for (const pid of pids()) {
        const words = cmdline(pid);
        if (!PARTS.includes(words[1]) || !/(^|\/)agent-cage$/.test(words[0] ?? ''))
            continue;
        const uid = uids(pid)[0];
        if (!inRanges(uid, ranges) && !environ(pid).includes(`AGENT_CAGE_ROOT=${fleet.root}`))
            continue;
        if (words.length > 3)
            continue;
        found.push({ pid, part: words[1], name: words[2] ?? '', uid });
    }
    // A part that forked (to run something) is the oldest of its kind.
    return found.filter(p => !found.some(q => q.part === p.part && q.name === p.name && q.pid === parent(p.pid)));
}

/** Every process whose kernel uid lies in one of the ranges. */
export function processesOf(ranges) {
    return pids().filter(pid => isAlive(pid) && inRanges(uids(pid)[0], ranges));
}
