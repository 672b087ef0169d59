// The web page in Debian's Chromium over a whole fleet: what a person does with it, what must not act in it, and that nothing is
// lost when the relay is. WEB_SCREENSHOTS=DIR also leaves pictures there (docs/web-*.png are made so).
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { Fleet, top } from './lib/fleet.mjs';
import * as proc from './lib/proc.mjs';
import { until } from './lib/until.mjs';

const tests = path.join(top, 'tests');
const npm = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--prefer-offline'], { cwd: tests, encoding: 'utf8', timeout: 300_000 });
if (npm.status !== 0)
    throw new Error(`npm ci: ${npm.stderr}`);
const require = createRequire(path.join(tests, 'package.json'));
const { chromium } = require('playwright-core');

const PORT = 7716, MINUTE = 60_000;
const patience = Number(process.env.WEB_PATIENCE ?? 2 * MINUTE);
const programs = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-cage-programs-'));
fs.chmodSync(programs, 0o755);
fs.mkdirSync(path.join(programs, 'local/bin'), { recursive: true });
fs.copyFileSync(path.join(tests, 'e2e/lib/acp-double.pl'), path.join(programs, 'local/bin/talker'));
after(() => fs.rmSync(programs, { recursive: true, force: true }));

const fleet = await Fleet.start({ conf: { web: PORT, harness_dir: programs } });
fleet.new('demo');
fleet.new('talker', '--harness', 'acp:talker', '--upstream', 'anthropic+https://10.88.0.1:9');
fleet.must({ input: `sk-ant-api03-${'planted'.repeat(12)}` }, 'auth', 'talker', '--token-file', '-');

const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', timeout: 2 * MINUTE,
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
        '--disable-component-update', '--disable-sync'] });
after(() => browser.close());

const link = () => fleet.must('web', 'login').stdout.trim();
const foreign = [];

/**
 * A browser of its own, logged in. Whatever it asks another host for is noted, and fails the test at the end. before(page): done
 * first, and then its rooms are not waited for.
 */
