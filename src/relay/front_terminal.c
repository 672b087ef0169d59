/*
 * The terminal front: every verb of the command line and every chat in a terminal is a client of relay.sock.
 * The warden binds it (mode 0600, root's) and hands the listener over; who connects is asked of the kernel,
 * and must be root.
 */
#include "base/log.h"
#include "base/own.h"
#include "part/part.h"
#include "relay/front.h"
#include "wire/link.h"
#include "wire/seq.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

struct terminal {
    struct front *front;
    struct link *link;
    struct asker *asker; /* NULL before the hello */
    uid_t uid;
    bool full, held; /* it does not read its answers; the router takes no questions now */
    struct terminal *next;
};

struct front {
    const struct front_row *row;
    struct event_base *base;
    struct router *router;
    struct event *acceptable;
    struct terminal *terminals;
    size_t n;
};

static void leave(struct terminal *t) {
    struct front *f = t->front;
    struct terminal **at = &f->terminals;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    if (f->n-- == f->row->askers_max)
        event_add(f->acceptable, NULL);
    router_leave(t->asker);
    link_free(t->link);
    free(t);
}

static bool answer(void *ctx, const struct msg *m) {
    struct terminal *t = ctx;
    own_err err_t e = link_send(t->link, m);
    if (e && e->status == EXIT_USAGE)
        log_warn("terminal: an answer was left out: %s", err_text(e));
    t->full = link_full(t->link);
    link_hold(t->link, t->full || t->held); /* who does not read may not ask on either */
    return !t->full;
}

static void hold(void *ctx, bool hold) {
    struct terminal *t = ctx;
    t->held = hold;
    link_hold(t->link, t->full || t->held);
}

static const struct asker_ops asker_ops = {answer, hold};

static void on_hello(void *ctx, struct link *l, struct msg *m) {
    struct terminal *t = ctx;
    if (m->front_hello.fingerprint != msg_fingerprint()) {
        struct msg no = {.type = MSG_relay_end};
        no.relay_end.status = EXIT_FAILED;
        no.relay_end.text =
            bytes_of("the running fleet is of another version than this command: start it again with "
                     "`agent-cage down` and `agent-cage up`");
        err_free(link_send(l, &no));
        leave(t);
        return;
    }
    own_free char *who = xasprintf("%s:%u", t->front->row->name, t->uid);
    t->asker = router_join(t->front->router, t->front->row, who, &asker_ops, t);
}

static void on_question(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct terminal *t = ctx;
    router_ask(t->asker, m); /* never NULL: the table lets nothing but a hello come before */
}

/* To another front, not to the manager. */
static void on_word(void *ctx, struct link *l, struct msg *m) {
    (void)ctx;
    const struct msg_front_word *q = &m->front_word;
    own_buf struct buf text = {0};
    own_err err_t e = fronts_word(q->front, q->word, q->data, &text);
    struct msg a = {.type = MSG_relay_end};
    a.relay_end.cookie = q->cookie;
    a.relay_end.status = e ? (uint64_t)e->status : EXIT_OK;
    a.relay_end.text = bytes_of(e ? err_text(e) : buf_text(&text));
    err_free(link_send(l, &a)); /* a link that ended says so itself */
}

static void on_end(void *ctx, struct link *l, err_t why) {
    (void)l;
    struct terminal *t = ctx;
    if (why)
        log_warn("terminal: %s", err_text(why));
    leave(t);
}

static void on_room(void *ctx, struct link *l) {
    (void)l;
    struct terminal *t = ctx;
    t->full = false;
    link_hold(t->link, t->held);
    if (t->asker)
        router_room(t->asker);
}

static link_fn *const handlers[MSG_COUNT] = {
    [MSG_front_hello] = on_hello,       [MSG_front_say] = on_question,    [MSG_front_order] = on_question,
    [MSG_front_list] = on_question,     [MSG_front_status] = on_question, [MSG_front_events] = on_question,
    [MSG_front_sessions] = on_question, [MSG_front_answer] = on_question, [MSG_front_log] = on_question,
    [MSG_front_exec] = on_question,     [MSG_front_signal] = on_question, [MSG_front_word] = on_word,
    [MSG_front_put] = on_question,      [MSG_front_get] = on_question,
};
static const struct link_ops link_ops = {.on = handlers, .on_end = on_end, .on_room = on_room};

static void on_acceptable(evutil_socket_t listener, short what, void *arg) {
    (void)what;
    struct front *f = arg;
    own_fd int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    uid_t uid;
    own_err err_t e = seq_peer(fd, &uid, NULL);
    if (e || uid != 0) {
        log_warn("terminal: refused a peer that is not root");
        return;
    }
    struct terminal *t = xcalloc(1, sizeof *t);
    *t = (struct terminal){.front = f, .uid = uid, .next = f->terminals};
    f->terminals = t;
    t->link = link_new(f->base, TAKE_FD(fd), LINK_front_relay, false, &link_ops, t);
    if (++f->n == f->row->askers_max)
        event_del(f->acceptable); /* the rest wait in the listener's queue */
}

err_t front_terminal_start(const struct front_row *row, struct event_base *base, struct router *router,
                           struct front **ret) {
    int listening = 0;
    socklen_t n = sizeof listening;
    if (getsockopt(PART_LISTENER, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) < 0 || !listening)
        return err_new(EXIT_USAGE, "terminal front: no listener on descriptor %d", PART_LISTENER);
    if (fcntl(PART_LISTENER, F_SETFD, FD_CLOEXEC) < 0 ||
        fcntl(PART_LISTENER, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        return err_sys(errno, "terminal front: its listener");
    struct front *f = xcalloc(1, sizeof *f);
    *f = (struct front){.row = row, .base = base, .router = router};
    f->acceptable = event_new(base, PART_LISTENER, EV_READ | EV_PERSIST, on_acceptable, f);
    event_add(f->acceptable, NULL);
    *ret = f;
    return NULL;
}

void front_terminal_stop(struct front *f) {
    while (f->terminals)
        leave(f->terminals);
    event_free(f->acceptable);
    free(f);
}
