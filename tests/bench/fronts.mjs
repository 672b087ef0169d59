// The fronts. How long a message is on its way from the page to the executor and back as output, in a real fleet; then relay and
// manager with a hundred agents that answer at once (fleet.c): how much memory ten thousand messages take, and how many go in by
// the page, and out to a Bot API, in a second.
import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { binary, top } from '../e2e/lib/fleet.mjs';
import { ended, until, within } from '../e2e/lib/until.mjs';

const PORT = 7721, ROUND_TRIPS = 200, AGENTS = 100, MESSAGES = 10_000, BARE = 4000, PAGES = 64, MINUTE = 60_000;

/** What the fleet's configuration must say. */
export const conf = { web: PORT };

const percentile = (list, part) => [...list].sort((a, b) => a - b)[Math.floor(list.length * part)];
const pssKiB = pid => Number(/^Pss:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))[1]);

/** What the page does, with less around it. */
class Page {
    static async open(link) {
        const { origin, port, hash } = new URL(link.trim()), page = new Page();
        Object.assign(page, { port, headers: { Origin: origin }, agent: new http.Agent({ keepAlive: true, maxSockets: PAGES + 1 }) });
        const { res, text } = await page.ask('POST', '/api/login', hash.slice('#login='.length));
        Object.assign(page.headers, { Cookie: res.headers['set-cookie'][0].split(';')[0], 'Cage-Key': text });
        return page;
    }

    ask(method, place, body = '', on) {
        const headers = { ...this.headers, ...method === 'POST' ? { 'Content-Type': 'application/x-agent-cage', 'Content-Length': Buffer.byteLength(body) } : {} };
        return new Promise((done, failed) => {
            const req = http.request({ host: '127.0.0.1', port: this.port, path: place, method, headers, agent: this.agent }, res => {
                let text = '';
                res.setEncoding('utf8').on('data', on ?? (d => { text += d; })).on('end', () => done({ res, text })).on('error', failed);
            });
            req.on('error', failed).end(body);
        });
    }

    async say(agent, key, text) {
        const answer = await this.ask('POST', `/api/say?agent=${agent}&key=${key}`, text);
        if (!/event: end\n[^]*"status":0,/.test(answer.text))
            throw new Error(`${key}: ${answer.text}`);
    }

    /** Each event from now on, as its text and the time at which it came. */
    follow(on) {
        let rest = '';
        this.ask('GET', '/api/events?last=1&follow=1', '', d => {
            const at = performance.now(), all = (rest + d).split('\n\n');
            rest = all.pop();
            for (const event of all)
                on(event, at);
        }).catch(() => {}); // closed
    }

    close() {
        this.agent.destroy();
    }
}

async function double() {
    const child = fork(path.join(top, 'tests/bench/double.mjs'));
    const [{ url, echo }] = await once(child, 'message');
    return { child, url, echo };
}

/** Milliseconds of a byte there and back by TCP on loopback, many times. */
async function trips(port, n) {
    const socket = net.connect(port, '127.0.0.1'), took = [];
    await once(socket.setNoDelay(), 'connect');
    for (let i = 0; i < n; i++) {
        const start = performance.now();
        socket.write('x');
        await once(socket, 'data');
        took.push(performance.now() - start);
    }
    socket.destroy();
    return took;
}

/**
 * Milliseconds from the start of each message's request until its output began to be in the page: live, or, since live pieces of
 * an agent come at most every 250 ms, with the report.
 */
async function firstOutputs(page, n) {
    const came = new Map(), over = new Set(), took = [];
    page.follow((event, at) => {
        const [, id] = /first-output-(\d+)/.exec(event) ?? [], [, kind] = /"kind":"(\w+)"/.exec(event) ?? [];
        if (id && ['output', 'report'].includes(kind) && !came.has(id))
            came.set(id, at);
        if (id && kind === 'report')
            over.add(id);
    });
    for (let i = 0; i <= n; i++) { // one to warm up
        const id = String(i), start = performance.now();
        await page.say('pod', `bench-${i}`, `echo first-output-${i}`);
        await until(`message ${i} to end`, MINUTE, () => over.has(id));
        took.push(came.get(id) - start);
    }
    return took.slice(1);
}

async function latency(fleet, { row, raw }) {
    const { child, echo } = await double(), page = await Page.open(fleet.must('web', 'login').stdout);
    const output = [], trip = [];
    try {
        for (let turn = 0; turn < 4; turn++)
            trip.push(...await trips(echo, ROUND_TRIPS / 4));
        output.push(...await firstOutputs(page, ROUND_TRIPS));
        for (let turn = 0; turn < 4; turn++)
            trip.push(...await trips(echo, ROUND_TRIPS / 4));
    } finally {
        page.close();
        child.kill();
    }
    Object.assign(raw, { page_output_ms: output, loopback_ms: trip });
    for (const part of [0.5, 0.99])
        row(`page, first output, p${part * 100}`, `${percentile(output, part).toFixed(1)} ms against ${percentile(trip, part).toFixed(2)} ms`,
            percentile(output, part) / percentile(trip, part), '', null);
}

/** A relay and a manager with many agents, the Telegram front paired, and a page. */
class Crowd {
    static async start(n) {
        const crowd = new Crowd();
        crowd.root = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-cage-bench-'));
        fs.chmodSync(crowd.root, 0o755);
        crowd.env = { ...process.env, AGENT_CAGE_ROOT: crowd.root };
        try {
            await crowd.open(n);
        } catch (e) {
            await crowd.stop();
            throw e;
        }
        return crowd;
    }

