// The fleet's chat in Telegram, against a Bot API of our own (lib/telegram-double.mjs): who may command, what becomes of it
// once and only once, how it is shown, and that the token is nowhere but where it must be.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import { button, codeOf, telegramFleet } from './lib/telegram-fleet.mjs';
import { until } from './lib/until.mjs';

const OWNER = 4242, STRANGER = 666, SECOND = 777;
const { tg, fleet, cage, must, setUp, state, handled } = await telegramFleet();

await must('new', 'demo');
await must('new', 'other', '--mode', 'bare');

test('a wrong token is refused before anything is kept', async () => {
    const done = await setUp('not a token');
    assert.notEqual(done.status, 0);
    assert.match(done.stderr, /no bot's token/);
    assert.match(await state(), /not set up/);
});

test('pairing: five wrong codes lock it; a code is good once, for one account; the second needs the first owner', async () => {
    const done = await setUp();
    assert.equal(done.status, 0, done.stderr);
    assert.match(done.stdout, /listening as @cage_test_bot/);
    const first = codeOf(done.stdout);
    tg.chat(STRANGER);
    for (let i = 0; i < 5; i++)
        tg.say(STRANGER, STRANGER, 'AAAA-AAAA');
    await handled(tg.say(STRANGER, STRANGER, first));
    assert.match(await state(), /0 paired/);
    assert.equal(tg.calls.filter(c => c.method === 'sendMessage' && c.args.chat_id === STRANGER).length, 1, 'one answer an hour');

    const code = codeOf((await setUp()).stdout);
    tg.chat(OWNER);
    tg.say(OWNER, OWNER, code.toLowerCase());
    await tg.see(OWNER, 'You are paired');
    await handled(tg.say(STRANGER, STRANGER, code));
    assert.match(await state(), /1 paired/);

    const third = codeOf((await setUp()).stdout);
    tg.chat(SECOND);
    tg.say(SECOND, SECOND, third);
    const asked = await tg.see(OWNER, 'May it command the fleet too');
    assert.match(await state(), /1 paired/);
    const press = tg.press(OWNER, STRANGER, asked.message_id, button(asked, 'Yes'));
    await until('the press to be answered', 30_000, () => tg.answered.some(a => a.callback_query_id === press));
    assert.match(await state(), /1 paired/);
    tg.press(OWNER, OWNER, asked.message_id, button(asked, 'No'));
    await tg.see(OWNER, '▪ → answered');
    assert.match(await state(), /1 paired/);
    tg.say(SECOND, SECOND, codeOf((await setUp()).stdout));
    const again = await until('another question', 60_000, () => tg.shown(OWNER).find(m => m.text.includes('May it command') && m.reply_markup));
    tg.press(OWNER, OWNER, again.message_id, button(again, 'Yes'));
    await tg.see(SECOND, 'You are paired');
    assert.match(await state(), /2 paired/);
});

test('text asks which agent; a button is good once, for who was asked, in its message', async () => {
    tg.say(OWNER, OWNER, 'echo $((6*7))-done');
    const asked = await tg.see(OWNER, 'Which agent?');
    const data = button(asked, 'demo'), before = tg.answered.length;
    tg.press(OWNER, STRANGER, asked.message_id, data);
    const elsewhere = tg.press(OWNER, OWNER, asked.message_id + 1000, data);
    tg.press(OWNER, OWNER, asked.message_id, '00000000000000000000000000000000');
    tg.press(OWNER, OWNER, asked.message_id, data, { inline_message_id: 'x' });
    tg.press(OWNER, OWNER, asked.message_id, data);
    tg.press(OWNER, OWNER, asked.message_id, data);
    const report = await tg.see(OWNER, '42-done');
    assert.match(report.text, /^demo:\n42-done\n\n◷ /);
    await until('all presses to be answered', 30_000, () => tg.answered.length >= before + 5);
    assert.equal(tg.answered.slice(before).filter(a => !a.text).length, 1, 'one press was good');
    assert.ok(tg.answered.find(a => a.callback_query_id === elsewhere).text, 'not in another message');
    assert.equal(tg.texts(OWNER).filter(t => t?.includes('42-done')).length, 1);
});

test('the pinned strip is edited in place', async () => {
    const strip = await tg.see(OWNER, '[demo] demo — running');
    assert.match(strip.text, /— host —\n▫ RAM:/);
    await until('the pin', 60_000, () => tg.chat(OWNER).pinned.has(strip.message_id));
    tg.say(OWNER, OWNER, '/stop demo');
    await until('the strip to say stopped', 60_000, () => /stopped/.test(tg.chat(OWNER).messages.get(strip.message_id).text));
    tg.say(OWNER, OWNER, '/start demo');
    await until('the strip to say running', 120_000, () => /running/.test(tg.chat(OWNER).messages.get(strip.message_id).text));
    assert.equal(tg.shown(OWNER).filter(m => m.text?.startsWith('[demo]')).length, 1);
});

const FORUM = -1001, ROOM = -1002, FOREIGN = -1003;
test('a forum that the owner links has a topic for each agent; a group can be an agent\'s own', async () => {
    tg.chat(FORUM, { is_forum: true });
    tg.added(FORUM, OWNER);
    await handled(tg.say(FORUM, STRANGER, '/link'));
    assert.match(await state(), /0 groups linked/);
    tg.say(FORUM, OWNER, '/link');
    await tg.see(FORUM, 'the fleet\'s now');
    await until('a topic for each', 60_000, () => tg.topic(FORUM, 'demo') && tg.topic(FORUM, 'other'));
    const topic = tg.topic(FORUM, 'demo');
    tg.say(FORUM, OWNER, 'echo in the topic', { message_thread_id: topic, is_topic_message: true });
    await tg.see(FORUM, 'in the topic', topic);
    tg.say(FORUM, OWNER, 'echo which-was-$((1+1))');
    const asked = await tg.see(FORUM, 'Which agent?'), data = button(asked, 'demo');
    const late = tg.press(FORUM, SECOND, asked.message_id, data); // paired, but not who was asked
    await until('the press to be answered', 30_000, () => tg.answered.find(a => a.callback_query_id === late)?.text);
    tg.press(FORUM, OWNER, asked.message_id, data);
    await tg.see(FORUM, /^demo:\nwhich-was-2/, topic);
    tg.chat(ROOM);
    tg.added(ROOM, OWNER);
    tg.say(ROOM, OWNER, '/link other');
    await tg.see(ROOM, 'the agent\'s room now');
    tg.say(ROOM, OWNER, 'echo in its room');
    await tg.see(ROOM, /^other:\nin its room/);
    await handled(tg.say(ROOM, STRANGER, 'echo stranger-was-here'));
    assert.ok(!tg.texts(ROOM).some(t => t?.includes('stranger-was-here')));
});

test('what is said elsewhere shows here too', async () => {
    await must('send', 'demo', 'echo from the host', '--wait');
    const topic = tg.topic(FORUM, 'demo');
    await tg.see(FORUM, /^▪ terminal:0:\necho from the host/, topic);
    await tg.see(FORUM, /^demo:\nfrom the host/, topic);
});

test('groups that nobody linked are left', async () => {
    tg.chat(FOREIGN);
    tg.added(FOREIGN, STRANGER);
    await until('the bot to leave', 30_000, () => tg.chat(FOREIGN).left);
});

test('forwarded, edited and anonymous text is never a command', async () => {
    const topic = { message_thread_id: tg.topic(FORUM, 'demo'), is_topic_message: true };
    tg.say(FORUM, OWNER, 'echo forward-was-run', { ...topic, forward_origin: { type: 'user', date: 1 } });
    tg.edit(FORUM, tg.message(FORUM, OWNER, 'echo first', topic).message_id, { text: 'echo edit-was-run' });
    tg.say(FORUM, OWNER, 'echo anonymous-was-run', { ...topic, sender_chat: { id: FORUM, type: 'supergroup' } });
    tg.say(FORUM, OWNER, 'echo the-end', topic);
    await tg.see(FORUM, 'the-end');
    for (const word of ['forward-was-run', 'edit-was-run', 'anonymous-was-run'])
        assert.ok(!tg.texts(FORUM).some(t => t?.includes(word)), word);
});

test('a pasted token is deleted, said why and goes nowhere: in a text, an edit, the caption of any message', async () => {
    const topic = { message_thread_id: tg.topic(FORUM, 'demo'), is_topic_message: true };
    const token = 'my key is sk-ant-oat01-abcdefghijklmnopqrstuvwxyz', voice = { voice: { file_id: 'V1', duration: 1 } };
    const asked = () => tg.calls.filter(c => c.method === 'getFile').length, before = asked();
    const why = () => tg.texts(FORUM).filter(t => t?.includes('looked like a credential')).length;
    const send = (text, more = {}) => {
        const m = tg.message(FORUM, OWNER, text, { ...topic, ...more });
        tg.update({ message: m });
        return m;
    };
    const ways = {
        text: () => send(token),
        'a caption of a voice': () => send(undefined, { ...voice, caption: token }),
        'a caption of what is not taken': () => send(undefined, { paid_media: { star_count: 1 }, caption: token }),
        'an edited text': () => { const m = send('echo an-innocent-text'); tg.edit(FORUM, m.message_id, { text: token }); return m; },
        'an edited caption': () => {
            const m = send(undefined, { sticker: { file_id: 'S1' } });
            tg.edit(FORUM, m.message_id, { sticker: undefined, ...voice, caption: token });
            return m;
        },
    };
    for (const [way, paste] of Object.entries(ways)) {
        const said = why(), { message_id } = paste();
        await until(`${way} to be deleted`, 30_000, () => !tg.chat(FORUM).messages.has(message_id));
        await until(`${way} to be said why`, 30_000, () => why() === said + 1);
    }
    tg.edit(FORUM, tg.message(FORUM, STRANGER, 'x', topic).message_id, { text: token }); // theirs to say
    tg.say(FORUM, OWNER, 'echo that-was-all', topic);
    await tg.see(FORUM, 'that-was-all');
    assert.equal(why(), Object.keys(ways).length);
    assert.equal(asked(), before);
    assert.ok(!tg.texts(FORUM).some(t => t?.includes('oat01-abc')));
});

test('hostile output is inert: no markup, no live links, no bidi, no zero-width, labelled as the agent\'s', async () => {
    const topic = { message_thread_id: tg.topic(FORUM, 'demo'), is_topic_message: true };
    tg.say(FORUM, OWNER, String.raw`printf '<b>x</b> [a](tg://user?id=1) \e[31m\u202e\u200b Approved ✔ hostile-end'`, topic);
    const shown = await tg.see(FORUM, 'hostile-end');
    assert.match(shown.text, /^demo:\n/);
    assert.ok(!/tg:\/\//.test(shown.text) && !/[\u001b\u202e\u200b]/.test(shown.text), JSON.stringify(shown.text));
    assert.match(shown.text, /<b>x<\/b>/);
    assert.equal(shown.reply_markup, undefined);
});

test('long reports: pieces on lines, a very long one as a file', async () => {
    const topic = { message_thread_id: tg.topic(FORUM, 'demo'), is_topic_message: true };
    tg.say(FORUM, OWNER, 'for i in $(seq 300); do echo "line-$i of a long report 😀"; done', topic);
    await tg.see(FORUM, 'line-300 of');
    const pieces = tg.texts(FORUM).filter(t => /^demo: \(\d\)\n/.test(t));
    assert.ok(pieces.length >= 2);
    assert.equal(pieces.join('\n').match(/line-\d+ of a long report 😀/g).length, 300);
    tg.say(FORUM, OWNER, 'seq -f "row-%g-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" 1000', topic);
    const file = await until('a file', 60_000, () => tg.shown(FORUM).find(m => m.document));
    assert.equal(file.document.name, 'demo.txt');
    assert.match(file.document.bytes.toString(), /row-1000-/);
});

test('a file goes into the in-tray, its caption to the agent behind it; cut, slowed and expired on the way', async () => {
    const topic = { message_thread_id: tg.topic(FORUM, 'demo'), is_topic_message: true };
    const bytes = crypto.randomBytes(3 * 2 ** 20 + 5), sum = crypto.createHash('sha256').update(bytes).digest('hex');
    const slower = { code: 429, description: 'Too Many Requests: retry after 1', parameters: { retry_after: 1 } };
    const ways = ['half', slower, { code: 502, description: 'Bad Gateway' }];
    tg.faults = [m => m === 'file' ? ways.shift() : undefined];
    tg.document(FORUM, OWNER, 'a report.bin', bytes, { ...topic, caption: 'sha256sum "/inbox/a report.bin"; cat <<"E"' });
    tg.say(FORUM, OWNER, 'ls -m /inbox; echo after-the-file', topic); // waits for it
    assert.match((await tg.see(FORUM, sum, topic.message_thread_id)).text, /\n\[file: \/inbox\/a report\.bin\]/);
    assert.equal(ways.length, 0);
    await tg.see(FORUM, /^demo:\na report\.bin\nafter-the-file/, topic.message_thread_id);
    assert.equal(tg.texts(FORUM).filter(t => t?.includes('telegram:4242 sent a file, 3145733 bytes: /inbox/a report.bin')).length, 1);
    tg.document(FORUM, OWNER, 'late.txt', Buffer.from('late\n'), topic);
    [...tg.files.values()].at(-1).expiring = 1;
    await tg.see(FORUM, 'sent a file, 5 bytes: /inbox/late.txt');
    tg.files.set('P1', { bytes: Buffer.from('small'), path: 'photos/1.bin', size: 5 }).set('P2', { bytes: Buffer.from('larger'), path: 'photos/2.bin', size: 6 });
    tg.say(FORUM, OWNER, undefined, { ...topic, photo: [{ file_id: 'P1', width: 90, height: 60 }, { file_id: 'P2', width: 900, height: 600 }] });
    await tg.see(FORUM, 'sent a file, 6 bytes: /inbox/photo.jpg');
    tg.files.set('V1', { bytes: Buffer.from('spoken'), path: 'voice/3.oga', size: 6 });
    tg.say(FORUM, OWNER, undefined, { ...topic, voice: { file_id: 'V1', duration: 1, file_size: 6 }, caption: 'cat /inbox/voice.ogg; #' });
    await tg.see(FORUM, 'spoken', topic.message_thread_id);
    tg.say(FORUM, OWNER, undefined, { ...topic, sticker: { file_id: 'S1' } });
    await tg.see(FORUM, 'Only text and files are taken here');
    tg.faults = [];
});

test('files that are not taken: too large, a hostile name, forwarded, a stranger\'s; what cannot be had is said', async () => {
    const topic = { message_thread_id: tg.topic(FORUM, 'demo'), is_topic_message: true };
    const asked = tg.calls.filter(c => c.method === 'getFile').length, x = Buffer.from('x');
    tg.document(FORUM, OWNER, 'large.bin', 20 * 2 ** 20 + 1, topic);
    await tg.see(FORUM, 'a file of 20971521 bytes is too large for Telegram');
    for (const name of ['../../x', '.hidden', 'a\u001b[2Jb', 'a\u202eb', 'a\u0000b', 'x'.repeat(256)]) {
        const before = tg.texts(FORUM).filter(t => t?.startsWith('▪ The file was not taken: ')).length;
        tg.document(FORUM, OWNER, name, x, topic);
        await until(`${name} to be refused`, 60_000, () => tg.texts(FORUM).filter(t => t?.startsWith('▪ The file was not taken: ')).length > before);
    }
    assert.ok(!tg.texts(FORUM).some(t => /[\u001b\u202e\u0000]/.test(t ?? '')));
    tg.document(FORUM, OWNER, 'forwarded.txt', x, { ...topic, caption: 'echo forward-was-run', forward_origin: { type: 'user', date: 1 } });
    tg.document(FORUM, STRANGER, 'strange.txt', x, { ...topic, caption: 'echo strange-was-run' });
    await handled(tg.document(STRANGER, STRANGER, 'strange.txt', x));
    tg.say(FORUM, OWNER, 'ls -m /inbox | cat; echo none-of-those', topic);
    assert.match((await tg.see(FORUM, 'none-of-those')).text, /^demo:\na report\.bin, late\.txt, photo\.jpg, voice\.ogg\nnone-of-those/);
    assert.equal(tg.calls.filter(c => c.method === 'getFile').length, asked);
    assert.ok(!tg.texts(FORUM).some(t => /(forward|strange)-was-run/.test(t ?? '')));
    tg.document(FORUM, OWNER, 'gone.txt', x, topic);
    tg.files.clear();
    await tg.see(FORUM, /^▪ demo: the file gone\.txt: it could not be had from Telegram: .*wrong file_id/);
});

test('/get sends a file of the outbox: slowed and cut on the way, too large, missing', async () => {
    const topic = { message_thread_id: tg.topic(FORUM, 'demo'), is_topic_message: true };
    const sent = () => tg.shown(FORUM).filter(m => m.document && m.document.name !== 'demo.txt');
    tg.say(FORUM, OWNER, '(cd /outbox && seq 400000 >"a \\"result\\".txt" && truncate -s 52428801 large && touch empty && sha256sum a*)', topic);
    const sum = (await tg.see(FORUM, /^demo:\n[0-9a-f]{64} {2}a "result"/)).text.match(/[0-9a-f]{64}/)[0];
    const slower = { code: 429, description: 'Too Many Requests: retry after 3', parameters: { retry_after: 3 } };
    const ways = [slower];
    tg.faults = [m => m === 'sendDocument' ? ways.shift() : undefined];
    tg.cutting = 1;
    tg.say(FORUM, OWNER, '/get a "result".txt', topic);
    const file = await until('the file', 60_000, () => sent()[0]);
    assert.equal(crypto.createHash('sha256').update(file.document.bytes).digest('hex'), sum);
    assert.equal(file.document.name, 'a _result_.txt');
    assert.equal(file.caption, '▪ demo');
    assert.equal(file.message_thread_id, topic.message_thread_id);
    assert.ok(tg.cutting === 0 && !ways.length);
    // A message may be on its way when the other line is told to wait; nothing is sent once that is known.
    assert.ok(tg.early.every(e => e.method !== 'sendDocument' && e.ms > 1000), JSON.stringify(tg.early));
    tg.early = [];
    tg.faults = [m => m === 'sendDocument' ? 'drop-after' : undefined];
    tg.say(FORUM, OWNER, '/get a "result".txt', topic);
    await tg.see(FORUM, 'it is not known whether it was sent');
    tg.faults = [];
    for (const [name, said] of [['large', 'it is too large for Telegram'], ['empty', 'it is empty'], ['missing', 'there is no file \'missing\''], ['../x', 'begins with a dot'], ['', 'which file?']]) {
        tg.say(FORUM, OWNER, `/get ${name}`, topic);
        await tg.see(FORUM, said);
    }
    assert.equal(sent().length, 2);
    assert.ok(!tg.texts(FORUM).some(t => t?.includes(tg.token.split(':')[1])));
});

test('bad days: 409, 429, 5xx, drops before and after, half answers, duplicates, a wrong order, 4 MiB', async () => {
    const topic = { message_thread_id: tg.topic(FORUM, 'demo'), is_topic_message: true }, MORE = 30;
    const away = { code: 502, description: 'Bad Gateway' }, ill = { raw: '<html>', status: 503 };
    const slower = { code: 429, description: 'Too Many Requests: retry after 1', parameters: { retry_after: 1 } };
    const ways = ['drop', 'drop-after', 'half', away, ill, slower], calls = ['sendMessage', 'editMessageText', 'getUpdates'];
    // Every second call goes wrong, until each of the three went wrong in each way twice.
    const met = Object.fromEntries(calls.map(m => [m, 0])), turn = { ...met };
    tg.faults = [m => m in met && met[m] < 2 * ways.length && turn[m]++ % 2 ? ways[met[m]++ % ways.length] : undefined];
    tg.reordered = true; // hands out again what is confirmed
    const id = tg.lastUpdate, doubled = () => tg.texts(FORUM).filter(t => t === '·').length;
    tg.update({ message: tg.message(FORUM, OWNER, 'echo second >>order', topic) }, id + 3);
    tg.update({ message: tg.message(FORUM, OWNER, 'echo first >>order', topic) }, id + 2);
    tg.update({ message: tg.message(FORUM, OWNER, 'echo first >>order', topic) }, id + 2);
    tg.update({ message: tg.message(FORUM, OWNER, '/new', topic) }, id + 1);
    await until('all to be taken', 120_000, () => tg.given.filter(g => g === id + 3).length >= 2);
    tg.reordered = false;
    tg.queue = tg.queue.filter(u => u.update_id > id + 3);
    tg.say(FORUM, OWNER, 'x'.repeat(4 << 20), topic);
    tg.say(FORUM, OWNER, 'cat order; echo after-it-all', topic);
    await tg.see(FORUM, 'after-it-all', undefined, 180_000);
    for (let i = 0; i < MORE; i++)
        tg.say(FORUM, OWNER, `echo more-${i}-said`, topic);
    await until('each to have gone wrong in each way', 300_000, () => (tg.wake(), calls.every(m => met[m] === 2 * ways.length)));
    await tg.see(FORUM, `more-${MORE - 1}-said`, undefined, 180_000);
    await until('no dot but those doubled', 60_000, () => doubled() <= 4); // drop-after and half, twice each
    assert.equal(tg.texts(FORUM).filter(t => /^demo:\nfirst\nsecond\nafter-it-all\n/.test(t)).length, 1, JSON.stringify(tg.texts(FORUM).slice(-60)));
    assert.equal(tg.texts(FORUM).filter(t => t?.includes('after-it-all')).length, 1);
    assert.equal(tg.texts(FORUM).filter(t => t?.includes('▪ demo: fresh')).length, 1, 'an order is given once');
    for (let i = 0; i < MORE; i++)
        assert.equal(tg.texts(FORUM).filter(t => t?.includes(`more-${i}-said`)).length, 1, `more-${i} is shown once`);
    assert.deepEqual(tg.early, [], 'what was told to wait waited');
    tg.faults = [];
});

test('a chore that is told to wait waits as long as that, and holds up no chat', async () => {
    const topic = { message_thread_id: tg.topic(FORUM, 'demo'), is_topic_message: true };
    let slow = 0;
    tg.faults = [m => m === 'answerCallbackQuery' && slow++ < 1 ? { code: 429, description: 'Too Many Requests: retry after 4', parameters: { retry_after: 4 } } : undefined];
    const at = Date.now(), pressed = tg.press(FORUM, OWNER, 1, '00000000000000000000000000000000');
    await until('it to be told to wait', 60_000, () => slow);
    for (let i = 0; i < 5; i++) {
        tg.say(FORUM, OWNER, `echo meanwhile-${i}`, topic);
        await tg.see(FORUM, `meanwhile-${i}`);
    }
    assert.ok(!tg.answered.some(a => a.callback_query_id === pressed), 'five reports were shown meanwhile');
    await until('the press to be answered', 60_000, () => tg.answered.some(a => a.callback_query_id === pressed));
    assert.ok(Date.now() - at >= 4000);
    assert.deepEqual(tg.early, []);
    tg.faults = [];
});

test('deaf is said in status', async () => {
    tg.faults = [method => method === 'getUpdates' ? { code: 409, description: 'Conflict: terminated by other getUpdates request' } : undefined];
    tg.wake();
    await until('status to say deaf', 30_000, async () => /deaf: another program listens/.test(await state()));
    tg.faults = [];
    await until('it to listen again', 60_000, async () => /listening as/.test(await state()));
});

test('a group that migrates must be linked again', async () => {
    const NEW = -2002;
    tg.chat(NEW);
    tg.chat(ROOM).movedTo = NEW;
    tg.update({ message: { ...tg.message(ROOM, OWNER, undefined), migrate_to_chat_id: NEW } });
    await tg.see(FORUM, 'another group until');
    await handled(tg.say(NEW, OWNER, 'echo migrated-was-run'));
    assert.ok(!tg.calls.some(c => JSON.stringify(c.args).includes('demo:\\nmigrated-was-run')));
    tg.say(NEW, OWNER, '/link other');
    await tg.see(NEW, 'the agent\'s room now');
});

test('kill -9 of the relay at random moments: each update acted on once, each message shown once', async () => {
    const topic = { message_thread_id: tg.topic(FORUM, 'demo'), is_topic_message: true };
    const kills = Number(process.env.TELEGRAM_KILLS ?? 4), rounds = kills * 4;
    for (let i = 0; i < rounds; i++) {
        tg.say(FORUM, OWNER, `echo kill-${i}- >>killed; echo said-${i}-end`, topic);
        if (i % 4 === 1) {
            tg.document(FORUM, OWNER, `kill-${i}.bin`, Buffer.alloc(300_000, 'k'), topic);
            const calls = tg.calls.length, at = 1 + Math.floor(Math.random() * 8);
            await until('some calls', 60_000, () => tg.calls.length >= calls + at);
            const relay = fleet.part('relay');
            if (relay)
                process.kill(relay.pid, 'SIGKILL');
        }
    }
    for (let i = 0; i < rounds; i++)
        await tg.see(FORUM, `said-${i}-end`, undefined, 180_000);
    tg.say(FORUM, OWNER, 'echo "count $(wc -l <killed) $(sort -u killed | wc -l)"', topic);
    await tg.see(FORUM, `count ${rounds} ${rounds}`);
    for (let i = 0; i < rounds; i++)
        assert.equal(tg.texts(FORUM).filter(t => t?.includes(`said-${i}-end`)).length, 1, `said-${i} is shown once`);
    for (let i = 1; i < rounds; i += 4)
        await tg.see(FORUM, new RegExp(`sent a file, 300000 bytes: /inbox/kill-${i}\\.bin|the file kill-${i}\\.bin: it is not known`));
    tg.say(FORUM, OWNER, 'ls /inbox | grep -c "kill-.*-2"', topic);
    await tg.see(FORUM, /^demo:\n0\n/);
});

test('the token is in the relay\'s folder, 0600, and nowhere else: no log, no /proc entry, no cage', async () => {
    const secret = tg.token.split(':')[1];
    const file = fleet.path('var/lib/agent-cage/relay/telegram.token');
    assert.equal(fs.statSync(file).mode & 0o7777, 0o600);
    const hits = [];
    const look = dir => {
        for (const e of fs.readdirSync(dir, { withFileTypes: true })) {
            const path = `${dir}/${e.name}`;
            if (e.isDirectory() && !path.includes('/images/'))
                look(path);
            else if (e.isFile() && path !== file && fs.statSync(path).size < 1 << 26 && fs.readFileSync(path).includes(secret))
                hits.push(path);
        }
    };
    look(fleet.path('var'));
    look(fleet.path('run'));
    look(fleet.path('etc'));
    for (const pid of fs.readdirSync('/proc').filter(p => /^\d+$/.test(p) && Number(p) !== process.pid))
        for (const entry of ['cmdline', 'environ'])
            try {
                if (fs.readFileSync(`/proc/${pid}/${entry}`).includes(secret))
                    hits.push(`/proc/${pid}/${entry}`);
            } catch { /* gone meanwhile */ }
    assert.deepEqual(hits, []);
    assert.ok(!fleet.upLog().includes(secret));
    const seen = await cage('', 'exec', 'demo', '--', 'grep', '-rs', secret, '/project', '/scratch', '/home/cage', '/proc/self/environ');
    assert.equal(seen.stdout, '');
});

test('off forgets it all', async () => {
    assert.match(await must('telegram', 'off'), /forgotten/);
    assert.ok(!fs.existsSync(fleet.path('var/lib/agent-cage/relay/telegram.token')));
    assert.match(await state(), /not set up/);
    const polls = tg.polls;
    tg.wake();
    assert.equal(tg.polls, polls);
});
