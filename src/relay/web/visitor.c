#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "relay/web/json.h"
#include "relay/web/web.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

static const struct {
    unsigned status;
    const char *reason;
} reasons[] = {
    {200, "OK"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {409, "Conflict"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {421, "Misdirected Request"},
    {431, "Request Header Fields Too Large"},
    {503, "Service Unavailable"},
};

/* On every answer. The page may load what this origin has, and nothing else; nobody may show it in a frame. */
static const char always[] = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src "
                             "'self'; img-src 'self'; connect-src 'self'; "
                             "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                             "require-trusted-types-for 'script'; trusted-types 'none'\r\n"
                             "X-Content-Type-Options: nosniff\r\n"
                             "X-Frame-Options: DENY\r\n"
                             "Referrer-Policy: no-referrer\r\n"
                             "Cross-Origin-Opener-Policy: same-origin\r\n"
                             "Cross-Origin-Resource-Policy: same-origin\r\n"
                             "Permissions-Policy: camera=(), geolocation=(), microphone=()\r\n"
                             "Cache-Control: no-store\r\n";

static const char *reason_of(unsigned status) {
    for (size_t i = 0; i < COUNT(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Error";
}

static void wait_at_most(struct visitor *c, int ms) {
    c->until_ns = clock_mono_ns() + (int64_t)ms * 1000000;
}

static struct evbuffer *out_of(const struct visitor *c) {
    return bufferevent_get_output(c->bev);
}

/* ---- answering ---- */

static void enter(struct visitor *c, enum visitor_state state, int ms) {
    c->state = state;
    wait_at_most(c, ms);
}

/* Cookie and key stay nowhere. */
static void drop_head(struct visitor *c) {
    if (c->head)
        explicit_bzero(c->head, c->head_len);
    own_freep(&c->head);
}

/* The request is over. The next one is looked at from the loop. */
static void request_over(struct visitor *c, bool stays) {
    drop_head(c);
    enter(c, stays ? VISITOR_HEAD : VISITOR_LEAVE, stays ? IDLE_MS : LEAVE_MS);
    c->busy = false;
    bufferevent_setwatermark(c->bev, EV_READ, 0, WEB_HEAD_MAX);
    event_active(c->kick, EV_TIMEOUT, 0);
}

static void put_head(struct visitor *c, unsigned status, const char *type, const char *headers) {
    evbuffer_add_printf(out_of(c), "HTTP/1.1 %u %s\r\nContent-Type: %s\r\n%s%s", status, reason_of(status),
                        type, always, headers);
}

void visitor_answer(struct visitor *c, unsigned status, const char *type, const char *headers, const void *p,
                    size_t n) {
    bool stays = c->session && status < 400;
    put_head(c, status, type ? type : "text/plain; charset=utf-8", headers);
    evbuffer_add_printf(out_of(c), "Content-Length: %zu\r\n%s\r\n", n, stays ? "" : "Connection: close\r\n");
    evbuffer_add(out_of(c), p, n);
    request_over(c, stays);
}

static void refuse(struct visitor *c, unsigned status) {
    char text[128];
    int n = status == 421 ? snprintf(text, sizeof text, "open http://127.0.0.1:%u\n", c->web->port)
                          : snprintf(text, sizeof text, "%s\n", reason_of(status));
    visitor_answer(c, status, NULL, "", text, (size_t)n);
}

static void put_chunk(struct visitor *c, const struct buf *b) {
    evbuffer_add_printf(out_of(c), "%zx\r\n", b->len);
    evbuffer_add(out_of(c), buf_text(b), b->len);
    evbuffer_add(out_of(c), "\r\n", 2);
    c->ping_ns = clock_mono_ns() + (int64_t)PING_MS * 1000000;
}

void visitor_head(struct visitor *c, unsigned status, const char *type, const char *headers) {
    put_head(c, status, type, headers);
}

void visitor_chunk(struct visitor *c, const void *p, size_t n) {
    evbuffer_add_printf(out_of(c), "%zx\r\n", n);
    evbuffer_add(out_of(c), p, n);
    evbuffer_add(out_of(c), "\r\n", 2);
}

void visitor_over(struct visitor *c) {
    request_over(c, true);
}

void visitor_file(struct visitor *c) {
    enter(c, VISITOR_FILE, FILE_MS);
}

/* relay_event becomes "event". */
static bool on_answer(void *ctx, const struct msg *m) {
    struct visitor *c = ctx;
    if (c->state == VISITOR_FILE) {
        file_answered(c, m);
        event_active(c->kick, EV_TIMEOUT, 0);
        return true;
    }
    if (c->state != VISITOR_ASKED || c->ended)
        return true;
    own_buf struct buf b = {0};
    if (m->type == MSG_relay_event)
        buf_printf(&b, "id: %llu\n", (unsigned long long)m->relay_event.seq);
    buf_printf(&b, "event: %s\ndata: ", msg_rows[m->type].name + sizeof "relay_" - 1);
    json_of_msg(&b, m);
    buf_adds(&b, "\n\n");
    put_chunk(c, &b);
    if (m->type == MSG_relay_end) {
        evbuffer_add(out_of(c), "0\r\n\r\n", 5);
        c->ended = true;
        event_active(c->kick, EV_TIMEOUT, 0); /* what is over is cleared from the loop, not from here */
        return true;
    }
    c->paused = evbuffer_get_length(out_of(c)) > OUT_MAX;
    return !c->paused;
}

static void on_hold(void *ctx, bool hold) {
    struct visitor *c = ctx;
    c->held = hold;
    if (!hold)
        event_active(c->kick, EV_TIMEOUT, 0);
}

static const struct asker_ops asker_ops = {on_answer, on_hold};

void visitor_ask(struct visitor *c, struct msg *m) {
    c->ended = c->paused = false;
    c->state = VISITOR_ASKED;
    c->until_ns = 0;
    put_head(c, 200, "text/event-stream", "Transfer-Encoding: chunked\r\n\r\n");
    c->ping_ns = clock_mono_ns() + (int64_t)PING_MS * 1000000;
    m->front_list.cookie = 1;
    router_ask(c->asker, m);
}

/* ---- a request ---- */

void visitor_be(struct visitor *c, uint64_t session) {
    if (session == c->session)
        return;
    router_leave(TAKE(c->asker));
    c->held = false; /* that was said to the asker; the next one hears it anew */
    c->session = session;
    if (!session)
        return;
    own_free char *who = xasprintf("%s:%llu", c->web->row->name, (unsigned long long)session);
    c->asker = router_join(c->web->router, c->web->row, who, &asker_ops, c);
}

/* Who asks. A browser keeps its connections: after another log-in one may be another session's, with an asker of its own. */
static bool be_session(struct visitor *c) {
    uint64_t session = logins_find(c->web->logins, c->asked.cookie, c->asked.key);
    visitor_be(c, session);
    return session;
}

/* Judged in this order: is it ours, is it something, is it known who asks, is it not too much. */
static unsigned judge(struct visitor *c, const struct head *h) {
    unsigned no = guard_check(&c->web->guard, h, &c->asked);
    if (no)
        return no;
    unsigned status;
    c->route = route_find(&c->asked, &status);
    if (!c->route)
        return status;
    if (!c->route->stranger && !be_session(c))
        return 401;
    return c->asked.length > c->route->body_max ? 413 : 0;
}

static void take_head(struct visitor *c, size_t n) {
    c->head = xmalloc(n);
    c->head_len = n;
    evbuffer_remove(bufferevent_get_input(c->bev), c->head, n);
    struct head *h = xcalloc(1, sizeof *h);
    own_err err_t e = head_request(c->head, n, h);
    unsigned no = e ? 400 : judge(c, h);
    free(h);
    if (no) {
        refuse(c, no);
        return;
    }
    enter(c, VISITOR_BODY, BODY_MS);
    bufferevent_setwatermark(c->bev, EV_READ, 0, c->route->file ? OUT_MAX : c->asked.length + WEB_HEAD_MAX);
}

static bool try_head(struct visitor *c) {
    if (evbuffer_get_length(out_of(c)) > OUT_MAX)
        return false; /* who asks on and on takes the answers first: on_written() */
    struct evbuffer *in = bufferevent_get_input(c->bev);
    size_t have = evbuffer_get_length(in);
    if (!have)
        return false;
    if (!c->busy) { /* its first byte: the clock runs */
        c->busy = true;
        wait_at_most(c, HEAD_MS);
    }
    struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
    if (end.pos < 0 || end.pos + 4 > WEB_HEAD_MAX) {
        if (have < WEB_HEAD_MAX)
            return false;
        refuse(c, 431);
        return true;
    }
    take_head(c, (size_t)end.pos + 4);
    return true;
}

static bool try_body(struct visitor *c) {
    struct evbuffer *in = bufferevent_get_input(c->bev);
    size_t n = c->route->file ? 0 : (size_t)c->asked.length;
    if (evbuffer_get_length(in) < n || c->held)
        return false;
    own_free char *body = xcalloc(1, n + 1);
    evbuffer_remove(in, body, n);
    c->route->run(c, (struct bytes){body, n});
    explicit_bzero(body, n);
    return true;
}

/* What can be done with what has come. */
static void go(struct visitor *c) {
    bool moved = true;
    while (moved) {
        moved = false;
        if (c->state == VISITOR_HEAD)
            moved = try_head(c);
        else if (c->state == VISITOR_BODY)
            moved = try_body(c);
        else if (c->state == VISITOR_FILE)
            moved = file_go(c);
        else if (c->state == VISITOR_LEAVE)
            evbuffer_drain(bufferevent_get_input(c->bev), SIZE_MAX);
    }
}

/* ---- the connection ---- */

static bool drained(const struct visitor *c) {
    return !evbuffer_get_length(out_of(c));
}

static void on_kick(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct visitor *c = arg;
    if (c->state == VISITOR_ASKED && c->ended)
        request_over(c, true);
    if (c->state == VISITOR_LEAVE && drained(c))
        shutdown(bufferevent_getfd(c->bev), SHUT_WR); /* the peer reads the answer to its end, then closes */
    go(c);
}

static void on_read(struct bufferevent *b, void *arg) {
    (void)b;
    go(arg);
}

static void on_written(struct bufferevent *b, void *arg) {
    (void)b;
    struct visitor *c = arg;
    if (c->state == VISITOR_LEAVE || c->state == VISITOR_HEAD || c->state == VISITOR_FILE)
        event_active(c->kick, EV_TIMEOUT, 0);
    if (c->state != VISITOR_ASKED || !c->paused)
        return;
    c->paused = false;
    router_room(c->asker);
}

static void on_event(struct bufferevent *b, short what, void *arg) {
    (void)b, (void)what; /* its end, an error, or nothing could be written for too long */
    visitor_close(arg);
}

void visitor_open(struct front *web, int fd) {
    struct visitor *c = xcalloc(1, sizeof *c);
    *c = (struct visitor){.web = web, .next = web->visitors, .at = &web->visitors};
    if (c->next)
        c->next->at = &c->next;
    web->visitors = c;
    web->n++;
    int one = 1;
    (void)!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->kick = event_new(web->base, -1, 0, on_kick, c);
    c->bev = bufferevent_socket_new(web->base, fd, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    bufferevent_setcb(c->bev, on_read, on_written, on_event, c);
    bufferevent_set_timeouts(c->bev, NULL, &(struct timeval){STUCK_S, 0});
    bufferevent_setwatermark(c->bev, EV_READ, 0, WEB_HEAD_MAX);
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    enter(c, VISITOR_HEAD, HEAD_MS);
}

void visitor_close(struct visitor *c) {
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    c->web->n--;
    router_leave(c->asker);
    file_drop(c);
    bufferevent_free(c->bev);
    event_free(c->kick);
    drop_head(c);
    free(c);
}

void visitor_sweep(struct visitor *c, int64_t now_ns) {
    if (c->until_ns && c->until_ns <= now_ns) {
        visitor_close(c);
        return;
    }
    if (c->state != VISITOR_ASKED || c->ended || c->ping_ns > now_ns)
        return;
    own_buf struct buf b = {0};
    buf_adds(&b, ":\n\n");
    put_chunk(c, &b);
}

void visitors_close_ended(struct front *web) {
    for (struct visitor *c = web->visitors, *next; c; c = next) {
        next = c->next;
        if (c->session && !logins_lives(web->logins, c->session))
            visitor_close(c);
    }
}
