// vendor-double.mjs HOST PORT: stands in for the vendors' models. It speaks Anthropic's Messages API and OpenAI's Responses API,
// both streamed, and does what the person's message says:
// `SCRIPT {"id":"a","tools":["cmd",…],"rounds":1,"say":"text","fail":[529],"slow":0}`.
// First each of `fail` is answered once: a status, or "cut", a stream that breaks off. Then all tools are asked for at once, as
// often as `rounds` says, then the text is said, with the head of each of the tools' results behind it. A tool may be
// {"command":…,"background":true}. slow: so many ms of silence in the middle of the first answer. Lines on stdout are JSON
// objects (`at`: when a request began, in ns of the monotonic clock); what it does not expect is printed as `unexpected` and answered 400.
import http from 'node:http';

const [host, port] = [process.argv[2], Number(process.argv[3])];
const say = (event, more = {}) => process.stdout.write(`${JSON.stringify({ event, ...more })}\n`);
const SHOWN = 2000;

/** The newest script among texts, and all ids of scripts in them: what the conversation remembers. */
function scriptOf(texts) {
    const found = texts.flatMap(t => [...t.matchAll(/SCRIPT (\{.*\})/g)].map(m => JSON.parse(m[1])));
    return { script: found.at(-1), ids: [...new Set(found.map(s => s.id))] };
}

/** What of the script's `fail` this vendor did not answer yet. */
function failure(api, script) {
    const left = api.failures.get(script.id) ?? [...script.fail ?? []];
    api.failures.set(script.id, left);
    return left.shift();
}

/** The silence in the middle of an answer; the first one only. */
function silence(api, script) {
    const ms = api.slept.has(script.id) ? 0 : script.slow ?? 0;
    api.slept.add(script.id);
    return ms;
}

async function stream(response, { cut, ms }, list) {
    response.on('error', () => {});
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    for (const [i, e] of list.entries()) {
        if (i === 1 && cut)
            return response.destroy();
        if (i === 1 && ms)
            await new Promise(done => setTimeout(done, ms));
        response.write(`event: ${e.type}\ndata: ${JSON.stringify(e)}\n\n`);
    }
    response.end();
}

const anthropic = {
    failures: new Map(),
    slept: new Set(),
    path: /^\/v1\/messages(\?|$)/,
    texts: body => body.messages.filter(m => m.role === 'user').flatMap(m => typeof m.content === 'string' ? [m.content]
        : m.content.filter(b => b.type === 'text').map(b => b.text)),
    results: body => body.messages.flatMap(m => Array.isArray(m.content) ? m.content : []).filter(b => b.type === 'tool_result')
        .map(b => ({ call: b.tool_use_id, text: typeof b.content === 'string' ? b.content : (b.content ?? []).map(c => c.text ?? '').join('') })),
    fail: (response, status) => response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '1' })
        .end(JSON.stringify({ type: 'error', error: { type: { 401: 'authentication_error', 429: 'rate_limit_error' }[status] ?? 'overloaded_error', message: `double says ${status}` } })),
    /** What Claude Code asks for once a stream has broken off in the middle: the same without one. */
    whole(response, body, calls, text) {
        const content = calls ? calls.map(c => ({ type: 'tool_use', id: c.id, name: 'Bash', input: { command: c.command, description: 'test' } }))
            : [{ type: 'text', text }];
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ id: 'msg_1', type: 'message', role: 'assistant', model: body.model,
            content, stop_reason: calls ? 'tool_use' : 'end_turn', stop_sequence: null, usage: { input_tokens: 100, output_tokens: 7 } }));
    },
    answer(response, how, body, calls, text) {
        if (!body.stream)
            return this.whole(response, body, calls, text);
        const blocks = calls ? calls.map(c => [{ type: 'tool_use', id: c.id, name: 'Bash', input: {} },
            { type: 'input_json_delta', partial_json: JSON.stringify({ command: c.command, description: 'test', ...c.background && { run_in_background: true } }) }])
            : [[{ type: 'text', text: '' }, { type: 'text_delta', text }]];
        stream(response, how, [
            { type: 'message_start', message: { id: 'msg_1', type: 'message', role: 'assistant', model: body.model, content: [], stop_reason: null,
                stop_sequence: null, usage: { input_tokens: 100, output_tokens: 1 } } },
            ...blocks.flatMap(([block, delta], index) => [{ type: 'content_block_start', index, content_block: block },
                { type: 'content_block_delta', index, delta }, { type: 'content_block_stop', index }]),
            { type: 'message_delta', delta: { stop_reason: calls ? 'tool_use' : 'end_turn', stop_sequence: null }, usage: { output_tokens: 7 } },
            { type: 'message_stop' }]);
    },
};

