/* Requests up and answers down: heads judged and rewritten, bodies passed piece by piece as far as the other side has room. */
#include "agent/gateway/conn.h"
#include "agent/gateway/renew.h"
#include "agent/gateway/tunnel.h"
#include "base/log.h"
#include "base/own.h"

#include <event2/buffer.h>
#include <string.h>

#define RENEWING "this agent's log-in is being renewed: ask again in a moment"

static bool has_room(struct bufferevent *b) {
    return evbuffer_get_length(bufferevent_get_output(b)) < GATEWAY_WINDOW;
}

/* Takes the next whole head out of `in`; 0: it is not there yet. *ret_over: it is longer than any may be. The caller frees. */
static size_t take_head(struct evbuffer *in, char **ret, bool *ret_over) {
    struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
    *ret_over = end.pos < 0 ? evbuffer_get_length(in) >= HEAD_MAX : end.pos + 4 > HEAD_MAX;
    if (*ret_over)
        return HEAD_MAX;
    if (end.pos < 0)
        return 0;
    size_t n = (size_t)end.pos + 4;
    *ret = xmalloc(n);
    evbuffer_remove(in, *ret, n);
    return n;
}

/* ---- pieces of bodies ---- */

static void gather(void *ctx, const char *p, size_t n) {
    evbuffer_add(ctx, p, n);
}

static void passed_over(void *ctx, const char *p, size_t n) {
    (void)ctx, (void)p, (void)n;
}

/* The next bytes of a body that lie together in `in`. False: there are none. */
static bool next_bytes(struct evbuffer *in, struct bytes *ret) {
    struct evbuffer_iovec v;
    if (evbuffer_peek(in, -1, NULL, &v, 1) < 1 || !v.iov_len)
        return false;
    *ret = (struct bytes){v.iov_base, v.iov_len};
    return true;
}

/* ---- requests ---- */

static void log_strays(uint64_t n) {
    if (n)
        log_warn(
            "the harness's placeholder stood in a request where it is not looked for; it was left as it is");
}

static void drop_use(const void *p, size_t n, void *secret) {
    (void)p, (void)n;
    secret_drop(secret);
}

