/*
 *   state     means                                        ends with
 *   AT_REST   no request; the connection, if any, is kept   http_client_ask(): AT_DIAL or AT_HEAD
 *   AT_DIAL   the connection is being made                  it stands: AT_HEAD; it does not: UNSENT
 *   AT_HEAD   the request is out, nothing came              a whole head: AT_BODY; an end: CUT
 *   AT_BODY   the answer comes                              its end: ANSWERED; its bound: TOO_BIG; a cut: CUT
 */
#include "http/client.h"
#include "base/own.h"
#include "http/body.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

enum state { AT_REST, AT_DIAL, AT_HEAD, AT_BODY };
enum { STUCK_S = 60 };

struct http_client {
    struct event_base *base;
    struct dialer *dialer;
    const struct upstream *to;
    enum state state;
    struct dial *dial;
    struct bufferevent *b;
    struct event *deadline;
    struct evbuffer *request;
    size_t answer_max;
    int wait_s;
    http_fn *on_end;
    void *ctx;
    struct buf answer;
    struct body body;
    unsigned status;
    bool close; /* the connection ends with this answer */

    const struct http_flow *flow;
    bool flowing, putting; /* the 200 of http_client_fetch() came; http_client_post() until its end */
};

/* It may hold a credential. */
static void clear(struct buf *b) {
    if (b->p)
        explicit_bzero(b->p, b->cap);
    buf_free(b);
}

static void hang_up(struct http_client *c) {
    dial_stop(TAKE(c->dial));
    if (c->b)
        bufferevent_free(TAKE(c->b));
}

/* The request is over. The callee may ask again or free the client. */
static void end(struct http_client *c, enum http_end how, const char *why) {
    bool more = c->b && evbuffer_get_length(bufferevent_get_input(c->b)); /* of an answer to nothing */
    if (how != HTTP_ANSWERED || c->close || more || c->putting)
        hang_up(c);
    http_client_hold(c, false);
    c->state = AT_REST;
    c->flow = NULL;
    c->flowing = c->putting = false;
    event_del(c->deadline);
    evbuffer_drain(c->request, evbuffer_get_length(c->request));
    struct buf body = c->answer;
    c->answer = (struct buf){0};
    struct http_answer a = {how, c->status, {buf_text(&body), body.len}, why};
    c->on_end(c->ctx, &a);
    clear(&body);
}

static void wait_on(struct http_client *c) {
    event_add(c->deadline, &(struct timeval){c->wait_s, 0});
}

static void send_it(struct http_client *c) {
    c->state = AT_HEAD;
    wait_on(c);
    bufferevent_write_buffer(c->b, c->request);
}

/* NULL: go on. */
static const char *begin_body(struct http_client *c, const struct head *h) {
    body_begin(&c->body, h->framing, h->length);
    if (!c->flow || !c->flow->begin || c->status != 200)
        return NULL;
    c->flowing = true;
    return c->flow->begin(c->flow->ctx, h->framing == FRAMING_LENGTH ? h->length
                                        : h->framing == FRAMING_NONE ? 0
                                                                     : UINT64_MAX);
}

enum taken { NOT_YET, TAKEN, OVER }; /* over: c may be gone */

/* Takes the answer's head when it is whole. */
static enum taken take_head(struct http_client *c) {
    struct evbuffer *in = bufferevent_get_input(c->b);
    for (;;) {
        struct evbuffer_ptr at = evbuffer_search(in, "\r\n\r\n", 4, NULL);
        if (at.pos < 0 && evbuffer_get_length(in) < HEAD_MAX)
            return NOT_YET;
        size_t n = at.pos < 0 ? HEAD_MAX + 1 : (size_t)at.pos + 4;
        struct head h = {0};
        own_err err_t e = n > HEAD_MAX
                              ? err_new(EXIT_USAGE, "its head is too long")
                              : head_response((char *)evbuffer_pullup(in, (ev_ssize_t)n), n, false, &h);
        if (e) {
            end(c, HTTP_CUT, err_text(e));
            return OVER;
        }
        c->status = h.status;
        c->close = h.close || h.framing == FRAMING_CLOSE;
        const char *no = begin_body(c, &h);
        evbuffer_drain(in, n);
        if (no) {
            end(c, HTTP_CUT, no);
            return OVER;
        }
        if (c->status >= 200)
            return TAKEN;
    }
}

