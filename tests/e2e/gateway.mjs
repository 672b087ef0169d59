// A whole fleet with a model's API behind TLS on the bridge: the credential goes in for the placeholder and is nowhere else; the
// certificate is verified; the budget holds through restarts.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import { Fleet } from './lib/fleet.mjs';
import { until } from './lib/until.mjs';

const CREDENTIAL = 'sk-ant-oat01-' + 'planted-'.repeat(4) + Math.random().toString(36).slice(2);
const GATE = '10.88.0.1';

/** Makes certificates, of which the fleet is to trust one's maker. */
function certificates(fleet) {
    const ca = fleet.path('ca');
    fs.mkdirSync(ca);
    const openssl = (...args) => execFileSync('openssl', args, { cwd: ca, stdio: ['ignore', 'ignore', 'ignore'] });
    openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'ca.key', '-out', 'ca.crt', '-subj', '/CN=test', '-days', '2');
    for (const [name, address] of [['good', GATE], ['other', '10.88.0.99']]) {
        openssl('req', '-newkey', 'rsa:2048', '-nodes', '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`);
        fs.writeFileSync(path.join(ca, 'ext'), `subjectAltName=IP:${address}`);
        openssl('x509', '-req', '-in', `${name}.csr`, '-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', 'ext', '-out', `${name}.crt`);
    }
    return { ca_file: path.join(ca, 'ca.crt') };
}

const fleet = await Fleet.start({ conf: certificates });
const ca = fleet.path('ca');
fleet.new('open'); // the bridge is there once a room stands on it

const asked = [];
function api(name) {
    const server = https.createServer({ key: fs.readFileSync(path.join(ca, `${name}.key`)), cert: fs.readFileSync(path.join(ca, `${name}.crt`)) }, (q, r) => {
        q.resume().on('end', () => {
            asked.push({ name, url: q.url, authorization: q.headers.authorization });
            r.writeHead(200, { 'content-type': 'application/json' });
            r.end(JSON.stringify({ model: 'claude-x', usage: { input_tokens: 60, output_tokens: 40 } }));
        });
    });
    return new Promise(done => server.listen(0, GATE, () => { server.unref(); done(server.address().port); }));
}
const [good, other] = [await api('good'), await api('other')];

/** A request in the harness's own network, as the vendor's program would make it. */
const curl = async (name, ...args) => {
    const child = spawn('nsenter', ['-t', String(fleet.part('harness', name).pid), '-n', 'curl', '-sS', '-m', '20', '-w', '\n%{http_code}', ...args]);
    let text = '';
    child.stdout.on('data', d => { text += d; });
    child.stderr.on('data', d => { text += d; });
    await new Promise(done => child.once('close', done));
    return text;
};
const API = 'http://127.0.0.1:4100/v1/messages';

/** The placeholder of now, out of the harness room's memory: where the vendor's program would be given it. */
function placeholder(name) {
    const pid = fleet.part('harness', name).pid;
    for (const line of fs.readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
        const m = /^(\w+)-(\w+) rw/.exec(line);
        if (!m || /vvar/.test(line))
            continue;
        const [from, to] = [parseInt(m[1], 16), parseInt(m[2], 16)];
        const fd = fs.openSync(`/proc/${pid}/mem`, 'r'), bytes = Buffer.alloc(to - from);
        try { fs.readSync(fd, bytes, 0, bytes.length, from); } catch { /* not there any more */ }
        fs.closeSync(fd);
        const found = /placeholder-[0-9a-f]{48}/.exec(bytes.toString('latin1'));
        if (found)
            return found[0];
    }
    throw new Error('the harness room knows no placeholder');
}

/** Does this process hold the credential, in its memory, its environment or its arguments? */
function holds(pid) {
    for (const file of ['environ', 'cmdline'])
        if (fs.readFileSync(`/proc/${pid}/${file}`, 'latin1').includes(CREDENTIAL))
            return true;
    const fd = fs.openSync(`/proc/${pid}/mem`, 'r');
    try {
        for (const line of fs.readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
            const m = /^(\w+)-(\w+) r/.exec(line);
            if (!m || /vvar|vsyscall|vdso/.test(line))
                continue;
            const [from, to] = [parseInt(m[1], 16), parseInt(m[2], 16)];
            const bytes = Buffer.alloc(to - from);
            try { fs.readSync(fd, bytes, 0, bytes.length, from); } catch { continue; }
            if (bytes.includes(CREDENTIAL))
                return true;
        }
        return false;
    } finally {
        fs.closeSync(fd);
    }
}

