// kill -9 of any part at random moments, and of relay and manager at as many more, while messages flow to several agents, from the
// command line and from all three fronts: each message ends done, refused or unknown; none is lost, none runs twice, each is
// shown once in each front; what died is healed, and nothing is left over.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { telegramFleet } from '../e2e/lib/telegram-fleet.mjs';
import { ended, pause, until } from '../e2e/lib/until.mjs';
import * as proc from '../e2e/lib/proc.mjs';
import { Fronts, words } from './lib/fronts.mjs';

const KILLS = Number(process.env.FAULT_KILLS ?? 200);
const AGENTS = ['a', 'b', 'c', 'd', 'e'], PORT = 7719;

const rig = await telegramFleet({ web: PORT }), { fleet } = rig;
const project = name => fleet.path('projects', name);
for (const name of AGENTS) {
    fs.mkdirSync(project(name), { recursive: true });
    fs.chownSync(project(name), 61234, 61234);
    await rig.must('new', name, '--project', project(name));
    await rig.must('exec', name, '--', 'true');
}

/** How often each message ran, by the marks in the projects. */
function runs() {
    const count = new Map();
    for (const name of AGENTS) {
        const file = `${project(name)}/runs`;
        for (const mark of fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trim().split('\n') : [])
            count.set(mark, (count.get(mark) ?? 0) + 1);
    }
    return count;
}

const seeded = seed => () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
const SEED = Number(process.env.FAULT_SEED ?? 20);

/** One sender an agent, until `over`: each message when the one before has ended. */
function senders(over, said) {
    return AGENTS.map(async name => {
        for (let i = 0; !over(); i++) {
            const mark = `${name}-${i}`;
            const done = await ended(fleet.spawn(['send', name, words(mark), '--wait', '--json']), 300_000);
            said.set(mark, done);
            if (verdict(done) === 'refused')
                await pause(200);
        }
    });
}

/**
 * Kills at random moments of a fleet at work: while less than `least` of the parts live it is left to heal. On a slow machine
 * the kills would overtake it otherwise, until there is only the warden to kill, each time that it begins.
 */
async function kills(times, random, least, only) {
    const count = new Map();
    for (let i = 0; i < times; i++) {
        const list = await until('enough to live', 120_000, () => {
            const parts = proc.parts(fleet).filter(p => !only || only.includes(p.part));
            return parts.length >= least ? parts : null;
        });
        await pause(random() * 800);
        const victim = list[Math.floor(random() * list.length)];
        try { process.kill(victim.pid, 'SIGKILL'); } catch { i--; continue; }
        count.set(victim.part, (count.get(victim.part) ?? 0) + 1);
        if (victim.part === 'warden')
            await fleet.waitForPart('warden', '', victim.pid);
    }
    return count;
}

/**
 * The last word about a message: done, refused, unknown, or none when the sender was left without one. Between the death of
 * a warden and the next one there is no fleet to take a message, nor while a relay is held back, which the command says first thing.
 */
function verdict(done) {
    if (done.status === 125 && /^agent-cage: (no fleet is up|the relay does not come back)/.test(done.stderr))
        return 'refused';
    const kinds = done.stdout.split('\n').filter(Boolean).map(l => JSON.parse(l).kind);
    return { report: 'done', refused: 'refused', unknown: 'unknown' }[kinds.pop()] ?? 'none';
}

/** What `send` says when it is left without a last word. */
const LEFT = /^agent-cage: (whether the message was taken is unknown: .+|its report could not be read: .+|the fleet did not answer within \d+ s; `\S*agent-cage log \w+` tells whether the message was taken|the manager went away and has not come back: whether it took the message is not known)$/m;

async function settled() {
    for (const name of AGENTS) {
        await until(`${name} to have nothing waiting`, 180_000, () => {
            const done = fleet.cage('status', name, '--json');
            return done.status === 0 && JSON.parse(done.stdout).queued === 0 && JSON.parse(done.stdout).state === 'running';
        });
        await until(`a turn of ${name} to work`, 120_000, () => fleet.says(name, 'settled'));
    }
}

