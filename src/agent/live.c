#include "agent/live.h"
#include "agent/text.h"
#include "base/clock.h"
#include "base/own.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The count in front of a piece has its room in LIVE_MAX too. */
enum { PIECE_MAX = LIVE_MAX - 64 };

struct live {
    void (*say)(void *ctx, const char *text, size_t len);
    void *ctx;
    struct event *timer;
    int64_t said_ns;
    uint64_t left_out;
    size_t len;
    char newest[PIECE_MAX];
};

/* Says all but the bytes of a character that is not whole yet. */
static void say(struct live *l) {
    size_t len = text_whole(l->newest, l->len);
    own_buf struct buf clean = {0}, piece = {0};
    text_clean(&clean, l->newest, len);
    size_t skip = clean.len > PIECE_MAX ? clean.len - PIECE_MAX : 0;
    skip += skip ? text_rest(clean.p + skip, clean.len - skip) : 0;
    if (l->left_out || skip)
        buf_printf(&piece, "[%" PRIu64 " bytes left out]\n", l->left_out + skip);
    if (clean.len)
        buf_add(&piece, clean.p + skip, clean.len - skip);
    memmove(l->newest, l->newest + len, l->len - len);
    l->len -= len;
    l->left_out = 0;
    l->said_ns = clock_mono_ns();
    if (piece.len)
        l->say(l->ctx, piece.p, piece.len);
}

static void on_timer(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    say(arg);
}

struct live *live_new(struct event_base *base, void (*fn)(void *ctx, const char *text, size_t len),
                      void *ctx) {
    struct live *l = xcalloc(1, sizeof *l);
    *l = (struct live){.say = fn, .ctx = ctx, .said_ns = INT64_MIN / 2};
    l->timer = event_new(base, -1, 0, on_timer, l);
    return l;
}

static void keep_newest(struct live *l, const char *p, size_t n) {
    size_t all = l->len + n, over = all > PIECE_MAX ? all - PIECE_MAX : 0;
    l->left_out += over;
    size_t old = over < l->len ? over : l->len; /* what goes of the older bytes, the rest of the new ones */
    memmove(l->newest, l->newest + old, l->len - old);
    l->len -= old;
    p += over - old;
    n -= over - old;
    memcpy(l->newest + l->len, p, n);
    l->len += n;
    if (over) {
        size_t rest = text_rest(l->newest, l->len);
        memmove(l->newest, l->newest + rest, l->len - rest);
        l->len -= rest;
        l->left_out += rest;
    }
}

void live_add(struct live *l, const char *p, size_t n) {
    keep_newest(l, p, n);
    if (event_pending(l->timer, EV_TIMEOUT, NULL))
        return;
    int64_t wait_ms = LIVE_EVERY_MS - (clock_mono_ns() - l->said_ns) / 1000000;
    if (wait_ms <= 0) {
        say(l);
        return;
    }
    struct timeval tv = {wait_ms / 1000, wait_ms % 1000 * 1000};
    event_add(l->timer, &tv);
}

void live_end(struct live *l) {
    event_del(l->timer);
    l->len = 0;
    l->left_out = 0;
}

void live_free(struct live *l) {
    if (!l)
        return;
    event_free(l->timer);
    free(l);
}
