// Events made into what a messenger shows: one bubble for what was said, one for the report, a strip for its tools, a line for
// a note. All of it untrusted text.
import { el, add, visible, line, time, span, tokens, count, copyButton } from '/dom.js';
import { markdown, codeBlock, addresses } from '/markdown.js';
import { take } from '/fleet.js';
import * as api from '/api.js';

const CUT = 12000; // characters shown at once; the rest unfolds
const isShell = agent => !agent.info.harness || agent.info.harness.startsWith('shell');

const plain = text => el('pre', { class: 'out', tabindex: 0, role: 'group', 'aria-label': 'output' }, text);

function body(agent, text) {
    const shown = visible(text).replace(/\n+$/, '');
    if (!shown)
        return el('p', { class: 'quiet' }, '(no output)');
    const make = isShell(agent) ? plain : markdown;
    if (shown.length <= CUT * 1.5)
        return make(shown);
    const holder = el('div', {}, make(shown.slice(0, CUT)));
    const more = el('button', { type: 'button', class: 'more', onclick: () => holder.replaceChildren(make(shown)) },
        `Show ${count(shown.length - CUT, 'more character', 'more characters')}`);
    return add(holder, more);
}

const WHO = { terminal: 'terminal', web: 'web', telegram: 'Telegram', mcp: 'MCP' };
const whoName = who => WHO[who.split(':')[0]] ?? line(who);

/** sent ○ · taken ✓ · begun ✓✓ · done ✓✓ green · refused ✕ · unknown ? */
export function ticks(state) {
    const [mark, label] = {
        sending: ['○', 'not sent yet'], queued: ['✓', 'it has the message'], started: ['✓✓', 'it works on it'], report: ['✓✓', 'done'],
        refused: ['✕', 'refused'], unknown: ['?', 'unknown: it may have run; it is not run again by itself'], failed: ['!', 'not sent'],
    }[state];
    return el('span', { class: `ticks ${state}`, role: 'img', 'aria-label': label, title: label }, mark);
}

export function said(e, state) {
    return el('article', { class: 'msg mine', 'data-seq': e.seq, 'data-id': e.id, 'aria-label': 'message' },
        el('div', { class: 'bubble' }, el('p', { class: 'text said', dir: 'auto' }, visible(e.text)),
            el('p', { class: 'meta' }, `${whoName(e.who)} `, e.id ? `#${e.id} ` : '', time(e.wall_ms), ' ', ticks(state))));
}

function toolLine(t) {
    const state = t.ended ? (t.status ? '✕' : '✓') : '…';
    const took = t.ended && t.since ? span(t.ended - t.since) : '';
    const head = el('summary', {}, el('span', { class: t.status ? 'bad' : '' }, state), ' ', el('b', {}, line(t.name)), ' ',
        el('span', { class: 'what' }, line(t.text).slice(0, 200)), el('span', { class: 'took' }, took));
    return el('details', { class: 'tool', 'data-call': t.call }, head,
        t.text && codeBlock(visible(t.text), 'called with'), t.output && codeBlock(visible(t.output), 'answered'));
}

/** A strip that unfolds. tools: what is known, or a function that finds it out. */
function toolStrip(label, tools, open) {
    const list = el('div', { class: 'tools' });
    const fill = found => list.replaceChildren(...(found.length ? found.map(toolLine) : [el('p', { class: 'quiet' }, 'nothing is known of them any more')]));
    const strip = el('details', { class: 'toolstrip', open }, el('summary', {}, label), list);
    if (Array.isArray(tools))
        fill(tools);
    else
        strip.addEventListener('toggle', async () => {
            if (!strip.open || list.childElementCount)
                return;
            list.replaceChildren(el('p', { class: 'quiet' }, 'looking in the log …'));
            try {
                fill(await tools());
            } catch (e) {
                list.replaceChildren(el('p', { class: 'bad' }, e.message));
            }
        });
    return strip;
}

/** What ran while a message was worked on, from the audit log. */
async function ranDuring(agent, from, until) {
    const rows = await api.log(agent.name, 500);
    return rows.filter(r => r.start_wall_ms >= from - 1000 && r.start_wall_ms <= until).map(r => ({
        call: String(r.seq), name: r.how === 'exit' ? `exit ${r.status}` : `${r.how} ${r.status}`, text: r.argv.join(' '),
        since: r.start_wall_ms, ended: r.start_wall_ms + Math.ceil(r.span_us / 1000), status: r.status, output: '',
    }));
}

const HEADS = {
    unknown: 'Unknown: it may have run; it is not run again by itself.',
    refused: 'Refused.',
};