    async open(n) {
        this.api = await double();
        this.helper = spawn(path.join(top, 'build/tests/bench/help-fleet'), [binary, this.root, String(n)],
            { env: { ...this.env, AGENT_CAGE_TELEGRAM_API: this.api.url }, stdio: ['pipe', 'pipe', 'ignore'] });
        const lines = readline.createInterface({ input: this.helper.stdout })[Symbol.asyncIterator]();
        this.parts = JSON.parse((await within('relay and manager to stand', MINUTE, lines.next())).value);
        const code = /[A-Z2-9]{4}-[A-Z2-9]{4}/.exec(await this.cage('987654321:AAtest-Token_0123456789abcdefghijk', 'telegram', 'setup', '--token-file', '-'))[0];
        this.api.child.send({ say: code });
        await until('the owner to be paired', MINUTE, async () => (await this.cage('', 'telegram', 'status')).includes('1 paired'));
        this.page = await Page.open(await this.cage('', 'web', 'login'));
    }

    async cage(input, ...args) {
        const child = spawn(binary, args, { env: this.env });
        child.stdin.on('error', () => {}); // it need not read its input
        child.stdin.end(input);
        const done = await ended(child);
        if (done.status !== 0)
            throw new Error(`agent-cage ${args.join(' ')}: ${done.stderr}`);
        return done.stdout;
    }

    /** What the Bot API has shown: how many messages, in how many milliseconds. */
    async shown() {
        this.api.child.send({ count: true });
        return (await once(this.api.child, 'message'))[0];
    }

    /** The same two calls for each of n messages, by a client that does nothing else; milliseconds. */
    async bare(n) {
        const agent = new http.Agent({ keepAlive: true, maxSockets: 1 }), { hostname, port } = new URL(this.api.url);
        const call = (method, args) => new Promise((done, failed) => {
            const req = http.request({ hostname, port, method: 'POST', path: `/bot1/${method}`, agent, headers: { 'Content-Type': 'application/json' } }, res => {
                let text = '';
                res.setEncoding('utf8').on('data', d => { text += d; }).on('end', () => done(JSON.parse(text).result)).on('error', failed);
            });
            req.on('error', failed).end(JSON.stringify(args));
        });
        const start = performance.now();
        for (let i = 0; i < n; i++) {
            const { message_id } = await call('sendMessage', { chat_id: 4242, text: '·' });
            await call('editMessageText', { chat_id: 4242, message_id, text: `message ${i}` });
        }
        agent.destroy();
        return performance.now() - start;
    }

    async stop() {
        this.page?.close();
        this.api?.child.kill();
        this.helper?.stdin.end();
        if (this.helper)
            await ended(this.helper);
        fs.rmSync(this.root, { recursive: true, force: true });
    }
}

/** n messages by as many connections of the page as there may be; seconds until the last was acknowledged. */
async function sayAll(page, n) {
    const start = performance.now();
    let next = 0;
    await Promise.all(Array.from({ length: PAGES }, async () => {
        for (let i; (i = next++) < n;)
            await page.say(`agent-${String(i % AGENTS).padStart(3, '0')}`, `day-${i}`, `message ${i} of a day`);
    }));
    return (performance.now() - start) / 1000;
}

/** All of them said while nothing goes out to the chat; then all that waits goes out at once. */
async function day(crowd) {
    const { page, parts, api } = crowd, pss = [pssKiB(parts.relay)];
    let reports = 0;
    page.follow(event => { reports += event.includes('"kind":"report"'); });
    const sampler = setInterval(() => pss.push(pssKiB(parts.relay)), 250);
    try {
        api.child.send({ hold: true });
        const taken_s = await sayAll(page, MESSAGES);
        await until('all reports', MINUTE, () => reports === MESSAGES);
        api.child.send({ hold: false });
        const shown = await until('all to be shown in the chat', 5 * MINUTE, async () => {
            const now = await crowd.shown();
            return now.shown >= 2 * MESSAGES ? now : null;
        });
        return { taken_s, outbox: { messages: shown.shown, s: shown.ms / 1000 }, bare: { messages: BARE, s: await crowd.bare(BARE) / 1000 }, relay_pss_kib: pss };
    } finally {
        clearInterval(sampler);
    }
}

async function crowded({ row, raw }) {
    const crowd = await Crowd.start(AGENTS);
    try {
        const got = raw.fronts = await day(crowd);
        const most = Math.max(...got.relay_pss_kib), mib = kib => (kib / 1024).toFixed(1);
        row('relay, 100 agents', `${mib(most)} MiB PSS at most with ${MESSAGES} messages, ${mib(got.relay_pss_kib[0])} before`, '', '≤ 8 MiB', most <= 8192);
        row('messages taken', `${(MESSAGES / got.taken_s).toFixed(0)} a second by the page`, '', '', null);
        const [rate, bare] = [got.outbox, got.bare].map(({ messages, s }) => messages / s);
        row('outbox', `${rate.toFixed(0)} messages a second to a fast Bot API, ${bare.toFixed(0)} by a bare client`, rate / bare, '≥ 1000', rate >= 1000);
    } finally {
        await crowd.stop();
    }
}

/** Rows through row(name, text, ratio, goal, met); samples into raw. The fleet has `conf`, and a pod. */
export async function fronts(fleet, { row, raw, progress }) {
    progress('the page: from a message to its first output');
    await latency(fleet, { row, raw });
    progress(`relay and manager with ${AGENTS} agents and ${MESSAGES} messages`);
    await crowded({ row, raw });
}
