#include "shim/pump.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SPLICE_BYTES = 1 << 20 };

void pump_open(struct pump *p, int from, int to, bool out) {
    struct stat st;
    int other = out ? to : from;
    *p = (struct pump){.from = from, .to = to, .out = out};
    p->socket = fstat(other, &st) == 0 && S_ISSOCK(st.st_mode);
    /* To a socket splice() can block without end, and the kernel refuses it for files opened to append. */
    p->plain = out && (p->socket || (fcntl(to, F_GETFL) & O_APPEND));
}

/* Closing our end of the pipe is how the command learns: end of file, or a broken pipe. */
static void over(struct pump *p) {
    own_closep(p->out ? &p->from : &p->to);
    p->from = p->to = -1;
    free(TAKE(p->buffer));
}

struct pollfd pump_wants(const struct pump *p) {
    return p->full ? (struct pollfd){p->to, POLLOUT, 0} : (struct pollfd){p->from, POLLIN, 0};
}

static ssize_t put(const struct pump *p) {
    const char *data = p->buffer + p->at;
    return p->out && p->socket ? send(p->to, data, p->len, MSG_DONTWAIT | MSG_NOSIGNAL)
                               : write(p->to, data, p->len);
}

static ssize_t get(struct pump *p) {
    if (!p->buffer)
        p->buffer = xmalloc(PUMP_BUFFER);
    p->at = 0;
    return !p->out && p->socket ? recv(p->from, p->buffer, PUMP_BUFFER, MSG_DONTWAIT)
                                : read(p->from, p->buffer, PUMP_BUFFER);
}

/* One step with a buffer. False: nothing more can be done now, or it is over. */
static bool step_plain(struct pump *p) {
    if (!p->len) {
        ssize_t n = get(p);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            over(p);
        if (n <= 0)
            return n < 0 && errno == EINTR && p->from >= 0;
        p->len = (size_t)n;
    }
    ssize_t n = put(p);
    if (n < 0 && errno == EAGAIN) {
        p->full = true;
        return false;
    }
    if (n < 0 && errno != EINTR) {
        over(p);
        return false;
    }
    p->full = false;
    if (n > 0) {
        p->at += (size_t)n;
        p->len -= (size_t)n;
    }
    return true;
}

static bool step_splice(struct pump *p) {
    ssize_t n = splice(p->from, NULL, p->to, NULL, SPLICE_BYTES, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n > 0) {
        p->full = false;
        return true;
    }
    if (n < 0 && errno == EINTR)
        return true;
    if (n < 0 && errno == EINVAL) {
        p->plain = true;
        return true;
    }
    if (n < 0 && errno == EAGAIN) {
        /* Which side? Output waits for the command to write more. Input: a pipe that has room was not the cause. */
        struct pollfd room = {p->to, POLLOUT, 0};
        p->full = !p->out && poll(&room, 1, 0) == 0;
        return false;
    }
    over(p);
    return false;
}

static bool step(struct pump *p) {
    return p->plain ? step_plain(p) : step_splice(p);
}

void pump_run(struct pump *p) {
    /* A tty or a device as `from` may block in read(): one step for each time that poll() said it is ready. */
    bool more = p->from >= 0 && step(p);
    while (more && p->out && p->from >= 0)
        more = step(p);
}

void pump_drain(struct pump *p) {
    while (p->from >= 0 && p->out) {
        struct pollfd ready = {p->to, POLLOUT, 0};
        if (!step(p)) {
            if (p->from < 0 || !p->full)
                break;
            poll(&ready, 1, -1);
        }
    }
    if (p->from >= 0)
        over(p);
}
