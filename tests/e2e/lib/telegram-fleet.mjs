// A fleet with the Telegram front and a Bot API of our own (telegram-double.mjs) beside it.
import { after } from 'node:test';
import assert from 'node:assert/strict';
import { Fleet } from './fleet.mjs';
import { TelegramDouble } from './telegram-double.mjs';
import { ended, until } from './until.mjs';

export const codeOf = text => text.match(/[A-Z2-9]{4}-[A-Z2-9]{4}/)[0];
/** What a button of that label carries. */
export const button = (message, label) => message.reply_markup.inline_keyboard.flat().find(b => b.text === label).callback_data;

export async function telegramFleet(conf = {}) {
    const tg = await TelegramDouble.start();
    const fleet = await Fleet.start({ conf: { telegram_api: tg.url, ...conf } });
    after(() => tg.stop());
    // The double answers from this process, which therefore must not wait for a child without its loop.
    const cage = (input, ...args) => {
        const child = fleet.spawn(args);
        child.stdin.on('error', () => {}); // it need not read its input
        child.stdin.end(input);
        return ended(child, 180_000);
    };
    const must = async (...args) => {
        const done = await cage('', ...args);
        assert.equal(done.status, 0, done.stderr);
        return done.stdout;
    };
    return {
        tg, fleet, cage, must,
        setUp: (token = tg.token) => cage(token, 'telegram', 'setup', '--token-file', '-'),
        state: () => must('telegram', 'status'),
        handled: id => until(`update ${id} to be confirmed`, 60_000, () => !tg.queue.some(u => u.update_id <= id)),
    };
}
