#include "harness/lines.h"

#include <string.h>

enum { KEEP_MAX = 1 << 16 }; /* memory that is kept for the next line */

static void give(struct lines *l, const struct lines_ops *ops, void *ctx) {
    size_t n = l->part.len;
    if (n && l->part.p[n - 1] == '\r')
        l->part.p[--n] = 0;
    if (n)
        ops->line(ctx, l->part.p, n);
    if (l->part.cap > KEEP_MAX)
        buf_free(&l->part);
    else
        buf_clear(&l->part);
}

static void take(struct lines *l, size_t max, const char *p, size_t n) {
    if (!l->skipped && l->part.len + n <= max) {
        buf_add(&l->part, p, n);
        return;
    }
    l->skipped += l->part.len + n;
    buf_free(&l->part);
}

static void end_line(struct lines *l, const struct lines_ops *ops, void *ctx) {
    uint64_t skipped = l->skipped;
    l->skipped = 0;
    if (skipped)
        ops->cut(ctx, skipped);
    else
        give(l, ops, ctx);
}

void lines_add(struct lines *l, size_t max, const char *p, size_t n, const struct lines_ops *ops, void *ctx) {
    while (n) {
        const char *newline = memchr(p, '\n', n);
        size_t len = newline ? (size_t)(newline - p) : n;
        if (len)
            take(l, max, p, len);
        if (!newline)
            return;
        end_line(l, ops, ctx);
        p += len + 1;
        n -= len + 1;
    }
}

void lines_end(struct lines *l, const struct lines_ops *ops, void *ctx) {
    end_line(l, ops, ctx);
}

void lines_free(struct lines *l) {
    buf_free(&l->part);
    l->skipped = 0;
}
