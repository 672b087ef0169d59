// One room: an agent's, or the fleet's (name ""), where every agent's news is shown and "which agent?" is asked.
import { el, add, visible, count, size, dayName, sameDay, store } from '/dom.js';
import * as api from '/api.js';
import * as fleet from '/fleet.js';
import { said, ended, note, Running, question, ticks } from '/messages.js';
import { stateStrip, budgetStrip, headline } from '/strips.js';
import { words, commandOf, pasted } from '/words.js';
import { maker } from '/make.js';

const PAGE = 60, NEAR = 300, SHOWN = 300; // events: of a page, px: near an end, events: shown when a room is opened

export class Room {
    constructor(name, goTo, back) {
        this.agent = name ? fleet.agentOf(name) : null;
        this.name = name;
        this.go = goTo;
        this.nodes = new Map();   // seq → element, in order
        this.running = new Map(); // message → Running
        this.asked = new Map();   // question → element
        this.from = Infinity;     // the oldest that is shown
        this.sending = new Map(); // key → { node, id }
        this.build(back);
        this.forget = fleet.listen(c => this.onChange(c));
        this.timer = setInterval(() => this.tick(), 1000);
    }

    close() {
        this.forget();
        clearInterval(this.timer);
    }

    /* ---- its frame ---- */

    build(back) {
        const title = this.agent ? this.name : 'Fleet';
        this.sub = el('p', { class: 'sub' });
        this.dot = el('span', { class: 'dot' });
        this.pinned = el('details', { class: 'pinned', open: store('pin') !== 'closed' }, el('summary', {}, 'State'));
        this.pinned.addEventListener('toggle', () => store('pin', this.pinned.open ? 'open' : 'closed'));
        this.strip = el('div', {});
        add(this.pinned, this.strip);
        this.list = el('div', { class: 'list', role: 'log', 'aria-label': `Messages of ${title}`, tabindex: 0 });
        this.tail = el('div', { class: 'tail' });
        this.scroll = el('div', { class: 'scroll' }, this.list, this.tail);
        this.scroll.addEventListener('scroll', () => this.onScroll(), { passive: true });
        this.down = el('button', { type: 'button', class: 'down', hidden: true, 'aria-label': 'To the newest message', onclick: () => this.toEnd() }, '↓');
        this.input = el('textarea', { id: 'say', rows: 1, 'aria-label': `Message to ${this.agent ? this.name : 'an agent'}`,
            placeholder: this.agent ? `Message ${this.name}, or /help` : 'Message an agent, or /help', autocomplete: 'off',
            onkeydown: e => this.onKey(e), oninput: () => this.grow() });
        this.hints = el('div', { class: 'hints', role: 'status', 'aria-live': 'polite' });
        this.picker = el('input', { type: 'file', multiple: true, hidden: true, 'aria-label': 'Files to send', onchange: () => this.picked() });
        const form = el('form', { class: 'composer', onsubmit: e => { e.preventDefault(); this.send(); } }, this.picker,
            el('button', { type: 'button', class: 'attach', 'aria-label': 'Send files', onclick: () => this.whichAgent(name => this.pick(name)) }, '+'), this.input,
            el('button', { type: 'submit', class: 'send', 'aria-label': 'Send' }, '➤'));
        const act = (label, word) => el('button', { type: 'button', onclick: () => this.command({ word, rest: '' }) }, label);
        const menu = this.agent && el('details', { class: 'menu' }, el('summary', { 'aria-label': 'More' }, '⋯'),
            el('div', {}, act('New session', 'new'), act('Start', 'start'), act('Restart', 'restart'),
                el('button', { type: 'button', onclick: () => this.command({ word: 'stop', rest: this.name }) }, 'Stop the agent')));
        menu?.addEventListener('click', e => { if (e.target instanceof HTMLButtonElement) menu.open = false; });
        this.halt = this.agent && el('button', { type: 'button', class: 'halt', hidden: true, onclick: () => this.command({ word: 'stop', rest: '' }) }, 'Stop');
        const fresh = !this.agent && el('button', { type: 'button', class: 'fresh', onclick: () => this.offer(maker()) }, 'New agent');
        this.node = el('section', { class: 'room', 'aria-label': title },
            el('header', {}, el('button', { type: 'button', class: 'back', 'aria-label': 'All rooms', onclick: back }, '‹'), this.dot,
                el('div', { class: 'title' }, el('h2', {}, title), this.sub), this.halt, menu, fresh),
            this.pinned, this.scroll, this.down, this.hints, form);
        this.takeDrops();
        this.drawHead();
    }

