// `/auth` in the chat: the vendor's log-in on a terminal of its own, its page and its code through the chat, its token in the agent
// alone. A double stands in for the vendors' programs (lib/login-double.pl); it leaves what it knows wherever it can.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { Fleet, binary, top } from './lib/fleet.mjs';
import { inRoom } from './lib/room.mjs';
import { until } from './lib/until.mjs';

const TOKEN = `sk-ant-oat01-${'planted'.repeat(13)}-Zz_9`;
const UPSTREAM = ['--upstream', 'anthropic+https://10.88.0.1:9'];

/** The double where the vendors' programs would lie. */
function programs(fleet) {
    const harness_dir = fleet.path('programs');
    for (const [, name, version] of fs.readFileSync(path.join(top, 'src/warden/programs.def'), 'utf8')
        .matchAll(/^PROGRAM\("(\w+)", "\w+", "[^"]+", "([^"]+)"/gm)) {
        const dir = path.join(harness_dir, `${name}-${version}`);
        fs.mkdirSync(dir, { recursive: true });
        fs.copyFileSync(path.join(top, 'tests/e2e/lib/login-double.pl'), path.join(dir, name));
        fs.chmodSync(path.join(dir, name), 0o755);
    }
    return { harness_dir };
}

const fleet = await Fleet.start({ conf: programs });

/** One line in the agent's room of the chat; what was answered. */
const chat = (name, line) => fleet.cage({ input: `${line}\n`, timeout: 30_000 }, 'chat', name).stdout;

/** All that the chat was told since the last time, as a child follows it. */
const heard = { text: '', from: 0 };
fleet.new('one', '--harness', 'claude', ...UPSTREAM);
const follower = fleet.spawn(['chat'], { stdio: ['pipe', 'pipe', 'inherit'] });
follower.stdin.write('/leave\n'); // the fleet's room: all agents are heard there
follower.stdout.on('data', d => { heard.text += d; });
const told = async pattern => {
    const found = await until(`the chat to be told ${pattern}`, 60_000, () => pattern.exec(heard.text.slice(heard.from)));
    heard.from += found.index + found[0].length;
    return found;
};
const begin = async () => {
    assert.match(chat('one', '/auth'), /a log-in begins/);
    return told(/open (https:\S+) and send the code/);
};
const strip = name => fleet.must('status', name).stdout;

/** Processes of these uids, or below a pid, that have the bytes in memory. */
function holders(needle) {
    const found = [];
    const base = fleet.uidBase('one');
    for (const pid of fs.readdirSync('/proc').filter(p => /^\d+$/.test(p))) {
        try {
            const uid = fs.statSync(`/proc/${pid}`).uid;
            const name = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8');
            if ((uid < base || uid >= base + 65536) && !(name.includes('agent-cage') && /(relay|manager|warden|up)/.test(name)))
                continue;
            for (const line of fs.readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
                const m = /^(\w+)-(\w+) r/.exec(line);
                if (!m || /vvar|vsyscall|vdso/.test(line))
                    continue;
                const [from, to] = [parseInt(m[1], 16), parseInt(m[2], 16)];
                const fd = fs.openSync(`/proc/${pid}/mem`, 'r'), bytes = Buffer.alloc(to - from);
                try { fs.readSync(fd, bytes, 0, bytes.length, from); } catch { continue; } finally { fs.closeSync(fd); }
                if (bytes.includes(needle))
                    found.push(`${uid - base} ${name.replaceAll('\0', ' ').trim()}`);
            }
        } catch { /* it is gone */ }
    }
    return [...new Set(found)];
}

/** The files below these places of the agent's harness room that hold the token. */
const filesWith = (...places) => inRoom(fleet, 'harness', 'one', ['/usr/bin/grep', '-rlsF', TOKEN, ...places]).stdout.split('\n').filter(Boolean).sort();
const PLACES = ['/tmp', '/scratch', '/home/cage', '/project', '/dev/shm'];

test('a wrong code, a failure, a /stop and a pasted token each end with a sentence, and nothing is kept', async () => {
    assert.match(strip('one'), /NOT LOGGED IN — send \/auth/);
    // What ran in the room before may have left instructions there for a program that starts below.
    assert.equal(inRoom(fleet, 'harness', 'one', ['/usr/bin/touch', '/tmp/CLAUDE.md']).status, 0);
    const [, page] = await begin();
    assert.match(page, /^https:\/\/vendor\.example\/oauth\/authorize\?code=true&state=s{300}&end=1$/);
    assert.match(chat('one', '/auth'), /under way already/);
    assert.match(chat('one', '/code wrong'), /the code is being checked/);
    await told(/the log-in failed: Invalid code given; send \/auth to begin another/);
    await begin();
    chat('one', '/code fails');
    await told(/the log-in failed; send \/auth to begin another/); // its last words held a token
    await begin();
    assert.match(chat('one', '/stop'), /the log-in was ended/);
    assert.match(chat('one', '/code good'), /no log-in waits for a code/);
    const pasted = `sk-ant-oat01-${'another'.repeat(13)}`; // another one: what carried it here may still be in memory
    for (const line of [pasted, `/code ${pasted}`, `/auth ${pasted}`, `here it is: ${pasted} ok?`])
        assert.match(chat('one', line), /a chat is no place for one/, line);
    assert.equal(fleet.cage('send', 'one', pasted).status, 126);
    await begin();
    chat('one', '/code elsewhere');
    await told(/the log-in failed: HTTP\/1\.1 404/); // the gateway is a proxy to the log-in's own hosts alone
    assert.match(strip('one'), /NOT LOGGED IN/);
    assert.doesNotMatch(heard.text, /planted/);
});

test('the token is the agent\'s alone: what the log-in left in processes and files of the room is gone before it is over', async () => {
    await begin();
    assert.match(chat('one', '/code hostile'), /the code is being checked/);
    await told(/logged in with a token/);
    assert.match(strip('one'), /▪ logged in/);
    await until('the room to be empty again', 30_000, () => holders(TOKEN).length === 1);
    const who = holders(TOKEN);
    assert.equal(who.length, 1, who.join('; '));
    assert.match(who[0], /^50000 .*agent-cage agent one/, 'the agent, and it alone');
    const found = spawnSync('grep', ['-rlF', '--exclude-dir=mnt', TOKEN, fleet.root], { encoding: 'utf8' }).stdout.trim().split('\n');
    assert.deepEqual(found, [fleet.path('var/lib/agent-cage/agents/one/agent/credential')]);
    assert.equal(fs.statSync(found[0]).mode & 0o777, 0o600);
    assert.equal(fs.readFileSync(found[0], 'utf8'), `token\n${TOKEN}`);
    assert.deepEqual(filesWith(...PLACES), []);
    // The control arm: the search finds it, in each of the places.
    const planted = PLACES.map(d => `${d}/planted`).filter(f => inRoom(fleet, 'harness', 'one', ['/usr/bin/tee', f], { input: TOKEN }).status === 0);
    assert.deepEqual(planted, PLACES.map(d => `${d}/planted`));
    assert.deepEqual(filesWith(...PLACES), [...planted].sort());
    inRoom(fleet, 'harness', 'one', ['/usr/bin/rm', ...planted]);
    const room = fleet.part('harness', 'one').pid;
    assert.deepEqual(fs.readdirSync(`/proc/${room}/root/tmp`).filter(f => f.startsWith('login-')), []);
    assert.doesNotMatch(heard.text, /planted/);
});

test('Codex: its page wants a code, its file goes to the agent as a pair that is renewed', async () => {
    fleet.new('two', '--harness', 'codex', '--upstream', 'openai+https://10.88.0.1:9');
    const places = fs.readdirSync(fleet.path('programs')).map(d => fleet.path('programs', d, 'do')); // of every kind of machine
    places.forEach(p => fs.writeFileSync(p, 'fails'));
    chat('two', '/auth');
    const [, page, code] = await told(/open (https:\S+) and give it the code (\S+);/);
    assert.deepEqual([page, code], ['https://vendor.example/device', 'ABCD-12345']);
    assert.match(chat('two', '/code X'), /no log-in waits for a code/);
    await told(/the log-in failed: Error logging in: device auth timed out; send/);
    places.forEach(p => fs.rmSync(p));
    chat('two', '/auth');
    await told(/logged in with a token/);
    const kept = fs.readFileSync(fleet.path('var/lib/agent-cage/agents/two/agent/credential'), 'utf8');
    assert.match(kept, /^token\n\{"form":"codex",.*planted-access-.*planted-refresh-.*"account":"acc-1"/);
    assert.doesNotMatch(heard.text, /planted/);
});

test('a harness without a log-in of its own says what to do instead', () => {
    fleet.new('three', '--harness', 'zai');
    assert.match(chat('three', '/auth'), /no log-in of its own: on the host, run `\S*agent-cage auth`/);
});

test('auth asks on a terminal and shows nothing of what is typed; Ctrl-C and an empty line leave all as it was', async () => {
    fleet.new('four', '--harness', 'claude', ...UPSTREAM);
    /** The command on a terminal of its own; what it showed, and how it ended. */
    const typed = async keys => {
        const child = spawn('script', ['-qec', `${binary} auth four`, '/dev/null'], { env: fleet.env, stdio: ['pipe', 'pipe', 'inherit'] });
        const ended = new Promise(done => child.once('exit', done));
        let shown = '';
        child.stdout.on('data', d => { shown += d; });
        await until('the question', 30_000, () => /it is not shown\): /.test(shown));
        child.stdin.write(keys);
        const status = await ended;
        child.stdin.destroy();
        return { status, shown };
    };
    assert.equal((await typed('\x03')).status, 130);
    const none = await typed('\n');
    assert.equal(none.status, 2);
    assert.match(none.shown, /\/auth NAME logs in by a browser/);
    assert.match(strip('four'), /NOT LOGGED IN/);
    const given = await typed(`${TOKEN}\n`);
    assert.equal(given.status, 0, given.shown);
    assert.match(given.shown, /logged in with a token/);
    assert.doesNotMatch(given.shown, /planted/);
    assert.match(strip('four'), /▪ logged in/);
});
