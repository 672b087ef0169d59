// Calls to the relay. Each carries the key that only this origin can read (the cookie alone opens nothing); every answer is a
// stream of server-sent events that ends with "end". What the fleet refuses is thrown as a Refusal, in its words.
import { store } from '/dom.js';

const TYPE = 'application/x-agent-cage';
const SILENCE_MS = 40000; // the relay says something every 15 s

export class Refusal extends Error {
    constructor(status, text) {
        super(text || `refused (${status})`);
        this.status = status;
    }
}

export class LoggedOut extends Error {}

export const hasKey = () => Boolean(store('key'));

export async function login(token) {
    const answer = await fetch('/api/login', { method: 'POST', body: token, headers: { 'Content-Type': TYPE } });
    const text = await answer.text();
    if (!answer.ok)
        throw new LoggedOut(answer.status === 403 ? text : 'The link does not work.');
    store('key', text);
}

export async function logout() {
    await request('POST', '/api/logout', {});
    store('key', null);
}

async function request(method, path, query, body, signal) {
    const url = path + '?' + new URLSearchParams(query).toString().replaceAll('+', '%20'); // a plus itself is %2B here
    const headers = { 'Cage-Key': store('key') ?? '' };
    if (method === 'POST')
        headers['Content-Type'] = TYPE;
    const answer = await fetch(url, { method, headers, signal, body: method === 'POST' ? body ?? '' : undefined });
    if (answer.status === 401)
        throw new LoggedOut('This browser is not logged in.');
    if (!answer.ok)
        throw new Refusal(answer.status, await answer.text());
    return answer;
}

/** The events of an answer: { event, id, data }. A stream that is cut before its end is an error. */
async function* events(answer, alive) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
        const { value, done } = await reader.read();
        if (done)
            throw new Error('the relay is away');
        alive?.();
        const blocks = (rest + value).split('\n\n');
        rest = blocks.pop();
        for (const block of blocks) {
            const fields = Object.fromEntries(block.split('\n').map(l => [l.slice(0, l.indexOf(':')), l.slice(l.indexOf(':') + 2)]));
            if (!fields.event)
                continue;
            const data = JSON.parse(fields.data);
            yield { event: fields.event, id: Number(fields.id ?? 0), data };
            if (fields.event === 'end')
                return;
        }
    }
}

/** Asks and gives { answers, end }. */
async function call(method, path, query, body) {
    const answers = [];
    for await (const e of events(await request(method, path, query, body))) {
        if (e.event !== 'end') {
            answers.push(e.data);
            continue;
        }
        if (e.data.status)
            throw new Refusal(e.data.status, e.data.text);
        return { answers, end: e.data };
    }
    throw new Error('the relay is away');
}

export const agents = async () => (await call('GET', '/api/agents', {})).answers;
export const status = async agent => (await call('GET', '/api/status', { agent })).answers[0];
export const page = async (agent, last, before) =>
    (await call('GET', '/api/events', before ? { agent, last, before } : { agent, last })).answers;
export const log = async (agent, last) => (await call('GET', '/api/log', { agent, last })).answers;
export const sessions = async agent => (await call('GET', '/api/sessions', { agent })).answers;
export const order = async (name, agent, arg = '') => (await call('POST', '/api/order', { order: name, agent }, arg)).end;
/** A box of token.js. */
export const token = async (agent, box) => (await call('POST', '/api/token', { agent }, box)).end;
/** A file (File or Blob) into the agent's in-tray; gives the place where its rooms see it. */
export const put = async (agent, name, file) => (await call('POST', '/api/put', { agent, name }, file)).end.text;
/** A file of its outbox, as a Blob of no type. */
export const get = async (agent, name) => (await request('GET', '/api/get', { agent, name })).blob();
export const answer = async (agent, question, digest, choice) =>
    (await call('POST', '/api/answer', { agent, question, digest, choice })).end;

/** Says a text once: said again with the same key after a broken connection, it is still taken once. */
export async function say(agent, text, key) {
    for (let tries = 0; ; tries++) {
        try {
            return (await call('POST', '/api/say', { agent, key }, text)).end;
        } catch (e) {
            if (e instanceof Refusal || e instanceof LoggedOut || tries === 20)
                throw e;
            await sleep(500 + 250 * tries);
        }
    }
}

export const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), b => b.toString(16).padStart(2, '0')).join('');
export const sleep = ms => new Promise(done => { setTimeout(done, ms); });

/**
 * Every event from now on, for as long as the page lives: first the last ones, later what came since the last one that was
 * seen. on.event(data), on.state(true: connected), on.loggedOut().
 */
export async function follow(first, on) {
    let after = null;
    for (let wait = 250; ;) {
        const stop = new AbortController();
        let timer = setTimeout(() => stop.abort(), SILENCE_MS);
        const alive = () => {
            clearTimeout(timer);
            timer = setTimeout(() => stop.abort(), SILENCE_MS);
        };
        try {
            const query = after === null ? { last: first, follow: 1 } : { after, follow: 1 };
            const answer = await request('GET', '/api/events', query, null, stop.signal);
            on.state(true);
            wait = 250;
            for await (const e of events(answer, alive)) {
                if (e.event === 'event') {
                    after = Math.max(after ?? 0, e.id);
                    on.event(e.data);
                } else
                    break;
            }
        } catch (e) {
            if (e instanceof LoggedOut) {
                clearTimeout(timer);
                on.loggedOut();
                return;
            }
        }
        clearTimeout(timer);
        on.state(false);
        await sleep(wait);
        wait = Math.min(wait * 2, 4000);
    }
}
