// The project folder: what a room makes belongs to the project's owner, whatever umask, mode or program made it.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { Fleet } from './lib/fleet.mjs';
import { inRoom } from './lib/room.mjs';

const fleet = await Fleet.start();

/** The agents, each on a folder of another owner; `deep` below a folder that only its owner may enter. */
const owners = { plain: 61001, high: 2_000_000, root: 0 };
const folder = name => fleet.path('people', name, 'project');
for (const [name, uid] of Object.entries(owners)) {
    fs.mkdirSync(folder(name), { recursive: true });
    fs.chownSync(path.dirname(folder(name)), uid, uid);
    fs.chmodSync(path.dirname(folder(name)), 0o700);
    fs.chownSync(folder(name), uid, uid);
    fs.chmodSync(folder(name), 0o700);
    fleet.new(name, '--project', folder(name));
}
fs.mkdirSync(fleet.path('bare-project'));
fs.chownSync(fleet.path('bare-project'), 61002, 61002);
fleet.new('bare', '--mode', 'bare', '--project', fleet.path('bare-project'));
owners.bare = 61002;
const place = name => name === 'bare' ? fleet.path('bare-project') : folder(name);

const asOwner = (uid, ...command) => spawnSync('setpriv', [`--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', ...command], { encoding: 'utf8' });
const harnessWrites = (name, script) => inRoom(fleet, 'harness', name, ['/usr/bin/python3', '-c', script]);
const projectIn = name => name === 'bare' ? fleet.path('run/agent-cage/mnt/bare/project') : '/project';

function allBelongTo(uid, dir) {
    const done = spawnSync('find', [dir, '-xdev', '(', '-not', '-uid', String(uid), '-o', '-not', '-gid', String(uid), ')'], { encoding: 'utf8' });
    assert.equal(done.stdout, '');
}

for (const [name, uid] of Object.entries(owners)) {
    test(`${name} (owner ${uid}): what executor and harness make is the owner's, and each can use the others'`, () => {
        const p = projectIn(name);
        assert.equal(fleet.sh(name, `cd ${p} && umask 077 && mkdir -p x && echo x >x/file && chmod 600 x/file`).status, 0);
        const h = harnessWrites(name, `import os; os.umask(0o77); os.makedirs("${p}/h"); open("${p}/h/file", "w").write("h"); print(open("${p}/x/file").read())`);
        assert.equal(h.status, 0, h.stderr);
        assert.equal(h.stdout.trim(), 'x');
        allBelongTo(uid, place(name));
        const own = asOwner(uid, 'sh', '-c', `cd ${place(name)} && cat x/file h/file && mkdir -m 700 o && echo o >o/file && chmod 600 o/file`);
        assert.equal(own.status, 0, own.stderr);
        assert.equal(own.stdout, 'x\nh');
        assert.equal(fleet.sh(name, `cat ${p}/o/file ${p}/h/file`).stdout.replace(/\s/g, ''), 'oh');
        const read = harnessWrites(name, `print(open("${p}/o/file").read())`);
        assert.equal(read.stdout.trim(), 'o', read.stderr);
        assert.equal(fleet.sh(name, `rm -r ${p}/o ${p}/h ${p}/x`).status, 0);
    });

    test(`${name}: modes are kept as they were set`, () => {
        const p = projectIn(name);
        for (const mode of ['600', '700', '644', '755', '000', '444']) {
            assert.equal(fleet.sh(name, `cd ${p} && rm -f m && echo m >m && chmod ${mode} m && stat -c %a m`).stdout.trim().replace(/^0$/, '000'), mode);
            assert.equal((fs.statSync(path.join(place(name), 'm')).mode & 0o7777).toString(8).padStart(3, '0'), mode);
        }
    });

    test(`${name}: set-uid and set-gid are refused and appear nowhere`, () => {
        const p = projectIn(name);
        const done = fleet.sh(name, `cd ${p} && rm -f s && cp /bin/true s; chmod 4755 s; chmod 2755 s; install -m 4755 /bin/true s2; ls -l s`);
        assert.equal(done.stdout.startsWith('-rwxr-xr-x') || done.stdout.startsWith('-rwx'), true, done.stdout);
        const found = spawnSync('find', [place(name), '-perm', '/6000'], { encoding: 'utf8' });
        assert.equal(found.stdout, '');
    });

    test(`${name}: an archive with set-uid and set-gid programs, made outside, gives none`, () => {
        const p = projectIn(name), made = fleet.path(`made-${name}`);
        fs.mkdirSync(made);
        for (const [file, mode] of [['suid', 0o4755], ['sgid', 0o2755], ['plain', 0o755]]) {
            fs.copyFileSync('/bin/true', path.join(made, file));
            fs.chmodSync(path.join(made, file), mode);
        }
        const tar = path.join(place(name), 'made.tar');
        assert.equal(spawnSync('tar', ['-cf', tar, '-C', made, 'suid', 'sgid', 'plain']).status, 0);
        assert.match(spawnSync('tar', ['-tvf', tar], { encoding: 'utf8' }).stdout, /^-rwsr-xr-x .* suid$[^]*^-rwxr-sr-x .* sgid$/m);
        fs.chownSync(tar, uid, uid);
        const done = fleet.sh(name, `cd ${p} && mkdir un && tar -xpf made.tar -C un; s=$?; ls un; exit $s`);
        assert.notEqual(done.status, 0, 'tar is told that the modes were refused');
        assert.match(done.stderr, /suid: Cannot change mode|suid: Cannot open/);
        assert.match(done.stdout, /^plain$/m);
        assert.equal(spawnSync('find', [place(name), '-perm', '/6000'], { encoding: 'utf8' }).stdout, '');
        assert.equal(fleet.sh(name, `rm -r ${p}/un ${p}/made.tar`).status, 0);
    });

    test(`${name}: git checkout, tar -xp, npm install leave files of the owner alone`, () => {
        const p = projectIn(name);
        const script = `set -e; cd ${p}; rm -rf work; mkdir work; cd work; git init -q r; cd r; git config user.email a@example.org; git config user.name a;
            echo '#!/bin/sh' >run; chmod 755 run; git add run; git commit -qm 1; git checkout -qb other; rm run; git commit -qam 2; git checkout -q -; test -x run;
            tar -cpf ../t.tar run; mkdir ../t; tar -xpf ../t.tar -C ../t; test -x ../t/run`;
        const done = fleet.sh(name, script);
        assert.equal(done.status, 0, done.stderr);
        // The workbench has npm; a bare agent has what this host has.
        const host = spawnSync('sh', ['-c', 'command -v npm']).status === 0;
        if (name !== 'bare' || host) {
            assert.equal(fleet.sh(name, 'command -v npm').status, 0, 'there is no npm');
            const npm = fleet.sh(name, `set -e; cd ${p}/work; mkdir -p pkg/bin; echo '{"name":"tiny","version":"1.0.0","bin":{"tiny":"bin/t.js"}}' >pkg/package.json;
                printf '#!/usr/bin/env node\\nconsole.log(42)\\n' >pkg/bin/t.js; mkdir app; cd app; echo '{"name":"app","version":"1.0.0"}' >package.json;
                npm install --offline --no-audit --no-fund ../pkg >/dev/null && ./node_modules/.bin/tiny`);
            assert.equal(npm.stdout.trim(), '42', npm.stderr);
        }
        allBelongTo(uid, place(name));
    });

    test(`${name}: a command that does nothing leaves the project byte-identical`, () => {
        const picture = () => spawnSync('sh', ['-c', `cd "${place(name)}" && find . -printf '%p %m %U:%G %s %T@ %l\\n' | sort; find . -type f -exec sha256sum {} + | sort`], { encoding: 'utf8' }).stdout;
        const before = picture();
        assert.equal(fleet.exec(name, 'true').status, 0);
        fleet.must('send', name, 'true', '--wait');
        assert.equal(picture(), before);
    });
}

test('a project owned by root is a warning', () => {
    fs.mkdirSync(fleet.path('root-owned'));
    const made = fleet.must({ timeout: 120_000 }, 'new', 'rooted', '--project', fleet.path('root-owned'));
    assert.match(made.stdout + made.stderr, /root/);
});

test('a project that another agent has already is said, whatever its spelling', () => {
    const place = fleet.path('shared-folder'), link = fleet.path('way');
    fs.mkdirSync(place);
    fs.chownSync(place, 61003, 61003);
    assert.doesNotMatch(fleet.must({ timeout: 120_000 }, 'new', 'first', '--project', place).stderr, /too: each/);
    fs.symlinkSync(place, link);
    for (const [name, spelling] of [['second', `${place}/../shared-folder/`], ['third', link]]) // the command line makes it whole
        assert.match(fleet.must({ timeout: 120_000 }, 'new', name, '--project', spelling).stderr, /^note: first has this project too: /m);
    for (const name of ['first', 'second', 'third'])
        fleet.must({ timeout: 60_000 }, 'rm', name);
});

test('the project stays when the agent goes', () => {
    fleet.must('rm', 'plain');
    assert.ok(fs.existsSync(folder('plain')));
    assert.ok(!fs.existsSync(fleet.path('var/lib/agent-cage/agents/plain')));
});
