// The commands that begin with /, the same in every front, and what no front takes.
import { el, line, span, tokens, count } from '/dom.js';
import * as api from '/api.js';
import { refreshSoon } from '/fleet.js';
import { tokenCard } from '/token.js';

async function give(room, order, name, done, arg = '') {
    const end = await api.order(order, name, arg);
    refreshSoon();
    room.tell(end.text || `${name}: ${done}`);
}

const ordered = (order, done) => (room, name) => give(room, order, name, done);

async function sessions(room, name) {
    const all = await api.sessions(name);
    room.tell(all.map(s => `${s.current ? '▸' : ' '} ${s.number}  ${line(s.name) || '-'}  ${count(s.turns, 'turn', 'turns')} · ${tokens(s.tokens)} tok · `
        + `${span(Date.now() - s.used_wall_ms)} ago`).join('\n') || `${name} has no sessions yet`);
}

async function fetched(room, name, file) {
    if (!file) {
        room.tell('Which file? /get FILE, a name in the agent\'s outbox.');
        return;
    }
    const url = URL.createObjectURL(await api.get(name, file));
    el('a', { href: url, download: file }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
}

/** An agent that takes no token says itself what to do instead. */
async function logIn(room, name) {
    const vendor = () => give(room, 'login', name, 'logs in');
    const card = await tokenCard(room, name, () => vendor().catch(e => room.tell(e.message)));
    return card ? room.offer(card) : vendor();
}

/** name → what it takes, what it does; agent: it needs one (the room's, or the one that is named, or a question). */
export const words = {
    start: { args: '[NAME]', help: 'start the agent', agent: true, named: true, run: ordered('start', 'started') },
    restart: { args: '[NAME]', help: 'stop the agent and start it', agent: true, named: true, run: ordered('restart', 'restarted') },
    stop: { args: '[NAME]', help: 'end what the agent does; with a name: stop that agent', agent: true, named: true,
        run: (room, name, rest) => give(room, rest ? 'stop' : 'halt', name, rest ? 'stopped' : 'what it did was ended') },
    new: { args: '[TITLE]', help: 'a new session; the one before can be resumed', agent: true,
        run: (room, name, rest) => give(room, 'fresh', name, 'a fresh session', rest) },
    sessions: { args: '', help: 'its sessions: when they were used, and what they used', agent: true, run: sessions },
    resume: { args: 'SESSION', help: 'go on with an earlier session, by its number or title', agent: true,
        run: (room, name, rest) => rest ? give(room, 'resume', name, 'goes on with that session', rest) : sessions(room, name) },
    model: { args: '[MODEL]', help: 'another model from the next message on', agent: true,
        run: (room, name, rest) => give(room, 'model', name, `model ${rest || 'as the harness chooses'}`, rest) },
    auth: { args: '[NAME]', help: 'log the agent in: a token, encrypted here for it alone, or its vendor\'s page', agent: true, named: true, run: logIn },
    code: { args: 'CODE', help: 'the code that the page of the log-in shows', agent: true, run: async (room, name, rest) => rest
        ? give(room, 'login', name, 'has the code', rest) : room.tell('Which code? /code CODE, as the page of the log-in shows it.') },
    file: { args: '', help: 'send files into the agent\'s in-tray; dropping them on the room does too', agent: true, run: async (room, name) => room.pick(name) },
    get: { args: 'FILE', help: 'fetch a file from the agent\'s outbox', agent: true, run: fetched },
    status: { args: '', help: 'open the strip', agent: true, run: async room => room.pin(true) },
    use: { args: 'NAME', help: 'go to that agent\'s room', run: async (room, _, rest) => room.go(rest) },
    help: { args: '', help: 'this list', run: async room => room.help() },
};

/** Does a text hold a credential? By the looks that proto/pasted.c knows; the relay looks too. */
export const pasted = text =>
    /(?<![\w-])(?:sk-[\w-]{29}|gh[po]_[\w-]{16}|github_pat_[\w-]{9}|xox[bp]-[\w-]{15}|AKIA[\w-]{16}|glpat-[\w-]{14}|(?:bot)?\d{8,}:[\w-]{30})|"(?:refresh|access)(?:Token|_token)"[^]*?[\w-]{32}/.test(text)
    || [...text.matchAll(/(?<![\w-])eyJ[\w-]*\.[\w-]+(?=\.)/g)].some(m => m[0].length >= 60);

/** { word, rest } of a line that is a command, null for plain text. */
export function commandOf(text) {
    const m = /^\/([a-z]+)(?:\s+([\s\S]*))?$/.exec(text.trim());
    return m ? { word: m[1], rest: (m[2] ?? '').trim() } : null;
}
