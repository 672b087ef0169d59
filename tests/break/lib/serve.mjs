// Listens on every address of its network namespace and counts what comes.
//
//   serve.mjs [tcp:PORT | udp:PORT | dns:NAME=ADDRESS,… ]…     NAME=ADDRESS~ADDRESS: one and the other in turns
//
// Prints "ready"; to each line on standard input it answers with the counts since the last, as JSON. A dns server answers the
// names that it is given, over UDP and TCP on port 53, and NXDOMAIN to all others.
import dgram from 'node:dgram';
import net from 'node:net';
import os from 'node:os';

let counts = {};
const came = what => { counts[what] = (counts[what] ?? 0) + 1; };
const started = [];

function tcp(port, onData) {
    const server = net.createServer(c => {
        came(`tcp ${port}`);
        c.on('error', () => {});
        c.on('data', onData ? d => onData(c, d) : () => {});
    });
    started.push(new Promise(resolve => server.listen(port, '::', resolve)));
}

/** A socket for each address, so that an answer comes from the address that was asked. */
function udp(port, onMessage) {
    for (const { address, family, scopeid } of Object.values(os.networkInterfaces()).flat()) {
        if (scopeid)
            continue;
        const socket = dgram.createSocket({ type: family === 'IPv6' ? 'udp6' : 'udp4', reuseAddr: true });
        socket.on('message', (m, from) => { came(`udp ${port}`); onMessage?.(socket, m, from); });
        started.push(new Promise(resolve => socket.bind(port, address, resolve)));
    }
    const any = dgram.createSocket({ type: 'udp4', reuseAddr: true }); /* broadcasts, multicasts, and addresses that come later */
    any.on('message', () => came(`udp ${port}`));
    started.push(new Promise(resolve => any.bind(port, resolve)));
}

/** The first question of a query: its name, its type, where it ends. */
function question(m) {
    const labels = [];
    let at = 12;
    while (m[at]) {
        labels.push(m.subarray(at + 1, at + 1 + m[at]).toString());
        at += m[at] + 1;
    }
    return { name: labels.join('.').toLowerCase(), type: m.readUInt16BE(at + 1), end: at + 5 };
}

const bytesOf = a => a.includes(':') ? Buffer.from(expand(a), 'hex') : Buffer.from(a.split('.').map(Number));
function expand(a) {
    const [head, tail] = a.split('::').map(p => p.split(':').filter(Boolean));
    const all = tail ? [...head, ...Array(8 - head.length - tail.length).fill('0'), ...tail] : head;
    return all.map(p => p.padStart(4, '0')).join('');
}

const asked = {};
function answer(names, m) {
    const q = question(m), both = names[q.name] ?? [];
    const turn = q.type === 1 ? asked[q.name] = (asked[q.name] ?? -1) + 1 : 0;
    const all = both.map(a => a.split('~')).map(a => a[turn % a.length]);
    const right = all.filter(a => (q.type === 28) === a.includes(':') && [1, 28].includes(q.type));
    const head = Buffer.from(m.subarray(0, q.end));
    head.writeUInt16BE(all.length ? 0x8180 : 0x8183, 2);
    head.writeUInt16BE(right.length, 6);
    head.fill(0, 8, 12);
    return Buffer.concat([head, ...right.map(a => {
        const bytes = bytesOf(a), rr = Buffer.alloc(12);
        rr.writeUInt16BE(0xc00c, 0);
        rr.writeUInt16BE(q.type, 2);
        rr.writeUInt16BE(1, 4);
        rr.writeUInt16BE(bytes.length, 10); /* a life of 0 seconds */
        return Buffer.concat([rr, bytes]);
    })]);
}

function dns(words) {
    const names = {};
    for (const word of words.split(',').filter(Boolean)) {
        const [name, a] = word.split('=');
        (names[name] ??= []).push(a);
    }
    udp(53, (socket, m, from) => socket.send(answer(names, m), from.port, from.address));
    tcp(53, (c, d) => {
        const said = answer(names, d.subarray(2)), size = Buffer.alloc(2);
        size.writeUInt16BE(said.length);
        c.end(Buffer.concat([size, said]));
    });
}

for (const word of process.argv.slice(2)) {
    const [kind, rest] = [word.slice(0, 3), word.slice(4)];
    ({ tcp: () => tcp(Number(rest)), udp: () => udp(Number(rest)), dns: () => dns(rest) })[kind]();
}
await Promise.all(started);
console.log('ready');
process.stdin.on('data', d => {
    for (const _ of d.toString().matchAll(/\n/g)) {
        console.log(JSON.stringify(counts));
        counts = {};
    }
});
process.stdin.on('end', () => process.exit(0));
