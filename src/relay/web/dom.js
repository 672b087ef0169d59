// Elements, and what people read: times, sizes, hostile text made visible. Text is only ever set as text.

/** el('p', { class: 'x', onclick: f }, 'text', child, null) */
export function el(tag, props = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) {
        if (value === null || value === undefined || value === false)
            continue;
        if (name.startsWith('on'))
            node.addEventListener(name.slice(2), value);
        else
            node.setAttribute(name, value === true ? '' : String(value));
    }
    add(node, ...children);
    return node;
}

export function add(node, ...children) {
    for (const child of children.flat())
        if (child !== null && child !== undefined && child !== false)
            node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    return node;
}

/**
 * As in the terminal: controls, bidi controls, zero-width characters and line separators are shown, not obeyed. Colours go, but
 * not where a person answers to exactly what is shown (whole).
 */
export function visible(text, whole) {
    return (whole ? text : text.replace(/\x1b\[[0-9;]*m/g, '').replace(/\r\n/g, '\n'))
        .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu,
            c => c.codePointAt(0) < 0x100 ? '\\x' + c.codePointAt(0).toString(16).padStart(2, '0') : `\\u{${c.codePointAt(0).toString(16)}}`);
}

export const line = (text, whole) => whole ? visible(text, true).replace(/[\n\t]/g, c => c === '\n' ? '\\n' : '\\t')
    : visible(text).replace(/\s+/g, ' ').trim();

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const date = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'medium' });
const day = new Intl.DateTimeFormat(undefined, { weekday: 'long', day: 'numeric', month: 'long' });

export const sameDay = (a, b) => new Date(a).toDateString() === new Date(b).toDateString();
export const time = ms => el('time', { datetime: new Date(ms).toISOString(), title: whole.format(ms) }, clock.format(ms));
export const shortTime = ms => sameDay(ms, Date.now()) ? clock.format(ms) : date.format(ms);
export const dayName = ms => sameDay(ms, Date.now()) ? 'Today' : sameDay(ms, Date.now() - 86400000) ? 'Yesterday' : day.format(ms);

export function span(ms) {
    const s = Math.max(0, ms) / 1000;
    if (s < 60)
        return s < 10 ? s.toFixed(1) + 's' : Math.floor(s) + 's';
    if (s < 3600)
        return `${Math.floor(s / 60)}m${String(Math.floor(s % 60)).padStart(2, '0')}s`;
    return s < 8 * 86400 ? `${Math.floor(s / 3600)}h ${Math.floor(s / 60) % 60}m` : Math.floor(s / 86400) + 'd';
}

export function size(n) {
    const unit = ['B', 'K', 'M', 'G', 'T'];
    let i = 0;
    while (n >= 1024 && i < 4)
        n /= 1024, i++;
    return (i && n < 10 ? n.toFixed(1) : Math.round(n)) + unit[i];
}

export const tokens = n => n < 1000 ? String(n) : n < 1e8 ? (n / 1e3).toFixed(1) + 'k' : (n / 1e6).toFixed(1) + 'M';
export const count = (n, one, many) => `${n} ${n === 1 ? one : many}`;

/** A button that copies, and says so. */
export function copyButton(text) {
    const button = el('button', { type: 'button', class: 'copy', onclick: async () => {
        try {
            await navigator.clipboard.writeText(text());
            button.textContent = 'Copied';
        } catch {
            button.textContent = 'Select it';
        }
        setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    } }, 'Copy');
    return button;
}

export function store(name, value) {
    try {
        if (value === undefined)
            return localStorage.getItem(name);
        if (value === null)
            localStorage.removeItem(name);
        else
            localStorage.setItem(name, value);
    } catch { /* private windows: what is not kept is asked again */ }
    return null;
}
