// gateway-api.mjs ADDRESS PORT KEY CERT: a model's API over TLS for the benchmark: a small answer, or 96 MiB of events.
import fs from 'node:fs';
import https from 'node:https';

const [address, port, key, cert] = process.argv.slice(2);
const text = 'x'.repeat(4000), event = `event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"${text}"}}\n\n`;
const start = 'event: message_start\ndata: {"type":"message_start","message":{"model":"m","usage":{"input_tokens":1}}}\n\n';
https.createServer({ key: fs.readFileSync(key), cert: fs.readFileSync(cert) }, (request, answer) => {
    request.resume().on('end', () => {
        answer.writeHead(200, { 'content-type': 'text/event-stream' });
        answer.write(start);
        if (request.url.endsWith('small'))
            return answer.end(event);
        const block = event.repeat(16);
        let left = (96 << 20) / block.length;
        const more = () => {
            while (left-- > 0)
                if (!answer.write(block))
                    return answer.once('drain', more);
            answer.end();
        };
        more();
    });
}).listen(Number(port), address, () => console.log('listening'));
