// Who is connected to whom, as the kernel has it: exactly the rows of links.def, and nothing that leads up from a cage.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { top } from '../../e2e/lib/fleet.mjs';
import { fleet } from '../lib/rooms.mjs';
import * as proc from '../../e2e/lib/proc.mjs';

const AGENTS = ['pod', 'other', 'bare'];

/** The rows of links.def as [commander, obeyer] of parts that stay connected. */
function declared() {
    const text = fs.readFileSync(path.join(top, 'src/proto/links.def'), 'utf8');
    const rows = [...text.matchAll(/^LINK\((\w+), "([^"]+)", "([^"]+)", (\w+)/gm)].map(m => ({ name: m[1], commander: m[2], obeyer: m[3] }));
    const daemons = ['relay', 'manager', 'agent', 'harness', 'executor'];
    return rows.flatMap(r => r.obeyer === 'each part' ? daemons.map(d => ['warden', d]) : [[r.commander, r.obeyer]])
        .filter(pair => pair.every(p => ['warden', ...daemons].includes(p)));
}

/** Pairs of parts that hold the two ends of a connected Unix socket, as "part name – part name" in the order of the table. */
function connected() {
    const parts = proc.parts(fleet);
    const owner = new Map();
    for (const p of parts)
        for (const fd of proc.fds(p.pid)) {
            let to = '';
            try { to = fs.readlinkSync(`/proc/${p.pid}/fd/${fd}`); } catch { /* closed meanwhile */ }
            const inode = /^socket:\[(\d+)\]$/.exec(to)?.[1];
            if (inode)
                owner.set(inode, p);
        }
    const pairs = new Set(), strangers = [];
    for (const line of spawnSync('ss', ['-xHa'], { encoding: 'utf8' }).stdout.split('\n')) {
        const f = line.trim().split(/\s+/);
        const [mine, theirs] = [f[5], f[7]];
        if (!owner.has(mine) || f[1] !== 'ESTAB')
            continue;
        const a = owner.get(mine), b = owner.get(theirs);
        if (!b)
            strangers.push(`${a.part} ${a.name} has a socket whose other end (${theirs}) is no part's: ${line}`);
        else if (a !== b)
            pairs.add([`${a.part} ${a.name}`.trim(), `${b.part} ${b.name}`.trim()].sort().join(' – '));
    }
    return { pairs, strangers };
}

test('the parts are connected as links.def says, each agent with its own rooms', () => {
    const want = new Set();
    for (const [a, b] of declared())
        for (const agent of AGENTS) {
            const name = part => ['agent', 'harness', 'executor'].includes(part) ? `${part} ${agent}` : part;
            want.add([name(a), name(b)].sort().join(' – '));
        }
    const { pairs, strangers } = connected();
    assert.deepEqual([...pairs].sort(), [...want].sort());
    assert.deepEqual(strangers.filter(s => !/^(warden|relay)/.test(s)), []);
});

test('no room listens on anything but its control socket and the shim\'s', () => {
    for (const name of AGENTS)
        for (const room of ['agent', 'harness', 'executor']) {
            const { pid } = fleet.part(room, name);
            for (const proto of ['tcp', 'tcp6', 'udp', 'udp6']) {
                if (name === 'bare' && room !== 'harness')
                    continue; /* the host's own network namespace: other people's sockets are there */
                const lines = fs.readFileSync(`/proc/${pid}/net/${proto}`, 'utf8').trim().split('\n').slice(1);
                assert.deepEqual(lines, [], `${room} of ${name}: ${proto}`);
            }
        }
});

/** Unix sockets that listen in the network namespace of a process: the path of each inode. */
function listening(pid) {
    const lines = fs.readFileSync(`/proc/${pid}/net/unix`, 'utf8').trim().split('\n').slice(1).map(l => l.trim().split(/\s+/));
    return new Map(lines.filter(f => parseInt(f[3], 16) & 0x10000).map(f => [f[6], f[7] ?? '']));
}

test('nor on a Unix socket: by what it holds, and by what listens in its network', () => {
    const host = listening('self');
    for (const name of AGENTS)
        for (const room of ['agent', 'harness', 'executor']) {
            const { pid } = fleet.part(room, name);
            const own = proc.namespace(pid, 'net') === proc.namespace('self', 'net') ? new Map() : listening(pid);
            assert.deepEqual([...own.values()], [], `${room} of ${name}`);
            const held = proc.fds(pid).map(fd => host.get(/^socket:\[(\d+)\]$/.exec(fs.readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1])).filter(p => p !== undefined);
            const may = [`run/agent-cage/ctl/${name}.${room}`, ...room === 'executor' ? [`run/agent-cage/shim/${name}/shim.sock`] : []];
            assert.deepEqual(held.sort(), may.map(p => fleet.path(p)).sort(), `${room} of ${name}`);
        }
});

test('a pod\'s rooms see no path to a control socket, the relay\'s or the warden\'s', () => {
    for (const room of ['agent', 'harness', 'executor']) {
        const mounts = fs.readFileSync(`/proc/${fleet.part(room, 'pod').pid}/mountinfo`, 'utf8');
        assert.doesNotMatch(mounts, /\/run\/agent-cage\/ctl/);
        for (const line of mounts.trim().split('\n')) {
            const [root, place] = [line.split(' ')[3], line.split(' ')[4]];
            if (root.includes('/run/agent-cage'))
                assert.ok((room === 'harness' && place === '/cage/shim') || /\/mnt\/|\/stage\//.test(root), `${room}: ${line}`);
        }
    }
});

test('the sockets of the warden and the relay are root\'s alone', () => {
    for (const socket of ['run/agent-cage/warden.sock', 'run/agent-cage/relay.sock']) {
        const st = fs.statSync(fleet.path(socket));
        assert.equal(st.uid, 0);
        assert.equal(st.mode & 0o777, 0o600);
    }
    assert.equal(fs.statSync(fleet.path('run/agent-cage/ctl')).mode & 0o777, 0o700);
});

test('IP-05 another account cannot speak to the fleet, and the executor\'s socket refuses strangers', () => {
    const asNobody = spawnSync('setpriv', ['--reuid=61234', '--regid=61234', '--clear-groups', path.join(top, 'build/agent-cage'), 'ls'],
        { encoding: 'utf8', env: fleet.env });
    assert.notEqual(asNobody.status, 0);
    assert.match(asNobody.stderr, /root|permission|allowed/i);
    assert.equal(fleet.cage('ls').status, 0);
});
