// A Bot API on loopback, as documented: chats, groups, forums with topics, pins, edits, buttons, files; and its bad days: 409,
// 429, 5xx, connections dropped before and after the deed, half answers, duplicates, updates out of order, migrated groups,
// texts of megabytes. What a chat would show is in `chats`.
import http from 'node:http';
import { multipart } from './multipart.mjs';
import { until } from './until.mjs';

const units = text => text.length; // JavaScript counts in UTF-16 units as well

class Refusal extends Error {
    constructor(code, description, parameters) {
        super(description);
        Object.assign(this, { code, description, parameters });
    }
}
const bad = (what, parameters) => new Refusal(400, `Bad Request: ${what}`, parameters);

export class TelegramDouble {
    static async start(token = '987654321:AAtest-Token_0123456789abcdefghijk') {
        const double = new TelegramDouble(token);
        await new Promise(done => double.server.listen(0, '127.0.0.1', done));
        double.url = `http://127.0.0.1:${double.server.address().port}`;
        return double;
    }

    constructor(token) {
        this.token = token;
        this.chats = new Map(); // id → { id, type, is_forum, messages: Map, pinned: Set, topics: Map, left }
        this.calls = [];        // { method, args, at, answer }
        this.queue = [];        // updates that are not confirmed
        this.given = [];        // ids of updates as they were handed out
        this.lastMessage = 100;
        this.lastUpdate = 5000;
        this.answered = [];     // callback queries
        this.files = new Map(); // id → { bytes, path, size, expired }
        this.faults = [];       // functions (method, args) → undefined or how to go wrong
        this.slow = new Map();  // who was told to wait → until when
        this.early = [];        // calls of those that did not
        this.waiting = null;
        this.server = http.createServer((req, res) => this.serve(req, res));
        this.server.keepAliveTimeout = 30_000;
    }

    stop() {
        this.server.closeAllConnections();
        return new Promise(done => this.server.close(done));
    }

    // ---- what people do ----

    chat(id, more = {}) {
        if (!this.chats.has(id))
            this.chats.set(id, { id, type: id > 0 ? 'private' : 'supergroup', is_forum: false, messages: new Map(), pinned: new Set(), topics: new Map(), left: false, ...more });
        return this.chats.get(id);
    }

    shape(chat) {
        return { id: chat.id, type: chat.type, ...(chat.is_forum ? { is_forum: true } : {}), title: chat.type === 'private' ? undefined : 'a group' };
    }

    update(what, id = ++this.lastUpdate) {
        this.lastUpdate = Math.max(this.lastUpdate, id);
        this.queue.push({ update_id: id, ...what });
        this.wake();
        return id;
    }

    message(chatId, from, text, more = {}) {
        const chat = this.chat(chatId);
        const message_id = ++this.lastMessage;
        const message = { message_id, date: 1, chat: this.shape(chat), from: { id: from, is_bot: false, first_name: 'A', username: 'same_name' }, text, ...more };
        chat.messages.set(message_id, { ...message, own: false });
        return message;
    }

    say(chatId, from, text, more = {}) {
        return this.update({ message: this.message(chatId, from, text, more) });
    }

    /** A document that somebody sends; its bytes, or only its size. */
    document(chatId, from, name, bytes, more = {}) {
        const file_id = `F${++this.lastMessage}`, size = bytes.length ?? bytes;
        this.files.set(file_id, { bytes, path: `documents/file_${this.lastMessage}.bin`, size });
        return this.say(chatId, from, undefined, { document: { file_id, file_unique_id: `u${file_id}`, file_name: name, file_size: size }, ...more });
    }

    /** Somebody changes what a message of theirs says. */
    edit(chatId, message_id, change) {
        const message = Object.assign(this.chat(chatId).messages.get(message_id), change);
        return this.update({ edited_message: { ...message, own: undefined, edit_date: 2 } });
    }

    press(chatId, from, message_id, data, more = {}) {
        const id = String(++this.lastMessage);
        this.update({ callback_query: { id, from: { id: from, is_bot: false, first_name: 'A' }, chat_instance: '1', message: { message_id, date: 1, chat: this.shape(this.chat(chatId)) }, data, ...more } });
        return id;
    }

    added(chatId, from, status = 'member') {
        this.update({ my_chat_member: { chat: this.shape(this.chat(chatId)), from: { id: from, is_bot: false, first_name: 'A' }, date: 1,
            old_chat_member: { status: 'left', user: { id: 1 } }, new_chat_member: { status, user: { id: 1 } } } });
    }

    /** What stands in a chat now, by us, oldest first. */
    shown(chatId, thread) {
        return [...this.chat(chatId).messages.values()].filter(m => m.own && (thread === undefined || m.message_thread_id === thread));
    }

    texts(chatId, thread) {
        return this.shown(chatId, thread).map(m => m.text ?? m.caption);
    }