    drawHead() {
        if (!this.agent) {
            const all = [...fleet.agents.values()], up = all.filter(a => a.info.state === 'running').length;
            this.sub.textContent = all.length ? `${count(all.length, 'agent', 'agents')} · ${up} running` : 'no agents yet';
            this.dot.className = `dot ${up ? 'running' : ''}`;
            this.pinned.hidden = true;
            return;
        }
        this.dot.className = `dot ${this.agent.busy ? 'busy' : ''} ${this.agent.info.state}`;
        this.sub.textContent = headline(this.agent);
        this.halt.hidden = !this.agent.busy;
        const budget = budgetStrip(this.agent);
        this.pinned.firstChild.replaceChildren(el('span', {}, 'State'), budget ?? '');
        this.strip.replaceChildren(stateStrip(this.agent));
    }

    pin(open) {
        this.pinned.open = open;
    }

    /* ---- its messages ---- */

    async open() {
        if (this.agent && !this.agent.opened)
            await fleet.older(this.agent, PAGE).catch(e => this.tell(e.message));
        this.rebuild();
        this.toEnd();
        this.read();
        if (this.agent)
            fleet.refreshStatus(this.agent).catch(() => {});
    }

    get events() {
        const from = this.agent ? [this.agent] : [...fleet.agents.values()];
        return from.flatMap(a => [...a.events.values()]).sort((a, b) => a.seq - b.seq);
    }

    /** Which end a message came to, as far as is known. */
    stateOf(e) {
        const agent = fleet.agentOf(e.agent);
        let state = agent.live.get(e.id)?.started ? 'started' : 'queued';
        for (const other of agent.events.values())
            if (other.id === e.id && (fleet.ENDS.has(other.kind) || (other.kind === 'started' && state === 'queued')))
                state = other.kind;
        return state;
    }

    make(e) {
        const agent = fleet.agentOf(e.agent);
        const node = e.kind === 'queued' ? said(e, this.stateOf(e)) : fleet.ENDS.has(e.kind) ? ended(agent, e) : e.kind === 'note' ? note(e) : null;
        if (node && !this.agent && e.agent)
            node.prepend(el('button', { type: 'button', class: 'of', onclick: () => this.go(e.agent) }, e.agent));
        return node;
    }

    rebuild() {
        this.nodes.clear();
        this.list.replaceChildren();
        const events = this.events, states = new Map();
        for (const e of events)
            if (e.kind !== 'queued')
                states.set(e.id, e.kind === 'note' ? states.get(e.id) : e.kind);
        this.stateOf = e => states.get(e.id) ?? 'queued';
        this.from = events.at(-SHOWN)?.seq ?? events[0]?.seq ?? Infinity;
        for (const e of events.slice(-SHOWN))
            this.place(e, true);
        delete this.stateOf;
        for (const agent of this.agent ? [this.agent] : fleet.agents.values())
            this.drawLive(agent);
    }

    /** Puts an event where it belongs; nearly always at the end, or (older) at the front. */
    place(e, last) {
        const node = this.nodes.has(e.seq) ? null : this.make(e);
        if (!node)
            return;
        this.nodes.set(e.seq, node);
        this.from = Math.min(this.from, e.seq);
        node.dataset.ms = e.wall_ms;
        let before = null;
        if (!last)
            for (before = this.list.lastElementChild; before && Number(before.dataset.seq ?? 0) > e.seq;)
                before = before.previousElementSibling;
        const next = last ? null : before ? before.nextElementSibling : this.list.firstElementChild;
        this.list.insertBefore(node, next);
        this.dayBefore(node);
    }

    dayBefore(node) {
        let old = node.previousElementSibling;
        if (old && sameDay(Number(old.dataset.ms), Number(node.dataset.ms)))
            return;
        const line = el('p', { class: 'day', 'data-seq': node.dataset.seq, 'data-ms': node.dataset.ms }, dayName(Number(node.dataset.ms)));
        this.list.insertBefore(line, node);
        const next = node.nextElementSibling;
        if (next?.classList.contains('day') && sameDay(Number(next.dataset.ms), Number(node.dataset.ms)))
            next.remove();
    }

