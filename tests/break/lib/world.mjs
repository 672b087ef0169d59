// The network that boundary tests run in: four network namespaces joined to each other and to nothing else, so that no packet
// of a test, whatever goes wrong, can reach a network that is somebody's.
//
//   machine   where podman and agent-cage run; a public address of its own
//   lan       its router: a page, a resolver, a file server; a global IPv6 prefix on the link; forwards to …
//   internet  … which is 1.1.1.1, 9.9.9.9, 8.8.8.8, 203.0.113.0/24, 2606:4700:4700::1111
//   mesh      another way out of the machine: 100.64.0.0/10 and a ULA, as a mesh VPN has them
import { spawn, spawnSync } from 'node:child_process';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { within } from '../../e2e/lib/until.mjs';
import { workbench } from '../../e2e/lib/workbench.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const run = (...words) => {
    const done = spawnSync(words[0], words.slice(1), { encoding: 'utf8' });
    assert.equal(done.status, 0, `${words.join(' ')}: ${done.stderr ?? done.error}`);
    return done.stdout;
};

export const address = {
    machine: { lan: '192.168.77.10', six: '2a0e:77:1::10', public: '203.0.114.7', mesh: '100.64.7.1', meshSix: 'fd77:7::1' },
    router: { four: '192.168.77.1', six: '2a0e:77:1::1', ula: 'fd77:1::1' },
    mesh: { four: '100.64.7.2', six: 'fd77:7::2' },
    internet: { four: ['1.1.1.1', '9.9.9.9', '8.8.8.8', '203.0.113.80'], six: ['2606:4700:4700::1111'] },
};

export class World {
    /** nsenter, because `ip netns exec` mounts a /sys without the control groups. */
    constructor(prefix = 'b' + Math.random().toString(36).slice(2, 7)) {
        workbench(); // nothing in here could fetch its packages
        this.prefix = prefix;
        this.servers = {};
        this.names = ['machine', 'lan', 'internet', 'mesh'];
        process.once('exit', () => this.remove());
        for (const name of this.names) {
            run('ip', 'netns', 'add', this.ns(name));
            this.ip(name, 'link', 'set', 'lo', 'up');
        }
        this.cable('machine', 'lan', 'lan0', 'in0');
        this.cable('machine', 'mesh', 'mesh0', 'mesh0');
        this.cable('lan', 'internet', 'out0', 'net0');
        this.addresses();
        this.assertClosed();
    }

    ns(name) {
        return `${this.prefix}-${name}`;
    }

    enter(name) {
        return ['nsenter', `--net=/run/netns/${this.ns(name)}`];
    }

    /** A command in a namespace, to its end. */
    run(name, words, opts = {}) {
        const [program, ...args] = [...this.enter(name), ...words];
        return spawnSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 26, timeout: 120_000, ...opts });
    }

    ip(name, ...words) {
        return run(...this.enter(name), 'ip', ...words);
    }

    cable(a, b, nameA, nameB) {
        run('ip', '-n', this.ns(a), 'link', 'add', nameA, 'type', 'veth', 'peer', 'name', nameB, 'netns', this.ns(b));
        this.ip(a, 'link', 'set', nameA, 'up');
        this.ip(b, 'link', 'set', nameB, 'up');
    }

    add(name, device, ...addresses) {
        for (const a of addresses)
            this.ip(name, 'addr', 'add', a, 'dev', device, ...(a.includes(':') ? ['nodad'] : []));
    }

    addresses() {
        const { machine, router, mesh, internet } = address;
        this.add('machine', 'lan0', `${machine.lan}/24`, `${machine.six}/64`, 'fd77:1::10/64', `${machine.public}/32`);
        this.add('machine', 'mesh0', `${machine.mesh}/10`, `${machine.meshSix}/64`);
        this.add('lan', 'in0', `${router.four}/24`, `${router.six}/64`, `${router.ula}/64`);
        this.add('lan', 'out0', '203.0.113.1/24', '2a0e:77:2::1/64');
        this.add('mesh', 'mesh0', `${mesh.four}/10`, `${mesh.six}/64`);
        this.add('internet', 'net0', '203.0.113.2/24', '2a0e:77:2::2/64');
        this.add('internet', 'lo', ...internet.four.map(a => `${a}/32`), ...internet.six.map(a => `${a}/128`));
        this.ip('machine', 'route', 'add', 'default', 'via', router.four);
        this.ip('machine', '-6', 'route', 'add', 'default', 'via', router.six);
        this.ip('lan', 'route', 'add', 'default', 'via', '203.0.113.2');
        this.ip('lan', '-6', 'route', 'add', 'default', 'via', '2a0e:77:2::2');
        this.ip('lan', 'route', 'add', `${machine.public}/32`, 'via', machine.lan);
        this.ip('internet', 'route', 'add', 'default', 'via', '203.0.113.1');
        this.ip('internet', '-6', 'route', 'add', 'default', 'via', '2a0e:77:2::1');
        this.ip('mesh', '-6', 'route', 'add', 'default', 'via', machine.meshSix);
        run(...this.enter('lan'), 'sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1');
    }

    /** No interface of the namespaces leads anywhere but to each other: loopbacks and the three cables, no more. */
    assertClosed() {
        const seen = this.names.flatMap(name => JSON.parse(this.ip(name, '-j', 'link')).map(l => `${name}/${l.ifname}`));
        const made = ['machine/lan0', 'machine/mesh0', 'lan/in0', 'lan/out0', 'mesh/mesh0', 'internet/net0'];
        const own = new Set([...made, ...this.names.map(n => `${n}/lo`)]);
        // What podman makes while it runs: its bridge and the cables of its rooms, inside the machine.
        const strangers = seen.filter(l => !own.has(l) && !/^machine\/(podman\d+|veth\d+)$/.test(l) && !/\/(tunl0|sit0|ip6tnl0|gre0|ip6_vti0|ip_vti0|ip6gre0|gretap0|erspan0|ifb\d|dummy\d|bond0|teql0)$/.test(l));
        assert.deepEqual(strangers, [], 'there is a way out of the test network');
        for (const l of made)
            assert.ok(seen.includes(l), l);
        const self = fs.readlinkSync('/proc/self/ns/net');
        for (const name of this.names)
            assert.notEqual(this.run(name, ['readlink', '/proc/self/ns/net']).stdout.trim(), self);
    }

    /** Listens in a namespace on all addresses; see serve.mjs. */
    async serve(name, ...words) {
        const [program, ...args] = [...this.enter(name), process.execPath, path.join(here, 'serve.mjs'), ...words];
        const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
        const server = { child, lines: [], waiting: [] };
        let rest = '';
        child.stdout.on('data', d => {
            const parts = (rest + d).split('\n');
            rest = parts.pop();
            for (const line of parts)
                server.waiting.length ? server.waiting.shift()(line) : server.lines.push(line);
        });
        this.servers[name] = server;
        assert.equal(await this.line(server), 'ready');
    }

    line(server) {
        return within('a server to answer', 10_000, new Promise(resolve =>
            server.lines.length ? resolve(server.lines.shift()) : server.waiting.push(resolve)));
    }

    /** What came to the servers of a namespace since the last question: { "tcp 80": n, "udp 53": n, … } */
    async came(name) {
        const server = this.servers[name];
        server.child.stdin.write('?\n');
        return JSON.parse(await this.line(server));
    }

    remove() {
        if (this.gone)
            return;
        this.gone = true;
        for (const { child } of Object.values(this.servers))
            child.kill('SIGKILL');
        for (const name of this.names)
            spawnSync('ip', ['netns', 'del', this.ns(name)]);
    }
}
