#include "cli/chat/chat.h"
#include "base/escape.h"
#include "base/own.h"
#include "cli/chat/line.h"

#include <stdarg.h>
#include <stdio.h>

void chat_show(struct chat *c, const char *text) {
    if (!*text)
        return;
    line_away(c->line);
    fputs(text, stdout);
    line_back(c->line);
}

void chat_tell(struct chat *c, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *text = NULL;
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    own_free char *owned = text;
    own_buf struct buf safe = {0};
    escape_text(&safe, ESCAPE_TEXT, owned, (size_t)n);
    buf_adds(&safe, "\n");
    chat_show(c, buf_text(&safe));
}

bool chat_failed(struct chat *c, const struct msg *m) {
    if (m->type != MSG_relay_end || !m->relay_end.status)
        return false;
    own_buf struct buf safe = {0}, out = {0};
    buf_adds(&safe, "▪ ");
    escape_text(&safe, ESCAPE_LINE, m->relay_end.text.p, m->relay_end.text.len);
    render_in(&c->render, &out, "31", buf_text(&safe));
    buf_adds(&out, "\n");
    chat_show(c, buf_text(&out));
    return true;
}
