/*
 * The web front: a page at http://127.0.0.1:PORT and what it asks for. The listener comes from the warden; the files are in
 * web/. Who may ask: one with a session's cookie and key (logins.h), in a request that passes the guard (guard.h).
 *
 * Strangers can connect as well (any local account can), so they get little: a head's time, one answer, and the oldest of
 * them makes room when there are as many connections as fronts.def allows. Who is logged in is never closed to make room.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "base/paths.h"
#include "part/part.h"
#include "relay/web/web.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* The oldest stranger; visitors[0] is the newest. */
static struct visitor *to_close(const struct front *f) {
    struct visitor *found = NULL;
    for (struct visitor *c = f->visitors; c; c = c->next)
        if (!c->session)
            found = c;
    return found;
}

static void on_acceptable(evutil_socket_t listener, short what, void *arg) {
    (void)what;
    struct front *f = arg;
    own_fd int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (f->n >= f->row->askers_max) {
        struct visitor *old = to_close(f);
        log_warn("web: %zu connections at once; %s is closed", f->n,
                 old ? "the oldest stranger's" : "all are logged in, and a new one");
        if (!old)
            return;
        visitor_close(old);
    }
    visitor_open(f, TAKE_FD(fd));
}

static void on_sweep(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct front *f = arg;
    int64_t now = clock_mono_ns();
    visitors_close_ended(f); /* a session that ran out */
    for (struct visitor *c = f->visitors, *next; c; c = next) {
        next = c->next;
        visitor_sweep(c, now);
    }
}

/* The port of a TCP listener there, 0: there is none. */
static unsigned listening_port(int fd) {
    struct sockaddr_in at;
    socklen_t n = sizeof at, one = sizeof(int);
    int listens = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &one) < 0 || !listens ||
        getsockname(fd, (struct sockaddr *)&at, &n) < 0 || at.sin_family != AF_INET)
        return 0;
    return ntohs(at.sin_port);
}

err_t front_web_start(const struct front_row *row, struct event_base *base, struct router *router,
                      struct front **ret) {
    struct front *f = xcalloc(1, sizeof *f);
    *f = (struct front){.row = row, .base = base, .router = router};
    *ret = f;
    f->port = listening_port(PART_WEB);
    if (!f->port)
        return NULL;
    const char *origin = getenv("AGENT_CAGE_WEB_ORIGIN");
    own_free char *path = path_of(DIR_LIB "/relay/web-sessions");
    own_err err_t e = guard_set(&f->guard, origin ? origin : "");
    if (!e)
        e = logins_open(path, &f->logins);
    if (e) {
        log_error("no web page: %s", err_text(e));
        return NULL; /* the other fronts work */
    }
    fcntl(PART_WEB, F_SETFL, O_RDWR | O_NONBLOCK);
    f->acceptable = event_new(base, PART_WEB, EV_READ | EV_PERSIST, on_acceptable, f);
    f->sweep = event_new(base, -1, EV_PERSIST, on_sweep, f);
    event_add(f->acceptable, NULL);
    event_add(f->sweep, &(struct timeval){1, 0});
    return NULL;
}

void front_web_stop(struct front *f) {
    while (f->visitors)
        visitor_close(f->visitors);
    if (f->acceptable)
        event_free(f->acceptable);
    if (f->sweep)
        event_free(f->sweep);
    logins_free(f->logins);
    free(f);
}

/* ---- root's words ---- */

static err_t print_link(struct front *f, struct buf *ret) {
    char token[WEB_SECRET_HEX + 1];
    TRY(logins_link(f->logins, token));
    buf_printf(ret, "http://127.0.0.1:%u/#login=%s", f->port, token);
    if (*f->guard.proxy_origin)
        buf_printf(ret, "\n%s/#login=%s", f->guard.proxy_origin, token);
    explicit_bzero(token, sizeof token);
    return NULL;
}

static err_t end_all(struct front *f, struct buf *ret) {
    size_t n = logins_count(f->logins);
    TRY(logins_end(f->logins, 0));
    while (f->visitors)
        visitor_close(f->visitors);
    buf_printf(ret, "%zu browser%s logged out", n, n == 1 ? " is" : "s are");
    return NULL;
}

err_t front_web_word(struct front *f, struct bytes word, struct bytes data, struct buf *ret) {
    (void)data;
    static const struct {
        const char *word;
        err_t (*run)(struct front *f, struct buf *ret);
    } words[] = {{"login", print_link}, {"logout", end_all}};
    if (!f->logins)
        return err_new(EXIT_FAILED,
                       "there is no web page: it is off, or its port was taken when the relay started "
                       "(the fleet's log says which; `web = PORT` in agent-cage.conf chooses another)");
    for (size_t i = 0; i < COUNT(words); i++)
        if (strlen(words[i].word) == word.len && !memcmp(words[i].word, word.p, word.len))
            return words[i].run(f, ret);
    return err_new(EXIT_USAGE, "web: login or logout");
}
