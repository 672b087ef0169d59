#include "cli/chat/complete.h"
#include "base/own.h"
#include "cli/chat/line.h"

#include <string.h>

enum { SHOWN_MAX = 64 };

struct found {
    const char **names;
    size_t n, most;
    size_t common; /* bytes that all share */
};

static void offer(struct found *f, const char *name, const char *word, size_t len) {
    if (strncmp(name, word, len))
        return;
    if (!f->n)
        f->common = strlen(name);
    for (size_t i = 0; f->n && i < f->common; i++)
        if (name[i] != f->names[0][i])
            f->common = i;
    if (f->n < f->most)
        f->names[f->n] = name;
    f->n++;
}

size_t complete_text(const struct chat *c, const char *text, size_t len, struct buf *add, const char **ret,
                     size_t most) {
    struct found f = {.names = ret, .most = most};
    if (!len || text[0] != '/' || !most)
        return 0;
    const char *blank = memchr(text, ' ', len);
    const char *word = blank ? blank + 1 : text + 1;
    size_t n = (size_t)(text + len - word);
    if (memchr(word, ' ', n))
        return 0;
    if (blank)
        for (size_t i = 0; i < c->nagents; i++)
            offer(&f, c->agents[i].name, word, n);
    else
        for (const struct command *k = commands; k->name; k++)
            offer(&f, k->name, word, n);
    if (f.n)
        buf_add(add, f.names[0] + n, f.common - n);
    if (f.n == 1)
        buf_adds(add, " ");
    return f.n;
}

unsigned char complete_line(EditLine *el, int key) {
    (void)key;
    struct line *l;
    el_get(el, EL_CLIENTDATA, &l);
    struct chat *c = line_chat(l);
    const LineInfo *info = el_line(el);
    const char *names[SHOWN_MAX];
    own_buf struct buf add = {0};
    size_t n = complete_text(c, info->buffer, (size_t)(info->cursor - info->buffer), &add, names, SHOWN_MAX);
    if (!n)
        return CC_REFRESH_BEEP;
    if (add.len) {
        el_insertstr(el, buf_text(&add));
        return CC_REFRESH;
    }
    own_buf struct buf all = {0};
    for (size_t i = 0; i < n && i < SHOWN_MAX; i++)
        buf_printf(&all, "%s%s", i ? "  " : "", names[i]);
    buf_adds(&all, "\n");
    chat_show(c, buf_text(&all));
    return CC_REFRESH;
}
