// Waiting for something to become true, with a deadline: the one place in the tests where time passes by itself.
import { setTimeout as pause } from 'node:timers/promises';

/** For faults at random moments, never for waiting until something is so. */
export { pause };

/** Asks `condition` again and again until it gives something true, and gives that; throws at the deadline. */
export async function until(what, deadlineMs, condition) {
    const end = process.hrtime.bigint() + BigInt(deadlineMs) * 1_000_000n;
    for (let wait = 5; ; wait = Math.min(wait * 2, 100)) {
        const value = await condition();
        if (value)
            return value;
        if (process.hrtime.bigint() > end)
            throw new Error(`waited ${deadlineMs} ms in vain for ${what}`);
        await pause(wait);
    }
}

/** The promise's value, or an error at the deadline. */
export function within(what, deadlineMs, promise) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`waited ${deadlineMs} ms in vain for ${what}`)), deadlineMs);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** What a child printed from now on, and how it ended or will. */
export function ended(child, deadlineMs = 60_000) {
    const gone = (child.exitCode ?? child.signalCode) !== null && [child.stdout, child.stderr].every(s => !s || s.closed);
    if (gone)
        return Promise.resolve({ status: child.exitCode, signal: child.signalCode, stdout: '', stderr: '' });
    const out = [], err = [];
    child.stdout?.on('data', d => out.push(d));
    child.stderr?.on('data', d => err.push(d));
    return within('a child to end', deadlineMs, new Promise((resolve, reject) => {
        child.once('error', reject);
        child.once('close', (status, signal) => resolve({ status, signal, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() }));
    })).catch(e => { child.kill('SIGKILL'); throw e; });
}