async function person({ before, ...options } = {}) {
    const context = await browser.newContext({ viewport: { width: 1180, height: 760 }, locale: 'en-GB', ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(patience);
    page.faults = [];
    page.on('pageerror', e => page.faults.push(e.message));
    page.on('dialog', d => { page.faults.push(`dialog ${d.message()}`); d.dismiss(); });
    page.on('request', r => { if (!r.url().startsWith(`http://127.0.0.1:${PORT}/`)) foreign.push(r.url()); });
    await before?.(page);
    await page.goto(link());
    if (!before)
        await inside(page);
    return page;
}

const inside = page => page.waitForSelector('#rooms [data-room="demo"]');

const enter = (page, name) => page.click(`#rooms [data-room="${name}"]`).then(() => page.waitForSelector(`.room[aria-label="${name}"]`));
async function say(page, text) {
    await page.fill('#say', text);
    await page.press('#say', 'Enter');
}
const report = (page, text) => page.waitForSelector(`.theirs:not(.running) >> text=${text}`);
const steps = (...all) => JSON.stringify(all);
const picture = (page, name) => process.env.WEB_SCREENSHOTS
    ? page.screenshot({ path: path.join(process.env.WEB_SCREENSHOTS, `web-${name}.png`) }) : null;

const one = await person();

test('a link works once, and the address forgets it', async () => {
    assert.equal(new URL(one.url()).hash, '');
    const used = link(), first = await browser.newContext(), second = await browser.newContext();
    const a = await first.newPage(), b = await second.newPage();
    await a.goto(used);
    await a.waitForSelector('#rooms [data-room="demo"]');
    await b.goto(used);
    await b.waitForSelector('#door:not([hidden]) >> text=was used or is too old');
    await a.click('#logout');
    await a.waitForSelector('#door:not([hidden])');
    await first.close();
    await second.close();
});

test('a link survives what a changing network drops: its log-in, and the page itself', async () => {
    const dropped = { 'api/login': 2, 'page.css': 0, 'markdown.js': 2, 'main.js': 1 };
    const drop = page => page.route('**/*', route => dropped[new URL(route.request().url()).pathname.slice(1)]-- > 0
        ? route.abort('connectionreset') : route.continue());
    const page = await person({ before: drop });
    await inside(page);
    assert.deepEqual([dropped['api/login'], dropped['markdown.js'] < 0, dropped['main.js'] < 0], [-1, true, true]);
    assert.equal(new URL(page.url()).hash, '');
    await page.context().close();
    const away = await person({ before: p => p.route('**/api/login', route => route.abort('connectionrefused')) });
    await away.waitForSelector('#door:not([hidden]) >> text=The link may still work');
    await away.unroute('**/api/login');
    await away.reload();
    await inside(away);
    await away.click('#logout');
    await away.waitForSelector('#door:not([hidden])');
    await away.goto(link()); // only its hash differs: the same page goes on
    await inside(away);
    await away.context().close();
});

test('a message is asked, its output is seen while it comes, and it ends with its ticks', async () => {
    await enter(one, 'demo');
    await say(one, 'echo first; until test -e /tmp/go; do sleep 0.1; done; echo second');
    await one.waitForSelector('.running .out >> text=first');
    assert.equal(await one.locator('.theirs:not(.running) >> text=second').count(), 0);
    fleet.sh('demo', 'touch /tmp/go');
    await report(one, 'second');
    await one.waitForSelector('.mine .ticks.report');
    await one.click('.theirs:not(.running) .toolstrip summary');
    await one.waitForSelector('.tool >> text=sleep 0.1');
});

test('what is said in the terminal shows in the page, and the other way round', async () => {
    fleet.must('send', 'demo', 'echo from-the-terminal', '--wait');
    await report(one, 'from-the-terminal');
    assert.match(await one.locator('.mine .meta').last().innerText(), /terminal/);
    const chat = fleet.spawn(['chat', 'demo'], { stdio: ['pipe', 'pipe', 'inherit'] });
    let heard = '';
    chat.stdout.on('data', d => { heard += d; });
    await say(one, 'echo from-the-page');
    await until('the terminal to show it', MINUTE, () => heard.includes('web:') && heard.includes('from-the-page'));
    chat.stdin.end();
});

test('files: one is picked, one is dropped, one is fetched; what is refused is said', async () => {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-cage-files-'));
    after(() => fs.rmSync(dir, { recursive: true, force: true }));
    const big = Buffer.alloc(3 * 2 ** 20 + 1, 'x');
    fs.writeFileSync(`${dir}/big + one.bin`, big);
    fs.writeFileSync(`${dir}/.hidden`, 'x');
    const picks = one.waitForEvent('filechooser');
    await one.click('.attach');
    await (await picks).setFiles([`${dir}/big + one.bin`, `${dir}/.hidden`]);
    await one.waitForSelector('.note >> text=.hidden was not sent');
    await one.waitForSelector('.note >> text=sent a file, 3145729 bytes: /inbox/big + one.bin');
    assert.equal(await one.inputValue('#say'), '[file: /inbox/big + one.bin] ');
    assert.equal(fleet.exec('demo', 'cmp', '/inbox/big + one.bin', '-').status, 1); // an empty input
    assert.equal(fleet.exec('demo', 'stat', '-c', '%s', '/inbox/big + one.bin').stdout, '3145729\n');
    const drop = await one.evaluateHandle(() => {
        const t = new DataTransfer();
        t.items.add(new File(['<script>'], '<img src=x onerror=alert(1)>.html'));
        return t;
    });
    for (const kind of ['dragenter', 'dragover', 'drop'])
        await one.dispatchEvent('.room', kind, { dataTransfer: drop });
    await one.waitForSelector('.note:has-text("/inbox/<img src=x onerror=alert(1)>.html")');
    await one.fill('#say', '');
    fleet.sh('demo', 'printf "<b>bold</b>" >"/outbox/page.html"; ln -s /etc/passwd /outbox/link');
    const download = one.waitForEvent('download');
    await say(one, '/get page.html');
    const got = await download;
    assert.equal(got.suggestedFilename(), 'page.html');
    assert.equal(fs.readFileSync(await got.path(), 'utf8'), '<b>bold</b>');
    await say(one, '/get link');
    await one.waitForSelector('.note:has-text("is a link")');
    assert.deepEqual(one.faults, []);
});

test('a run is stopped by the button', async () => {
    await say(one, 'echo begun; sleep 600');
    await one.waitForSelector('.running .out >> text=begun');
    await one.click('.msg.running .stop');
    await one.waitForSelector('.msg.running', { state: 'detached' });
});

test('a report is Markdown made of elements; its tools unfold; a question is answered by its button', async () => {
    await enter(one, 'talker');
    await say(one, 'Run the tests, and tell me what is left to do.');
    await report(one, 'I can change either');
    await say(one, steps({ tool: 'ls -l /project', answer: 'total 0' },
        { say: '## The plan\n\n- **one**\n- `two`\n\n```c\nint main(void) { return 0; }\n```\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\nSee [the page](https://example.org/x).' }));
    await one.waitForSelector('.theirs .text .h2 >> text=The plan');
    await one.waitForSelector('.theirs .text .code figcaption >> text="c"');
    await one.waitForSelector('.theirs table td >> text=2');
    assert.equal(await one.locator('.theirs .text a').getAttribute('href'), 'https://example.org/x');
    await one.locator('.theirs:not(.running) .toolstrip > summary').last().click();
    await one.locator('.tool summary >> text=ls -l /project').last().click();
    await one.waitForSelector('.tool pre >> text=total 0');
    await say(one, steps({ ask: 'Write the file' }));
    await one.waitForSelector('.question >> text=Write the file');
    await picture(one, 'question');
    await one.click('.question .choices .first');
    await report(one, 'chosen: y');
    assert.equal(await one.locator('.question').count(), 0);
    await say(one, steps({ ask: 'Write  \u001b[32mthe\u001b[0m\tother\u{e0fff} file' }));
    const asked = await one.waitForSelector('.question >> text=other');
    assert.ok((await asked.innerText()).includes('Write  \\x1b[32mthe\\x1b[0m\\tother\\u{e0fff} file'), await asked.innerText());
    await one.click('.question .choices >> text=No');
    await one.waitForSelector('.question', { state: 'detached' });
});

test('a new agent is chosen in the page, sealed too; the line that it gives makes it', async () => {
    await one.click('#rooms [data-room=""]');
    await one.click('.room .fresh');
    const card = one.locator('.make');
    await card.getByLabel('Name').fill('made');
    await card.getByLabel('Harness').selectOption('codex');
    await card.getByLabel('Cage').selectOption('sealed');
    await card.getByLabel('Project folder').fill("/srv/it's here");
    const line = one.locator('.make code'), means = one.locator('.make [role=status]');
    assert.equal(await line.innerText(), "agent-cage new made --mode sealed --harness shell --project '/srv/it'\\''s here'");
    assert.match(await means.innerText(), /nothing local.*untrusted/s);
    await card.getByLabel('Harness').selectOption('claude');
    assert.match(await line.innerText(), /^agent-cage auth --sealed\nagent-cage new made /);
    await picture(one, 'new-agent');
    await card.getByLabel('Name').fill('made; rm -rf /'.slice(0, 20));
    assert.match(await line.innerText(), /new NAME /);
    await card.getByLabel('Name').fill('made');
    await card.getByLabel('Cage').selectOption('bare');
    await card.getByLabel('Harness').selectOption('shell');
    await card.getByLabel('Project folder').fill('');
    fleet.must(...(await line.innerText()).split(' ').slice(1));
    await one.waitForSelector('#rooms [data-room="made"]');
    fleet.must('rm', 'made');
    await one.waitForSelector('#rooms [data-room="made"]', { state: 'detached' });
    await one.click('.make .choices >> text=Close');
    await enter(one, 'talker');
});

test('markup, schemes, controls and directions in what a model says do nothing', async () => {
    const hostile = ['<img src=x onerror=alert(1)><script>alert(2)</script><b>bold</b>', '[click](javascript:alert(3)) [x](data:text/html,x)',
        '![i](http://203.0.113.1/pixel.png)', 'tg://user?id=1', '\u001b]0;title\u0007\u001b[2J', 'abc\u202edcba', 'zero\u200bwidth', '<svg/onload=alert(4)>',
        '`<button>`', '[ok](https://example.org" onclick="alert(5))'].join('\n\n');
    await say(one, steps({ say: hostile }));
    const last = one.locator('.theirs:not(.running)').last();
    await one.waitForSelector('.theirs:not(.running) >> text=onerror');
    const text = await last.innerText();
    for (const shown of ['<script>alert(2)</script>', '\\x1b', '\\u{202e}', '\\u{200b}', 'javascript:alert(3)', 'tg://user?id=1'])
        assert.ok(text.includes(shown), `${shown} in ${text}`);
    assert.equal(await last.locator('img, script, svg, iframe, b').count(), 0);
    for (const a of await last.locator('a').all())
        assert.match(await a.getAttribute('href'), /^https?:/);
    await enter(one, 'demo');
    await say(one, 'printf "<img src=x onerror=alert(6)>\\033[2J\\033]0;x\\007\\n"');
    await report(one, 'onerror=alert');
    assert.deepEqual(one.faults, []);
});

test('the page knows a credential by the same looks as the relay', async () => {
    const rows = [['sk-' + 'a'.repeat(29), true], ['sk-' + 'a'.repeat(28), false], ['task-' + 'a'.repeat(40), false],
        [`eyJ${'a'.repeat(28)}.${'b'.repeat(28)}.c`, true], [`eyJ${'a'.repeat(28)}.${'b'.repeat(27)}.cccc`, false], [`eyJ${'a'.repeat(60)}`, false],
        ['ghp_' + 'a'.repeat(16), true], ['ghp_' + 'a'.repeat(15), false], [`12345678:${'a'.repeat(30)}`, true], [`1234567:${'a'.repeat(30)}`, false],
        [`{"accessToken": "${'a'.repeat(32)}"}`, true], [`"refresh_token" ${'a'.repeat(31)}`, false]];
    const found = await one.evaluate(async texts => { const { pasted } = await import('/words.js'); return texts.map(pasted); }, rows.map(r => r[0]));
    assert.deepEqual(found, rows.map(r => r[1]));
});

test('words: sessions are begun, listed and resumed; a log-in is asked for; a credential is not sent', async () => {
    const told = text => one.waitForSelector(`.note >> text=${text}`);
    await enter(one, 'talker');
    await say(one, steps({ say: 'in the first session' }));
    await report(one, 'in the first session');
    await say(one, '/new the second');
    await told('a new session begins');
    await say(one, '/sessions');
    const list = await (await one.waitForSelector('.note.own >> text=/▸ \\d+ +the second/')).innerText();
    const first = /^ *(\d+) .*turn/m.exec(list.split('\n').find(l => !l.includes('▸')))[1];
    await say(one, `/resume ${first}`);
    await told('conversation of that session goes on');
    await say(one, '/sessions');
    await told(`/▸ ${first} /`);
    await say(one, '/auth demo');
    await told('log-in'); // this harness has none of its own, and says so
    await say(one, '/code');
    await told('Which code');
    for (const line of ['/code ', '/auth ', 'take ', '/nonsense ']) {
        const asked = [];
        const note = r => { if (r.method() === 'POST') asked.push(r.url()); };
        one.on('request', note);
        const before = await one.locator('.note.own >> text=looks like a credential').count();
        await say(one, `${line}sk-ant-oat01-${'planted'.repeat(8)}`);
        await until('the refusal', MINUTE, async () => await one.locator('.note.own >> text=looks like a credential').count() > before);
        one.off('request', note);
        assert.deepEqual(asked, []);
    }
    assert.ok(!(await one.innerText('body')).includes('plantedplanted'));
    await enter(one, 'demo');
});

test('the policy holds also where the page itself would not', async () => {
    const asked = [], other = http.createServer((q, a) => {
        asked.push(q.url);
        a.writeHead(200, { 'Access-Control-Allow-Origin': '*' }).end();
    });
    await new Promise(done => { other.listen(0, '127.0.0.1', done); });
    const attack = async ({ port, name }) => {
        const out = {};
        try { document.body.innerHTML = '<p>x</p>'; out.html = 'set'; } catch { out.html = 'refused'; }
        out.fetch = await fetch(`http://127.0.0.1:${port}/${name}`).then(() => 'went', () => 'refused');
        out.script = await new Promise(done => {
            const s = document.createElement('div');
            try { s.setAttribute('onclick', 'window.ran = 1'); } catch { /* trusted types refuse even that */ }
            s.click();
            setTimeout(() => done(window.ran ? 'ran' : 'refused'), 0);
        });
        out.cookie = document.cookie;
        return out;
    };
    const { port } = other.address(), bare = await person({ bypassCSP: true });
    assert.deepEqual(await one.evaluate(attack, { port, name: 'held' }), { html: 'refused', fetch: 'refused', script: 'refused', cookie: '' });
    assert.deepEqual(await bare.evaluate(attack, { port, name: 'bare' }), { html: 'set', fetch: 'went', script: 'ran', cookie: '' });
    assert.deepEqual(asked, ['/bare']);
    assert.deepEqual(foreign.splice(0), [`http://127.0.0.1:${port}/bare`]);
    other.close();
    await bare.context().close();
});

test('the relay is killed: the page comes back and nothing is lost or doubled', async () => {
    const relay = fleet.part('relay');
    await say(one, 'echo before-the-end; until test -e /tmp/on; do sleep 0.1; done; echo after-the-end');
    await one.waitForSelector('.running .out >> text=before-the-end');
    process.kill(relay.pid, 'SIGKILL');
    await say(one, 'echo said-while-away');
    fleet.sh('demo', 'touch /tmp/on');
    await fleet.waitForPart('relay', '', relay.pid);
    await report(one, 'said-while-away');
    await one.waitForFunction(() => !document.querySelector('#link').textContent);
    await report(one, 'after-the-end');
    await say(one, 'echo said-later'); // what is doubled would come before it
    await report(one, 'said-later');
    for (const word of ['after-the-end', 'said-while-away', 'said-later']) {
        assert.equal(await one.locator(`.theirs:not(.running) pre.out >> text=${word}`).count(), 1, word);
        assert.equal(await one.locator(`.mine >> text=${word}`).count(), 1, word);
    }
});

test('two browsers see the same, and what one reads the other still has to', async () => {
    const two = await person();
    await enter(two, 'demo');
    await say(two, 'echo from-another-browser');
    await report(two, 'from-another-browser');
    await report(one, 'from-another-browser');
    await two.click('#rooms [data-room=""]');
    await one.click('#rooms [data-room=""]');
    fleet.must('send', 'demo', 'echo unread', '--wait');
    await two.waitForSelector('#rooms [data-room="demo"] .unread');
    await one.waitForSelector('#rooms [data-room="demo"] .unread');
    await enter(two, 'demo');
    await two.waitForSelector('#rooms [data-room="demo"] .unread', { state: 'detached' });
    await two.context().close();
});

test('in the fleet\'s room "which agent?" is asked; search finds; keys go from room to room', async () => {
    await say(one, 'echo chosen-by-button');
    await one.click('.question .choices >> text=demo');
    await report(one, 'chosen-by-button');
    await one.keyboard.press('Control+k');
    await one.keyboard.type('from-the-terminal');
    await one.click('#found button');
    await one.waitForSelector('.room[aria-label="demo"] .here >> text=from-the-terminal');
    await one.fill('#find', '');
    await one.keyboard.press('Escape');
    await one.keyboard.press('Alt+ArrowDown');
    await one.waitForSelector('.room:not([aria-label="demo"])');
});

test('a long room opens at its end, and what is older comes as one scrolls', async () => {
    const many = Array.from({ length: 150 }, (_, i) => `echo old-${i + 1}.`).join('\n');
    assert.equal(fleet.cage({ input: many + '\n', timeout: 4 * MINUTE }, 'chat', 'demo').status, 0);
    const page = await person();
    await enter(page, 'demo');
    await report(page, 'old-150.');
    await page.waitForFunction(() => { const s = document.querySelector('.scroll'); return s.scrollHeight - s.scrollTop - s.clientHeight < 150; });
    assert.equal(await page.locator('.said >> text=from-the-terminal').count(), 0);
    await until('the first messages', 2 * MINUTE, async () => {
        await page.evaluate(() => { document.querySelector('.scroll').scrollTop = 0; });
        return await page.locator('.said >> text=from-the-terminal').count() === 1;
    });
    const order = await page.evaluate(() => [...document.querySelectorAll('.list > [data-seq]:not(.day)')].map(n => Number(n.dataset.seq)));
    assert.deepEqual(order, [...new Set(order)].sort((a, b) => a - b));
    assert.deepEqual(page.faults, []);
    await page.context().close();
});

test('an agent that was quiet for long keeps its last message and its unread count, and search goes back to the beginning', async () => {
    const page = await person();
    await page.waitForFunction(() => document.querySelector('#rooms [data-room="talker"] .when').textContent);
    assert.equal(await page.locator('#rooms [data-room="talker"] .unread').count(), 0); // not news to who was never here
    await page.evaluate(() => { localStorage.setItem('read:talker', '0'); });
    await page.reload();
    await page.waitForSelector('#rooms [data-room="talker"] .unread');
    await page.fill('#find', 'from-the-terminal');
    await page.waitForSelector('#found .further');
    assert.equal(await page.locator('#found >> text=from-the-terminal').count(), 0);
    await page.click('#found .further');
    await page.click('#found button:not(.further) >> text=echo from-the-terminal');
    await page.waitForSelector('.room[aria-label="demo"] .here >> text=from-the-terminal');
    await page.waitForSelector('#found .further', { state: 'detached' });
    assert.deepEqual(page.faults, []);
    await page.context().close();
});

test('another local account, a page of another origin and a name that was re-bound get nothing', async () => {
    const ask = (head, body = '') => new Promise((done, failed) => {
        const s = net.connect(PORT, '127.0.0.1', () => s.write(`${head}\r\n\r\n${body}`));
        let text = '';
        s.on('data', d => { text += d; });
        s.on('close', () => done(text));
        s.on('error', failed);
        s.setTimeout(20_000, () => s.destroy());
    });
    const ours = `Host: 127.0.0.1:${PORT}`;
    assert.match(await ask(`GET /api/agents HTTP/1.1\r\n${ours}`), /^HTTP\/1\.1 401 /);
    assert.match(await ask(`GET / HTTP/1.1\r\nHost: evil.example:${PORT}`), /^HTTP\/1\.1 421 /);
    const cookie = (await one.context().cookies())[0];
    assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, 'Strict']);
    const both = `${ours}\r\nCookie: ${cookie.name}=${cookie.value}`;
    assert.match(await ask(`GET /api/agents HTTP/1.1\r\n${both}`), /^HTTP\/1\.1 401 /); // the cookie alone, as any port would see it
    const forged = `Content-Type: application/x-agent-cage\r\nContent-Length: 0`;
    assert.match(await ask(`POST /api/order?order=stop&agent=demo HTTP/1.1\r\n${both}\r\n${forged}`), /^HTTP\/1\.1 403 /);
    assert.match(await ask(`POST /api/order?order=stop&agent=demo HTTP/1.1\r\n${both}\r\nOrigin: http://127.0.0.1:8000\r\n${forged}`), /^HTTP\/1\.1 403 /);
    assert.equal(fleet.status('demo').state, 'running');
});

