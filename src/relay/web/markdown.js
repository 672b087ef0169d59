// The little of Markdown that reports use, made into elements. Nothing is parsed as HTML: markup in the text stays text, and a
// link is one only when it is http or https, with its whole address in sight.
import { el, add, copyButton } from '/dom.js';

const INLINE = /(`+)([\s\S]+?)\1(?!`)|\*\*(?=\S)([\s\S]+?\S|\S)\*\*|(?<![\w*])\*(?=[^\s*])([^*]*[^\s*])\*(?!\w)|~~(?=\S)([\s\S]+?)~~|\[([^\][]+)\]\(([^()\s]+)\)|(https?:\/\/[^\s<>"'`)\]]+[^\s<>"'`)\].,;:!?])/;

function link(text, address) {
    let url;
    try {
        url = new URL(address);
    } catch {
        return null;
    }
    if (url.protocol !== 'http:' && url.protocol !== 'https:')
        return null;
    const a = el('a', { href: url.href, target: '_blank', rel: 'noopener noreferrer nofollow' }, text);
    return text === address ? a : add(el('span'), a, el('span', { class: 'address' }, ` ${url.href}`));
}

function inline(node, text, depth = 0) {
    let rest = text;
    while (rest) {
        const m = depth < 8 && rest.length < 10000 ? INLINE.exec(rest) : null; // longer than any paragraph: as it is
        if (!m)
            break;
        add(node, rest.slice(0, m.index));
        const [all, , code, strong, em, del, label, address, bare] = m;
        if (code !== undefined)
            add(node, el('code', {}, code.trim() || code));
        else if (strong !== undefined)
            add(node, inline(el('strong'), strong, depth + 1));
        else if (em !== undefined)
            add(node, inline(el('em'), em, depth + 1));
        else if (del !== undefined)
            add(node, inline(el('del'), del, depth + 1));
        else
            add(node, link(label ?? bare, address ?? bare) ?? all);
        rest = rest.slice(m.index + all.length);
    }
    return add(node, rest);
}

/** Plain text in which addresses can be followed. */
export const addresses = text => text.split(/(https?:\/\/[^\s<>"'`]+)/).map((part, i) => (i % 2 && link(part, part)) || part);

export function codeBlock(text, lang = '') {
    return el('figure', { class: 'code' },
        el('figcaption', {}, el('span', {}, lang || 'text'), copyButton(() => text)),
        el('pre', { tabindex: 0, role: 'group', 'aria-label': `code ${lang}`.trim() }, el('code', {}, text)));
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const ROW = /^\s*\|(.*)\|\s*$/;

const cells = text => ROW.exec(text)[1].split(/(?<!\\)\|/).map(c => c.trim().replace(/\\\|/g, '|'));

function fenced(lines, at, out) {
    const [, mark, lang] = FENCE.exec(lines[at]);
    const text = [];
    let i = at + 1;
    while (i < lines.length && !(lines[i].trim().startsWith(mark) && !lines[i].trim().replaceAll(mark[0], '')))
        text.push(lines[i++]);
    add(out, codeBlock(text.join('\n'), lang));
    return i + 1;
}

function list(lines, at, out) {
    const indent = ITEM.exec(lines[at])[1].length, ordered = /\d/.test(ITEM.exec(lines[at])[2]);
    const node = el(ordered ? 'ol' : 'ul', ordered ? { start: parseInt(ITEM.exec(lines[at])[2], 10) } : {});
    let i = at, item = null, deep = [];
    const close = () => {
        if (item && deep.length)
            blocks(deep, item, 1);
        deep = [];
    };
    for (; i < lines.length; i++) {
        const m = ITEM.exec(lines[i]);
        if (m && m[1].length <= indent + 1 && m[1].length >= indent) {
            close();
            item = inline(el('li'), m[3]);
            add(node, item);
        } else if (!lines[i].trim() || /^\s{2,}/.test(lines[i]) && lines[i].search(/\S/) > indent)
            deep.push(lines[i].replace(new RegExp(`^\\s{0,${indent + 2}}`), ''));
        else
            break;
        if (!lines[i].trim() && !(lines[i + 1] && (ITEM.test(lines[i + 1]) || /^\s{2,}\S/.test(lines[i + 1]))))
            break;
    }
    close();
    add(out, node);
    return i;
}

function table(lines, at, out) {
    const row = (tag, text) => el('tr', {}, cells(text).map(c => inline(el(tag), c)));
    const body = el('tbody');
    let i = at + 2;
    for (; i < lines.length && ROW.test(lines[i]); i++)
        add(body, row('td', lines[i]));
    add(out, el('div', { class: 'table', tabindex: 0, role: 'group', 'aria-label': 'table' },
        el('table', {}, el('thead', {}, row('th', lines[at])), body)));
    return i;
}

function quote(lines, at, out, depth) {
    const inner = [];
    let i = at;
    for (; i < lines.length && /^ {0,3}>/.test(lines[i]); i++)
        inner.push(lines[i].replace(/^ {0,3}> ?/, ''));
    add(out, blocks(inner, el('blockquote'), depth + 1));
    return i;
}

const starts = l => FENCE.test(l) || ITEM.test(l) || RULE.test(l) || /^#{1,6}\s/.test(l) || /^ {0,3}>/.test(l);

function paragraph(lines, at, out) {
    const text = [];
    let i = at;
    while (i < lines.length && lines[i].trim() && (i === at || !starts(lines[i])))
        text.push(lines[i++]);
    add(out, inline(el('p'), text.join('\n')));
    return i;
}

function blocks(lines, out, depth = 0) {
    for (let i = 0; i < lines.length;) {
        const l = lines[i], heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(l);
        if (!l.trim())
            i++;
        else if (FENCE.test(l))
            i = fenced(lines, i, out);
        else if (heading) {
            add(out, inline(el('p', { class: `h h${heading[1].length}` }), heading[2]));
            i++;
        } else if (RULE.test(l)) {
            add(out, el('hr'));
            i++;
        } else if (ITEM.test(l) && depth < 6)
            i = list(lines, i, out);
        else if (/^ {0,3}>/.test(l) && depth < 6)
            i = quote(lines, i, out, depth);
        else if (ROW.test(l) && ROW.test(lines[i + 1] ?? '') && /^[\s|:-]+$/.test(lines[i + 1]))
            i = table(lines, i, out);
        else
            i = paragraph(lines, i, out);
    }
    return out;
}

/** Text whose controls were made visible already. */
export const markdown = text => blocks(text.split('\n'), el('div', { class: 'text', dir: 'auto' }));
