#include "agent/gateway/tunnel.h"
#include "base/log.h"
#include "base/own.h"

#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

enum { TUNNELS_MAX = 16, SILENT_S = 120 };

struct tunnel {
    struct gateway *g;
    struct tunnel *next, **at;
    struct upstream to;
    struct bufferevent *down, *up; /* up: NULL until it is connected */
    struct dial *dial;
    bool ended; /* one side is over: what came goes out, then it is closed */
};

static void close_tunnel(struct tunnel *t) {
    *t->at = t->next;
    if (t->next)
        t->next->at = t->at;
    t->g->ntunnels--;
    dial_stop(t->dial);
    bufferevent_free(t->down);
    if (t->up)
        bufferevent_free(t->up);
    free(t);
}

static struct bufferevent *other(const struct tunnel *t, const struct bufferevent *b) {
    return b == t->down ? t->up : t->down;
}

static void on_read(struct bufferevent *b, void *arg) {
    struct bufferevent *to = other(arg, b);
    if (!to) /* not connected yet: it waits, GATEWAY_WINDOW at most */
        return;
    bufferevent_write_buffer(to, bufferevent_get_input(b));
    if (evbuffer_get_length(bufferevent_get_output(to)) >= GATEWAY_WINDOW)
        bufferevent_disable(b, EV_READ);
}

static void on_written(struct bufferevent *b, void *arg) {
    struct tunnel *t = arg;
    struct bufferevent *from = other(t, b);
    if (t->ended && !evbuffer_get_length(bufferevent_get_output(b)))
        close_tunnel(t);
    else if (from && !t->ended)
        bufferevent_enable(from, EV_READ);
}

static void on_event(struct bufferevent *b, short what, void *arg) {
    (void)what;
    struct tunnel *t = arg;
    struct bufferevent *to = other(t, b);
    t->ended = true;
    if (!to || !evbuffer_get_length(bufferevent_get_output(to)))
        close_tunnel(t);
    else
        bufferevent_setwatermark(to, EV_WRITE, 0, 0);
}

static void dress(void *ctx, struct bufferevent *b) {
    (void)ctx;
    struct timeval silent = {SILENT_S, 0};
    bufferevent_set_timeouts(b, &silent, &silent);
    bufferevent_setwatermark(b, EV_READ, 0, GATEWAY_WINDOW);
    bufferevent_setwatermark(b, EV_WRITE, GATEWAY_WINDOW / 2, 0);
}

static void on_up(void *ctx, struct bufferevent *b) {
    struct tunnel *t = ctx;
    t->dial = NULL;
    t->up = b;
    bufferevent_setcb(b, on_read, on_written, on_event, t);
    bufferevent_write(t->down, "HTTP/1.1 200 OK\r\n\r\n", 19);
    on_read(t->down, t);
}

static void on_fail(void *ctx, const char *why) {
    struct tunnel *t = ctx;
    t->dial = NULL;
    log_warn("the log-in's host %s:%u cannot be reached: %s", t->to.host, t->to.port, why);
    bufferevent_write(t->down, "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n", 47);
    t->ended = true;
    bufferevent_setwatermark(t->down, EV_WRITE, 0, 0);
}

static const struct dial_ops dial_ops = {on_up, on_fail, dress};

static bool is_listed(const struct gateway *g, struct bytes target) {
    for (const char *const *host = g->tunnel_hosts; host && *host; host++)
        if (strlen(*host) == target.len && !memcmp(*host, target.p, target.len))
            return true;
    return false;
}

bool tunnel_open(struct gateway *g, struct bufferevent *down, struct bytes target) {
    own_free char *url = xasprintf("https://%.*s", (int)target.len, target.p);
    struct upstream to;
    own_err err_t bad = is_listed(g, target) && g->ntunnels < TUNNELS_MAX ? upstream_of(url, &to) : NULL;
    if (!is_listed(g, target) || g->ntunnels >= TUNNELS_MAX || bad)
        return false;
    to.tls = false; /* the program's own TLS goes through */
    struct tunnel *t = xcalloc(1, sizeof *t);
    *t = (struct tunnel){.g = g, .next = g->tunnels, .at = &g->tunnels, .to = to, .down = down};
    if (t->next)
        t->next->at = &t->next;
    g->tunnels = t;
    g->ntunnels++;
    bufferevent_setcb(down, on_read, on_written, on_event, t);
    dress(NULL, down);
    bufferevent_enable(down, EV_READ | EV_WRITE);
    t->dial = dial_start(g->dialer, &t->to, &dial_ops, t);
    return true;
}

void tunnels_close(struct gateway *g) {
    while (g->tunnels)
        close_tunnel(g->tunnels);
}