    drawLive(agent) {
        for (const [id, live] of agent.live) {
            const key = `${agent.name}#${id}`, old = this.running.get(key);
            if (old)
                old.update(live);
            else if (live.started || live.text || live.tools.length) {
                const fresh = new Running(agent, live, () => this.command({ word: 'stop', rest: '' }, agent.name));
                this.running.set(key, Object.assign(fresh, { live }));
                add(this.tail, fresh.node);
            }
        }
        for (const [key, r] of this.running)
            if (key.startsWith(agent.name + '#') && !agent.live.has(r.live.id)) {
                r.node.remove();
                this.running.delete(key);
            }
        for (const [n, q] of agent.questions)
            if (!this.asked.has(`${agent.name}?${n}`)) {
                const node = question(agent, q, e => this.tell(e.message));
                this.asked.set(`${agent.name}?${n}`, node);
                add(this.tail, node);
            }
        for (const [key, node] of this.asked)
            if (key.startsWith(agent.name + '?') && !agent.questions.has(Number(key.slice(agent.name.length + 1)))) {
                node.remove();
                this.asked.delete(key);
            }
    }

    onChange(c) {
        if (c.list || c.status) {
            if (!c.agent || c.agent === this.agent || !this.agent)
                this.drawHead();
            return;
        }
        if (this.agent && c.agent !== this.agent)
            return;
        const stays = this.atEnd();
        const e = c.event;
        if (e.kind === 'queued')
            this.sending.forEach((s, key) => { if (s.id === e.id) { s.node.remove(); this.sending.delete(key); } });
        this.place(e, false);
        if (e.id && (e.kind === 'started' || fleet.ENDS.has(e.kind)))
            this.list.querySelectorAll(`.mine[data-id="${Number(e.id)}"] .ticks`).forEach(t => t.replaceWith(ticks(e.kind)));
        this.drawLive(c.agent);
        this.drawHead();
        if (stays)
            this.toEnd();
        this.down.hidden = this.atEnd();
        this.read();
    }

    tick() {
        for (const r of this.running.values())
            r.tick(r.live);
    }

    read() {
        if (this.agent && !document.hidden && this.atEnd() && this.agent.markRead())
            fleet.touch(this.agent);
    }

    /* ---- scrolling ---- */

    atEnd() {
        return this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight < NEAR / 2;
    }

    toEnd() {
        this.scroll.scrollTop = this.scroll.scrollHeight;
        this.down.hidden = true;
    }

    async onScroll() {
        this.down.hidden = this.atEnd();
        this.read();
        if (this.loading || this.scroll.scrollTop > NEAR || !this.hasOlder)
            return;
        this.loading = true;
        try {
            await this.loadOlder();
        } catch (e) {
            this.tell(e.message); // asked again when the person scrolls again
        }
        this.loading = false;
    }

    get hasOlder() {
        return this.agent && (!this.agent.whole || [...this.agent.events.keys()].some(seq => seq < this.from));
    }

    /** A page of what is older than what is shown: of what is known, else from the relay. */
    async loadOlder() {
        const older = () => this.events.filter(e => e.seq < this.from).slice(-PAGE);
        if (!older().length)
            await fleet.older(this.agent, PAGE);
        const missing = older(), first = this.list.querySelector('[data-seq]:not(.day)');
        this.from = missing[0]?.seq ?? this.from;
        const height = this.scroll.scrollHeight, top = this.scroll.scrollTop;
        while (this.list.firstElementChild !== first)
            this.list.firstElementChild.remove(); // the day's line stands elsewhere now
        for (const e of missing) {
            const node = this.make(e);
            if (!node)
                continue;
            node.dataset.ms = e.wall_ms;
            node.classList.add('far');
            this.nodes.set(e.seq, node);
            this.list.insertBefore(node, first);
            this.dayBefore(node);
        }
        if (first)
            this.dayBefore(first);
        this.scroll.scrollTop = top + this.scroll.scrollHeight - height;
    }

    /** Shows that message, and where it is. */
    async show(seq) {
        while (!this.nodes.has(seq) && this.hasOlder)
            await this.loadOlder();
        const node = this.nodes.get(seq);
        node?.scrollIntoView({ block: 'center' });
        node?.classList.add('here');
        setTimeout(() => node?.classList.remove('here'), 2000);
    }

    /* ---- writing ---- */

    grow() {
        this.input.style.setProperty('block-size', 'auto');
        this.input.style.setProperty('block-size', `${Math.min(this.input.scrollHeight, 220)}px`);
        const c = commandOf(this.input.value);
        const fits = c && Object.keys(words).filter(w => w.startsWith(c.word));
        this.hints.replaceChildren(...(this.input.value.startsWith('/') ? fits ?? Object.keys(words) : [])
            .map(w => el('span', {}, el('b', {}, `/${w} ${words[w].args}`), ` ${words[w].help}`)));
    }