    async see(chatId, what, thread, ms = 60_000) {
        const match = typeof what === 'string' ? t => t.includes(what) : t => what.test(t);
        return until(`a message like ${what} in ${chatId}`, ms, () => this.shown(chatId, thread).find(m => match(m.text ?? '')))
            .catch(e => { throw new Error(`${e.message}; there are ${JSON.stringify(this.texts(chatId))}`); });
    }

    // ---- the API ----

    serve(req, res) {
        const parts = [];
        req.on('data', d => {
            parts.push(d);
            if (req.url.endsWith('/sendDocument') && this.cutting > 0 && this.cutting--)
                req.socket.destroy(); // in the middle of what is sent
        });
        req.on('end', () => this.answer(req, res, Buffer.concat(parts)));
        req.on('error', () => {});
    }

    /** What getFile tells the path of. */
    give(req, res, path) {
        const file = [...this.files.values()].find(f => f.path === path), args = { path };
        const call = { method: 'file', args, at: Date.now() };
        this.calls.push(call);
        const fault = this.faults.map(f => f('file', args)).find(f => f);
        if (fault?.code)
            return this.reply(res, fault.code, { ok: false, error_code: fault.code, description: fault.description, parameters: fault.parameters });
        if (!file || file.expired)
            return this.reply(res, 404, { ok: false, error_code: 404, description: 'Not Found' });
        res.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': file.bytes.length });
        if (fault !== 'half')
            return res.end(file.bytes);
        res.write(file.bytes.subarray(0, file.bytes.length / 2));
        setImmediate(() => res.socket?.destroy());
    }

    async answer(req, res, body) {
        const file = req.url.match(/^\/file\/bot([^/]+)\/(.+)$/);
        if (file?.[1] === this.token)
            return this.give(req, res, file[2]);
        const found = req.url.match(/^\/bot([^/]+)\/(\w+)$/);
        if (!found || found[1] !== this.token)
            return this.reply(res, 401, { ok: false, error_code: 401, description: 'Unauthorized' });
        const method = found[2];
        const args = req.headers['content-type']?.startsWith('multipart/') ? multipart(body, req.headers['content-type']) : JSON.parse(body.toString() || '{}');
        const call = { method, args, at: Date.now() };
        this.calls.push(call);
        let fault;
        for (const f of this.faults)
            fault ??= f(method, args);
        const early = this.tooEarly(method, args);
        if (early)
            return this.reply(res, 429, early);
        if (fault === 'drop')
            return req.socket.destroy();
        if (fault?.parameters?.retry_after)
            this.slow.set(this.line(method, args), performance.now() + fault.parameters.retry_after * 1000);
        if (fault?.code)
            return this.reply(res, fault.code, { ok: false, error_code: fault.code, description: fault.description ?? 'An error', parameters: fault.parameters });
        if (fault?.raw !== undefined)
            return res.writeHead(fault.status ?? 502, { 'Content-Type': 'text/html' }).end(fault.raw);
        try {
            const result = method === 'getUpdates' ? await this.getUpdates(args, req) : this[`do_${method}`] ? this[`do_${method}`](args) : undefined;
            if (result === undefined)
                return this.reply(res, 404, { ok: false, error_code: 404, description: 'Not Found: method not found' });
            call.answer = result;
            if (fault === 'drop-after')
                return req.socket.destroy();
            this.reply(res, 200, { ok: true, result }, fault === 'half');
        } catch (e) {
            if (!(e instanceof Refusal))
                throw e;
            this.reply(res, e.code, { ok: false, error_code: e.code, description: e.description, parameters: e.parameters });
        }
    }

    /** A chat is told to wait, or all that concerns none (and what is deleted), or one that listens. */
    line(method, { chat_id }) {
        if (['getUpdates', 'getMe'].includes(method))
            return method;
        return ['answerCallbackQuery', 'leaveChat', 'deleteMessage'].includes(method) ? 'chores' : chat_id;
    }

    tooEarly(method, args) {
        const ms = (this.slow.get(this.line(method, args)) ?? 0) - performance.now();
        if (ms <= 0)
            return undefined;
        this.early.push({ method, ms });
        const s = Math.ceil(ms / 1000);
        return { ok: false, error_code: 429, description: `Too Many Requests: retry after ${s}`, parameters: { retry_after: s } };
    }

