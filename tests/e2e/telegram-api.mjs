// The Telegram front against a Bot API that others made (npm telegram-test-api), as far as that goes: it has getMe, getUpdates,
// sendMessage, editMessageText and callbacks, and holds no empty answer back.
import { test, after } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { Fleet, top } from './lib/fleet.mjs';
import { ended, until } from './lib/until.mjs';

// A folder of its own: another test file may be fetching into tests/ just now.
const programs = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-cage-npm-'));
after(() => fs.rmSync(programs, { recursive: true, force: true }));
for (const file of ['package.json', 'package-lock.json'])
    fs.copyFileSync(path.join(top, 'tests', file), path.join(programs, file));
const npm = spawnSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline'], { cwd: programs, encoding: 'utf8', timeout: 300_000 });
assert.equal(npm.status, 0, npm.stderr);
const TelegramServer = createRequire(path.join(programs, 'package.json'))('telegram-test-api');
const token = '987654321:AAtest-Token_0123456789abcdefghijk';
const server = new TelegramServer({ port: 20000 + process.pid % 10000, host: '127.0.0.1' });
await server.start();
const fleet = await Fleet.start({ conf: { telegram_api: server.config.apiURL } });
after(() => server.stop());

const cage = (input, ...args) => {
    const child = fleet.spawn(args);
    child.stdin.on('error', () => {});
    child.stdin.end(input);
    return ended(child, 180_000);
};
const texts = () => server.storage.botMessages.map(m => m.message.text);
const see = what => until(`a message with ${what}`, 60_000, () => texts().some(t => t?.includes(what)))
    .catch(e => { throw new Error(`${e.message}; there are ${JSON.stringify(texts())}`); });

test('pairing, a message and its report', async () => {
    const made = await cage('', 'new', 'demo', '--mode', 'bare');
    assert.equal(made.status, 0, made.stderr);
    const done = await cage(token, 'telegram', 'setup', '--token-file', '-');
    assert.match(done.stdout, /listening as @TestNameBot/);
    const owner = server.getClient(token, { userId: 4242, chatId: 4242 });
    await owner.sendMessage(owner.makeMessage(done.stdout.match(/[A-Z2-9]{4}-[A-Z2-9]{4}/)[0]));
    await see('You are paired');
    await owner.sendMessage(owner.makeMessage('echo other-api-$((6*7))'));
    await see('demo:\nother-api-42');
    const stranger = server.getClient(token, { userId: 666, chatId: 666 });
    await stranger.sendMessage(stranger.makeMessage('echo stranger-was-run'));
    await see('answers its owner alone');
    assert.ok(!texts().some(t => t?.includes('stranger-was-run')));
});
