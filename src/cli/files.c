#include "cli/files.h"
#include "base/escape.h"
#include "base/own.h"
#include "proto/file_name.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 65536, PATIENCE_MS = 90000 }; /* longer than a room's own */

struct copy {
    struct client client;
    int from, to; /* one is ours of the pipe; that one is closed, -1, when there is no more to copy */
    bool out;     /* from us to the agent */
    uint64_t done;
    char piece[PIECE];
    size_t at, len;
    bool answered;
    err_t answer; /* owned */
    char *text;
};

static void copy_close(struct copy *c) {
    client_close(&c->client);
    own_closep(&c->from);
    own_closep(&c->to);
    err_free(c->answer);
    free(c->text);
}
#define own_copy __attribute__((cleanup(copy_close)))

/* Reads the next piece. False: there is none now. */
static bool fill(struct copy *c, err_t *ret_wrong) {
    ssize_t n = read(c->from, c->piece, PIECE);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        *ret_wrong = err_sys(errno, "read the file");
    if (n == 0)
        own_closep(c->out ? &c->to : &c->from);
    c->at = 0;
    c->len = n > 0 ? (size_t)n : 0;
    return n > 0;
}

/* One piece, or what the pipe takes of it. */
static err_t step(struct copy *c) {
    err_t wrong = NULL;
    if (!c->len && !fill(c, &wrong))
        return wrong;
    do {
        ssize_t n = write(c->to, c->piece + c->at, c->len);
        if (n < 0 && c->out && (errno == EAGAIN || errno == EPIPE)) { /* EPIPE: the answer says why */
            if (errno == EPIPE)
                own_closep(&c->to);
            return NULL;
        }
        if (n < 0 && errno != EINTR)
            return err_sys(errno, "write the file");
        if (n > 0) {
            c->at += (size_t)n;
            c->len -= (size_t)n;
            c->done += (uint64_t)n;
        }
    } while (c->len && !c->out);
    return c->done > FILE_BYTES_MAX ? err_new(EXIT_POLICY, "the file does not end") : NULL;
}

static err_t hear(struct copy *c) {
    own_msg struct msg m = {0};
    bool got;
    TRY(client_next(&c->client, 0, &m, &got));
    if (!got || m.type != MSG_relay_end)
        return NULL;
    c->answered = true;
    c->text = xstrdup(m.relay_end.text.p);
    if (m.relay_end.status)
        c->answer = err_new(m.relay_end.status < 256 ? (int)m.relay_end.status : EXIT_FAILED, "%s", c->text);
    return NULL;
}

/* Until it is answered, and of what comes to us until the pipe ends too. */
static err_t run(struct copy *c) {
    while (!c->answered || (!c->out && !c->answer && c->from >= 0)) {
        int ours = c->out ? c->to : c->from;
        struct pollfd p[2] = {{c->answered ? -1 : c->client.fd, POLLIN, 0},
                              {ours, c->out ? POLLOUT : POLLIN, 0}};
        int n = poll(p, 2, PATIENCE_MS);
        if (n < 0 && errno != EINTR)
            return err_sys(errno, "wait");
        if (n == 0)
            return err_new(EXIT_FAILED, "the fleet did not answer within %d s", PATIENCE_MS / 1000);
        if (n > 0 && p[1].revents)
            TRY(step(c));
        if (n > 0 && p[0].revents)
            TRY(hear(c));
    }
    return TAKE(c->answer);
}

/* m carries the other end of the pipe. */
static err_t begin(struct copy *c, struct msg *m) {
    int ends[2];
    signal(SIGPIPE, SIG_IGN);
    TRY(client_open(&c->client, "cli"));
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(errno, "make a pipe");
    own_fd int theirs = ends[c->out ? 0 : 1];
    *(c->out ? &c->to : &c->from) = ends[c->out ? 1 : 0];
    if (fcntl(ends[c->out ? 1 : 0], F_SETFL, O_NONBLOCK) < 0)
        return err_sys(errno, "make a pipe");
    m->fds[m->nfds++] = theirs;
    return client_ask(&c->client, m);
}

static err_t open_ours(const char *path, int *ret_fd, uint64_t *ret_size) {
    char shown[300];
    struct stat st;
    escape_into(shown, sizeof shown, ESCAPE_LINE, path, strlen(path));
    own_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st))
        return err_as(err_sys(errno, "%s", shown), errno == ENOENT ? EXIT_NOTFOUND : EXIT_FAILED);
    if (!S_ISREG(st.st_mode))
        return err_new(EXIT_POLICY, "%s is not a regular file", shown);
    *ret_fd = TAKE_FD(fd);
    *ret_size = (uint64_t)st.st_size;
    return NULL;
}

err_t files_put(const char *agent, const char *path, char **ret_place) {
    own_copy struct copy c = {.client = {.fd = -1}, .from = -1, .to = -1, .out = true};
    const char *slash = strrchr(path, '/');
    struct msg m = {.type = MSG_front_put};
    m.front_put.agent = bytes_of(agent);
    m.front_put.name = bytes_of(slash ? slash + 1 : path);
    TRY(open_ours(path, &c.from, &m.front_put.size));
    TRY(file_check(m.front_put.name, m.front_put.size));
    TRY(begin(&c, &m));
    TRY(run(&c));
    *ret_place = TAKE(c.text);
    return NULL;
}

err_t files_get(const char *agent, const char *name, const char *to) {
    own_copy struct copy c = {.client = {.fd = -1}, .from = -1, .to = -1};
    bool file = strcmp(to, "-") != 0;
    struct msg m = {.type = MSG_front_get};
    m.front_get.agent = bytes_of(agent);
    m.front_get.name = bytes_of(name);
    TRY(file_check(m.front_get.name, 0));
    c.to = file ? open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)
                : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (c.to < 0) {
        char shown[300];
        escape_into(shown, sizeof shown, ESCAPE_LINE, to, strlen(to));
        return errno == EEXIST
                   ? err_new(EXIT_FAILED,
                             "the file %s exists and is not written over: choose another by --to", shown)
                   : err_sys(errno, "make the file %s", shown);
    }
    err_t e = begin(&c, &m);
    if (!e)
        e = run(&c);
    if (e && file)
        unlink(to);
    return e;
}