test('desktop and phone, light and dark: whole, in order, and without a serious fault of accessibility', async () => {
    const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
    for (const [size, viewport] of [['desktop', { width: 1180, height: 760 }], ['phone', { width: 390, height: 780 }]])
        for (const colorScheme of ['light', 'dark']) {
            const page = await person({ viewport, colorScheme, bypassCSP: true });
            for (const room of ['', 'talker', 'demo']) {
                if (size === 'phone' && room !== '')
                    await page.click('.back');
                await page.click(`#rooms [data-room="${room}"]`);
                await page.waitForSelector('.list .msg');
                if (room === '')
                    await page.click('.room .fresh');
                if (room === 'talker') {
                    await say(page, '/auth');
                    await page.waitForSelector('.token');
                }
                await page.evaluate(axe);
                const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
                const serious = found.violations.filter(v => ['serious', 'critical'].includes(v.impact));
                assert.deepEqual(serious.map(v => `${size} ${colorScheme} ${v.id}: ${v.nodes.map(n => n.target + ' ' + (n.any[0]?.message ?? '')).join(' | ')}`), []);
                const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
                assert.ok(wide <= 0, `${size} ${room}: ${wide} px too wide`);
                if (room === 'talker') {
                    await page.click('.token >> text=Close');
                    await page.locator('.said >> text=Run the tests').last().scrollIntoViewIfNeeded();
                    await picture(page, `${size}-${colorScheme}`);
                }
            }
            assert.deepEqual(page.faults, []);
            await page.context().close();
        }
});

