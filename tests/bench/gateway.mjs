// The gateway against a direct connection and against nginx as a reverse proxy, all to one API over TLS on the bridge, in turns;
// the other two from the agent's own network namespace, so that all three take the same way.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { top } from '../e2e/lib/fleet.mjs';

const GATE = '10.88.0.1', API = 18493, NGINX = 18494;
const bench = name => path.join(top, 'tests/bench', name);

export function certificates(folder) {
    fs.mkdirSync(folder, { recursive: true });
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', 'key', '-out', 'cert', '-subj', '/CN=bench',
        '-addext', `subjectAltName=IP:${GATE},DNS:model.bench`, '-days', '2'], { cwd: folder, stdio: 'ignore' });
    return path.join(folder, 'cert');
}

function startNginx(folder, before) {
    fs.writeFileSync(path.join(folder, 'nginx.conf'), `daemon off; worker_processes 1; pid ${folder}/pid; error_log ${folder}/log; events {}
http { access_log off; client_body_temp_path ${folder}/t; proxy_temp_path ${folder}/t; fastcgi_temp_path ${folder}/t; uwsgi_temp_path ${folder}/t; scgi_temp_path ${folder}/t;
  upstream api { server ${GATE}:${API}; keepalive 4; }
  server { listen 127.0.0.1:${NGINX}; location / { proxy_pass https://api; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    proxy_ssl_verify on; proxy_ssl_name model.bench; proxy_ssl_trusted_certificate ${folder}/cert; proxy_set_header Host ${GATE}; } } }\n`);
    return spawn(before[0], [...before.slice(1), 'nginx', '-c', path.join(folder, 'nginx.conf')], { stdio: 'ignore' });
}

const client = (before, ...args) => JSON.parse(execFileSync(before[0], [...before.slice(1), process.execPath, bench('gateway-client.mjs'), ...args],
    { encoding: 'utf8', timeout: 120_000 }));

/** Rows through row(name, text, ratio, goal, met); samples into raw. The fleet's ca_file is certificates(folder). */
export async function gateway(fleet, folder, { row, raw, p50 }) {
    const server = spawn(process.execPath, [bench('gateway-api.mjs'), GATE, String(API), path.join(folder, 'key'), path.join(folder, 'cert')], { stdio: ['ignore', 'pipe', 'inherit'] });
    await new Promise(done => server.stdout.once('data', done));
    let nginx = null;
    try {
        fleet.new('model', '--upstream', `anthropic+https://${GATE}:${API}`);
        fleet.must({ input: 'sk-ant-oat01-benchmark' }, 'auth', 'model', '--token-file', '-');
        const within = room => ['nsenter', '-n', '-t', String(fleet.part(room, 'model').pid)];
        nginx = ['/usr/sbin/nginx', '/usr/bin/nginx'].some(p => fs.existsSync(p)) ? startNginx(folder, within('agent')) : null;
        const first = { direct: [], gateway: [], nginx: [] }, rate = { direct: [], gateway: [], nginx: [] };
        for (let turn = 0; turn < 5; turn++)
            for (const [name, before, url] of [['direct', within('agent'), `https://${GATE}:${API}`], ['gateway', within('harness'), 'http://127.0.0.1:4100'], ['nginx', within('agent'), `http://127.0.0.1:${NGINX}`]]) {
                if (name === 'nginx' && !nginx)
                    continue;
                const got = client(before, url, '100', path.join(folder, 'cert'));
                first[name].push(...got.first_us);
                rate[name].push(got.mib_s);
            }
        Object.assign(raw, { gateway_first_us: first, gateway_mib_s: rate });
        const ms = list => (p50(list) / 1000).toFixed(2), added = (p50(first.gateway) - p50(first.direct)) / 1000;
        row('gateway first byte', `${ms(first.gateway)} ms, direct ${ms(first.direct)}, nginx ${nginx ? ms(first.nginx) : 'not here'}`, `+${added.toFixed(2)} ms`, '≤ 1 ms more', added <= 1);
        const ratio = p50(rate.gateway) / p50(rate.direct), mib = list => p50(list).toFixed(0);
        row('gateway stream/direct', `${mib(rate.gateway)} MiB/s, direct ${mib(rate.direct)}, nginx ${nginx ? mib(rate.nginx) : 'not here'}`, ratio, '≥ 0.9', ratio >= 0.9);
    } finally {
        server.kill('SIGKILL');
        nginx?.kill('SIGTERM');
    }
}
