#include "executor/give.h"
#include "base/own.h"
#include "proto/file_name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 65536 };

struct give {
    struct gives *of;
    uint64_t cookie, size, left;
    int from, to;
    struct event *writable;
    struct give *next;
};

struct gives {
    struct executor *x;
    struct link *link;
    struct give *first;
    size_t n;
};

static err_t not_opened(const char *name, int why) {
    if (why == ENOENT)
        return err_new(EXIT_NOTFOUND, "there is no file '%s' in the outbox", name);
    if (why == ELOOP)
        return err_new(EXIT_POLICY, "'%s' is a link: it is not followed", name);
    if (why == ENXIO || why == EISDIR)
        return err_new(EXIT_POLICY, "'%s' is not a regular file", name);
    return err_sys(why, "open '%s' in the outbox", name);
}

err_t give_open(const char *outbox, struct bytes name, int *ret_fd, uint64_t *ret_size) {
    TRY(file_check(name, 0)); /* one part, never "..": so it is beneath, and can be shown */
    own_fd int dir = open(outbox, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return err_sys(errno, "open the outbox");
    own_fd int fd = openat(dir, name.p, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat here, st;
    if (fd < 0)
        return not_opened(name.p, errno);
    if (fstat(dir, &here) || fstat(fd, &st))
        return err_sys(errno, "look at '%s'", name.p);
    if (!S_ISREG(st.st_mode))
        return err_new(EXIT_POLICY, "'%s' is not a regular file", name.p);
    if (st.st_nlink != 1 || st.st_dev != here.st_dev)
        return err_new(EXIT_POLICY, "'%s' is a file that is somewhere else too (a hard link or a mount)",
                       name.p);
    TRY(file_check(name, (uint64_t)st.st_size));
    *ret_fd = TAKE_FD(fd);
    *ret_size = (uint64_t)st.st_size;
    return NULL;
}

static void drop(struct give *f) {
    struct give **at = &f->of->first;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    f->of->n--;
    event_free(f->writable);
    own_closep(&f->from);
    own_closep(&f->to);
    free(f);
}

/* Takes e. */
static void say(struct gives *g, uint64_t cookie, uint64_t size, err_t e) {
    struct msg m = {.type = MSG_run_got};
    m.run_got.cookie = cookie;
    m.run_got.status = e ? (uint64_t)e->status : EXIT_OK;
    m.run_got.size = size;
    m.run_got.text = bytes_of(e ? err_text(e) : "");
    err_free(link_send(g->link, &m)); /* the link is over: nobody waits */
    err_free(e);
}

/* The pipe is closed before the answer: who has the answer has all bytes, or knows that they end. */
static void end(struct give *f, err_t e) {
    struct gives *g = f->of;
    uint64_t cookie = f->cookie, size = f->size;
    drop(f);
    say(g, cookie, size, e);
}

/* A flag says that this may not wait, not the pipe's O_NONBLOCK: that is its sender's to clear, too. */
static void on_writable(evutil_socket_t fd, short what, void *arg) {
    struct give *f = arg;
    if (what & EV_TIMEOUT) {
        end(f, err_new(EXIT_FAILED, "nobody took more of the file for %d s", GIVE_WAIT_S));
        return;
    }
    if (!f->left) {
        end(f, NULL);
        return;
    }
    ssize_t n = splice(f->from, NULL, fd, NULL, f->left < PIECE ? (size_t)f->left : PIECE, SPLICE_F_NONBLOCK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        end(f,
            n ? err_sys(errno, "send the file") : err_new(EXIT_FAILED, "the file became shorter meanwhile"));
    else
        f->left -= (uint64_t)n;
}

static err_t check_pipe(int fd) {
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fstat(fd, &st) || !S_ISFIFO(st.st_mode) || (flags & (O_PATH | O_ACCMODE)) != O_WRONLY)
        return err_new(EXIT_POLICY, "a file goes into the writing end of a pipe");
    return NULL;
}

static err_t start(struct gives *g, struct msg *m) {
    own_fd int from = -1;
    uint64_t size;
    TRY(check_pipe(m->fds[0]));
    if (g->n >= GIVES_MAX)
        return err_new(EXIT_POLICY, "%d files are being fetched already", GIVES_MAX);
    TRY(give_open(g->x->outbox, m->run_get.name, &from, &size));
    struct give *f = xcalloc(1, sizeof *f);
    f->of = g;
    f->cookie = m->run_get.cookie;
    f->size = f->left = size;
    f->from = TAKE_FD(from);
    f->to = TAKE_FD(m->fds[0]);
    f->next = g->first;
    g->first = f;
    g->n++;
    f->writable = event_new(g->x->base, f->to, EV_WRITE | EV_PERSIST, on_writable, f);
    event_add(f->writable, &(struct timeval){GIVE_WAIT_S, 0});
    return NULL;
}

void gives_start(struct gives *g, struct msg *m) {
    err_t e = start(g, m);
    if (e)
        say(g, m->run_get.cookie, 0, e);
}

struct gives *gives_new(struct executor *x, struct link *l) {
    struct gives *g = xcalloc(1, sizeof *g);
    g->x = x;
    g->link = l;
    return g;
}

void gives_free(struct gives *g) {
    if (!g)
        return;
    while (g->first)
        drop(g->first);
    free(g);
}
