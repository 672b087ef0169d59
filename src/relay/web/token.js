// A log-in: a card for a token, which this page encrypts to the agent's own key, so that nothing on the way reads it
// (proto/token_key.h has what is bound to what).
import { el, line } from '/dom.js';
import * as api from '/api.js';

const LABEL = 'agent-cage token 1', MAX = 16384;
const CURVE = { name: 'ECDH', namedCurve: 'P-256' };
const PAGES = ['claude', 'codex']; // whose vendor has a log-in that the agent can run

const joined = (...parts) => new Uint8Array(parts.flatMap(p => [...p]));
const bytesOf = hex => Uint8Array.from(hex.match(/../g), h => parseInt(h, 16));
const sha256 = async bytes => new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));

/** As `agent-cage status` shows it. */
export async function shown(key) {
    const hash = (await sha256(key)).subarray(0, 10);
    return Array.from(hash, b => b.toString(16).padStart(2, '0')).join('').match(/.{4}/g).join('-');
}

/** The box: only the agent of this name that has this key opens it. */
export async function sealed(name, key, token) {
    const text = new TextEncoder(), zero = [0];
    const pair = await crypto.subtle.generateKey(CURVE, false, ['deriveBits']);
    const ours = new Uint8Array(await crypto.subtle.exportKey('raw', pair.publicKey));
    const theirs = await crypto.subtle.importKey('raw', key, CURVE, false, []);
    const bound = joined(text.encode(LABEL), zero, text.encode(name), zero, key, ours);
    const shared = await crypto.subtle.deriveBits({ name: 'ECDH', public: theirs }, pair.privateKey, 256);
    const secret = await crypto.subtle.deriveKey({ name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info: bound },
        await crypto.subtle.importKey('raw', shared, 'HKDF', false, ['deriveKey']), { name: 'AES-GCM', length: 256 }, false, ['encrypt']);
    const nonce = crypto.getRandomValues(new Uint8Array(12));
    const box = await crypto.subtle.encrypt({ name: 'AES-GCM', iv: nonce, additionalData: bound }, secret, text.encode(token));
    return joined((await sha256(key)).subarray(0, 8), ours, nonce, new Uint8Array(box));
}

/** A card for this agent, or null: it takes no token. vendor(): begins the vendor's own log-in. */
export async function tokenCard(room, name, vendor) {
    const status = await api.status(name);
    if (!status?.token_key)
        return null;
    const close = () => node.remove();
    const page = PAGES.includes(status.harness) && el('button', { type: 'button', onclick: () => { close(); vendor(); } }, 'Log in on the vendor\'s page');
    const input = el('input', { type: 'password', name: 'token', autocomplete: 'off', spellcheck: 'false', maxlength: MAX });
    const send = async e => {
        e.preventDefault();
        const token = input.value.trim();
        if (!token)
            return;
        input.value = '';
        close();
        try {
            const end = await api.token(name, await sealed(name, bytesOf(status.token_key), token));
            room.tell(`${name}: ${end.text}`);
        } catch (problem) {
            room.tell(problem.message);
        }
    };
    const parts = globalThis.crypto?.subtle
        ? [el('label', {}, el('span', {}, 'Token or key'), input),
            el('p', { class: 'quiet' }, 'This page encrypts it to the key ', el('code', {}, await shown(bytesOf(status.token_key))),
                `, which only ${name} can open; `, el('code', {}, `agent-cage status ${name}`), ' shows the same.',
                ' Whoever serves this page could serve another one: on the host, ', el('code', {}, `agent-cage auth ${name}`), ' needs no trust in it.')]
        : [el('p', {}, 'A token cannot be encrypted here: a browser does that only on https, or on http at 127.0.0.1. On the host, run ',
            el('code', {}, `agent-cage auth ${name}`), '.')];
    const node = el('article', { class: 'msg theirs make token', 'aria-label': `log in ${name}` }, el('form', { class: 'bubble', onsubmit: send },
        el('p', {}, `Log in ${line(name)}`), parts, el('div', { class: 'choices' },
            globalThis.crypto?.subtle && el('button', { type: 'submit', class: 'first' }, 'Encrypt and send'), page,
            el('button', { type: 'button', onclick: close }, 'Close'))));
    return node;
}
