// What people and models do in a cage every day, and what other products were reported to get wrong there: commands that ask, wait or
// leave something behind; the time zone, the encoding, the shared memory, the tools that write to a home.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { Fleet } from './lib/fleet.mjs';

const fleet = await Fleet.start();
fleet.new('pod');
fleet.new('closed', '--net', 'none');

/** A message to the agent, and its report: nobody can answer what a command asks. */
const says = line => fleet.cage({ timeout: 60_000 }, 'send', 'pod', line, '--wait');

test('field-38 a command that asks or waits for somebody is told that nobody is there, and ends', () => {
    const rows = [
        ['cat; echo over', /^over$/m], ['cat /dev/stdin; echo over', /^over$/m], ['read x; echo "[$x] $?"', /^\[\] 1$/m],
        ['python3; echo over', /^over$/m], ['cat <<EOF\nnever ended', /^never ended$/m], ['sudo -v; echo $?', /^127$/m],
        ['cd /tmp && git init -q asks && cd asks && git -c user.name=a -c user.email=a@b commit --allow-empty; echo "commit $?"', /^commit 1$/m],
        ['git clone https://asks.invalid/x.git /tmp/x; echo "clone $?"', /^clone 128$/m],
        ['readlink /proc/self/fd/0; echo over', /^\/dev\/null\nover$/m],
    ];
    for (const [line, said] of rows) {
        const done = says(line);
        assert.match(done.stdout, said, `${line}: ${done.status} ${done.stderr}`);
    }
});

test('field-38 what stays in the background holds no reply', () => {
    for (const line of ['sleep 300 & echo done', 'eval "$(ssh-agent)" >/dev/null; ssh-add -l; echo done', '(sleep 300; echo late) & disown; echo done']) {
        const began = Date.now();
        const done = says(line);
        assert.match(done.stdout, /^done$/m, `${line}: ${done.stderr}`);
        assert.ok(Date.now() - began < 50_000, line);
    }
});

test('field-45 time zones, characters, shared memory, /proc/self/exe are there', () => {
    const sh = script => fleet.exec('pod', 'sh', '-c', script).stdout;
    assert.equal(sh('TZ=Asia/Tokyo date +%z'), '+0900\n');
    assert.equal(sh('unset LANG LC_ALL LC_CTYPE; python3 -c \'print("é—漢")\''), 'é—漢\n');
    assert.ok(Number(sh('df --output=size -B1 /dev/shm | tail -n 1')) >= 256 << 20);
    assert.match(sh('readlink /proc/self/exe; ls -l /proc/self/exe'), /^\/usr\/bin\/readlink\n.* -> \/usr\/bin\/ls$/m);
});

test('field-45 tools that keep something in a home do, under a root that nothing is written to', () => {
    const script = `set -e
        touch /usr/x 2>/dev/null && exit 9
        mkdir -p /tmp/mod /tmp/app && cd /tmp/mod && printf '{"name":"mod","version":"1.0.0"}' >package.json && npm pack --silent
        cd /tmp/app && npm init -y >/dev/null && npm install --silent --no-audit --no-fund --offline ../mod/mod-1.0.0.tgz && test -f node_modules/mod/package.json
        test -d ~/.npm/_cacache
        mkdir -p /tmp/py && cd /tmp/py && python3 -c '
import zipfile
with zipfile.ZipFile("own-1-py3-none-any.whl", "w") as z:
    z.writestr("own/__init__.py", "")
    z.writestr("own-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: own\\nVersion: 1\\n")
    z.writestr("own-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    z.writestr("own-1.dist-info/RECORD", "")'
        pip install --user --quiet --break-system-packages --no-index ./own-1-py3-none-any.whl >&2
        cd / && python3 -c 'import own; print(own.__file__)'`;
    const done = fleet.exec('closed', 'bash', '-c', script);
    assert.equal(done.status, 0, done.stderr);
    assert.match(done.stdout, /^\/home\/cage\/\.local\/lib\/python3[^/]*\/site-packages\/own\/__init__\.py$/m);
});
