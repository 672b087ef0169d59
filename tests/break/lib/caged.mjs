// A sealed cage in the machine of a World, in which a small program does as it is asked, line by line: what hostile code would
// try by packets. It is Python, of the workbench; nothing of ours judges in there.
import { spawn, spawnSync } from 'node:child_process';
import { within } from '../../e2e/lib/until.mjs';
import { running } from '../../e2e/lib/sealed.mjs';

const program = `
import base64, errno, json, os, socket, struct, sys, time
LISTEN = []
KEPT = []
def name(e): return errno.errorcode.get(e.errno, str(e)) if isinstance(e, OSError) and e.errno and e.errno > 0 else str(e) or 'ETIMEDOUT'
def info(a, p, kind): return socket.getaddrinfo(a, p, 0, kind, 0, socket.AI_NUMERICHOST)[0]
def tcp(a, p):
    f, k, n, _, to = info(a, int(p), socket.SOCK_STREAM)
    s = socket.socket(f, k); s.settimeout(4)
    s.connect(to); s.close(); return 'OK'
def text(a, p):
    s = socket.socket(); s.settimeout(4)
    s.connect((socket.inet_ntoa(socket.inet_aton(a)), int(p))); s.close(); return 'OK'
def udp(a, p):
    f, k, n, _, to = info(a, int(p), socket.SOCK_DGRAM)
    s = socket.socket(f, k); s.sendto(b'x', to); return 'OK'
def query(who, how):
    labels = b''.join(bytes([len(l)]) + l.encode() for l in who.split('.'))
    q = struct.pack('>HHHHHH', 7, 0x100, 1, 0, 0, 0) + labels + b'\\0' + struct.pack('>HH', 1, 1)
    return q if how == 'udp' else struct.pack('>H', len(q)) + q
def dns(server, who, how):
    f, k, n, _, to = info(server, 53, socket.SOCK_DGRAM if how == 'udp' else socket.SOCK_STREAM)
    s = socket.socket(f, k); s.settimeout(4); s.connect(to); s.send(query(who, how))
    a = s.recv(512); a = a if how == 'udp' else a[2:]
    return '.'.join(str(b) for b in a[-4:]) if struct.unpack('>H', a[6:8])[0] else 'nothing'
def resolve(who):
    try: return ' '.join(sorted({i[4][0] for i in socket.getaddrinfo(who, 80)})) or 'nothing'
    except socket.gaierror: return 'nothing'
def listen(p):
    s = socket.socket(socket.AF_INET6); s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.bind(('::', int(p))); s.listen(8); s.settimeout(0.3); LISTEN.append(s); return 'OK'
def accepted():
    n = 0
    try:
        while True: LISTEN[0].accept(); n += 1
    except socket.timeout: pass
    return n
def flip(who, n):
    came = {}
    for _ in range(int(n)):
        to = resolve(who)
        try: said = to + ' ' + tcp(to, 80)
        except OSError as e: said = to + ' ' + name(e)
        came[said] = came.get(said, 0) + 1
    return came
def big(a, p, n):
    f, k, _, _, to = info(a, int(p), socket.SOCK_DGRAM)
    socket.socket(f, k).sendto(b'x' * int(n), to); return 'OK'
def keep(a, p):
    f, k, _, _, to = info(a, int(p), socket.SOCK_STREAM)
    s = socket.socket(f, k); s.settimeout(4); s.connect(to); KEPT.append(s); return 'OK'
def go_on(n, ms):
    end = time.monotonic() + int(ms) / 1000
    while time.monotonic() < end:
        try: KEPT[int(n)].send(b'x')
        except OSError as e: return name(e)
        time.sleep(0.02)
    return 'OK'
def py(text):
    scope = {'KEPT': KEPT}
    exec(base64.b64decode(text).decode(), scope)
    return scope.get('out')
def address():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('1.1.1.1', 9)); return s.getsockname()[0]
print(json.dumps('ready'), flush=True)
for line in sys.stdin:
    words = line.split(); began = time.monotonic()
    try: said = globals()[words[0]](*words[1:])
    except Exception as e: said = name(e)
    print(json.dumps([said, round((time.monotonic() - began) * 1000)]), flush=True)
`;

export class Caged {
    /** who: 'root' or 'person', as in e2e/lib/sealed.mjs. world: null for a cage in this machine's own network. */
    constructor(world, cages, who, project, { binary = cages.path('agent-cage'), env: more = {} } = {}) {
        const { env, before } = cages.as(who);
        this.mark = `mark${Math.random().toString(36).slice(2)}`;
        this.world = world;
        this.who = who;
        const [first, ...words] = [...(world?.enter('machine') ?? []), ...before, binary, 'sealed', project, '--', 'python3', '-u', '-c', program, this.mark];
        this.child = spawn(first, words, { env: { ...env, ...more }, cwd: '/', stdio: ['pipe', 'pipe', 'pipe'] });
        this.waiting = [];
        this.lines = [];
        this.errors = '';
        this.child.stderr.on('data', d => { this.errors += d; });
        let rest = '';
        this.child.stdout.on('data', d => {
            const parts = (rest + d).split('\n');
            rest = parts.pop();
            for (const line of parts)
                this.waiting.length ? this.waiting.shift()(JSON.parse(line)) : this.lines.push(JSON.parse(line));
        });
        this.ended = new Promise(resolve => this.child.once('close', resolve));
    }

    line() {
        return within(`an answer from the cage (${this.errors})`, 60_000, new Promise((resolve, reject) => {
            this.lines.length ? resolve(this.lines.shift()) : this.waiting.push(resolve);
            this.ended.then(() => reject(new Error(`the cage ended: ${this.errors}`)));
        }));
    }

    async ready() {
        await this.line();
        // The program itself, not those outside who carry its words.
        this.pid = running(this.mark).filter(p => spawnSync('readlink', [`/proc/${p}/ns/pid`], { encoding: 'utf8' }).stdout !==
            spawnSync('readlink', ['/proc/self/ns/pid'], { encoding: 'utf8' }).stdout).at(-1);
        return this;
    }

    /** The answer and the milliseconds that it took. */
    async ask(...words) {
        this.child.stdin.write(`${words.join(' ')}\n`);
        const [said, ms] = await this.line();
        return { said, ms };
    }

    /** What Python code leaves in `out`. */
    async py(code) {
        const { said } = await this.ask('py', Buffer.from(code).toString('base64'));
        return said;
    }

    /** A command in the cage's network namespace, by root of the host. */
    outside(...words) {
        return spawnSync('nsenter', [`--net=/proc/${this.pid}/ns/net`, ...words], { encoding: 'utf8' });
    }

    /** Packets that the rules have refused. */
    refused() {
        const rules = JSON.parse(this.outside('nft', '-j', 'list', 'ruleset').stdout).nftables;
        return rules.filter(r => r.rule?.chain === 'refuse').flatMap(r => r.rule.expr).reduce((n, e) => n + (e.counter?.packets ?? 0), 0);
    }

    async close() {
        this.child.stdin.end();
        await within('the cage to end', 20_000, this.ended).catch(() => this.child.kill('SIGKILL'));
    }
}
