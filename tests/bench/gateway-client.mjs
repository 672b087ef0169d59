// gateway-client.mjs URL N [CA]: N small requests on one kept connection, then one large stream; prints { first_us: […], mib_s } as JSON.
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';

const [url, n, ca] = process.argv.slice(2);
const client = url.startsWith('https:') ? https : http;
const agent = new client.Agent({ keepAlive: true, maxSockets: 1, ca: ca ? fs.readFileSync(ca) : undefined });

/** Microseconds until the first byte of the body, and bytes of it; the next request waits for its end. */
const ask = what => new Promise((done, fail) => {
    const start = process.hrtime.bigint();
    let first = 0, bytes = 0;
    const request = client.request(`${url}/v1/messages?do=${what}`, { agent, method: 'POST', headers: { 'content-length': 2 } }, answer => {
        if (answer.statusCode !== 200)
            fail(new Error(`${url}: ${answer.statusCode}`));
        answer.on('data', d => { first ||= Number(process.hrtime.bigint() - start) / 1e3; bytes += d.length; });
        answer.on('end', () => done({ first, bytes, seconds: Number(process.hrtime.bigint() - start) / 1e9 }));
    });
    request.on('error', fail);
    request.end('{}');
});

for (let i = 0; i < 20; i++)
    await ask('small');
const first = [];
for (let i = 0; i < Number(n); i++)
    first.push((await ask('small')).first);
const large = await ask('large');
console.log(JSON.stringify({ first_us: first, mib_s: large.bytes / (1 << 20) / large.seconds }));
agent.destroy();
