#include "cli/quote.h"
#include "base/escape.h"

#include <stdbool.h>

static bool plain(struct bytes w) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    return w.len && strspn(w.p, safe) == w.len;
}

/* Does escaping leave it as it is? */
static bool printable(struct bytes w) {
    own_buf struct buf b = {0};
    escape_text(&b, ESCAPE_LINE, w.p, w.len);
    return b.len == w.len && (!w.len || !memcmp(b.p, w.p, w.len));
}

static void single(struct buf *out, struct bytes w) {
    buf_adds(out, "'");
    for (size_t i = 0; i < w.len; i++)
        if (w.p[i] == '\'')
            buf_adds(out, "'\\''");
        else
            buf_add(out, w.p + i, 1);
    buf_adds(out, "'");
}

static void ansi(struct buf *out, struct bytes w) {
    buf_adds(out, "$'");
    for (size_t i = 0; i < w.len; i++) {
        unsigned char c = (unsigned char)w.p[i];
        if (c == '\n')
            buf_adds(out, "\\n");
        else if (c == '\t')
            buf_adds(out, "\\t");
        else if (c == '\'' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            buf_printf(out, "\\%03o", c); /* three digits: a digit that follows is not taken for one of it */
        else
            buf_add(out, &c, 1);
    }
    buf_adds(out, "'");
}

void quote_argv(struct buf *out, struct list argv) {
    for (size_t i = 0; i < argv.n; i++) {
        if (i)
            buf_adds(out, " ");
        if (plain(argv.v[i]))
            buf_add(out, argv.v[i].p, argv.v[i].len);
        else if (printable(argv.v[i]))
            single(out, argv.v[i]);
        else
            ansi(out, argv.v[i]);
    }
}
