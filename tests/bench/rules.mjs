// rules.mjs FILE: what the packet rules of a sealed cage cost, and how long `break` takes, in the closed network of
// tests/break/lib/world.mjs; the raw figures go to FILE as JSON. A process of its own, and a test by form: its helpers are those of tests,
// which clean up when a test has ended.
import { after, test } from 'node:test';
import { spawn, spawnSync } from 'node:child_process';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { Sealed } from '../e2e/lib/sealed.mjs';
import { within } from '../e2e/lib/until.mjs';
import { Caged } from '../break/lib/caged.mjs';
import { World } from '../break/lib/world.mjs';

const TURNS = 5, TRIPS = 2000, MIB = 128;
const server = `
import socket, threading
def serve(c):
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    first = c.recv(1)
    while first == b'e':
        c.sendall(b'x')
        if not c.recv(1): return
    while c.recv(1 << 20): pass
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('203.0.113.80', 7)); s.listen(8)
print('ready', flush=True)
while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
`;
const client = `
import socket, time
def trips():
    s = socket.create_connection(('203.0.113.80', 7)); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.sendall(b'e'); s.recv(1); all = []
    for _ in range(${TRIPS}):
        t = time.perf_counter(); s.sendall(b'e'); s.recv(1); all.append((time.perf_counter() - t) * 1e6)
    return sorted(all)[${TRIPS} // 2]
def rate():
    s = socket.create_connection(('203.0.113.80', 7)); b = bytes(1 << 20); t = time.perf_counter()
    s.sendall(b's')
    for _ in range(${MIB}): s.sendall(b)
    s.shutdown(socket.SHUT_WR); s.recv(1)
    return ${MIB} / (time.perf_counter() - t)
out = [trips(), rate()]
`;

const cages = new Sealed();
const world = new World(cages.prefix);
after(() => world.remove());

test('figures', async () => {
    await world.serve('internet', 'tcp:53', 'udp:53', 'tcp:80');
    const [program, ...words] = [...world.enter('internet'), 'python3', '-c', server];
    const echo = spawn(program, words, { stdio: ['ignore', 'pipe', 'inherit'] });
    after(() => echo.kill('SIGKILL'));
    await within('the server', 10_000, new Promise(resolve => echo.stdout.once('data', resolve)));

    const raw = { rules_trip_us: [], rules_mib_s: [], open_trip_us: [], open_mib_s: [], break_ms: [] };
    const cage = await new Caged(world, cages, 'root', cages.project('rules')).ready();
    const rules = `flush ruleset\n${cage.outside('nft', 'list', 'ruleset').stdout}`;
    assert.match(rules, /jump refuse/);
    const load = text => assert.equal(spawnSync('nsenter', [`--net=/proc/${cage.pid}/ns/net`, 'nft', '-f', '-'], { input: text }).status, 0);
    for (let turn = 0; turn < TURNS; turn++)
        for (const [name, text] of [['rules', rules], ['open', 'flush ruleset\n']]) {
            load(text);
            const said = await cage.py(client), [trip, rate] = said; // or the name of an error
            assert.ok(trip > 0 && rate > 0, String(said));
            raw[`${name}_trip_us`].push(trip);
            raw[`${name}_mib_s`].push(rate);
        }
    await cage.close();
    for (let turn = 0; turn < 3; turn++) {
        const [first, ...rest] = [...world.enter('machine'), cages.path('agent-cage'), 'break', '--json'];
        const done = spawnSync(first, rest, { env: cages.as('root').env, cwd: '/', encoding: 'utf8' });
        assert.equal(done.status, 0, done.stdout + done.stderr);
        raw.break_ms.push(JSON.parse(done.stdout).took_ms);
    }
    fs.writeFileSync(process.argv[2], JSON.stringify(raw));
});
