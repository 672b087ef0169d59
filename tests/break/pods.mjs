// An ordinary pod (--net open) in the closed network of lib/world.mjs: the internet, the LAN and the mesh are reached, another cage
// is not, in either direction. The control arm is the same two cages with their rules taken away from outside.
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { address, World } from './lib/world.mjs';
import { until } from '../e2e/lib/until.mjs';

const { machine, router, mesh } = address;
const world = new World();
await world.serve('lan', 'tcp:80', 'udp:80');
await world.serve('mesh', 'tcp:80');
await world.serve('machine', 'tcp:80');
await world.serve('internet', 'tcp:80', 'tcp:53');

// A fleet in the machine: its binary is entered by a wrapper.
const top = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), '../..');
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-cage-wrapper-'));
const wrapper = path.join(dir, 'agent-cage');
fs.writeFileSync(wrapper, `#!/bin/sh\nexec ${world.enter('machine').join(' ')} ${process.env.AGENT_CAGE_BINARY ?? path.join(top, 'build/agent-cage')} "$@"\n`, { mode: 0o755 });
process.env.AGENT_CAGE_BINARY = wrapper;
const { Fleet } = await import('../e2e/lib/fleet.mjs');
const PORT = 7719; // the web page's
const fleet = await Fleet.start({ conf: { web: PORT } });
after(() => { // behind the fleet's own end
    world.remove();
    fs.rmSync(dir, { recursive: true });
});
for (const name of ['one', 'two'])
    fleet.new(name);

const inside = (name, ...words) => spawnSync('nsenter', [`--net=/proc/${fleet.part('executor', name).pid}/ns/net`, ...words], { encoding: 'utf8' });
const addressOf = name => JSON.parse(inside(name, 'ip', '-4', '-j', 'addr', 'show', 'eth0').stdout)[0].addr_info[0].local;

/** The errno's name, or OK, of a connection from an agent's executor. */
function connect(name, to, port) {
    const script = `import errno,socket\ns=socket.socket(socket.AF_INET6 if ":" in "${to}" else socket.AF_INET)\ns.settimeout(2)\n` +
        `try:\n  s.connect(("${to}",${port})); print("OK")\nexcept OSError as e: print(errno.errorcode.get(e.errno, "ETIMEDOUT"))`;
    return fleet.exec(name, 'python3', '-c', script).stdout.trim();
}

test('the internet, the LAN, the mesh and the host at the bridge are reached', async () => {
    for (const to of ['203.0.113.80', router.four, mesh.four, machine.lan])
        assert.equal(connect('one', to, 80), 'OK', to);
    const came = await until('it to arrive', 5000, async () => Object.assign({}, await world.came('lan')));
    assert.ok(came['tcp 80'] >= 1, JSON.stringify(came));
});