test(`kill -9 at ${KILLS} random moments while messages flow`, async t => {
    const said = new Map(), fronts = await Fronts.start(rig, { page: 'a', telegram: 'b', terminal: 'c' });
    let over = false;
    const all = [...senders(() => over, said), ...fronts.speak(() => over)];
    let count, between;
    t.after(() => fronts.stop());
    try {
        [count, between] = await Promise.all([kills(KILLS, seeded(SEED), AGENTS.length * 2), kills(KILLS, seeded(SEED + 1), 1, ['relay', 'manager'])]);
    } finally {
        over = true;
        await Promise.all(all);
    }
    await settled();
    const faults = await fronts.judge(runs);
    console.error(`and between: ${JSON.stringify([...between])}, in the fronts: ${fronts.said.length} messages, ${fronts.told.size} refused`);
    assert.deepEqual(faults, []);
    const ran = runs(), words = {};
    for (const [mark, done] of said) {
        const word = verdict(done), times = ran.get(mark) ?? 0;
        words[word] = (words[word] ?? 0) + 1;
        assert.ok(times <= 1, `${mark} ran ${times} times`);
        // With another status its command was killed, perhaps before its first word: an executor died, and the report says so.
        if (word === 'done' && done.status === 0)
            assert.equal(times, 1, `${mark} is said to be done and did not run`);
        if (word === 'refused')
            assert.equal(times, 0, `${mark} is said to be refused and ran`);
    }
    console.error(`kills: ${JSON.stringify([...count])}, messages: ${JSON.stringify(words)}`);
    const without = [...said].filter(([, done]) => verdict(done) === 'none' && !LEFT.test(done.stderr));
    assert.deepEqual(without.map(([mark, done]) => `${mark}: ${done.status} ${done.stderr}`), [], 'left without a word');
    assert.ok(words.done >= said.size / 4, 'too few messages were done');
    assert.ok(said.size >= AGENTS.length * 4, `only ${said.size} messages were sent`);
    for (const part of ['relay', 'manager', 'warden', 'agent', 'harness', 'executor'])
        assert.ok(KILLS < 60 || count.get(part) > 0 || between.get(part) > 0, `no ${part} was killed`);
});

test('a room outlives the warden', async () => {
    const before = fleet.part('executor', 'a').pid;
    const warden = fleet.part('warden').pid;
    process.kill(warden, 'SIGKILL');
    await until('the warden to be gone', 10_000, () => !proc.isAlive(warden));
    assert.ok(proc.isAlive(before));
    await fleet.waitForPart('warden', '', warden);
    await until('the fleet to answer', 60_000, () => fleet.cage('exec', 'a', '--', 'true').status === 0);
    assert.equal(fleet.part('executor', 'a').pid, before);
});

test('each part that is killed is healed within seconds', async () => {
    for (const [part, name] of [['relay', ''], ['manager', ''], ['agent', 'b'], ['harness', 'b'], ['executor', 'b']]) {
        const { pid } = fleet.part(part, name);
        process.kill(pid, 'SIGKILL');
        await fleet.waitForPart(part, name, pid);
        await until(`the fleet to answer after the ${part}`, 30_000,
            () => fleet.says('b', 'healed'));
    }
});

test('what crashes again and again is held, that is said once, and the fleet comes back', async () => {
    const log = () => fs.readFileSync(fleet.path('var/lib/agent-cage/warden/fleet.log'), 'utf8').split('relay is held').length - 1;
    const before = log();
    // SIGSEGV is a crash; SIGKILL would be somebody's will, which is no crash loop.
    for (let i = 0; i < 12 && log() === before; i++) {
        const victim = await until('the relay to live or be held', 60_000, () => fleet.part('relay') ?? (log() > before ? { pid: 0 } : null));
        if (!victim.pid)
            break;
        process.kill(victim.pid, 'SIGSEGV');
        await until('it to be gone', 10_000, () => !proc.isAlive(victim.pid));
    }
    await until('the log to say so', 30_000, () => log() > before);
    assert.equal(fleet.part('relay'), null);
    await until('it to work again', 90_000, () => fleet.says('a', 'back'));
    assert.equal(log(), before + 1);
});

test('no fault left a part too many or too few', () => {
    for (const name of AGENTS)
        assert.deepEqual(proc.parts(fleet).filter(p => p.name === name).map(p => p.part).sort(), ['agent', 'executor', 'harness']);
});
