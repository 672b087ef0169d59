#include "executor/from_shim.h"
#include "base/log.h"
#include "base/own.h"
#include "executor/account.h"
#include "executor/given.h"
#include "executor/run.h"
#include "wire/link.h"
#include "wire/seq.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

enum { FULL_MS = 100 }; /* how long not to accept after descriptors ran out */

struct shims {
    struct executor *x;
    int listener;
    uid_t peer;
    size_t n;
    bool stopped;
    struct event *acceptable, *later;
};

struct shim {
    struct shims *of;
    struct link *link;
    struct run *run; /* NULL before shim_run and after its end */
};

static void on_shim_end(void *ctx, const char *how, int64_t status, const char *text) {
    struct shim *s = ctx;
    s->run = NULL;
    struct msg m = {.type = MSG_shim_end};
    m.shim_end.how = bytes_of(how);
    m.shim_end.status = status;
    m.shim_end.text = bytes_of(text);
    err_free(link_send(s->link, &m)); /* a shim that left needs no answer */
}

static void on_shim_run(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct shim *s = ctx;
    const struct msg_shim_run *ask = &m->shim_run;
    own_err err_t e = given_check(m->fds);
    if (e) {
        log_warn("shim: %s", err_text(e));
        on_shim_end(s, "failed", e->errnum, err_text(e));
        return;
    }
    struct command c = {
        .exe = ask->exe.p, .cwd = ask->cwd, .argv = ask->argv, .env = ask->env, .tty = ask->tty};
    command_take(&c, m);
    s->run = run_new(s->of->x, &c, on_shim_end, s);
}

static void on_shim_signal(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct shim *s = ctx;
    if (s->run)
        run_signal(s->run, (int)m->shim_signal.signo);
}

static void on_end(void *ctx, struct link *l, err_t why) {
    struct shim *s = ctx;
    if (why)
        log_warn("shim: %s", err_text(why));
    if (s->run)
        run_abandon(s->run);
    link_free(l);
    s->of->n--;
    shims_go_on(s->of->x);
    free(s);
}

static link_fn *const handlers[MSG_COUNT] = {
    [MSG_shim_run] = on_shim_run,
    [MSG_shim_signal] = on_shim_signal,
};
static const struct link_ops link_ops = {.on = handlers, .on_end = on_end};

static void pause_accepting(struct shims *all, int ms) {
    event_del(all->acceptable);
    struct timeval tv = {0, ms * 1000};
    if (ms)
        evtimer_add(all->later, &tv);
}

static void on_acceptable(evutil_socket_t listener, short what, void *arg) {
    (void)what;
    struct shims *all = arg;
    if (all->n >= SHIMS_MAX || account_full(all->x->account)) {
        pause_accepting(all, 0);
        return;
    }
    own_fd int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
            pause_accepting(all, FULL_MS);
        return;
    }
    uid_t uid;
    own_err err_t e = seq_peer(fd, &uid, NULL);
    if (e || uid != all->peer) {
        log_warn("shim socket: a peer with uid %d was refused", e ? -1 : (int)uid);
        return;
    }
    struct shim *s = xcalloc(1, sizeof *s);
    s->of = all;
    s->link = link_new(all->x->base, TAKE_FD(fd), LINK_shim_executor, false, &link_ops, s);
    all->n++;
}

static void on_later(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct shims *all = arg;
    event_add(all->acceptable, NULL);
}

err_t shims_listen(struct executor *x, int listener, uid_t peer) {
    if (fcntl(listener, F_SETFD, FD_CLOEXEC) < 0 || fcntl(listener, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        return err_sys(errno, "shim socket");
    struct shims *all = xcalloc(1, sizeof *all);
    *all = (struct shims){.x = x, .listener = listener, .peer = peer};
    all->acceptable = event_new(x->base, listener, EV_READ | EV_PERSIST, on_acceptable, all);
    all->later = evtimer_new(x->base, on_later, all);
    event_add(all->acceptable, NULL);
    x->shims = all;
    return NULL;
}

void shims_go_on(struct executor *x) {
    struct shims *all = x->shims;
    if (all && !all->stopped && all->n < SHIMS_MAX && !account_full(x->account) &&
        !evtimer_pending(all->later, NULL))
        event_add(all->acceptable, NULL);
}

void shims_stop(struct executor *x) {
    if (!x->shims)
        return;
    x->shims->stopped = true;
    event_del(x->shims->acceptable);
    event_del(x->shims->later);
}