/* As buf_add(), but what moves leaves no copy behind. */
static void add(struct buf *b, const char *p, size_t n) {
    if (b->cap - b->len <= n) {
        size_t cap = 2 * (b->cap + n + 1);
        struct buf wider = {.p = xmalloc(cap), .cap = cap};
        buf_add(&wider, buf_text(b), b->len);
        clear(b);
        *b = wider;
    }
    buf_add(b, p, n);
}

static void take_body(struct http_client *c, bool ended) {
    struct evbuffer *in = bufferevent_get_input(c->b);
    struct evbuffer_iovec v;
    while (!c->body.over && evbuffer_peek(in, -1, NULL, &v, 1) > 0 && v.iov_len) {
        size_t used;
        struct bytes content;
        own_err err_t e = body_take(&c->body, v.iov_base, v.iov_len, &used, &content);
        if (e) {
            end(c, HTTP_CUT, err_text(e));
            return;
        }
        size_t room = c->answer_max - c->answer.len, n = content.len < room ? content.len : room;
        if (c->flowing) {
            wait_on(c);
            c->flow->piece(c->flow->ctx, content);
            n = content.len;
        } else {
            add(&c->answer, content.p, n);
        }
        if (n < content.len) {
            end(c, HTTP_TOO_BIG, "its answer is too long");
            return;
        }
        explicit_bzero(v.iov_base, used);
        evbuffer_drain(in, used);
    }
    if (c->body.over || (ended && body_may_end(&c->body)))
        end(c, HTTP_ANSWERED, "");
    else if (ended)
        end(c, HTTP_CUT, "the connection ended in the middle of the answer");
}

static void go(struct http_client *c, bool ended, const char *why) {
    enum taken head = c->state == AT_HEAD ? take_head(c) : TAKEN;
    if (head == OVER)
        return;
    if (head == TAKEN) {
        c->state = AT_BODY;
        take_body(c, ended);
    } else if (ended) {
        end(c, HTTP_CUT, why);
    }
}

static void on_read(struct bufferevent *b, void *arg) {
    (void)b;
    struct http_client *c = arg;
    if (c->state == AT_REST) /* an answer to nothing */
        hang_up(c);
    else
        go(c, false, "");
}

static void on_write(struct bufferevent *b, void *arg) {
    (void)b;
    struct http_client *c = arg;
    if (c->putting)
        c->flow->room(c->flow->ctx);
}

static void on_event(struct bufferevent *b, short what, void *arg) {
    struct http_client *c = arg;
    char why[DIAL_WHY_MAX];
    if (what & BEV_EVENT_TIMEOUT && what & BEV_EVENT_READING) {
        bufferevent_enable(b, EV_READ);
        return;
    }
    tls_why(b, why, sizeof why);
    if (c->state == AT_REST)
        hang_up(c);
    else if (what & BEV_EVENT_EOF)
        go(c, true, why);
    else /* a reset, a cut of TLS: no end of an answer, whatever came before it */
        end(c, HTTP_CUT, why);
}

static void on_up(void *ctx, struct bufferevent *b) {
    struct http_client *c = ctx;
    c->dial = NULL;
    c->b = b;
    bufferevent_setcb(b, on_read, on_write, on_event, c);
    bufferevent_set_timeouts(b, NULL, &(struct timeval){STUCK_S, 0});
    send_it(c);
}

static void on_fail(void *ctx, const char *why) {
    struct http_client *c = ctx;
    c->dial = NULL;
    end(c, HTTP_UNSENT, why);
}

static const struct dial_ops dial_ops = {on_up, on_fail, NULL};

static void on_deadline(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct http_client *c = arg;
    if (c->state != AT_REST)
        end(c, HTTP_CUT, "no answer in time");
}

