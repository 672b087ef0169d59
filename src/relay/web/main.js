// Start, log-in, the list of rooms, keys.
import { el, add, line, count, shortTime, store } from '/dom.js';
import * as api from '/api.js';
import * as fleet from '/fleet.js';
import { Room } from '/room.js';

const $ = id => document.getElementById(id);
const app = $('app');
let room = null;

/* ---- light and dark ---- */

const THEMES = { auto: 'Theme: as the system', light: 'Theme: light', dark: 'Theme: dark' };

function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    $('theme').textContent = THEMES[theme];
    store('theme', theme);
}

$('theme').addEventListener('click', () => {
    const all = Object.keys(THEMES);
    setTheme(all[(all.indexOf(document.documentElement.dataset.theme) + 1) % all.length]);
});

/* ---- rooms ---- */

function entry(name, title, sub, dot, unread, when) {
    const node = el('li', {}, el('button', { type: 'button', 'data-room': name, 'aria-current': room?.name === name ? 'page' : null,
        onclick: () => go(name) },
        el('span', { class: `dot ${dot}` }), el('span', { class: 'name' }, title), el('span', { class: 'when' }, when),
        el('span', { class: 'last' }, sub), unread ? el('span', { class: 'unread', 'aria-label': `${unread} unread` }, unread > 99 ? '99+' : unread) : null));
    return node;
}

function preview(agent) {
    if (agent.questions.size)
        return 'asks you something';
    if (agent.busy)
        return 'working …';
    const e = agent.last;
    return e ? line(e.text).slice(0, 80) || (e.kind === 'report' ? 'done' : e.kind) : agent.info.state;
}

let drawing = false;
function drawRooms() {
    if (drawing)
        return;
    drawing = true;
    requestAnimationFrame(() => {
        drawing = false;
        const wanted = $('find').value.trim().toLowerCase();
        const all = [...fleet.agents.values()].filter(a => a.name && (!wanted || a.name.includes(wanted)));
        all.sort((a, b) => (b.last?.seq ?? 0) - (a.last?.seq ?? 0) || a.name.localeCompare(b.name));
        const focused = document.activeElement?.dataset?.room;
        $('rooms').replaceChildren(entry('', 'Fleet', count(fleet.agents.size, 'agent', 'agents'), 'fleet', 0, ''),
            ...all.map(a => entry(a.name, a.name, preview(a), `${a.busy ? 'busy' : ''} ${a.info.state}`, a.unread, a.last ? shortTime(a.last.wall_ms) : '')));
        if (focused !== undefined)
            $('rooms').querySelector(`[data-room="${CSS.escape(focused)}"]`)?.focus();
        const unread = all.reduce((n, a) => n + a.unread, 0);
        document.title = unread ? `(${unread}) agent-cage` : 'agent-cage';
    });
}

async function go(name, seq) {
    if (name && !fleet.agents.has(name)) {
        room?.tell(`there is no agent ${name}`);
        return;
    }
    room?.close();
    room = new Room(name, go, () => { app.dataset.view = 'rooms'; });
    $('main').replaceChildren(room.node);
    app.dataset.view = 'room';
    store('room', name);
    drawRooms();
    await room.open();
    if (seq)
        await room.show(seq);
    else if (matchMedia('(min-width: 720px)').matches)
        room.input.focus();
}

/* ---- searching ---- */

function find() {
    const words = $('find').value.trim();
    drawRooms();
    const found = words.length > 1 ? fleet.search(words) : [];
    const further = words.length > 1 && !fleet.knowsAll() && el('button', { type: 'button', class: 'further', onclick: dig }, 'Look further back');
    $('found').hidden = !found.length && !further;
    $('found').replaceChildren(...found.map(e => el('li', {}, el('button', { type: 'button', onclick: () => go(e.agent, e.seq) },
        el('span', { class: 'name' }, e.agent), el('span', { class: 'when' }, shortTime(e.wall_ms)), el('span', { class: 'last' }, snippet(e.text, words))))));
    if (further)
        add($('found'), el('li', {}, further));
}

