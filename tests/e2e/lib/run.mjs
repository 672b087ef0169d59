// run.mjs FILE…: runs test files one after the other, prints one line a test, and adds the counts to $TEST_COUNTS.
// A test that is skipped was not judged, which .ci/run does not forgive.
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { run } from 'node:test';
import { workbench } from './workbench.mjs';

const files = process.argv.slice(2).map(f => path.resolve(f));
const count = { green: 0, red: 0, 'not judged': 0 };
const failures = [];

const isFile = name => files.includes(path.resolve(name));
const span = ms => ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms)} ms`;

function tell(word, data, note = '') {
    console.log(`${word.padEnd(10)} ${path.basename(data.file ?? '', '.mjs').padEnd(12)} ${data.name} (${span(data.details?.duration_ms ?? 0)})${note}`);
}

function onPass(data) {
    if (isFile(data.name) || data.details?.type === 'suite')
        return;
    const notJudged = data.skip !== undefined || data.todo !== undefined;
    count[notJudged ? 'not judged' : 'green']++;
    tell(notJudged ? 'not judged' : 'green', data, notJudged ? ` ${data.skip || data.todo}` : '');
}

function onFail(data) {
    const why = data.details?.error;
    // A suite or file that fails only because of its own tests says nothing new.
    if (why?.failureType === 'subtestsFailed')
        return;
    count.red++;
    tell('red', data);
    failures.push([data, why]);
}

workbench();
const stream = run({ files, concurrency: 1, timeout: 45 * 60_000 });
stream.on('test:pass', onPass);
stream.on('test:fail', onFail);
stream.on('test:stderr', data => process.stderr.write(data.message));
stream.resume();
await once(stream, 'end');
for (const [data, why] of failures) {
    console.log(`\nred: ${path.basename(data.file ?? '')}: ${data.name}`);
    console.log(String(why?.cause?.stack ?? why?.cause ?? why?.stack ?? why).split('\n').slice(0, 40).join('\n'));
}
const judged = count.green + count.red;
console.log(`\njudged ${judged}, green ${count.green}, red ${count.red}, not judged ${count['not judged']}`);
if (process.env.TEST_COUNTS)
    fs.appendFileSync(process.env.TEST_COUNTS, `${count.green} ${count.red} ${count['not judged']}\n`);
process.exitCode = count.red || !judged ? 1 : 0;
