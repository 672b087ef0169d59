// The page's own calls (src/relay/web/api.js: log-in, say, follow) without a browser: with one's cookie, origin and store.
import fs from 'node:fs';
import path from 'node:path';
import { top } from './workbench.mjs';

const source = fs.readFileSync(path.join(top, 'src/relay/web/api.js'), 'utf8');
let number = 0;

/** What api.js exports, logged in by a one-time link; and close(), which ends all that is open. */
export async function pageOf(link) {
    const { origin, hash } = new URL(link), kept = new Map(), name = `page${++number}`, closed = new AbortController();
    let cookie = '';
    const store = (key, value) => value === undefined ? kept.get(key) ?? null : kept.set(key, value);
    const ask = async (place, options) => {
        const signal = options.signal ? AbortSignal.any([options.signal, closed.signal]) : closed.signal;
        const answer = await fetch(origin + place, { ...options, signal, headers: { ...options.headers, Origin: origin, Cookie: cookie } });
        cookie = answer.headers.getSetCookie()[0]?.split(';')[0] ?? cookie;
        return answer;
    };
    globalThis[name] = { store, fetch: ask };
    const own = source.replace(/^import .*$/m, `const { store, fetch } = globalThis.${name};`);
    const api = await import(`data:text/javascript,${encodeURIComponent(own)}`);
    await api.login(hash.slice('#login='.length));
    return { ...api, close: () => closed.abort() };
}