    reply(res, status, value, half = false) {
        const text = JSON.stringify(value);
        res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) });
        if (!half)
            return res.end(text);
        res.write(text.slice(0, text.length / 2));
        setImmediate(() => res.socket?.destroy());
    }

    wake() {
        this.waiting?.();
    }

    async getUpdates({ offset = 0, limit = 100, timeout = 0, allowed_updates }, req) {
        this.polls = (this.polls ?? 0) + 1;
        if (this.waiting) {
            this.conflict = true;
            this.wake();
        }
        if (offset)
            this.queue = this.queue.filter(u => u.update_id >= offset || this.reordered);
        if (!this.queue.length && timeout)
            await new Promise(done => {
                const over = this.waiting = () => { clearTimeout(timer); req.socket.off('close', over); done(); };
                const timer = setTimeout(over, timeout * 1000);
                req.socket.once('close', over);
            });
        this.waiting = null;
        if (req.socket.destroyed)
            return [];
        // Kinds that were not asked for are never given.
        this.queue = this.queue.filter(u => !allowed_updates || allowed_updates.some(kind => kind in u));
        const some = this.queue.slice(0, limit);
        this.given.push(...some.map(u => u.update_id));
        return some;
    }

    do_getMe() {
        return { id: Number(this.token.split(':')[0]), is_bot: true, first_name: 'Cage', username: 'cage_test_bot', can_join_groups: true };
    }

    open(id) {
        const chat = this.chats.get(id);
        if (!chat)
            throw bad('chat not found');
        if (chat.movedTo)
            throw bad('group chat was upgraded to a supergroup chat', { migrate_to_chat_id: chat.movedTo });
        if (chat.blocked)
            throw new Refusal(403, 'Forbidden: bot was blocked by the user');
        if (chat.left)
            throw new Refusal(403, 'Forbidden: bot is not a member of the supergroup chat');
        return chat;
    }

    text({ text, parse_mode, entities }) {
        if (parse_mode || entities)
            throw bad('markup is not expected from us');
        if (!text?.trim())
            throw bad('message text is empty');
        if (units(text) > 4096)
            throw bad('MESSAGE_TOO_LONG');
        return text;
    }

    do_sendMessage(args) {
        const chat = this.open(args.chat_id);
        if (args.message_thread_id && !chat.topics.has(args.message_thread_id))
            throw bad('message thread not found');
        const message_id = ++this.lastMessage;
        const message = { message_id, date: 1, chat: this.shape(chat), from: { id: 1, is_bot: true, first_name: 'Cage' }, text: this.text(args), message_thread_id: args.message_thread_id };
        chat.messages.set(message_id, { ...message, own: true, reply_markup: args.reply_markup, edits: 0 });
        return message;
    }

    own(args) {
        const message = this.open(args.chat_id).messages.get(args.message_id);
        if (!message?.own)
            throw bad('message to edit not found');
        return message;
    }

    do_editMessageText(args) {
        const message = this.own(args), text = this.text(args);
        if (message.text === text && JSON.stringify(message.reply_markup) === JSON.stringify(args.reply_markup))
            throw bad('message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message');
        Object.assign(message, { text, reply_markup: args.reply_markup, edits: message.edits + 1 });
        return { ...message, own: undefined };
    }

    do_editMessageMedia(args) {
        const message = this.own(args);
        Object.assign(message, { text: undefined, caption: args.media.caption, document: { ...args.file }, edits: message.edits + 1 });
        return { ...message, own: undefined, document: { file_id: 'f1', file_name: args.file.name } };
    }

    do_getFile({ file_id }) {
        const file = this.files.get(file_id);
        if (!file)
            throw bad('wrong file_id or the file is temporarily unavailable');
        if (file.size > 20 * 2 ** 20)
            throw bad('file is too big');
        file.path = file.path.replace(/(-\d+)?\.bin$/, `-${++this.lastMessage}.bin`); // a fresh one each time
        file.expired = file.expiring-- > 0;
        return { file_id, file_unique_id: `u${file_id}`, file_size: file.size, file_path: file.path };
    }

    do_sendDocument(args) {
        if (args.document.bytes.length > 50 * 2 ** 20)
            throw new Refusal(413, 'Request Entity Too Large');
        if (!args.document.bytes.length)
            throw bad('file must be non-empty');
        const sent = this.do_sendMessage({ ...args, text: args.caption });
        Object.assign(this.chat(args.chat_id).messages.get(sent.message_id), { text: undefined, caption: args.caption, document: { ...args.document } });
        return { ...sent, text: undefined };
    }

    do_pinChatMessage(args) {
        this.own(args);
        this.open(args.chat_id).pinned.add(args.message_id);
        return true;
    }

    do_createForumTopic(args) {
        const chat = this.open(args.chat_id);
        if (!chat.is_forum)
            throw bad('the chat is not a forum');
        const id = ++this.lastMessage;
        chat.topics.set(id, args.name);
        return { message_thread_id: id, name: args.name, icon_color: 7322096 };
    }

    topic(chatId, name) {
        return [...this.chat(chatId).topics].find(([, n]) => n === name)?.[0];
    }

    do_answerCallbackQuery(args) {
        this.answered.push(args);
        return true;
    }

    do_deleteMessage(args) {
        if (!this.open(args.chat_id).messages.delete(args.message_id))
            throw bad('message to delete not found');
        return true;
    }

    do_leaveChat(args) {
        this.open(args.chat_id).left = true;
        return true;
    }
}