struct http_client *http_client_new(struct event_base *base, struct dialer *dialer,
                                    const struct upstream *to) {
    struct http_client *c = xcalloc(1, sizeof *c);
    *c = (struct http_client){.base = base, .dialer = dialer, .to = to};
    c->request = evbuffer_new();
    c->deadline = evtimer_new(base, on_deadline, c);
    return c;
}

void http_client_free(struct http_client *c) {
    if (!c)
        return;
    hang_up(c);
    evbuffer_free(c->request);
    event_free(c->deadline);
    clear(&c->answer);
    free(c);
}

bool http_client_busy(const struct http_client *c) {
    return c->state != AT_REST;
}

static void ask_head(struct http_client *c, const char *verb, const char *path) {
    bool six = c->to->numeric && strchr(c->to->host, ':');
    evbuffer_add_printf(c->request, "%s %s%s HTTP/1.1\r\nHost: %s%s%s:%u\r\nAccept-Encoding: identity\r\n",
                        verb, c->to->path, path, six ? "[" : "", c->to->host, six ? "]" : "", c->to->port);
}

static void ask(struct http_client *c, size_t answer_max, int wait_s, http_fn *on_end, void *ctx) {
    c->answer_max = answer_max;
    c->wait_s = wait_s;
    c->on_end = on_end;
    c->ctx = ctx;
    c->status = 0;
    c->close = false;
    if (c->b) {
        send_it(c);
        return;
    }
    c->state = AT_DIAL;
    c->dial = dial_start(c->dialer, c->to, &dial_ops, c);
}

void http_client_ask(struct http_client *c, const char *path, const char *type, struct evbuffer *body,
                     size_t answer_max, int wait_s, http_fn *on_end, void *ctx) {
    ask_head(c, body ? "POST" : "GET", path);
    if (body)
        evbuffer_add_printf(c->request, "Content-Type: %s\r\nContent-Length: %zu\r\n", type,
                            evbuffer_get_length(body));
    evbuffer_add_printf(c->request, "\r\n");
    if (body)
        evbuffer_add_buffer(c->request, body);
    ask(c, answer_max, wait_s, on_end, ctx);
}

void http_client_fetch(struct http_client *c, const char *path, size_t answer_max, int wait_s,
                       const struct http_flow *flow, http_fn *on_end, void *ctx) {
    ask_head(c, "GET", path);
    evbuffer_add_printf(c->request, "\r\n");
    c->flow = flow;
    ask(c, answer_max, wait_s, on_end, ctx);
}

void http_client_hold(struct http_client *c, bool held) {
    if (c->b && held)
        bufferevent_disable(c->b, EV_READ);
    else if (c->b)
        bufferevent_enable(c->b, EV_READ);
}

void http_client_post(struct http_client *c, const char *path, const char *type, size_t answer_max,
                      int wait_s, const struct http_flow *flow, http_fn *on_end, void *ctx) {
    ask_head(c, "POST", path);
    evbuffer_add_printf(c->request, "Content-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n", type);
    c->putting = true;
    c->flow = flow;
    ask(c, answer_max, wait_s, on_end, ctx);
}

/* Where the rest of the request waits. */
static struct evbuffer *waiting(const struct http_client *c) {
    return c->b ? bufferevent_get_output(c->b) : c->request;
}

void http_client_put(struct http_client *c, struct bytes piece) {
    if (!piece.len || !c->putting)
        return;
    evbuffer_add_printf(waiting(c), "%zx\r\n", piece.len);
    evbuffer_add(waiting(c), piece.p, piece.len);
    evbuffer_add(waiting(c), "\r\n", 2);
    if (c->state != AT_DIAL)
        wait_on(c);
}

void http_client_put_end(struct http_client *c) {
    if (!c->putting)
        return;
    evbuffer_add(waiting(c), "0\r\n\r\n", 5);
    c->putting = false;
    if (c->state != AT_DIAL)
        wait_on(c);
}

bool http_client_full(const struct http_client *c) {
    return evbuffer_get_length(waiting(c)) >= HTTP_PUT_MAX;
}