$('find').addEventListener('input', find);

async function dig(e) {
    e.target.disabled = true;
    e.target.textContent = 'looking …';
    await fleet.dig().catch(() => {});
    find();
    $('found').querySelector('.further')?.focus();
}

function snippet(text, words) {
    const flat = line(text), at = flat.toLowerCase().indexOf(words.toLowerCase().split(/\s+/)[0]);
    return flat.slice(Math.max(0, at - 20), at + 60);
}

/* ---- keys ---- */

document.addEventListener('keydown', e => {
    if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === 'k') {
        e.preventDefault();
        app.dataset.view = 'rooms';
        $('find').focus();
        $('find').select();
    } else if (e.altKey && (e.key === 'ArrowDown' || e.key === 'ArrowUp')) {
        e.preventDefault();
        const names = [...$('rooms').querySelectorAll('[data-room]')].map(b => b.dataset.room), at = names.indexOf(room?.name ?? '');
        go(names[(at + (e.key === 'ArrowDown' ? 1 : names.length - 1)) % names.length]);
    } else if (e.key === 'Escape' && document.activeElement === $('find')) {
        $('find').value = '';
        $('find').dispatchEvent(new Event('input'));
        app.dataset.view = 'room';
        room?.input.focus();
    }
});

/* ---- coming in ---- */

function atTheDoor(why) {
    app.hidden = true;
    $('door').hidden = false;
    $('why').textContent = why;
}

function setLink(up) {
    $('link').textContent = up ? '' : 'reconnecting …';
    app.classList.toggle('offline', !up);
    if (up)
        fleet.refresh().catch(() => {});
}

/** A link's token works once: what the network drops is tried again, here while the address still has it. */
async function logIn(token) {
    for (let tries = 1; ; tries++) {
        try {
            await api.login(token);
            break;
        } catch (e) {
            if (e instanceof api.LoggedOut || tries > 5)
                throw e;
            $('link').textContent = 'reconnecting …';
            await api.sleep(250 * 2 ** tries);
        }
    }
    $('link').textContent = '';
}

async function start() {
    setTheme(THEMES[store('theme')] ? store('theme') : 'auto');
    const token = /^#login=([0-9a-f]{64})$/.exec(location.hash)?.[1];
    const forget = () => location.hash && history.replaceState(null, '', '/');
    try {
        if (token)
            await logIn(token);
        forget();
        if (!api.hasKey()) {
            atTheDoor('Log in with a link.');
            return;
        }
        await fleet.refresh();
    } catch (e) {
        if (e instanceof api.LoggedOut) {
            forget();
            atTheDoor(e.message);
            return;
        }
        if (location.hash && !api.hasKey()) {
            atTheDoor('The fleet does not answer. The link may still work: load this page again.');
            return;
        }
    }
    fleet.listen(drawRooms);
    api.follow(400, { event: fleet.take, state: setLink, loggedOut: () => atTheDoor('This browser was logged out.') });
    setTimeout(async () => {
        fleet.settle();
        await fleet.recall();
        fleet.arrived();
        drawRooms();
    }, 1000);
    setInterval(() => { if (!document.hidden) fleet.refresh().catch(() => {}); }, 10000);
    setInterval(() => { if (!document.hidden && room?.agent) fleet.refreshStatus(room.agent).catch(() => {}); }, 4000);
    document.addEventListener('visibilitychange', () => room?.read());
    const last = store('room') ?? '';
    await go(fleet.agents.has(last) ? last : '');
    if (!matchMedia('(min-width: 720px)').matches && !last)
        app.dataset.view = 'rooms';
}

$('logout').addEventListener('click', async () => {
    await api.logout().catch(() => {});
    store('key', null);
    location.reload();
});

sessionStorage.removeItem('again'); // again.js: everything was loaded
window.addEventListener('hashchange', () => location.reload()); // another link, in the same tab
start();