/** The strip follows the figures within a second; they themselves are kept at once. */
const shows = (verb, line) => until(`${verb} to show ${line}`, 10_000, () => line.test(fleet.must(verb, 'one').stdout));

test('before auth nothing goes up; after it the credential stands where the placeholder stood, and is in the agent alone', async () => {
    fleet.new('one', '--upstream', `anthropic+https://${GATE}:${good}`);
    assert.match(fleet.must('status', 'one').stdout, /^▪ NOT LOGGED IN — send \/auth$/m);
    assert.match(await curl('one', '-d', '{}', API), /authentication_error[^]*401$/);
    assert.equal(fleet.cage('send', 'one', 'hi', '--wait').status, 126);
    assert.deepEqual(asked, []);
    const said = fleet.must({ input: `${CREDENTIAL}\n` }, 'auth', 'one', '--token-file', '-');
    assert.match(said.stdout, /logged in with a token/);
    assert.doesNotMatch(said.stdout + said.stderr, /planted/);
    assert.match(fleet.must('status', 'one').stdout, /^▪ logged in$/m);
    const text = await curl('one', '-d', '{}', '-H', `Authorization: Bearer ${placeholder('one')}`, API);
    assert.match(text, /input_tokens[^]*200$/);
    assert.equal(asked.at(-1).authorization, `Bearer ${CREDENTIAL}`);
    await shows('status', /^▪ model: 100 tok · 100 tok this session$/m);
});

test('a sweep of the fleet\'s processes, files and logs finds the credential in the agent and in its own folder, nowhere else', () => {
    const agent = fleet.part('agent', 'one').pid;
    assert.equal(holds(agent), true, 'control arm: the sweep finds it where it is');
    for (const [part, name] of [['warden', ''], ['relay', ''], ['manager', ''], ['harness', 'one'], ['executor', 'one'], ['agent', 'open'], ['harness', 'open']])
        assert.equal(holds(fleet.part(part, name).pid), false, `${part} ${name}`);
    const found = spawnSync('grep', ['-rlF', '--exclude-dir=mnt', CREDENTIAL, fleet.root], { encoding: 'utf8' }).stdout.trim().split('\n');
    assert.deepEqual(found, [fleet.path('var/lib/agent-cage/agents/one/agent/credential')]);
    assert.equal(fs.statSync(found[0]).mode & 0o777, 0o600);
});

test('a certificate for another address is not spoken to, and sees no credential', async () => {
    fleet.new('wrong', '--upstream', `anthropic+https://${GATE}:${other}`);
    fleet.must({ input: CREDENTIAL }, 'auth', 'wrong', '--token-file', '-');
    assert.match(await curl('wrong', '-d', '{}', '-H', `Authorization: Bearer ${placeholder('wrong')}`, API), /certificate is not good[^]*502$/);
    assert.deepEqual(asked.filter(a => a.name === 'other'), []);
});

test('the budget is the operator\'s, and holds through a restart', async () => {
    fleet.must('budget', 'one', '150/day');
    const ask = async () => curl('one', '-d', '{}', '-H', `Authorization: Bearer ${placeholder('one')}`, API);
    assert.match(await ask(), /200$/);
    assert.match(await ask(), /200$/);
    fleet.must('restart', 'one');
    assert.match(await ask(), /rate_limit_error[^]*429$/);
    await shows('budget', /^▪ model: 200 of 150 tok this day — USED UP · 300 tok this session$/m);
    fleet.must('budget', 'one', 'none');
    assert.match(await ask(), /200$/);
    assert.equal(fleet.cage('budget', 'one', 'much').status, 2);
    assert.equal(fleet.cage('budget', 'open', '1M').status, 2);
});
