#include "agent/gateway/sift.h"
#include "base/own.h"

#include <stdlib.h>

void needle_init(struct needle *d, struct bytes text) {
    *d = (struct needle){.text = text, .fallback = xcalloc(text.len + 1, sizeof *d->fallback)};
    for (size_t i = 1, k = 0; i < text.len; i++) {
        while (k && text.p[i] != text.p[k])
            k = d->fallback[k - 1];
        k += text.p[i] == text.p[k];
        d->fallback[i] = (uint16_t)k;
    }
}

void needle_free(struct needle *d) {
    free(d->fallback);
    *d = (struct needle){0};
}

static void give_stars(size_t n, sift_fn *give, void *ctx) {
    static const char stars[] = "****************************************************************";
    for (size_t k; n; n -= k) {
        k = n < sizeof stars - 1 ? n : sizeof stars - 1;
        give(ctx, stars, k);
    }
}

/* One byte when some of the needle is held. */
static void step(struct sift *s, const struct needle *d, char c, sift_fn *give, void *ctx) {
    while (s->held && d->text.p[s->held] != c) {
        size_t keep = d->fallback[s->held - 1];
        give(ctx, d->text.p, s->held - keep);
        s->held = keep;
    }
    if (d->text.p[s->held] != c) {
        give(ctx, &c, 1);
        return;
    }
    if (++s->held == d->text.len) {
        s->held = 0;
        s->found++;
        give_stars(d->text.len, give, ctx);
    }
}

/* How many bytes at the end of p[0..n) may be the needle's beginning. */
static size_t tail(const struct needle *d, const char *p, size_t n) {
    size_t k = 0, i = n >= d->text.len ? n - d->text.len + 1 : 0;
    for (; i < n; i++) {
        while (k && d->text.p[k] != p[i])
            k = d->fallback[k - 1];
        k += d->text.p[k] == p[i];
    }
    return k;
}

bool sift_clean(const struct sift *s, const struct needle *d, const char *p, size_t n) {
    return !d->text.len || (!s->held && !memmem(p, n, d->text.p, d->text.len) && !tail(d, p, n));
}

void sift_feed(struct sift *s, const struct needle *d, const char *p, size_t n, sift_fn *give, void *ctx) {
    if (!d->text.len) {
        give(ctx, p, n);
        return;
    }
    size_t i = 0;
    while (i < n && s->held)
        step(s, d, p[i++], give, ctx);
    while (i < n) {
        const char *at = memmem(p + i, n - i, d->text.p, d->text.len);
        size_t plain = at ? (size_t)(at - p) - i : n - i;
        size_t held = at ? 0 : tail(d, p + i, plain);
        if (plain - held)
            give(ctx, p + i, plain - held);
        i += plain;
        s->held = held;
        if (!at)
            return;
        s->found++;
        give_stars(d->text.len, give, ctx);
        i += d->text.len;
    }
}

void sift_end(struct sift *s, const struct needle *d, sift_fn *give, void *ctx) {
    if (s->held)
        give(ctx, d->text.p, s->held);
    s->held = 0;
}