test('the port of agent-cage itself is refused, whoever passes it on at the bridge', async () => {
    const there = to => world.run('machine', ['python3', '-c', `import socket; socket.create_connection(("${to}", ${PORT}), 5); print("OK")`]).stdout;
    const gate = JSON.parse(inside('one', 'ip', '-j', 'route', 'show', 'default').stdout)[0].gateway;
    const refused = () => Number(inside('one', 'nft', 'list', 'chain', 'inet', 'agent_cage', 'output').stdout.match(/@ports counter packets (\d+)/)[1]);
    assert.equal(there('127.0.0.1'), 'OK\n'); // the page is there
    for (const to of [gate, machine.lan, machine.public, machine.mesh])
        assert.equal(connect('one', to, PORT), 'ECONNREFUSED', to);
    const [program, ...words] = [...world.enter('machine'), 'python3', '-u', '-c',
        `import socket\ns=socket.socket(); s.bind(("${gate}",${PORT})); s.listen(8); print("ready")\nwhile True: s.accept()`];
    const proxy = spawn(program, words, { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
        let said = '';
        proxy.stdout.on('data', d => { said += d; });
        await until('somebody at the bridge', 20_000, () => said.includes('ready'));
        const before = refused();
        assert.equal(connect('one', gate, PORT), 'ECONNREFUSED');
        assert.ok(refused() > before, 'it was not the rule');
        // The control arm: the same without the port in the rule.
        assert.equal(inside('one', 'nft', 'delete', 'element', 'inet', 'agent_cage', 'ports', `{ ${PORT} }`).status, 0);
        assert.equal(connect('one', gate, PORT), 'OK');
        assert.equal(inside('one', 'nft', 'add', 'element', 'inet', 'agent_cage', 'ports', `{ ${PORT} }`).status, 0);
        assert.equal(connect('one', gate, PORT), 'ECONNREFUSED');
    } finally {
        proxy.kill('SIGKILL');
    }
});

test('another cage is refused at once, and nothing comes in from one', async () => {
    const listener = fleet.spawn(['exec', 'two', '--', 'python3', '-u', '-c',
        'import socket\ns=socket.socket(); s.bind(("0.0.0.0", 8080)); s.listen(8); print("ready")\nwhile True:\n  s.accept(); print("in")'],
    { stdio: ['ignore', 'pipe', 'inherit'] });
    let said = '';
    listener.stdout.on('data', d => { said += d; });
    await until('the listener', 20_000, () => said.includes('ready'));
    const two = addressOf('two');
    assert.equal(connect('one', two, 8080), 'ECONNREFUSED');
    // Without its own rules the first still meets the input rules of the second.
    assert.equal(inside('one', 'nft', 'flush', 'ruleset').status, 0);
    assert.equal(connect('one', two, 8080), 'ETIMEDOUT');
    assert.equal(said.includes('in\n'), false);
    // The control arm.
    assert.equal(inside('two', 'nft', 'flush', 'ruleset').status, 0);
    assert.equal(connect('one', two, 8080), 'OK');
    await until('the listener to see it', 5000, () => said.includes('in\n'));
    listener.kill('SIGKILL');
});

test('break judges a sealed agent by its own answers, and finds nothing red', () => {
    const project = path.join(dir, 'strange');
    fs.mkdirSync(project);
    fs.chownSync(project, 61234, 61234);
    fleet.new('strange', '--mode', 'sealed', '--project', project);
    const done = fleet.cage({ timeout: 120_000 }, 'break', 'strange', '--json');
    assert.ok(done.stdout, done.stderr);
    const said = JSON.parse(done.stdout);
    assert.deepEqual(said.rows.filter(r => r.verdict === 'red'), []);
    assert.deepEqual([said.cage, done.status], ['sealed agent', 0]);
    for (const id of ['CP-14 ', 'FS-02 folders', 'NW-02 tcp', 'NW-10 udp', 'NW-10 every', 'NW-14 ', 'NW-19 '])
        assert.equal(said.rows.find(r => r.row.startsWith(id))?.verdict, 'green', id);
});

// A bridge has the lowest hardware address of its ports: another one whenever that port's room has gone.
test('a bridge that gets another hardware address tells the cages, whose connections go on', () => {
    const change = last => world.ip('machine', 'link', 'set', 'dev', 'podman0', 'address', `02:00:00:00:00:${last}`);
    const notify = on => assert.equal(world.run('machine', ['sysctl', '-qw', `net.ipv4.conf.podman0.arp_notify=${on}`]).status, 0);
    assert.equal(connect('one', machine.lan, 80), 'OK');
    change('aa');
    assert.equal(connect('one', machine.lan, 80), 'OK');
    notify(0); // the control arm
    change('bb');
    assert.equal(connect('one', machine.lan, 80), 'ETIMEDOUT');
    notify(1);
    change('cc');
    assert.equal(connect('one', machine.lan, 80), 'OK');
});

test('no packet had another way to go', () => world.assertClosed());
