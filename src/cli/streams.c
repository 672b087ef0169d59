#include "cli/streams.h"
#include "base/flags.h"
#include "base/own.h"
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

enum { PIPE_ROOM = 1 << 20, SLOW_PIECE = 4096 };

/* Both ends of a Unix stream without a name, as socketpair(2) makes them: no address can be reached through it. */
static bool unnamed_pair(int fd) {
    struct sockaddr_un un[2];
    socklen_t n[2] = {sizeof un[0], sizeof un[1]}, ntype = sizeof(int);
    int type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &ntype) == 0 && type == SOCK_STREAM &&
           getsockname(fd, (struct sockaddr *)&un[0], &n[0]) == 0 && un[0].sun_family == AF_UNIX &&
           n[0] == offsetof(struct sockaddr_un, sun_path) &&
           getpeername(fd, (struct sockaddr *)&un[1], &n[1]) == 0 &&
           n[1] == offsetof(struct sockaddr_un, sun_path);
}

static bool passable(int fd, enum streams_way way) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return false;
    if (S_ISCHR(st.st_mode))
        return st.st_rdev == makedev(1, 3); /* /dev/null */
    if (way == STREAMS_COPY)
        return false;
    if (S_ISFIFO(st.st_mode))
        return true;
    return S_ISSOCK(st.st_mode) && unnamed_pair(fd);
}

static struct pump *add_pump(struct streams *s, int from, int to, bool out) {
    struct pump *p = &s->pumps[s->npumps++];
    *p = (struct pump){.from = from, .to = to, .out = out, .bytes = xmalloc(PUMP_ROOM)};
    p->slow = out && isatty(to);
    return p;
}

static err_t copied(struct streams *s, int fd) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(errno, "pipe");
    bool out = fd != STDIN_FILENO;
    int ours = ends[out ? 0 : 1];
    fcntl(ours, F_SETPIPE_SZ, PIPE_ROOM); /* only a matter of speed */
    if (out) {
        add_pump(s, ours, fd, true)->own_from = true;
        s->pass[fd] = ends[1];
    } else {
        add_pump(s, fd, ours, false)->own_to = true;
        s->pass[fd] = ends[0];
    }
    /* Only our end: the command's has a file description of its own. */
    if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
        return err_sys(errno, "pipe");
    return NULL;
}

static err_t shared(int fd, int *ret) {
    *ret = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return *ret < 0 ? err_sys(errno, "duplicate descriptor %d", fd) : NULL;
}

/* A terminal of the command's own in place of each of ours. */
static err_t terminals(struct streams *s, const char *ptmx) {
    own_fd int slave = -1;
    TRY(terminal_pair(ptmx, STDIN_FILENO, &s->master, &slave));
    add_pump(s, STDIN_FILENO, s->master, false);
    add_pump(s, s->master, STDOUT_FILENO, true)->own_from = true;
    for (int fd = 0; fd < 3; fd++)
        if (isatty(fd))
            TRY(shared(slave, &s->pass[fd]));
    return terminal_raw(STDIN_FILENO);
}

static err_t fill(struct streams *s, enum streams_way way, const char *ptmx) {
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        TRY(terminals(s, ptmx));
    for (int fd = 0; fd < 3; fd++) {
        if (s->pass[fd] >= 0)
            continue;
        if (passable(fd, way)) {
            s->flags[fd] = fcntl(fd, F_GETFL);
            TRY(shared(fd, &s->pass[fd]));
        } else
            TRY(copied(s, fd));
    }
    return NULL;
}

err_t streams_open(enum streams_way way, const char *ptmx, struct streams *ret) {
    *ret = (struct streams){.pass = {-1, -1, -1}, .flags = {-1, -1, -1}, .master = -1};
    err_t e = fill(ret, way, ptmx);
    if (e)
        streams_close(ret);
    return e;
}

void streams_passed(struct streams *s) {
    for (int fd = 0; fd < 3; fd++)
        own_closep(&s->pass[fd]);
}

static void end(struct streams *s, struct pump *p) {
    if (p->own_from)
        own_closep(&p->from);
    if (p->own_to)
        own_closep(&p->to);
    if (p->out && s->master >= 0 && p->own_from &&
        p->to == STDOUT_FILENO) { /* the terminal's two pumps share it */
        s->master = -1;
        s->pumps[0].from = s->pumps[0].to = -1;
    }
    p->from = p->to = -1;
}

static void failed(struct streams *s, struct pump *p, int why, const char *what) {
    if (!s->wrong && why != EPIPE && why != EIO)
        s->wrong = err_sys(why, "%s", what);
    end(s, p);
}

size_t streams_poll(const struct streams *s, struct pollfd *p) {
    size_t n = 0;
    for (size_t i = 0; i < s->npumps; i++) {
        const struct pump *u = &s->pumps[i];
        if (u->from >= 0)
            p[n++] = u->len ? (struct pollfd){u->to, POLLOUT, 0} : (struct pollfd){u->from, POLLIN, 0};
    }
    return n;
}

static bool ready(int fd, short events) {
    struct pollfd p = {fd, events, 0};
    return poll(&p, 1, 0) > 0;
}

/* Fills the empty pump. False: nothing there now, or it has ended. */
static bool take(struct streams *s, struct pump *p) {
    if (!ready(p->from, POLLIN))
        return false;
    ssize_t n = read(p->from, p->bytes, p->slow ? SLOW_PIECE : PUMP_ROOM);
    if (n > 0) {
        p->at = 0;
        p->len = (size_t)n;
        return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n < 0)
        failed(s, p, errno, "read standard input");
    else
        end(s, p);
    return false;
}

/* Writes what is in it. False: there is no room now, or it has ended. */
static bool give(struct streams *s, struct pump *p) {
    if (!ready(p->to, POLLOUT))
        return false;
    ssize_t n = write(p->to, p->bytes + p->at, p->len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n < 0) {
        failed(s, p, errno, "write standard output");
        return false;
    }
    p->at += (size_t)n;
    p->len -= (size_t)n;
    return true;
}

void streams_pump(struct streams *s) {
    for (size_t i = 0; i < s->npumps; i++) {
        struct pump *p = &s->pumps[i];
        if (p->from >= 0 && (p->len || take(s, p)))
            give(s, p);
    }
}

void streams_drain(struct streams *s) {
    for (size_t i = 0; i < s->npumps; i++) {
        struct pump *p = &s->pumps[i];
        size_t most = PIPE_ROOM; /* what can have been in there; a survivor may go on writing for ever */
        while (p->out && p->from >= 0 && (p->len || (most && take(s, p)))) {
            struct pollfd writable = {p->to, POLLOUT, 0};
            size_t before = p->len;
            if (!give(s, p) && p->from >= 0)
                poll(&writable, 1, -1);
            most -= before - p->len < most ? before - p->len : most;
        }
    }
}

void streams_close(struct streams *s) {
    terminal_restore();
    for (int fd = 0; fd < 3; fd++)
        flags_restore(fd, s->flags[fd]);
    streams_passed(s);
    for (size_t i = 0; i < s->npumps; i++) {
        end(s, &s->pumps[i]);
        free(s->pumps[i].bytes);
    }
    s->npumps = 0;
    own_closep(&s->master);
    err_free(TAKE(s->wrong));
}
