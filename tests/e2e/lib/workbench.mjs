// The workbench image in build/images. A test that closes a network, runs as an ordinary person or takes programs away could not
// make it any more, so it is there before a test begins, whichever runs first.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..');

/** Where the workbench image is, or is made: build/images, which may be a link to another tree's. */
export function images() {
    const dir = path.join(top, 'build/images');
    fs.mkdirSync(dir, { recursive: true });
    return fs.realpathSync(dir);
}

/** Makes the image if it is not there, by a sealed run: some minutes then, a second otherwise, and nothing for child processes. */
export function workbench() {
    if (process.env.TEST_WORKBENCH)
        return;
    const root = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-cage-test-'));
    const prefix = 't' + Math.random().toString(36).slice(2, 7);
    const project = path.join(root, 'project');
    try {
        fs.chmodSync(root, 0o755);
        fs.mkdirSync(path.join(root, 'etc/agent-cage'), { recursive: true });
        fs.writeFileSync(path.join(root, 'etc/agent-cage/agent-cage.conf'), `prefix = ${prefix}\nimage_dir = ${images()}\n`);
        fs.mkdirSync(project);
        fs.chownSync(project, 61234, 61234);
        const done = spawnSync(process.env.AGENT_CAGE_BINARY ?? path.join(top, 'build/agent-cage'), ['sealed', project, '--', 'true'], {
            env: { PATH: process.env.PATH, HOME: '/root', AGENT_CAGE_ROOT: root }, cwd: '/', input: '', encoding: 'utf8', timeout: 30 * 60_000 });
        if (done.status !== 0)
            throw new Error(`the workbench image: exit ${done.status ?? done.signal}: ${done.error?.message ?? ''}${done.stderr}`);
    } finally {
        spawnSync(path.join(top, 'scripts/forget-ids'), [prefix]); // the range that the run was lent
        fs.rmSync(root, { recursive: true, force: true });
    }
    process.env.TEST_WORKBENCH = 'made';
}