/* The head goes up once there is a connection; the credential is lent to it, not copied. */
static void send_head(struct conn *c, const struct head *h) {
    struct swap_rules rules = gateway_rules(c->g);
    struct swapped s;
    swap_request(&rules, h, &s);
    log_strays(s.strays);
    evbuffer_drain(c->head, evbuffer_get_length(c->head));
    evbuffer_add(c->head, s.before.p, s.before.len);
    if (s.put) {
        evbuffer_add_reference(c->head, c->secret->p, c->secret->n, drop_use, secret_use(c->secret));
        evbuffer_add(c->head, s.after.p, s.after.len);
    }
    swapped_free(&s);
    if (h->expects)
        bufferevent_write(c->down, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    conn_connect(c);
}

static enum gate_error judge(struct conn *c, const struct head *h, char *why, size_t size) {
    struct gateway *g = c->g;
    struct swap_rules rules = gateway_rules(g);
    enum gate_error no = swap_judge(&rules, h);
    snprintf(why, size, "the gateway passes on what asks a model and what lists models, over HTTP/1.1");
    if (no == GATE_ENDED)
        snprintf(why, size, "the session of this placeholder is over: nothing of it is passed on");
    if (no != GATE_ERRORS)
        return no;
    if (!gateway_ready(g)) {
        snprintf(why, size, "this agent is not logged in: send /auth, or run `agent-cage auth` on its host");
        return GATE_NOT_LOGGED_IN;
    }
    if (renew_pending(g->renew)) {
        snprintf(why, size, "%s", RENEWING);
        return GATE_RENEWING;
    }
    return head_is(h->method, "POST") && gateway_over(g, why, size) ? GATE_OVER_BUDGET : GATE_ERRORS;
}

static void begin_request(struct conn *c, const struct head *h) {
    char why[sizeof c->why];
    enum gate_error no = judge(c, h, why, sizeof why);
    c->to_head = head_is(h->method, "HEAD");
    c->close_down = h->close;
    c->chunked_up = h->framing == FRAMING_CHUNKED;
    c->strays = c->echoes = (struct sift){0};
    c->secret = gateway_secret(c->g);
    body_begin(&c->request, h->framing, h->length);
    if (no == GATE_ERRORS)
        send_head(c, h);
    else
        conn_fail(c, no, why);
}

/* A head that cannot be read is answered, and then nothing more is believed. */
static void refuse_head(struct conn *c, const char *why) {
    own_buf struct buf out = {0};
    vendor_error(&out, c->g->upstream.vendor, GATE_BAD, why, false, true);
    bufferevent_write(c->down, out.p, out.len);
    conn_leave(c);
}

/* True: the state is another one now, here and in the other steps. */
static bool await_head(struct conn *c) {
    struct evbuffer *in = bufferevent_get_input(c->down);
    own_free char *head = NULL;
    bool over;
    size_t n = has_room(c->down) ? take_head(in, &head, &over) : 0;
    if (!n)
        return false;
    struct head h;
    own_err err_t e = over ? err_new(EXIT_USAGE, "a head that is too long") : head_request(head, n, &h);
    if (e)
        refuse_head(c, err_text(e));
    else if (head_is(h.method, "CONNECT") && tunnel_open(c->g, c->down, h.target))
        conn_give_down(c);
    else
        begin_request(c, &h);
    return true;
}

static void pass_content(struct conn *c, struct bytes content) {
    sift_feed(&c->strays, &c->g->stray, content.p, content.len, passed_over, NULL);
    if (c->chunked_up)
        evbuffer_add_printf(bufferevent_get_output(c->up), "%zx\r\n", content.len);
    bufferevent_write(c->up, content.p, content.len);
    if (c->chunked_up)
        bufferevent_write(c->up, "\r\n", 2);
}

/* Takes what came of the request's body, and passes it on unless the request is refused. False: it is broken. */
static bool take_body(struct conn *c) {
    struct evbuffer *in = bufferevent_get_input(c->down);
    bool pass = c->state == CONN_PASS && !c->up_ended;
    struct bytes b, content;
    while (!c->request.over && (!pass || has_room(c->up)) && next_bytes(in, &b)) {
        size_t used;
        own_err err_t e = body_take(&c->request, b.p, b.len, &used, &content);
        if (e)
            return false;
        if (pass && content.len)
            pass_content(c, content);
        evbuffer_drain(in, used);
        if (!c->request.over)
            continue;
        log_strays(c->strays.found);
        if (pass && c->chunked_up)
            bufferevent_write(c->up, "0\r\n\r\n", 5);
    }
    return true;
}

static bool refuse(struct conn *c) {
    if (!take_body(c)) {
        conn_leave(c);
        return true;
    }
    if (!c->request.over)
        return false;
    own_buf struct buf out = {0};
    vendor_error(&out, c->g->upstream.vendor, c->refusal, c->why, c->to_head, c->close_down);
    bufferevent_write(c->down, out.p, out.len);
    conn_done(c);
    return true;
}

/* ---- answers ---- */

static void bad_answer(struct conn *c, const char *why) {
    log_warn("%s", why);
    conn_drop_up(c);
    conn_fail(c, GATE_BAD_ANSWER, why);
}

static bool begins_with(const struct head *h, const char *name, const char *word) {
    bool more;
    const struct header *one = head_find(h, name, &more);
    return one && one->value.len >= strlen(word) && head_is((struct bytes){one->value.p, strlen(word)}, word);
}

static bool is_packed(const struct head *h) {
    bool more;
    const struct header *one = head_find(h, "content-encoding", &more);
    return one && (more || !head_is(one->value, "identity"));
}

static void say_answer(struct conn *c, const struct head *h) {
    own_buf struct buf out = {0};
    const struct needle *credential = secret_needle(c->secret);
    swap_answer(h, c->close_down, &out);
    if (credential->text.len && memmem(out.p, out.len, credential->text.p, credential->text.len)) {
        bad_answer(c, "the model's API sent the credential back in a header: its answer is not passed on");
        return;
    }
    c->answering = true;
    c->chunked_down = h->framing == FRAMING_CHUNKED || h->framing == FRAMING_CLOSE;
    c->close_up = h->close || h->framing == FRAMING_CLOSE;
    body_begin(&c->answer, h->framing, h->length);
    c->counted = false;
    c->told = (struct tokens){0};
    bool events = begins_with(h, "content-type", "text/event-stream");
    c->scanning = events || begins_with(h, "content-type", "application/json");
    scan_begin(&c->scan, c->g->upstream.vendor, events);
    bufferevent_write(c->down, out.p, out.len);
}

/* The harness asks again, and the credential is another one then. */
static void renewing(struct conn *c) {
    conn_drop_up(c);
    conn_fail(c, GATE_RENEWING, RENEWING);
}

/* The head of the answer, past those that only tell that it is coming. */
static void begin_answer(struct conn *c) {
    struct evbuffer *in = bufferevent_get_input(c->up);
    bool over = false;
    for (;;) {
        own_free char *head = NULL;
        size_t n = take_head(in, &head, &over);
        if (!n)
            return;
        struct head h;
        own_err err_t e =
            over ? err_new(EXIT_USAGE, "a head that is too long") : head_response(head, n, c->to_head, &h);
        if (!e && h.status >= 102 && h.status < 200)
            continue;
        if (!e && h.status == 100)
            continue;
        if (e)
            bad_answer(c, err_text(e));
        else if (h.status == 101 || is_packed(&h))
            bad_answer(c, "the model's API answered in another way than it was asked to");
        else if (h.status == 401 && renew_refused(c->g->renew, c->secret))
            renewing(c);
        else
            say_answer(c, &h);
        return;
    }
}

static void count(struct conn *c) {
    const struct tokens *now = &c->scan.seen;
    struct tokens more = {now->input - c->told.input, now->output - c->told.output,
                          now->cache_read - c->told.cache_read, now->cache_write - c->told.cache_write};
    if (!tokens_sum(&more))
        return;
    c->told = *now;
    gateway_count(c->g, c->scan.model, &more, !c->counted);
    c->counted = true;
}

static void put_piece(struct conn *c, struct evbuffer *piece) {
    size_t n = evbuffer_get_length(piece);
    if (!n)
        return;
    if (c->chunked_down)
        evbuffer_add_printf(bufferevent_get_output(c->down), "%zx\r\n", n);
    bufferevent_write_buffer(c->down, piece);
    if (c->chunked_down)
        bufferevent_write(c->down, "\r\n", 2);
}

static void end_answer(struct conn *c, struct evbuffer *piece) {
    sift_end(&c->echoes, secret_needle(c->secret), gather, piece);
    put_piece(c, piece);
    if (c->chunked_down)
        bufferevent_write(c->down, "0\r\n\r\n", 5);
    if (c->echoes.found)
        log_warn("the model's API sent the credential back; it was starred out");
    conn_done(c);
}

/* Puts the content, which is next in `in`, into the piece: without copying it where it is none of the credential. */
static void take_content(struct conn *c, struct evbuffer *in, struct bytes content, struct evbuffer *piece) {
    const struct needle *credential = secret_needle(c->secret);
    if (c->scanning && content.len) {
        scan_feed(&c->scan, content.p, content.len);
        count(c);
    }
    if (sift_clean(&c->echoes, credential, content.p, content.len)) {
        evbuffer_remove_buffer(in, piece, content.len);
        return;
    }
    sift_feed(&c->echoes, credential, content.p, content.len, gather, piece);
    evbuffer_drain(in, content.len);
}

/* Passes on what came of the answer's body. False: it is broken. */
static bool take_answer(struct conn *c, struct evbuffer *piece) {
    struct evbuffer *in = bufferevent_get_input(c->up);
    struct bytes b, content;
    while (!c->answer.over && has_room(c->down) && next_bytes(in, &b)) {
        size_t used;
        own_err err_t e = body_take(&c->answer, b.p, b.len, &used, &content);
        if (e)
            return false;
        evbuffer_drain(in, used - content.len);
        take_content(c, in, content, piece);
        if (evbuffer_get_length(piece) >= GATEWAY_WINDOW / 2)
            put_piece(c, piece);
    }
    conn_flush_soon(c);
    return true;
}

static void pass_answer(struct conn *c) {
    struct evbuffer *piece = c->piece;
    if (!c->answering)
        begin_answer(c);
    if (c->state != CONN_PASS)
        return;
    bool good = !c->answering || take_answer(c, piece);
    bool ended = c->up_ended && !evbuffer_get_length(bufferevent_get_input(c->up));
    if (c->answering && good && (c->answer.over || (ended && body_may_end(&c->answer))))
        end_answer(c, piece);
    else if (ended && !c->answering) {
        conn_drop_up(c);
        conn_fail(c, GATE_NO_UPSTREAM, "the model's API ended the connection without an answer");
    } else if (ended || !good) { /* cut: the harness sees that its end is missing */
        put_piece(c, piece);
        conn_leave(c);
    }
}

void conn_flush(struct conn *c) {
    if (c->state == CONN_PASS && !evbuffer_get_length(bufferevent_get_input(c->up)))
        put_piece(c, c->piece);
}

static bool pass(struct conn *c) {
    if (!take_body(c))
        conn_leave(c);
    else
        pass_answer(c);
    return c->state != CONN_PASS;
}

static bool wait(struct conn *c) {
    (void)c;
    return false;
}

void conn_go(struct conn *c) {
    static bool (*const steps[])(struct conn *) = {[CONN_AWAIT] = await_head,
                                                   [CONN_REFUSE] = refuse,
                                                   [CONN_CONNECT] = wait,
                                                   [CONN_PASS] = pass,
                                                   [CONN_LEAVE] = wait};
    while (steps[c->state](c))
        ;
}