export function ended(agent, e) {
    const failed = e.kind !== 'report' || e.status !== 0, model = e.tokens || e.tools;
    const foot = [`◷ ${span(e.span_ms)}`];
    if (model)
        foot.push(`${tokens(e.tokens)} tok`, count(e.tools, 'tool call', 'tool calls'));
    if (e.kind === 'report' && (!model || e.status))
        foot.push(`exit ${e.status}`);
    const strip = (e.tools || e.live || isShell(agent)) && e.kind === 'report' && toolStrip(e.tools ? count(e.tools, 'tool call', 'tool calls') : 'what ran',
        e.live ?? (() => ranDuring(agent, e.wall_ms - e.span_ms, e.wall_ms)), false);
    return el('article', { class: `msg theirs ${failed ? 'failed' : ''}`, 'data-seq': e.seq, 'data-id': e.id, 'aria-label': 'report' },
        el('div', { class: 'bubble' }, strip, HEADS[e.kind] && el('p', { class: 'bad' }, HEADS[e.kind]), body(agent, e.text),
            el('p', { class: 'meta' }, el('span', { class: 'foot' }, foot.join(' · ')), ` #${e.id} `, time(e.wall_ms), ' ', copyButton(() => e.text))));
}

export const note = e => el('article', { class: 'note', 'data-seq': e.seq, 'aria-label': 'note' },
    el('p', {}, el('span', { class: 'mark', 'aria-hidden': 'true' }, '◆ '), addresses(visible(e.text)), ' ', time(e.wall_ms)));

/** A running turn: its tools, its output as it comes, and the button that stops it. */
export class Running {
    constructor(agent, live, stop) {
        this.tools = el('div', { class: 'tools' });
        this.count = el('span', {}, '');
        this.strip = el('details', { class: 'toolstrip', open: true, hidden: true }, el('summary', {}, this.count), this.tools);
        this.out = el('pre', { class: 'out live', tabindex: 0, role: 'log', 'aria-label': 'output so far', hidden: true });
        this.text = document.createTextNode('');
        this.out.append(this.text);
        this.took = el('span', { class: 'foot' });
        this.node = el('article', { class: 'msg theirs running', 'data-id': live.id, 'aria-label': 'running' },
            el('div', { class: 'bubble' }, this.strip, this.out,
                el('p', { class: 'meta' }, el('span', { class: 'spin', 'aria-hidden': 'true' }), this.took, ` #${live.id} `,
                    el('button', { type: 'button', class: 'stop', onclick: stop }, 'Stop'))));
        this.shown = 0;
        this.update(live);
    }

    update(live) {
        live.tools.forEach((t, i) => {
            const old = this.tools.children[i];
            if (!old)
                add(this.tools, toolLine(t));
            else if (t.ended && !old.dataset.done) {
                const fresh = toolLine(t);
                fresh.open = old.open;
                fresh.dataset.done = '1';
                old.replaceWith(fresh);
            }
        });
        this.strip.hidden = !live.tools.length;
        this.count.textContent = count(live.tools.length, 'tool call', 'tool calls');
        const text = visible(live.text);
        const follows = this.out.scrollHeight - this.out.scrollTop - this.out.clientHeight < 80;
        this.out.hidden = !text;
        if (live.cut || text.length < this.shown)
            this.text.data = text;
        else
            this.text.appendData(text.slice(this.shown));
        this.shown = live.cut ? 0 : text.length;
        if (follows)
            this.out.scrollTop = this.out.scrollHeight;
        this.tick(live);
    }

    tick(live) {
        this.took.textContent = live.started ? `◷ ${span(Date.now() - live.started)}` : 'waiting';
    }
}

/** A harness asks a person. The buttons answer exactly what is shown here: number and digest go with them. */
export function question(agent, q, failed) {
    const node = el('article', { class: 'msg theirs question', 'data-question': q.question, 'aria-label': 'question' });
    const buttons = el('div', { class: 'choices' });
    const choose = async n => {
        buttons.querySelectorAll('button').forEach(b => { b.disabled = true; });
        try {
            await api.answer(agent.name, q.question, q.digest, n);
        } catch (e) {
            failed(e);
        }
        take({ agent: agent.name, kind: 'answer', question: q.question });
    };
    q.choices.forEach((c, i) => add(buttons, el('button', { type: 'button', class: i ? '' : 'first', onclick: () => choose(i + 1) }, line(c, true))));
    add(buttons, el('button', { type: 'button', onclick: () => choose(0) }, 'No'));
    return add(node, el('div', { class: 'bubble' }, el('p', {}, el('b', {}, `${agent.name} asks: ${line(q.name, true)}`)), plain(visible(q.text, true)),
        el('p', { class: 'quiet' }, 'A yes allows exactly what is shown here.'), buttons));
}
