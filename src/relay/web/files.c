/*
 * Files through the page. A body becomes what a pipe's reader gets, a pipe's bytes become an answer's body: nothing is kept here
 * but a piece, and whoever does not take holds the other side back.
 *
 * The answer to a POST comes when the whole body has come, also when the fleet refused the file before that: a browser reads
 * no answer while it still sends. The answer to a GET begins with the first byte; if the file does not come whole its end is
 * cut off, which a browser shows as a failed download.
 */
#include "base/own.h"
#include "proto/file_name.h"
#include "relay/web/json.h"
#include "relay/web/web.h"

#include <event2/buffer.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 65536 };

struct passing {
    bool out; /* from the browser to the fleet */
    int pipe; /* our end; -1: no more goes through it */
    struct event *ready;
    uint64_t left; /* of a body: what has not come */
    bool begun;    /* the head of a GET's answer is out */
    bool answered;
    uint64_t status;
    struct buf answer; /* as a server-sent event, or a sentence */
};

static void end_pipe(struct passing *f) {
    if (f->ready)
        event_del(f->ready);
    own_closep(&f->pipe);
}

void file_drop(struct visitor *c) {
    struct passing *f = TAKE(c->file);
    if (!f)
        return;
    end_pipe(f);
    if (f->ready)
        event_free(f->ready);
    buf_free(&f->answer);
    free(f);
}

static void on_ready(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct visitor *c = arg;
    event_active(c->kick, EV_TIMEOUT, 0);
}

static void pass(struct visitor *c, bool out, struct msg *m) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
        visitor_answer(c, 503, NULL, "", "no pipe for a file now\n", 23);
        return;
    }
    struct passing *f = c->file = xcalloc(1, sizeof *f);
    f->out = out;
    f->left = out ? c->asked.length : 0;
    f->pipe = ends[out ? 1 : 0];
    own_fd int theirs = ends[out ? 0 : 1];
    f->ready = event_new(c->web->base, f->pipe, out ? EV_WRITE : EV_READ, on_ready, c);
    visitor_file(c);
    m->fds[m->nfds++] = theirs;
    m->front_list.cookie = 1;
    router_ask(c->asker, m); /* may answer at once: that is looked at from the loop */
    event_active(c->kick, EV_TIMEOUT, 0);
}

void file_put(struct visitor *c, struct bytes body) {
    (void)body;
    struct msg m = {.type = MSG_front_put};
    m.front_put.agent = bytes_of(asked_value(&c->asked, "agent"));
    m.front_put.name = bytes_of(asked_value(&c->asked, "name"));
    m.front_put.size = c->asked.length;
    pass(c, true, &m);
}

void file_get(struct visitor *c, struct bytes body) {
    (void)body;
    struct msg m = {.type = MSG_front_get};
    m.front_get.agent = bytes_of(asked_value(&c->asked, "agent"));
    m.front_get.name = bytes_of(asked_value(&c->asked, "name"));
    pass(c, false, &m);
}

void file_answered(struct visitor *c, const struct msg *m) {
    struct passing *f = c->file;
    if (m->type != MSG_relay_end || f->answered)
        return;
    f->answered = true;
    f->status = m->relay_end.status;
    if (!f->out) {
        buf_add(&f->answer, m->relay_end.text.p, m->relay_end.text.len);
        return;
    }
    buf_adds(&f->answer, "event: end\ndata: ");
    json_of_msg(&f->answer, m);
    buf_adds(&f->answer, "\n\n");
}

/* ---- to the fleet ---- */

/* True: some of the body went on, or away when nobody takes it any more. */
static bool pass_body(struct visitor *c, struct passing *f) {
    struct evbuffer *in = bufferevent_get_input(c->bev);
    size_t have = evbuffer_get_length(in);
    if (have > f->left)
        have = (size_t)f->left;
    if (f->answered)
        end_pipe(f);
    if (!have)
        return false;
    int n = (int)have;
    if (f->pipe < 0)
        evbuffer_drain(in, have);
    else
        n = evbuffer_write_atmost(in, f->pipe, (ev_ssize_t)have);
    if (n < 0 && errno != EAGAIN) {
        end_pipe(f); /* nobody reads: the answer says why */
        return true;
    }
    if (n <= 0) {
        event_add(f->ready, NULL);
        return false;
    }
    f->left -= (uint64_t)n;
    visitor_file(c);
    return true;
}

static bool go_out(struct visitor *c, struct passing *f) {
    while (f->left && pass_body(c, f))
        continue;
    if (f->left)
        return false;
    end_pipe(f); /* it is whole: the reader sees its end */
    if (!f->answered)
        return false;
    visitor_head(c, 200, "text/event-stream", "Transfer-Encoding: chunked\r\n\r\n");
    visitor_chunk(c, f->answer.p, f->answer.len);
    visitor_chunk(c, "", 0);
    file_drop(c);
    visitor_over(c);
    return true;
}

/* ---- from the fleet ---- */

/* An attachment of no type, under its name as RFC 8187 writes it: nothing of it is ever shown as a page. */
static void begin(struct visitor *c, struct passing *f) {
    own_buf struct buf headers = {0};
    buf_adds(&headers, "Content-Disposition: attachment; filename*=UTF-8''");
    for (const char *p = asked_value(&c->asked, "name"); *p; p++)
        buf_printf(&headers, "%%%02X", (unsigned)(unsigned char)*p);
    buf_adds(&headers, "\r\nTransfer-Encoding: chunked\r\n\r\n");
    visitor_head(c, 200, "application/octet-stream", buf_text(&headers));
    f->begun = true;
}

static void pass_file(struct visitor *c, struct passing *f) {
    char piece[PIECE];
    while (f->pipe >= 0 && evbuffer_get_length(bufferevent_get_output(c->bev)) <= OUT_MAX) {
        ssize_t n = read(f->pipe, piece, sizeof piece);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            event_add(f->ready, NULL);
            return;
        }
        if (n <= 0) {
            end_pipe(f);
            return;
        }
        if (!f->begun)
            begin(c, f);
        visitor_chunk(c, piece, (size_t)n);
        visitor_file(c);
    }
}

static bool come_in(struct visitor *c, struct passing *f) {
    if (f->answered && f->status)
        end_pipe(f);
    pass_file(c, f);
    if (f->pipe >= 0 || !f->answered)
        return false;
    if (f->status && f->begun) { /* not whole: no end */
        c->until_ns = 1;
        return false;
    }
    if (f->status) {
        own_buf struct buf why = f->answer;
        f->answer = (struct buf){0};
        file_drop(c);
        visitor_answer(c, 409, NULL, "", buf_text(&why), why.len);
        return true;
    }
    if (!f->begun)
        begin(c, f);
    visitor_chunk(c, "", 0);
    file_drop(c);
    visitor_over(c);
    return true;
}

bool file_go(struct visitor *c) {
    return c->file->out ? go_out(c, c->file) : come_in(c, c->file);
}
