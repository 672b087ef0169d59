// What the fronts are measured against, in a process of its own: a Bot API that answers at once, counts, and keeps nothing; and
// an echo by TCP. Tells its parent { url, echo } (a port). From it: { say: TEXT } is an update by the owner; { hold: true } refuses,
// with 429, whatever puts something into a chat, { hold: false } takes it from then on; { count: true } is answered by
// { shown, ms }: the messages that were shown since it last took some, and the time from the first call to the last of these.
import http from 'node:http';
import net from 'node:net';

const OWNER = 4242, chat = { id: OWNER, type: 'private' };
let number = 100, updates = [], said = 0, waiting = null, hold = false, shown = 0, first = 0, last = 0;

const methods = {
    getMe: () => ({ id: 987654321, is_bot: true, first_name: 'Cage', username: 'cage_bench_bot' }),
    sendMessage() {
        first ||= performance.now();
        return { message_id: ++number, date: 1, chat };
    },
    editMessageText({ message_id, text }) {
        if (/^(▪ web:|agent-\d+:\n)/.test(text)) { // what was said, and its report: not the strips
            shown++;
            last = performance.now();
        }
        return { message_id, date: 1, chat, text };
    },
};

function listen({ offset = 0, timeout = 0 }, give) {
    updates = updates.filter(u => u.update_id >= offset);
    if (updates.length || !timeout)
        return give(updates);
    const timer = setTimeout(() => waiting(), timeout * 1000);
    waiting = () => { clearTimeout(timer); waiting = null; give(updates); };
}

function answer(res, status, value) {
    const text = JSON.stringify(value);
    res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) });
    res.end(text);
}

function call(method, args, res) {
    const good = result => answer(res, 200, { ok: true, result });
    if (method === 'getUpdates')
        listen(args, good);
    else if (hold && args.chat_id)
        answer(res, 429, { ok: false, error_code: 429, description: 'Too Many Requests: retry after 1', parameters: { retry_after: 1 } });
    else
        good(methods[method]?.(args) ?? true);
}

const api = http.createServer((req, res) => {
    let body = '';
    req.setEncoding('utf8').on('data', d => { body += d; }).on('end', () => call(req.url.split('/').pop(), JSON.parse(body || '{}'), res));
});
api.keepAliveTimeout = 60_000;
const echo = net.createServer(socket => socket.setNoDelay().on('error', () => {}).pipe(socket));

process.on('message', ({ say, hold: held, count }) => {
    if (say)
        updates.push({ update_id: 5000 + ++said, message: { message_id: ++number, date: 1, chat, from: { id: OWNER, is_bot: false, first_name: 'A' }, text: say } });
    if (say)
        waiting?.();
    if (held !== undefined)
        [hold, shown, first, last] = [held, 0, 0, 0];
    if (count)
        process.send({ shown, ms: last - first });
});
api.listen(0, '127.0.0.1', () => echo.listen(0, '127.0.0.1', () => process.send({ url: `http://127.0.0.1:${api.address().port}`, echo: echo.address().port })));
