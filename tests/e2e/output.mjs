// Output of any size in bounded memory, with back-pressure; the chat shows head and tail.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { spawn } from 'node:child_process';
import { Fleet, binary } from './lib/fleet.mjs';
import { ended, until, within } from './lib/until.mjs';
import * as proc from './lib/proc.mjs';

const fleet = await Fleet.start({ conf: { output_max: '1m' } });
fleet.new('pod');

const LIMIT_KIB = 64 * 1024;

function assertSmall() {
    for (const p of proc.parts(fleet))
        assert.ok(proc.peakKiB(p.pid) <= LIMIT_KIB, `${p.part} ${p.name} used ${proc.peakKiB(p.pid)} KiB at most`);
}

/** Runs agent-cage with its output into wc -c, in the kernel's hands all the way. */
async function counted(script, bytes, deadline = 300_000) {
    const wc = spawn('wc', ['-c'], { stdio: ['pipe', 'pipe', 'inherit'] });
    const done = spawn(binary, ['exec', 'pod', '--', 'bash', '-c', script], { env: fleet.env, stdio: ['ignore', wc.stdin, 'inherit'] });
    wc.stdin.destroy();
    const [count, run] = await Promise.all([ended(wc, deadline), ended(done, deadline)]);
    assert.equal(run.status, 0);
    assert.equal(Number(count.stdout), bytes);
}

test('10 GiB pass through exec whole', async () => {
    await counted('head -c 10G /dev/zero', 10 * 2 ** 30);
    assertSmall();
});

test('one line of 1 GiB passes through exec whole', async () => {
    await counted('head -c 1G /dev/zero | tr "\\0" x', 2 ** 30);
    assertSmall();
});

test('a reader that never reads holds the command back, and nothing grows', async () => {
    const child = fleet.spawn(['exec', 'pod', '--', 'bash', '-c', 'yes | head -c 1G; echo unreachable >&2'], { stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.pause();
    let last = -1, same = 0;
    const written = () => {
        const pid = proc.processesOf([[fleet.uidBase('pod') + 60000, fleet.uidBase('pod') + 60001]]).find(p => proc.cmdline(p)[0] === 'head');
        return pid ? Number(/write_bytes|wchar: (\d+)/.exec(fs.readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1] ?? 0) : -1;
    };
    await until('the writer to stand still', 30_000, () => {
        const now = written();
        same = now >= 0 && now === last ? same + 1 : 0;
        last = now;
        return same > 10;
    });
    assert.ok(last < 32 * 2 ** 20, `${last} bytes were taken from the command`);
    assertSmall();
    child.kill('SIGKILL');
    assert.equal(fleet.exec('pod', 'echo', 'alive').stdout, 'alive\n');
});

test('the chat shows head and tail, says how much is left out, and the log names the file with the rest', () => {
    const done = fleet.cage({ timeout: 120_000 }, 'send', 'pod', 'echo begin; seq 200000; echo end', '--wait');
    assert.equal(done.status, 0, done.stderr);
    assert.match(done.stdout, /^begin\n1\n2\n/m);
    assert.match(done.stdout, /^end$/m);
    assert.ok(done.stdout.length < 65536);
    const whole = `begin\n${Array.from({ length: 200000 }, (_, i) => i + 1).join('\n')}\nend\n`;
    const note = /\[(\d+) bytes left out\]\n/.exec(done.stdout);
    const before = done.stdout.slice(0, note.index), tail = `${done.stdout.slice(note.index + note[0].length).trimEnd()}\n`;
    const head = whole.startsWith(before) ? before : before.slice(0, -1); // the note begins on a line of its own
    assert.ok(whole.startsWith(head) && whole.endsWith(tail), 'what is shown is not the head and the tail');
    assert.equal(Number(note[1]), whole.length - head.length - tail.length);
    const rows = fleet.must('log', 'pod', '--json').stdout.trim().split('\n').flatMap(l => JSON.parse(l));
    const file = rows.map(r => r.output).filter(Boolean).pop();
    assert.ok(file, 'no row of the log names an output file');
    const size = fs.statSync(file).size;
    assert.ok(size > 900_000 && size <= 1.1 * 2 ** 20, `${file}: ${size} bytes`);
    const [end, more] = /\n\[(\d+) bytes more are not kept\]\n$/.exec(fs.readFileSync(file, 'latin1'));
    const kept = fs.readFileSync(file, 'latin1').slice(0, -end.length);
    assert.ok(whole.startsWith(kept), `${file} is not what was put out`);
    assert.equal(kept.length + Number(more), whole.length);
    const chat = fleet.cage({ input: 'seq 200000\n', timeout: 120_000 }, 'chat', 'pod');
    assert.match(chat.stdout, /^all of its output: \S+\/outputs\/\d+$/m);
    assert.ok(fs.existsSync(/^all of its output: (.*)$/m.exec(chat.stdout)[1]));
    assert.doesNotMatch(fleet.cage({ input: 'echo short\n', timeout: 120_000 }, 'chat', 'pod').stdout, /all of its output/);
});

test('5 GiB from a chat message stay within memory, and the next turn works', () => {
    const done = fleet.cage({ timeout: 300_000 }, 'send', 'pod', 'yes | head -c 5G', '--wait');
    assert.match(done.stdout, /bytes left out/);
    assertSmall();
    assert.match(fleet.must('send', 'pod', 'echo next', '--wait').stdout, /next/);
});

test('a 200 MB line, a million lines, both streams at once', () => {
    for (const script of ['head -c 200M /dev/zero | tr "\\0" a', 'seq 1000000', 'for i in $(seq 20000); do echo o; echo e >&2; done'])
        assert.equal(fleet.cage({ timeout: 120_000 }, 'send', 'pod', script, '--wait').status, 0);
    assertSmall();
});

test('any bytes: the report is printable, the JSON valid, and another turn works', () => {
    const scripts = ['head -c 1000 /dev/urandom', "printf 'a\\0b'", "printf '\\xff\\xfe\\xed\\xa0\\x80'", 'printf "%04095d" 0; printf é',
        "printf '\\u2028\\ufeff\\r\\n'", "printf '\\033]52;c;aGk=\\007\\033[2J\\x9b31m'"];
    for (const script of scripts) {
        const done = fleet.cage('send', 'pod', script, '--wait', '--json');
        for (const line of done.stdout.trim().split('\n'))
            JSON.parse(line);
        const shown = fleet.cage({ raw: true }, 'send', 'pod', script, '--wait');
        // eslint-disable-next-line no-control-regex
        assert.doesNotMatch(shown.stdout.toString('latin1'), /[\x00-\x08\x0b-\x1f\x7f]/, script);
    }
    assert.match(fleet.must('send', 'pod', 'printf "%04094d" 0; printf é', '--wait').stdout, /0é/);
    assert.match(fleet.must('send', 'pod', 'echo fine', '--wait').stdout, /fine/);
});

test('the output of a command that is stopped is kept', async () => {
    const child = fleet.spawn(['send', 'pod', 'echo partial; sleep 600', '--wait']);
    const end = ended(child, 60_000);
    await until('the turn to run', 20_000, () => fleet.status('pod').sessions > 0 || fleet.status('pod').processes > 1);
    fleet.must('stop', 'pod');
    const done = await within('the report', 60_000, end);
    assert.match(done.stdout, /partial/);
    fleet.must('start', 'pod');
});
