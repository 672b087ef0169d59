#include "agent/excerpt.h"
#include "agent/text.h"

#include <inttypes.h>
#include <string.h>

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static void add_tail(struct excerpt *x, const char *p, size_t n) {
    if (n >= EXCERPT_TAIL) {
        p += n - EXCERPT_TAIL;
        n = EXCERPT_TAIL;
        x->tail_len = 0;
    } else if (x->tail_len + n > sizeof x->tail) {
        memmove(x->tail, x->tail + x->tail_len - EXCERPT_TAIL, EXCERPT_TAIL);
        x->tail_len = EXCERPT_TAIL;
    }
    memcpy(x->tail + x->tail_len, p, n);
    x->tail_len += n;
}

void excerpt_add(struct excerpt *x, const char *p, size_t n) {
    x->total += n;
    size_t first = least(n, EXCERPT_HEAD - x->head_len);
    memcpy(x->head + x->head_len, p, first);
    x->head_len += first;
    if (n > first)
        add_tail(x, p + first, n - first);
}

void excerpt_text(const struct excerpt *x, struct buf *out) {
    size_t tail_len = least(x->tail_len, EXCERPT_TAIL);
    const char *tail = x->tail + x->tail_len - tail_len;
    if (x->total <= EXCERPT_HEAD + EXCERPT_TAIL) { /* a character may lie across the seam */
        char all[EXCERPT_HEAD + EXCERPT_TAIL];
        memcpy(all, x->head, x->head_len);
        memcpy(all + x->head_len, tail, tail_len);
        text_clean(out, all, x->head_len + tail_len);
        return;
    }
    size_t head_len = text_whole(x->head, x->head_len), skip = text_rest(tail, tail_len);
    text_clean(out, x->head, head_len);
    buf_printf(out, "%s[%" PRIu64 " bytes left out]\n", x->head[head_len - 1] == '\n' ? "" : "\n",
               x->total - head_len - (tail_len - skip));
    text_clean(out, tail + skip, tail_len - skip);
}