    onKey(e) {
        if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
            e.preventDefault();
            this.send();
        } else if (e.key === 'Escape')
            this.hints.replaceChildren();
    }

    send() {
        const text = this.input.value;
        if (!text.trim())
            return;
        this.input.value = '';
        this.grow();
        if (pasted(text)) {
            this.tell('That looks like a credential, and a chat is no place for one: it was not sent. /auth asks for one and encrypts it; on the host, agent-cage auth NAME does.');
            return;
        }
        const c = commandOf(text);
        if (c)
            this.command(c);
        else
            this.whichAgent(name => this.say(name, text));
    }

    /* ---- files ---- */

    pick(name) {
        this.forAgent = name;
        this.picker.click();
    }

    picked() {
        this.give(this.forAgent, [...this.picker.files]);
        this.picker.value = '';
    }

    takeDrops() {
        const over = on => e => {
            if (!e.dataTransfer?.types.includes('Files'))
                return;
            e.preventDefault();
            this.node.classList.toggle('drop', on);
        };
        for (const kind of ['dragenter', 'dragover'])
            this.node.addEventListener(kind, over(true));
        this.node.addEventListener('dragleave', over(false));
        this.node.addEventListener('drop', e => {
            over(false)(e);
            const files = [...e.dataTransfer.files];
            if (files.length)
                this.whichAgent(name => this.give(name, files));
        });
    }

    /** One behind the other. Where a file lies is put into what is being written; the room itself tells that it came. */
    async give(name, files) {
        for (const file of files) {
            const node = el('article', { class: 'note own' }, el('p', {}, `Sending ${visible(file.name)}, ${size(file.size)} …`));
            add(this.tail, node);
            this.toEnd();
            try {
                const place = await api.put(name, file.name, file);
                this.input.value += `${this.input.value && !/\s$/.test(this.input.value) ? ' ' : ''}[file: ${visible(place)}] `;
                this.grow();
                this.input.focus();
            } catch (e) {
                this.tell(`${visible(file.name)} was not sent: ${e.message}`);
            }
            node.remove();
        }
    }

    /** A line of our own, not kept. */
    tell(text) {
        const node = el('article', { class: 'note own' }, el('p', {}, visible(text)));
        add(this.tail, node);
        this.toEnd();
        setTimeout(() => node.remove(), 60000);
    }

    help() {
        this.tell(Object.entries(words).map(([w, { args, help }]) => `/${w} ${args} — ${help}`).join('\n'));
    }

    whichAgent(then) {
        const names = [...fleet.agents.keys()].filter(Boolean).sort();
        if (this.agent || names.length === 1) {
            then(this.agent ? this.name : names[0]);
            return;
        }
        if (!names.length) {
            this.offer(maker());
            return;
        }
        const node = el('article', { class: 'msg theirs question' }, el('div', { class: 'bubble' }, el('p', {}, 'Which agent?'),
            el('div', { class: 'choices' }, names.map(n => el('button', { type: 'button', onclick: () => { node.remove(); then(n); } }, n)),
                el('button', { type: 'button', onclick: () => node.remove() }, 'None'))));
        this.offer(node);
    }

    /** A card of our own, until a button of it is pressed. */
    offer(node) {
        add(this.tail, node);
        this.toEnd();
        node.querySelector('input, button').focus();
    }

    async command({ word, rest }, agent = '') {
        const w = words[word];
        if (!w) {
            this.tell(`no such command: /${word}; /help lists them`);
            return;
        }
        const run = name => w.run(this, name, rest).catch(e => this.tell(e.message));
        if (!w.agent)
            run('');
        else if (!agent && w.named && rest && !fleet.agents.has(rest))
            this.tell(`/${word} takes an agent's name`); // whatever else it is: it goes into no address
        else if (agent || (w.named && rest))
            run(agent || rest);
        else
            this.whichAgent(run);
    }

    async say(name, text, key = api.newKey()) {
        const e = { seq: 0, id: 0, text, who: 'web', wall_ms: Date.now() };
        const node = said(e, 'sending');
        const entry = { node };
        this.sending.set(key, entry);
        add(this.tail, node);
        this.toEnd();
        try {
            const end = await api.say(name, text, key);
            entry.id = end.id;
            if (fleet.agentOf(name).events.size && [...fleet.agentOf(name).events.values()].some(o => o.id === end.id)) {
                node.remove();
                this.sending.delete(key);
            }
            if (end.text)
                this.tell(end.text);
        } catch (problem) {
            node.querySelector('.ticks').replaceWith(ticks('failed'));
            add(node.querySelector('.meta'), el('button', { type: 'button', onclick: () => { node.remove(); this.say(name, text, key); } }, 'Try again'));
            this.tell(problem.message);
        }
    }
}
