// A conversation with the real Claude Code, as `new` fetches it, and a double of its model: how long a message is under way, and what
// an agent with nothing to do holds in memory, with its vendor's program and after that was ended.
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import { top } from '../e2e/lib/fleet.mjs';
import * as proc from '../e2e/lib/proc.mjs';
import { spawnInRoom } from '../e2e/lib/room.mjs';
import { ended, until, within } from '../e2e/lib/until.mjs';
import { GATE, Vendor } from '../e2e/lib/vendor.mjs';

const PORT = 18495, NAME = 'talk', ROUNDS = 3, LATER = 3, IDLE_S = 2;

/** What the fleet's configuration must say. */
export const conf = { harness_dir: path.join(top, 'build/harness'), harness_idle: `${IDLE_S}s` };

const pssKiB = pid => Number(/^Pss:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))[1]);
const mib = kib => (kib / 1024).toFixed(1);

/** The vendor's processes: what the harness has below it. */
function vendors(fleet) {
    const below = pid => proc.pids().filter(p => proc.parent(p) === pid && proc.isAlive(p)).flatMap(p => [p, ...below(p)]);
    return below(fleet.part('harness', NAME).pid);
}

/** KiB of each of the agent's daemons, and of what its harness started. */
function memoryOf(fleet) {
    const of = part => pssKiB(fleet.part(part, NAME).pid);
    return { agent: of('agent'), harness: of('harness'), executor: of('executor'), program: vendors(fleet).reduce((sum, pid) => sum + pssKiB(pid), 0) };
}

const script = id => `SCRIPT ${JSON.stringify({ id, say: 'well' })}`;
const now = () => Number(process.hrtime.bigint());

/** Ms from `start` to the first byte of a message's request. */
const reached = (vendor, id, start) => (vendor.asked(id)[0].at - start) / 1e6;

/** One message and its turn, from the start of `send`. */
function message(fleet, vendor, id) {
    const start = now();
    fleet.must('send', NAME, script(id), '--wait');
    return reached(vendor, id, start);
}

/** The same turns, in the same room and through the same gateway, of the program alone: from its start, and from its line. */
async function alone(fleet, vendor, { argv, env }, ids) {
    const took = [], child = spawnInRoom(fleet, 'harness', NAME, argv, { env, helper: ['-d', '/project'], stdio: ['pipe', 'pipe', 'inherit'] });
    child.stdin.on('error', () => {}); // then it says nothing more, which is seen
    try {
        const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
        for (const id of ids) {
            const start = now();
            child.stdin.write(`${JSON.stringify({ type: 'user', message: { role: 'user', content: script(id) } })}\n`);
            for (let line; !(line = await within(id, 60_000, lines.next())).done && JSON.parse(line.value).type !== 'result';);
            took.push(reached(vendor, id, start));
        }
    } finally {
        child.stdin.end();
        await ended(child);
    }
    return took;
}

/** The words and the environment with which a process was started. */
function asStarted(pid) {
    const env = Object.fromEntries(proc.environ(pid).map(e => e.split(/=(.*)/s)));
    return { argv: [fs.readlinkSync(`/proc/${pid}/exe`), ...proc.cmdline(pid).slice(1)], env };
}

async function talk(fleet, vendor) {
    const got = { fresh: [], running: [], alone_fresh: [], alone_running: [], memory: { running: [], stopped: [] } };
    const program = () => vendors(fleet)[0], asleep = () => until('the harness to be idle', 60_000, () => !program());
    const turns = arm => ['fresh', ...Array(LATER).fill('later')].map((word, i) => `${arm}-${word}-${i}`);
    const keep = ([fresh, ...running], arm) => (got[`${arm}fresh`].push(fresh), got[`${arm}running`].push(...running));
    message(fleet, vendor, 'first'); // the program is read from the disk, and its home is made
    await asleep();
    message(fleet, vendor, 'second'); // with the words of one that goes on with a conversation
    const same = asStarted(program());
    for (let round = 0; got.memory.running.length < ROUNDS; round++) {
        if (round === 3 * ROUNDS)
            throw new Error('the harness is ended between any two messages: this machine is too busy');
        await asleep();
        const stopped = memoryOf(fleet), direct = await alone(fleet, vendor, same, turns(`alone-${round}`));
        const [id, ...later] = turns(`sent-${round}`), sent = [message(fleet, vendor, id)], first = program();
        sent.push(...later.map(i => message(fleet, vendor, i)));
        const running = memoryOf(fleet);
        if (!first || program() !== first)
            continue; // ended in between: these were not what they are called
        keep(direct, 'alone_');
        keep(sent, '');
        got.memory.stopped.push(stopped);
        got.memory.running.push(running);
    }
    return got;
}

/** Rows through row(name, text, ratio, goal, met); samples into raw. The fleet has `conf`. */
export async function conversation(fleet, { row, raw, p50, progress }) {
    progress('a conversation with Claude Code, and the memory of an idle agent');
    fleet.new(NAME, '--harness', 'claude', '--upstream', `http://${GATE}:${PORT}`);
    fleet.must({ input: 'sk-ant-oat01-benchmark' }, 'auth', NAME, '--token-file', '-');
    const got = await talk(fleet, await Vendor.start(fleet, PORT));
    raw.conversation = got;
    const ms = list => `${p50(list).toFixed(0)} ms`;
    for (const state of ['running', 'fresh']) {
        const [sent, direct] = [got[state], got[`alone_${state}`]], added = Math.round(p50(sent) - p50(direct));
        row(`message, ${state}`, `${ms(sent)} against ${ms(direct)}`, `${added < 0 ? '' : '+'}${added} ms`, '', null);
    }
    for (const [state, list] of Object.entries(got.memory)) {
        const of = key => p50(list.map(m => m[key]));
        const ours = ['agent', 'harness', 'executor'];
        row(`idle agent, program ${state}`, `${ours.map(k => `${k} ${mib(of(k))}`).join(' + ')} + Claude Code ${mib(of('program'))} MiB PSS`, '',
            '≤ 8 MiB a daemon', ours.every(k => of(k) <= 8192));
    }
}
