#include "cli/client.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/paths.h"
#include "wire/seq.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { RESTART_MS = 8000, AGAIN_MS = 50 };

/* client_ask() and client_next() reach every cookie as the first field. */
#define COOKIE_FIRST(type) _Static_assert(offsetof(struct msg_##type, cookie) == 0, #type)
COOKIE_FIRST(front_say);
COOKIE_FIRST(front_order);
COOKIE_FIRST(front_list);
COOKIE_FIRST(front_status);
COOKIE_FIRST(front_events);
COOKIE_FIRST(front_log);
COOKIE_FIRST(front_exec);
COOKIE_FIRST(relay_agent);
COOKIE_FIRST(relay_status);
COOKIE_FIRST(relay_event);
COOKIE_FIRST(relay_row);
COOKIE_FIRST(relay_exec_end);
COOKIE_FIRST(relay_end);

/* Its lock says so (base/paths.h). */
static bool warden_lives(void) {
    own_free char *path = path_of(PATH_WARDEN_LOCK);
    own_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct flock l = {.l_type = F_WRLCK};
    return fd >= 0 && fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

/* While the warden lives a relay that is away comes back. */
static err_t connect_relay(int64_t patience_ms, int *ret_fd) {
    own_free char *path = path_of(PATH_RELAY_SOCKET);
    for (int64_t until = clock_mono_ns() + patience_ms * 1000000;;) {
        err_t e = seq_connect(path, ret_fd);
        if (!e || e->status != EXIT_NOTFOUND || !warden_lives() || clock_mono_ns() >= until)
            return e;
        err_free(e);
        poll(NULL, 0, AGAIN_MS);
    }
}

err_t client_no_fleet(void) {
    return err_new(EXIT_FAILED, "no fleet is up on this machine%s%s: start it with `%sagent-cage up`",
                   *paths_root() ? " below " : "", paths_root(), geteuid() ? "sudo " : "");
}

static err_t connect_error(err_t e) {
    if (e->status == EXIT_NOTFOUND && warden_lives()) {
        err_free(e);
        return err_new(EXIT_FAILED,
                       "the relay does not come back: `agent-cage doctor` and the fleet's log tell why");
    }
    if (e->status == EXIT_NOTFOUND) {
        err_free(e);
        return client_no_fleet();
    }
    if (e->errnum == EACCES || e->errnum == EPERM) {
        err_free(e);
        return err_new(EXIT_FAILED, "only root may speak to the fleet: say it again with sudo");
    }
    return e;
}

/* The connection and its first word. */
static err_t greet(int64_t patience_ms, struct client *ret, const char *front) {
    own_fd int fd = -1;
    err_t e = connect_relay(patience_ms, &fd);
    if (e)
        return connect_error(e);
    struct timeval patience = {.tv_sec = 10};
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0)
        return err_sys(errno, "socket of the relay");
    struct msg m = {.type = MSG_front_hello};
    m.front_hello.fingerprint = msg_fingerprint();
    m.front_hello.front = bytes_of(front);
    TRY(err_wrap(seq_send(fd, &m), "greet the fleet"));
    *ret = (struct client){.fd = TAKE_FD(fd)};
    return NULL;
}

/* A relay that dies between our connecting and our first word is one that restarts, too. */
static err_t open_within(int64_t patience_ms, struct client *ret, const char *front) {
    *ret = (struct client){.fd = -1};
    int64_t until = clock_mono_ns() / 1000000 + patience_ms;
    for (;;) {
        err_t e = greet(patience_ms, ret, front);
        if (!e || e->errnum != EPIPE || clock_mono_ns() / 1000000 >= until)
            return e;
        err_free(e);
        poll(NULL, 0, AGAIN_MS);
    }
}

err_t client_open(struct client *ret, const char *front) {
    return open_within(RESTART_MS, ret, front);
}

err_t client_try(struct client *ret, const char *front) {
    return open_within(0, ret, front);
}

void client_close(struct client *c) {
    own_closep(&c->fd);
}

static err_t left(err_t why) {
    err_free(why);
    return err_new(EXIT_FAILED,
                   "the fleet hung up: it was stopped or is restarting; `agent-cage status` tells");
}

static err_t tell(struct client *c, const struct msg *m) {
    err_t e = seq_send(c->fd, m);
    return e && e->errnum == EPIPE ? left(e) : err_wrap(e, "tell the fleet");
}

err_t client_ask(struct client *c, struct msg *m) {
    m->front_list.cookie = ++c->last_cookie;
    return tell(c, m);
}

err_t client_say(struct client *c, const struct msg *m) {
    return tell(c, m);
}

err_t client_next(struct client *c, int timeout_ms, struct msg *ret, bool *ret_got) {
    *ret_got = false;
    int64_t until = clock_mono_ns() + (int64_t)timeout_ms * 1000000;
    struct pollfd p = {c->fd, POLLIN, 0};
    for (;;) {
        int64_t left_ms = (until - clock_mono_ns() + 999999) / 1000000;
        int n = poll(&p, 1, timeout_ms < 0 ? -1 : left_ms > 0 ? (int)left_ms : 0);
        if (n < 0 && errno != EINTR)
            return err_sys(errno, "wait for the fleet");
        if (n == 0)
            return NULL;
        if (n > 0)
            break;
    }
    enum seq_got got;
    err_t e = seq_recv(c->fd, ret, &got);
    if (e && e->status == EXIT_USAGE) {
        err_free(e);
        return err_new(EXIT_FAILED,
                       "the running fleet is of another version than this command: start it again with "
                       "`agent-cage down` and `agent-cage up`");
    }
    if (e || got == SEQ_END)
        return left(e);
    *ret_got = got == SEQ_MESSAGE;
    return NULL;
}

static err_t ended(const struct msg *m, struct client_end *ret_end) {
    struct client_end end = {m->relay_end.status, m->relay_end.id, ""};
    snprintf(end.text, sizeof end.text, "%s", m->relay_end.text.p);
    if (ret_end)
        *ret_end = end;
    if (!end.status)
        return NULL;
    return err_new(end.status < 256 ? (int)end.status : EXIT_FAILED, "%s", end.text);
}

err_t client_call(struct client *c, struct msg *m, int timeout_ms, client_fn *on_answer, void *ctx,
                  struct client_end *ret_end) {
    TRY(client_ask(c, m));
    uint64_t cookie = c->last_cookie;
    for (;;) {
        own_msg struct msg got = {0};
        bool any;
        TRY(client_next(c, timeout_ms, &got, &any));
        if (!any)
            return err_new(EXIT_FAILED,
                           "the fleet did not answer within %d s: `agent-cage doctor` looks for why",
                           timeout_ms / 1000);
        if (got.type == MSG_relay_end && (got.relay_end.cookie == cookie || !got.relay_end.cookie))
            return ended(&got, ret_end);
        if (got.relay_end.cookie == cookie && on_answer)
            /* cppcheck-suppress returnDanglingLifetime ; an error is a copy: it points into no message */
            TRY(on_answer(ctx, &got));
    }
}