const openai = {
    failures: new Map(),
    slept: new Set(),
    path: /^\/v1\/responses$/,
    texts: body => body.input.filter(i => i.role === 'user').flatMap(i => i.content.map(c => c.text ?? '')),
    results: body => body.input.filter(i => i.type === 'function_call_output')
        .map(i => ({ call: i.call_id, text: typeof i.output === 'string' ? i.output : JSON.stringify(i.output) })),
    fail: (response, status) => response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '1' })
        .end(JSON.stringify({ error: { type: 'error', message: `double says ${status}` } })),
    answer(response, how, body, calls, text) {
        const items = calls ? calls.map(c => ({ type: 'function_call', id: `fc_${c.id}`, call_id: c.id, name: 'exec_command',
            arguments: JSON.stringify({ cmd: c.command }) }))
            : [{ type: 'message', role: 'assistant', id: 'msg_1', content: [{ type: 'output_text', text }] }];
        stream(response, how, [{ type: 'response.created', response: { id: 'resp_1' } },
            ...items.map((item, output_index) => ({ type: 'response.output_item.done', output_index, item })),
            { type: 'response.completed', response: { id: 'resp_1', usage: { input_tokens: 100, input_tokens_details: { cached_tokens: 0 },
                output_tokens: 7, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 107 } } }]);
    },
};

function answer(request, response, raw, at) {
    if (request.method === 'HEAD' && request.url === '/')
        return response.writeHead(200).end();
    const api = [anthropic, openai].find(a => request.method === 'POST' && a.path.test(request.url));
    const body = api ? JSON.parse(raw) : {};
    const { script, ids } = api ? scriptOf(api.texts(body)) : {};
    if (!script || !body.stream && !api.whole) {
        say('unexpected', { what: `${request.method} ${request.url} ${raw.slice(0, 300)}` });
        return response.writeHead(400).end();
    }
    const credential = request.headers.authorization ?? request.headers['x-api-key'] ?? '';
    say('request', { id: script.id, remembers: ids, credential, model: body.model, at });
    const status = failure(api, script);
    if (typeof status === 'number')
        return api.fail(response, status);
    const results = api.results(body).filter(r => r.call.startsWith(`call_${script.id}_`));
    const tools = script.tools ?? [];
    const round = tools.length ? Math.floor(results.length / tools.length) : script.rounds ?? 1;
    const calls = tools.map((t, i) => ({ id: `call_${script.id}_${round}_${i}`, ...typeof t === 'string' ? { command: t } : t }));
    const how = { cut: status === 'cut', ms: silence(api, script) };
    if (round < (script.rounds ?? 1))
        return api.answer(response, how, body, calls, null);
    for (const r of results.slice(-tools.length))
        say('result', { id: script.id, ...r, text: r.text.slice(0, SHOWN) });
    api.answer(response, how, body, null, [script.say ?? '', ...results.map(r => r.text.slice(0, SHOWN))].join('\n'));
}

http.createServer((request, response) => {
    const parts = [], at = Number(process.hrtime.bigint());
    request.on('data', d => parts.push(d));
    request.on('end', () => answer(request, response, Buffer.concat(parts).toString(), at));
}).listen(port, host, () => say('listening'));
