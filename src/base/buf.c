#include "base/buf.h"
#include "base/own.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void room_for(struct buf *b, size_t n) {
    if (b->cap - b->len > n)
        return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap - b->len <= n) {
        if (cap > SIZE_MAX / 2)
            abort();
        cap *= 2;
    }
    b->p = xrealloc(b->p, cap, 1);
    b->cap = cap;
}

void buf_add(struct buf *b, const void *p, size_t n) {
    room_for(b, n);
    if (n)
        memcpy(b->p + b->len, p, n);
    b->len += n;
    b->p[b->len] = 0;
}

void buf_adds(struct buf *b, const char *s) {
    buf_add(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n > 0) {
        room_for(b, (size_t)n);
        vsnprintf(b->p + b->len, b->cap - b->len, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void buf_drop(struct buf *b, size_t n) {
    memmove(b->p, b->p + n, b->len - n);
    b->len -= n;
    b->p[b->len] = 0;
}

void buf_count(struct buf *b, uint64_t n, const char *one, const char *many) {
    buf_printf(b, "%" PRIu64 " %s", n, n == 1 ? one : many);
}

void buf_bytes(struct buf *b, uint64_t amount) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)amount;
    size_t u = 0;
    for (; v >= 1024 && u + 1 < COUNT(units); u++)
        v /= 1024;
    buf_printf(b, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

void buf_clear(struct buf *b) {
    b->len = 0;
    if (b->p)
        b->p[0] = 0;
}

const char *buf_text(const struct buf *b) {
    return b->p ? b->p : "";
}

char *buf_take(struct buf *b) {
    char *p = b->p ? b->p : xstrdup("");
    *b = (struct buf){0};
    return p;
}

void buf_free(struct buf *b) {
    free(b->p);
    *b = (struct buf){0};
}
