// The pinned strips: state, and budget beside it. The same facts as the terminal's strip.
import { el, add, line, visible, span, size, tokens, count, shortTime } from '/dom.js';

const SPANS = { 3600: 'this hour', 86400: 'this day', 604800: 'this week' };

const meter = (part, label) => el('span', { class: 'meter', role: 'img', 'aria-label': label },
    (() => {
        const bar = el('span', { class: part > 0.9 ? 'full' : '' });
        bar.style.setProperty('inline-size', `${Math.min(100, Math.max(0, part * 100)).toFixed(1)}%`);
        return bar;
    })());

const fact = (mark, ...text) => el('li', {}, el('span', { class: 'mark', 'aria-hidden': 'true' }, mark), el('span', {}, text));

function work(s) {
    const parts = [count(s.sessions, 'active session', 'active sessions'), count(s.processes, 'process', 'processes')];
    if (s.memory_used)
        parts.push(s.memory_max ? `${size(s.memory_used)} of ${size(s.memory_max)} memory` : `${size(s.memory_used)} memory`);
    if (s.memory_kills)
        parts.push(`${count(s.memory_kills, 'process was', 'processes were')} killed for lack of memory`);
    if (s.full)
        parts.push(`full: ${s.full}`);
    if (s.queued)
        parts.push(count(s.queued, 'message waits', 'messages wait'));
    return fact('◦', parts.join(' · '));
}

function host(s) {
    const used = s.host_memory_total - s.host_memory_free;
    return el('li', { class: 'host' }, el('span', { class: 'mark', 'aria-hidden': 'true' }, '▫'), el('span', {},
        `Host: ${size(s.host_memory_free)} free of ${size(s.host_memory_total)} `, meter(used / s.host_memory_total, 'memory used'),
        ` · CPU ${s.host_cpu_now}% now, ${s.host_cpu_5min}% 5 min (${count(s.host_cores, 'core', 'cores')})`));
}

export function stateStrip(agent) {
    const s = agent.status;
    if (!s)
        return el('ul', { class: 'strip' }, fact('◦', 'asking for its state …'));
    const list = el('ul', { class: 'strip' });
    if (s.why)
        add(list, fact('▪', line(s.why)));
    if (s.login)
        add(list, fact('▪', line(s.login)));
    if (s.mode === 'bare')
        add(list, fact('▪', 'bare: commands run as an ordinary account of the machine, without a sandbox and with its whole network'));
    if (s.mode === 'sealed')
        add(list, fact('▪', 'sealed: commands reach the internet and nothing local; what they leave in the project is untrusted'));
    add(list, work(s));
    if (s.survivors)
        add(list, fact('◦', `still running after its command: ${count(s.survivors, 'process', 'processes')} (ends with Stop)`,
            el('pre', {}, visible(s.survivor_text))));
    add(list, fact('◆', s.last_command_wall_ms ? `last command ran ${span(Date.now() - s.last_command_wall_ms)} ago` : 'no command ran yet'));
    if (s.host_memory_total)
        add(list, host(s));
    return list;
}

/** null: it has no model, or used none. */
export function budgetStrip(agent) {
    const s = agent.status;
    if (!s || (!s.model_requests && !s.budget_limit))
        return null;
    const all = s.tokens_input + s.tokens_output + s.tokens_cache_read + s.tokens_cache_write;
    const strip = el('p', { class: 'strip budget' });
    if (s.budget_limit) {
        const when = SPANS[s.budget_span_s] ?? 'in all';
        add(strip, meter(s.budget_used / s.budget_limit, 'budget used'),
            ` ${tokens(s.budget_used)} of ${tokens(s.budget_limit)} tok ${when}`, s.budget_used >= s.budget_limit && el('strong', {}, ' — used up'),
            s.budget_used >= s.budget_limit && s.budget_until_wall_ms ? ` until ${shortTime(s.budget_until_wall_ms)}` : null);
    } else
        add(strip, `${tokens(all)} tok`);
    add(strip, ` · ${tokens(s.tokens_session)} this session`);
    if (s.cost_micro)
        add(strip, ` · cost ${(s.cost_micro / 1e6).toFixed(2)}`);
    return strip;
}

/** One line: "running · up 122h 52m". */
export function headline(agent) {
    const s = agent.status, { state, harness, mode } = agent.info;
    const parts = [state || '…'];
    if (s?.up_ms && state === 'running')
        parts.push(`up ${span(s.up_ms)}`);
    parts.push(line(harness), mode);
    return parts.filter(Boolean).join(' · ');
}
