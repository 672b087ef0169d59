#include "cli/chat/chat.h"
#include "base/escape.h"
#include "base/own.h"
#include "cli/chat/line.h"
#include "cli/self.h"

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
    own_buf struct buf hints = {0}, safe = {0};
    self_hints(&hints, owned);
    escape_text(&safe, ESCAPE_TEXT, buf_text(&hints), hints.len);
    buf_adds(&safe, "\n");
    chat_show(c, buf_text(&safe));
}

bool chat_failed(struct chat *c, const struct msg *m) {
    if (m->type != MSG_relay_end || !m->relay_end.status)
        return false;
    own_buf struct buf hints = {0}, safe = {0}, out = {0};
    self_hints(&hints, m->relay_end.text.p);
    buf_adds(&safe, "▪ ");
    escape_text(&safe, ESCAPE_LINE, buf_text(&hints), hints.len);
    render_in(&c->render, &out, "31", buf_text(&safe));
    buf_adds(&out, "\n");
    chat_show(c, buf_text(&out));
    return true;
}
