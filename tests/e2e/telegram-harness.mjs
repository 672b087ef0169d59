// Harnesses in the Telegram chat: their questions and the buttons that answer them, the vendor's log-in, credentials that are
// pasted, and what is said elsewhere. Doubles stand in for the vendors' programs (lib/acp-double.pl, lib/login-double.pl).
import { test, after } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { top } from './lib/fleet.mjs';
import { button, codeOf, telegramFleet } from './lib/telegram-fleet.mjs';
import { until } from './lib/until.mjs';

const OWNER = 4242, STRANGER = 666, ROOM = -1002, MINUTE = 60_000;
const programs = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-cage-programs-'));
after(() => fs.rmSync(programs, { recursive: true, force: true }));
fs.chmodSync(programs, 0o755);
const version = /^PROGRAM\("claude", "\w+", "[^"]+", "([^"]+)"/m.exec(fs.readFileSync(path.join(top, 'src/warden/programs.def'), 'utf8'))[1];
for (const [dir, name, double] of [['local/bin', 'talker', 'acp-double.pl'], [`claude-${version}`, 'claude', 'login-double.pl']]) {
    fs.mkdirSync(path.join(programs, dir), { recursive: true });
    fs.copyFileSync(path.join(top, 'tests/e2e/lib', double), path.join(programs, dir, name));
    fs.chmodSync(path.join(programs, dir, name), 0o755);
}

const { tg, fleet, cage, must, setUp, state, handled } = await telegramFleet({ harness_dir: programs });
await must('new', 'talker', '--harness', 'acp:talker', '--upstream', 'anthropic+https://10.88.0.1:9');
assert.equal((await cage(`sk-ant-api03-${'planted'.repeat(12)}`, 'auth', 'talker', '--token-file', '-')).status, 0);
await must('new', 'coder', '--harness', 'claude', '--upstream', 'anthropic+https://10.88.0.1:9');

const pair = async () => {
    const code = codeOf((await setUp()).stdout);
    tg.chat(OWNER);
    tg.say(OWNER, OWNER, code);
    await tg.see(OWNER, 'You are paired');
};
await pair();
tg.chat(ROOM);
tg.added(ROOM, OWNER);
tg.say(ROOM, OWNER, '/link talker');
await tg.see(ROOM, 'the agent\'s room now');

const labels = message => message.reply_markup.inline_keyboard.flat().map(b => b.text);
/** The harness asks in its room; the message with the buttons. */
const asks = async (title, options) => {
    tg.say(ROOM, OWNER, JSON.stringify([{ ask: title, options }]));
    return until(`the question ${title}`, MINUTE, () => tg.shown(ROOM).find(m => m.text?.includes(`asks: ${title}`) && m.reply_markup));
};
const press = async (message, data, from = OWNER) => {
    const id = tg.press(ROOM, from, message.message_id, data);
    return until('the press to be answered', MINUTE, () => tg.answered.find(a => a.callback_query_id === id));
};
const chosen = what => tg.shown(ROOM).filter(m => m.text?.includes(`chosen: ${what}`)).length;
/** Its message says how it ended, and has no buttons. */
const over = (message, how) => until(`the question to be over as ${how}`, MINUTE, () => {
    const now = tg.chat(ROOM).messages.get(message.message_id);
    return !now.reply_markup && how.test(now.text);
});

test('a harness\'s question is answered by its numbered buttons, once, by who may; a number that is typed is no answer', async () => {
    const first = await asks('Write one');
    assert.deepEqual(labels(first), ['1: allow once: Allow', '2: decline: Reject', 'Decline']);
    assert.match(first.text, /\n1: allow once: Allow\n2: decline: Reject\n[^]*sha256 [0-9a-f]{12}/);
    const yes = button(first, '1: allow once: Allow'), no = button(first, '2: decline: Reject');
    assert.match((await press(first, yes, STRANGER)).text, /expired/);
    tg.say(ROOM, OWNER, '1'); // text for the agent, behind what it does now
    await handled(tg.lastUpdate);
    assert.equal(chosen('y') + chosen('n'), 0);
    assert.ok(!(await press(first, yes)).text);
    await until('the yes to arrive', MINUTE, () => chosen('y') === 1);
    await over(first, /asked\. ▪ .*allow once: Allow.* · telegram:4242$/);
    assert.match((await press(first, yes)).text, /expired/);
    assert.match((await press(first, no)).text, /expired/);
    const second = await asks('Write two');
    assert.match((await press(second, yes)).text, /expired/, 'not with another question\'s button');
    await press(second, button(second, '2: decline: Reject'));
    await until('the no to arrive', MINUTE, () => chosen('n') === 1);
    const third = await asks('Write three');
    await press(third, button(third, 'Decline'));
    await until('the other no to arrive', MINUTE, () => chosen('n') === 2);
    assert.equal(chosen('y'), 1);
});

test('choices that begin alike are told apart: each is listed whole above the buttons, by its number', async () => {
    const long = 'run it in the folder of the project, with all that is in the environment, and ';
    const asked = await asks('Which', [{ optionId: 'a', name: `${long}keep`, kind: 'allow_once' }, { optionId: 'b', name: `${long}forget`, kind: 'allow_once' },
        { optionId: 'n', name: 'No', kind: 'reject_once' }]);
    assert.ok(asked.text.includes(`\n1: allow once: ${long}keep\n2: allow once: ${long}forget\n3: decline: No\n`), asked.text);
    const two = labels(asked)[1];
    assert.match(two, /^2: allow once: run it in the folder/);
    await press(asked, button(asked, two));
    await until('the second to arrive', MINUTE, () => chosen('b') === 1);
});

test('what is said for an agent elsewhere shows in its room, above its report', async () => {
    tg.say(OWNER, OWNER, '[{"say":"heard-elsewhere"}]');
    const asked = await tg.see(OWNER, 'Which agent?');
    tg.press(OWNER, OWNER, asked.message_id, button(asked, 'talker'));
    const report = await tg.see(ROOM, /^talker:\nheard-elsewhere/);
    const said = await tg.see(ROOM, /^▪ telegram:4242:\n\[\{"say":"heard-elsewhere"\}\]/);
    assert.ok(said.message_id < report.message_id);
    tg.say(ROOM, OWNER, '[{"say":"heard-here"}]');
    await tg.see(ROOM, /^talker:\nheard-here/);
    assert.ok(!tg.texts(ROOM).some(t => t?.startsWith('▪ telegram:') && t.includes('heard-here')), 'the room has that already');
});

test('/auth shows the page, /code takes the code and is deleted; the token is shown by none', async () => {
    tg.say(OWNER, OWNER, '/auth coder');
    await tg.see(OWNER, /open https:\/\/vendor\.example\/oauth\/authorize\?code=true&state=s{300}&end=1 and send the code/);
    const code = tg.message(OWNER, OWNER, '/code hostile');
    tg.update({ message: code });
    const asked = await until('"which agent?"', MINUTE, () => tg.shown(OWNER).find(m => m.text?.includes('Which agent?') && m.reply_markup));
    tg.press(OWNER, OWNER, asked.message_id, button(asked, 'coder'));
    await tg.see(OWNER, 'logged in with a token');
    await until('the code to be deleted', MINUTE, () => !tg.chat(OWNER).messages.has(code.message_id));
    assert.match(await must('status', 'coder'), /▪ logged in/);
    assert.ok(!JSON.stringify(tg.calls.map(c => c.args)).includes('planted'));
});

test('a pasted credential of any look, forwarded or not, is deleted, passed to nobody and not kept', async () => {
    const secrets = ['ghp_', 'gho_', 'github_pat_', 'glpat-', 'xoxb-', 'xoxp-'].map(h => `${h}0123456789pastedabcdefghij`);
    secrets.push('AKIAPASTED0123456789', '123456789:AApasted_abcdefghijklmnopqrstuvwxyz', `sk-ant-oat01-${'pasted'.repeat(12)}`);
    for (const [i, secret] of secrets.entries())
        for (const more of [{}, { forward_origin: { type: 'user', date: 1 } }]) {
            const message = tg.message(ROOM, OWNER, i % 2 ? `it is ${secret} ok?` : `/code ${secret}`, more);
            tg.update({ message });
            await until(`${secret} to be deleted`, MINUTE, () => !tg.chat(ROOM).messages.has(message.message_id));
        }
    await until('each to be answered', MINUTE, () => tg.texts(ROOM).filter(t => t?.includes('looked like a credential')).length === 2 * secrets.length);
    assert.ok(!/pasted/i.test(JSON.stringify(tg.calls.map(c => c.args))));
    const dir = fleet.path('var/lib/agent-cage/relay');
    for (const file of fs.readdirSync(dir).filter(f => fs.statSync(path.join(dir, f)).isFile()))
        assert.ok(!/pasted/i.test(fs.readFileSync(path.join(dir, file), 'latin1')), `${file} keeps none`);
});

test('off forgets who is paired also when the token\'s file is damaged', async () => {
    const file = fleet.path('var/lib/agent-cage/relay/telegram.token'), relay = fleet.part('relay').pid;
    assert.match(await state(), /1 paired/);
    fs.writeFileSync(file, 'no token\n');
    process.kill(relay, 'SIGKILL');
    await fleet.waitForPart('relay', '', relay);
    await until('the damage to be said', MINUTE, async () => /no bot's token/.test((await cage('', 'telegram', 'status')).stdout));
    assert.match(await must('telegram', 'off'), /forgotten/);
    assert.ok(!fs.existsSync(file));
    assert.match(await state(), /not set up/);
    await setUp();
    assert.match(await state(), /0 paired · 0 groups/);
});
