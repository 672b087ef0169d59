#include "agent/gateway/conn.h"
#include "base/log.h"
#include "base/own.h"

#include <errno.h>
#include <event2/buffer.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

enum {
    STUCK_S = 120, /* a peer that takes nothing of what is queued for it */
    LEAVE_S = 30,
    BURST = 64 * 1024, /* bytes of one read or write */
    TLS_TEXT = 16384,  /* of one record: libevent reads one at a time, and sets aside what it may read */
};

static void no_delay(struct bufferevent *b) {
    int one = 1;
    (void)!setsockopt(bufferevent_getfd(b), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void set_up_buffers(struct bufferevent *b, const struct gateway *g) {
    struct timeval r = {(time_t)(g->silence_ms / 1000), (suseconds_t)(g->silence_ms % 1000) * 1000},
                   w = {STUCK_S, 0};
    bufferevent_set_timeouts(b, &r, &w);
    bufferevent_setwatermark(b, EV_READ, 0, GATEWAY_WINDOW);
    bufferevent_setwatermark(b, EV_WRITE, GATEWAY_WINDOW / 2, 0);
    bufferevent_set_max_single_read(b, BURST);
    bufferevent_set_max_single_write(b, BURST);
}

static void wait_at_most(struct conn *c, int seconds) {
    event_add(c->deadline, &(struct timeval){seconds, 0});
}

/* ---- the upstream ---- */

void conn_drop_up(struct conn *c) {
    dial_stop(TAKE(c->dial));
    if (c->up)
        bufferevent_free(TAKE(c->up));
    c->up_ended = false;
}

static void on_up_read(struct bufferevent *b, void *arg) {
    (void)b;
    struct conn *c = arg;
    if (c->state == CONN_AWAIT) /* it says something unasked: no request may be answered with that */
        conn_drop_up(c);
    else
        conn_go(c);
}

static void on_written(struct bufferevent *b, void *arg) {
    (void)b;
    conn_go(arg);
}

static void on_up_event(struct bufferevent *b, short what, void *arg) {
    (void)b;
    struct conn *c = arg;
    if (c->state != CONN_PASS)
        conn_drop_up(c);
    else if (what & BEV_EVENT_TIMEOUT && !c->answering) {
        conn_drop_up(c);
        conn_fail(c, GATE_TOO_SLOW, "the model's API did not answer in time");
    } else {
        c->up_ended = true;
        conn_go(c);
    }
}

static void on_dialled(void *ctx, struct bufferevent *b) {
    struct conn *c = ctx;
    c->dial = NULL;
    c->up = b;
    bufferevent_setcb(b, on_up_read, on_written, on_up_event, c);
    c->state = CONN_PASS;
    bufferevent_write_buffer(c->up, c->head);
    conn_go(c);
}

static void on_not_dialled(void *ctx, const char *why_not) {
    struct conn *c = ctx;
    c->dial = NULL;
    char why[sizeof c->why];
    snprintf(why, sizeof why, "the model's API at %.80s:%u cannot be reached: %.120s", c->g->upstream.host,
             c->g->upstream.port, why_not);
    log_warn("%s", why);
    conn_fail(c, GATE_NO_UPSTREAM, why);
}

static void dress_up(void *ctx, struct bufferevent *b) {
    const struct conn *c = ctx;
    set_up_buffers(b, c->g);
    if (c->g->upstream.tls)
        bufferevent_set_max_single_read(b, TLS_TEXT);
}

static const struct dial_ops dial_ops = {on_dialled, on_not_dialled, dress_up};

void conn_connect(struct conn *c) {
    if (c->up) {
        c->state = CONN_PASS;
        bufferevent_write_buffer(c->up, c->head);
        return;
    }
    c->state = CONN_CONNECT;
    conn_drop_up(c);
    c->dial = dial_start(c->g->dialer, &c->g->upstream, &dial_ops, c);
}

/* ---- the harness's side ---- */

/* Closing happens here alone, and in what is called from the loop: whoever else holds c may go on using it. */
static void on_kick(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct conn *c = arg;
    bool gone = !c->down || !evbuffer_get_length(bufferevent_get_output(c->down));
    if (c->state == CONN_LEAVE && gone)
        conn_close(c);
    else
        conn_go(c);
}

static void on_flush(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    conn_flush(arg);
}

void conn_flush_soon(struct conn *c) {
    if (evbuffer_get_length(c->piece))
        event_add(c->flush, &(struct timeval){0, 0});
}

static void kick(struct conn *c) {
    event_active(c->kick, EV_TIMEOUT, 0);
}

void conn_leave(struct conn *c) {
    conn_drop_up(c);
    c->state = CONN_LEAVE;
    bufferevent_setwatermark(c->down, EV_WRITE, 0, 0);
    bufferevent_disable(c->down, EV_READ);
    wait_at_most(c, LEAVE_S);
    kick(c);
}

void conn_give_down(struct conn *c) {
    c->down = NULL;
    c->state = CONN_LEAVE;
    kick(c);
}

void conn_done(struct conn *c) {
    if (!c->request.over || c->close_down) { /* not over: where the next request begins is not known */
        conn_leave(c);
        return;
    }
    if (c->close_up || c->up_ended)
        conn_drop_up(c);
    c->state = CONN_AWAIT;
    c->answering = c->scanning = c->counted = c->close_up = false;
    c->refusal = GATE_ERRORS;
    secret_drop(TAKE(c->secret));
    event_del(c->deadline);
}

void conn_fail(struct conn *c, enum gate_error what, const char *why) {
    c->refusal = what;
    snprintf(c->why, sizeof c->why, "%s", why);
    c->state = CONN_REFUSE;
    event_del(c->deadline);
    kick(c);
}

static void on_down_read(struct bufferevent *b, void *arg) {
    (void)b;
    conn_go(arg);
}

static void on_down_written(struct bufferevent *b, void *arg) {
    struct conn *c = arg;
    if (c->state == CONN_LEAVE && !evbuffer_get_length(bufferevent_get_output(b)))
        conn_close(c);
    else
        conn_go(c);
}

static void on_down_event(struct bufferevent *b, short what, void *arg) {
    struct conn *c = arg;
    bool only_quiet = what & BEV_EVENT_TIMEOUT && what & BEV_EVENT_READING && c->state != CONN_AWAIT;
    if (only_quiet) /* it has nothing to say while it hears an answer */
        bufferevent_enable(b, EV_READ);
    else
        conn_close(c);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    conn_close(arg);
}

void conn_open(struct gateway *g, int fd) {
    struct conn *c = xcalloc(1, sizeof *c);
    *c = (struct conn){.g = g, .next = g->conns, .at = &g->conns, .refusal = GATE_ERRORS};
    if (c->next)
        c->next->at = &c->next;
    g->conns = c;
    g->nconns++;
    c->head = evbuffer_new();
    c->piece = evbuffer_new();
    c->deadline = event_new(g->base, -1, 0, on_deadline, c);
    c->kick = event_new(g->base, -1, 0, on_kick, c);
    c->flush = event_new(g->base, -1, 0, on_flush, c);
    c->down = bufferevent_socket_new(g->base, fd, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    no_delay(c->down);
    bufferevent_setcb(c->down, on_down_read, on_down_written, on_down_event, c);
    set_up_buffers(c->down, g);
    bufferevent_enable(c->down, EV_READ | EV_WRITE);
}

void conn_close(struct conn *c) {
    struct gateway *g = c->g;
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    g->nconns--;
    conn_drop_up(c);
    if (c->down)
        bufferevent_free(c->down);
    evbuffer_free(c->head);
    evbuffer_free(c->piece);
    event_free(c->deadline);
    event_free(c->kick);
    event_free(c->flush);
    secret_drop(c->secret);
    free(c);
    gateway_room(g);
}
