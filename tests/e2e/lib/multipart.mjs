// The parts of multipart/form-data as the relay writes it: JSON values, plain strings, and files as { name, bytes }.
export function multipart(body, type) {
    const boundary = Buffer.from(`--${type.match(/boundary=(\S+)/)[1]}`);
    const args = {};
    for (let at = body.indexOf(boundary); at >= 0;) {
        const next = body.indexOf(boundary, at + boundary.length);
        if (next < 0)
            break;
        const part = body.subarray(at + boundary.length + 2, next - 2);
        const head = part.subarray(0, part.indexOf('\r\n\r\n')).toString(), value = part.subarray(part.indexOf('\r\n\r\n') + 4);
        const name = head.match(/ name="([^"]*)"/)[1], file = head.match(/filename="([^"]*)"/);
        args[name] = file ? { name: file[1], bytes: Buffer.from(value) } : /^[[{\d-]|^(true|false)$/.test(value) ? JSON.parse(value) : value.toString();
        at = next;
    }
    return args;
}
