// What the page knows: the agents, the events that came, what was read. Rooms and lists listen for changes.
import { store } from '/dom.js';
import * as api from '/api.js';

/** kind → may be shown again after a reload; the others are told while a turn runs, and not kept. */
const KEPT = new Set(['queued', 'started', 'report', 'note', 'unknown', 'refused']);
export const ENDS = new Set(['report', 'unknown', 'refused']);
const QUIET = 60, FAR = 500; // events asked for at once
const KEEP_LIVE = 400000; // characters of a running turn's output

class Agent {
    constructor(name) {
        this.name = name;
        this.info = { agent: name, state: '', mode: '', harness: '', project: '', net: '', why: '' };
        this.status = null;
        this.events = new Map(); // by seq, what is kept
        this.live = new Map();   // by message: what its turn does now
        this.ended = new Set();  // messages that ended: what still comes of their turn is late
        this.questions = new Map();
        this.read = Number(store(`read:${name}`) ?? -1); // -1: this browser was never here
        this.whole = false;      // nothing is older than what is here
    }

    get last() {
        let last = null;
        for (const e of this.events.values())
            if (e.kind !== 'started' && (!last || e.seq > last.seq))
                last = e;
        return last;
    }

    get unread() {
        let n = 0;
        for (const e of this.events.values())
            n += e.seq > this.read && (ENDS.has(e.kind) || e.kind === 'note') ? 1 : 0;
        return n + this.questions.size;
    }

    get busy() {
        return [...this.live.values()].some(l => l.started);
    }

    markRead() {
        const newest = Math.max(0, ...this.events.keys());
        if (newest <= this.read)
            return false;
        this.read = newest;
        store(`read:${this.name}`, String(newest));
        return true;
    }
}

export const agents = new Map();
const listeners = new Set();

/** change: { agent, event } (live) | { list } | { status } */
export function listen(f) {
    listeners.add(f);
    return () => listeners.delete(f);
}

const tell = change => listeners.forEach(f => f(change));
export const touch = agent => tell({ list: true, agent });

export function agentOf(name) {
    if (!agents.has(name))
        agents.set(name, new Agent(name));
    return agents.get(name);
}

function liveOf(agent, id) {
    if (!agent.live.has(id))
        agent.live.set(id, { id, text: '', cut: false, tools: [], started: 0 });
    return agent.live.get(id);
}

const liveKinds = {
    output: (l, e) => appendText(l, e.text),
    text: (l, e) => appendText(l, e.text),
    tool_start: (l, e) => l.tools.push({ call: e.call, name: e.name, text: e.text, since: e.wall_ms, ended: 0, status: 0, output: '' }),
    tool_end: (l, e) => {
        const tool = l.tools.findLast(t => t.call === e.call && !t.ended);
        if (tool)
            Object.assign(tool, { ended: e.wall_ms, status: e.status, output: e.text });
    },
};

function appendText(l, text) {
    l.text += text;
    if (l.text.length > KEEP_LIVE) {
        l.text = l.text.slice(-KEEP_LIVE / 2);
        l.cut = true;
    }
}

/** One event of the stream, or of a page of old ones (then it changes no running turn, and who asked for the page shows it). */
export function take(e, old = false) {
    const agent = agentOf(e.agent);
    if (KEPT.has(e.kind)) {
        if (agent.events.has(e.seq))
            return;
        agent.events.set(e.seq, e);
    }
    if (ENDS.has(e.kind))
        agent.ended.add(e.id);
    if (!old && e.kind === 'started' && !agent.ended.has(e.id))
        liveOf(agent, e.id).started = e.wall_ms;
    else if (!old && ENDS.has(e.kind)) {
        const live = agent.live.get(e.id);
        if (live?.tools.length)
            e.live = live.tools;
        agent.live.delete(e.id);
        for (const [n, q] of agent.questions)
            if (q.id === e.id)
                agent.questions.delete(n);
    } else if (e.kind === 'question')
        agent.questions.set(e.question, e);
    else if (e.kind === 'answer')
        agent.questions.delete(e.question);
    else if (liveKinds[e.kind] && !agent.ended.has(e.id))
        liveKinds[e.kind](liveOf(agent, e.id), e);
    if (!old)
        tell({ agent, event: e });
    if (e.kind === 'note')
        refreshSoon();
}

/** What a browser finds that was never here is not news to it. */
export function arrived() {
    for (const agent of agents.values())
        if (agent.read < 0)
            agent.markRead();
}

/** What ran before this page began: its turn is known by a start without an end. */
export function settle() {
    for (const agent of agents.values()) {
        for (const e of agent.events.values())
            if (e.kind === 'started' && !agent.ended.has(e.id))
                liveOf(agent, e.id).started = e.wall_ms;
        for (const id of agent.live.keys())
            if (agent.ended.has(id))
                agent.live.delete(id);
    }
}

/** A page of what is older than all that is known of the agent. */
export async function older(agent, n) {
    const seqs = [...agent.events.keys()], oldest = agent.opened ? Math.min(...seqs) : 0;
    const events = await api.page(agent.name, n, Number.isFinite(oldest) ? oldest : 0);
    agent.opened = true;
    agent.whole = events.length < n;
    for (const e of events)
        take(e, true);
    settle();
    return events.length;
}

/** What the stream's first events left out: the last ones of agents that were quiet for longer. */
export async function recall() {
    for (const agent of [...agents.values()])
        if (agent.name && !agent.events.size && !agent.opened)
            await older(agent, QUIET).catch(() => {});
}

const further = () => [...agents.values()].filter(a => a.name && !a.whole);

/** Does this page know everything that was ever said? */
export const knowsAll = () => !further().length;

/** A page further back, of every agent. */
export async function dig() {
    for (const agent of further())
        await older(agent, FAR);
}

export async function refresh() {
    const now = await api.agents(), names = new Set(now.map(a => a.agent));
    for (const a of now)
        agentOf(a.agent).info = a;
    for (const name of [...agents.keys()])
        if (!names.has(name) && name)
            agents.delete(name);
    tell({ list: true });
}

let soon = null;
export function refreshSoon() {
    soon ??= setTimeout(() => {
        soon = null;
        refresh().catch(() => {});
    }, 300);
}

export async function refreshStatus(agent) {
    const status = await api.status(agent.name);
    if (!status)
        return;
    agent.status = status;
    agent.info.state = status.state;
    tell({ status: true, agent });
}

/** Messages with these words, newest first, of what this page knows. */
export function search(words) {
    const all = words.toLowerCase().split(/\s+/).filter(Boolean), found = [];
    for (const agent of agents.values())
        for (const e of agent.events.values())
            if (e.text && e.kind !== 'started' && all.every(w => e.text.toLowerCase().includes(w)))
                found.push(e);
    return found.sort((a, b) => b.seq - a.seq).slice(0, 50);
}