test('/auth encrypts a token to the agent: the agent alone has it, in no request of the page, in no other part', async () => {
    const token = `sk-ant-oat01-${'webplanted'.repeat(6)}`, posts = [];
    const key = () => JSON.parse(fleet.must('status', 'talker', '--json').stdout).token_key;
    const log = () => fs.readFileSync(fleet.path('var/lib/agent-cage/warden/fleet.log'), 'utf8');
    const note = r => posts.push(Buffer.concat([Buffer.from(`${r.url()} ${JSON.stringify(r.headers())} `), r.postDataBuffer() ?? Buffer.alloc(0)]));
    const page = await person();
    page.on('request', note);
    await enter(page, 'talker');
    await say(page, '/auth');
    const before = key();
    assert.match(before, /^([0-9a-f]{4}-){4}[0-9a-f]{4}$/);
    await page.waitForSelector(`.token >> text=${before}`);
    assert.match(fleet.must('status', 'talker').stdout, new RegExp(`key for a token from the web page: ${before}`));
    assert.ok(log().includes(before), 'the agent\'s own word, which passes neither relay nor manager');
    await page.fill('.token input', token);
    await page.click('.token .first');
    await page.waitForSelector('.note.own >> text=talker: logged in with a token');
    await until('the next key', MINUTE, () => key() !== before);

    const box = posts.find(p => p.includes('/api/token?'));
    assert.ok(box, 'control arm: requests are seen');
    assert.ok(posts.every(p => !p.includes('webplanted')));
    assert.equal(proc.holds(fleet.part('agent', 'talker').pid, token), true, 'control arm: the sweep finds it where it is');
    for (const part of ['relay', 'manager', 'warden']) {
        const { pid } = fleet.part(part, '');
        assert.equal(proc.holds(pid, 'talker'), true, `control arm: the memory of ${part} is read`);
        assert.equal(proc.holds(pid, token), false, part);
    }
    for (const room of ['harness', 'executor'])
        assert.equal(proc.holds(fleet.part(room, 'talker').pid, token), false, room);
    const found = spawnSync('grep', ['-rlF', '--exclude-dir=mnt', token, fleet.root], { encoding: 'utf8' }).stdout.trim();
    assert.equal(found, fleet.path('var/lib/agent-cage/agents/talker/agent/credential'));
    assert.match(log(), new RegExp(`an encrypted token of ${101 + token.length} bytes was opened`));

    /** What becomes of a box: `how` makes it, in the page. */
    const told = (how, name = 'talker') => page.evaluate(async ([how, name]) => {
        const api = await import('/api.js'), { sealed } = await import('/token.js');
        const { token_key } = await api.status('talker'), key = Uint8Array.from(token_key.match(/../g), h => parseInt(h, 16));
        const box = how === 'too long' ? new Uint8Array(16486) : await sealed(how === 'of another' ? 'demo' : 'talker', key, 'sk-ant-oat01-another-one');
        if (how === 'changed')
            box[box.length - 1] ^= 1;
        if (how === 'no point')
            box[8 + 64] ^= 1;
        const send = () => api.token(name, box).then(end => end.text, e => e.message);
        const first = await send();
        return how === 'twice' ? send() : first;
    }, [how, name]);
    const kept = key();
    for (const how of ['changed', 'no point', 'of another'])
        assert.match(await told(how), /cannot be opened/);
    assert.match(await told('too long'), /Content Too Large/);
    assert.match(await told('', 'demo'), /no model behind it/);
    assert.equal(key(), kept);
    assert.equal(proc.holds(fleet.part('agent', 'talker').pid, token), true, 'what failed changed nothing');
    assert.match(await told('twice'), /not in use any more/);
    assert.deepEqual(page.faults, []);
    await page.context().close();

    const bare = await person({ before: p => p.addInitScript(() => Object.defineProperty(Crypto.prototype, 'subtle', { value: undefined })) });
    await inside(bare);
    await enter(bare, 'talker');
    await say(bare, '/auth');
    await bare.waitForSelector('.token >> text=cannot be encrypted here');
    await bare.waitForSelector('.token >> text=agent-cage auth talker');
    assert.equal(await bare.locator('.token input').count(), 0);
    await bare.context().close();
});

test('the page asked no other host for anything', () => {
    assert.deepEqual(foreign, []);
    assert.deepEqual(one.faults, []);
});
