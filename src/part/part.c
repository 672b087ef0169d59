#include "part/part.h"
#include "base/log.h"
#include "base/own.h"
#include "wire/link.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct part {
    struct event_base *base;
    int fd;
    char *name;
    const struct part_ops *ops;
    void *ctx;
    struct event *acceptable;
    struct link *warden;
    bool gone, ready;
    uint64_t links; /* a bit for each link that was given and not lost */
};

static void say(struct part *p, const struct msg *m) {
    if (p->warden)
        err_free(link_send(p->warden, m)); /* the warden that misses it connects again and asks */
}

static void say_ready(struct part *p) {
    struct msg m = {.type = MSG_part_ready};
    m.part_ready.pid = (uint64_t)getpid();
    say(p, &m);
}

static void on_part_link(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct part *p = ctx;
    if (m->part_link.link >= LINK_COUNT || !p->ops->on_link)
        return;
    p->links |= UINT64_C(1) << m->part_link.link;
    p->ops->on_link(p->ctx, (enum link_id)m->part_link.link, m->part_link.peer.p, TAKE_FD(m->fds[0]));
}

static void on_part_unlink(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct part *p = ctx;
    if (m->part_unlink.link < LINK_COUNT)
        p->links &= ~(UINT64_C(1) << m->part_unlink.link);
    if (m->part_unlink.link < LINK_COUNT && p->ops->on_unlink)
        p->ops->on_unlink(p->ctx, (enum link_id)m->part_unlink.link, m->part_unlink.peer.p);
}

static void on_part_go(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct part *p = ctx;
    if (p->gone)
        return;
    p->gone = true;
    if (p->ops->on_go)
        p->ops->on_go(p->ctx, m);
}

static void on_part_secret(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct part *p = ctx;
    const struct msg_part_secret *q = &m->part_secret;
    const char *text = "";
    own_err err_t e = p->ops->on_secret
                          ? p->ops->on_secret(p->ctx, q->kind.p, q->credential.p, q->credential.len, &text)
                          : err_new(EXIT_USAGE, "%s holds no credential", p->name);
    struct msg r = {.type = MSG_part_secret_end};
    r.part_secret_end.cookie = q->cookie;
    r.part_secret_end.status = e ? (uint64_t)e->status : EXIT_OK;
    r.part_secret_end.text = bytes_of(e ? err_text(e) : text);
    say(p, &r);
}

static void on_part_budget(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct part *p = ctx;
    if (p->ops->on_budget)
        p->ops->on_budget(p->ctx, m->part_budget.budget.p);
}

static void on_part_stop(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct part *p = ctx;
    if (p->ops->on_stop)
        p->ops->on_stop(p->ctx, m->part_stop.grace_ms);
    else
        event_base_loopexit(p->base, NULL);
}

static void on_end(void *ctx, struct link *l, err_t why) {
    struct part *p = ctx;
    p->warden = NULL;
    log_to(NULL, NULL);
    link_free(l);
    if (why)
        log_warn("control: %s", err_text(why));
}

static link_fn *const handlers[MSG_COUNT] = {
    [MSG_part_link] = on_part_link, [MSG_part_unlink] = on_part_unlink, [MSG_part_go] = on_part_go,
    [MSG_part_stop] = on_part_stop, [MSG_part_secret] = on_part_secret, [MSG_part_budget] = on_part_budget,
};
static const struct link_ops link_ops = {.on = handlers, .on_end = on_end};

static void sink(void *ctx, enum log_level level, const char *text) {
    part_note(ctx, level, text);
}

static void on_acceptable(evutil_socket_t listener, short what, void *arg) {
    (void)what;
    struct part *p = arg;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    log_to(NULL, NULL);
    link_free(p->warden);
    p->warden = link_new(p->base, fd, LINK_warden_part, false, &link_ops, p);
    struct msg m = {.type = MSG_part_hello};
    m.part_hello.fingerprint = msg_fingerprint();
    m.part_hello.part = bytes_of(p->name);
    m.part_hello.pid = (uint64_t)getpid();
    m.part_hello.gone = p->gone;
    m.part_hello.links = p->links;
    say(p, &m);
    if (p->ready)
        say_ready(p);
    log_to(sink, p);
}

err_t part_new(struct event_base *base, int fd, const char *name, const struct part_ops *ops, void *ctx,
               struct part **ret) {
    int listening = 0;
    socklen_t n = sizeof listening;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) < 0 || !listening)
        return err_new(EXIT_USAGE, "%s is started by the warden alone: no control socket on descriptor %d",
                       name, fd);
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        return err_sys(errno, "control socket");
    signal(SIGPIPE, SIG_IGN);
    struct part *p = xcalloc(1, sizeof *p);
    *p = (struct part){.base = base, .fd = fd, .name = xstrdup(name), .ops = ops, .ctx = ctx};
    p->acceptable = event_new(base, fd, EV_READ | EV_PERSIST, on_acceptable, p);
    event_add(p->acceptable, NULL);
    *ret = p;
    return NULL;
}

void part_ready(struct part *p) {
    p->ready = true;
    say_ready(p);
}

void part_lost(struct part *p, enum link_id link, const char *peer) {
    p->links &= ~(UINT64_C(1) << link);
    struct msg m = {.type = MSG_part_lost};
    m.part_lost.link = link;
    m.part_lost.peer = bytes_of(peer);
    say(p, &m);
}

void part_note(struct part *p, unsigned level, const char *text) {
    struct msg m = {.type = MSG_part_note};
    m.part_note.level = level;
    m.part_note.text = bytes_of(text);
    say(p, &m);
}

bool part_gone(const struct part *p) {
    return p->gone;
}

void part_free(struct part *p) {
    if (!p)
        return;
    log_to(NULL, NULL);
    link_free(p->warden);
    event_free(p->acceptable);
    own_closep(&p->fd);
    free(p->name);
    free(p);
}
