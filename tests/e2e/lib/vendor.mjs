// The double of the vendors' models (vendor-double.mjs) beside a fleet, and what it has heard.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { until } from './until.mjs';
import { top } from './workbench.mjs';

/** Podman's own bridge, which is there once a room stands on it. */
export const GATE = '10.88.0.1';

export class Vendor {
    /** Starts it on a port of the bridge; resolves when it listens. It ends with this process. */
    static async start(fleet, port) {
        const vendor = new Vendor(fleet, port);
        await until('the double', 20_000, () => vendor.heard('listening').length);
        return vendor;
    }

    constructor(fleet, port) {
        this.log = fleet.path('double.log');
        const out = fs.openSync(this.log, 'a');
        const child = spawn(process.execPath, [path.join(top, 'tests/e2e/lib/vendor-double.mjs'), GATE, String(port)], { stdio: ['ignore', out, out] });
        fs.closeSync(out);
        child.unref();
        process.once('exit', () => child.kill('SIGKILL'));
    }

    /** What it printed of one kind, oldest first. */
    heard(event) {
        return fs.readFileSync(this.log, 'utf8').split('\n').filter(Boolean).map(l => JSON.parse(l)).filter(e => e.event === event);
    }

    /** The requests of a script, oldest first; with a credential, those that came with it. */
    asked(id, credential = '') {
        return this.heard('request').filter(r => r.id === id && r.credential.includes(credential));
    }
}
