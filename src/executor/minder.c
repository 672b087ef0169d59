/*
 * fork(), not CLONE_VM: the minder lives as long as its command. It allocates nothing and touches few pages,
 * so copy-on-write keeps it small. What it says on its pipe: first the outcome of the start, then the status.
 */
#include "executor/minder.h"
#include "base/clock.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_MS = 10000 };

struct started {
    pid_t main;     /* 0: it did not start, and why follows */
    struct err why; /* no pointers inside */
};

static void tell(int fd, const void *p, size_t n) {
    while (write(fd, p, n) < 0 && errno == EINTR)
        ;
}

static _Noreturn void mind(const struct spawn *s, int out) {
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    prctl(PR_SET_NAME, "cage-minder", 0, 0, 0);
    struct started first = {0};
    err_t e = spawn(s, &first.main);
    if (e) {
        first.main = 0;
        first.why = *e;
    }
    tell(out, &first, sizeof first);
    /* The command's pipes must end when the command closes them: keep nothing but our own. */
    if (dup2(out, 0) < 0)
        _exit(EXIT_FAILED);
    close_range(1, ~0u, 0);
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        if (pid == first.main && pid > 0)
            tell(0, &status, sizeof status);
        if (pid < 0 && errno == ECHILD)
            _exit(0);
    }
}

static err_t copy(const struct err *from) {
    err_t e = err_new(from->status, "%s", from->text);
    e->errnum = from->errnum;
    return e;
}

/* What the minder says of the start. False: it does not, being ended or stopped. A signal, which any command can send us, is no
 * answer. */
static bool hear_start(int in, struct started *ret) {
    int64_t end = clock_mono_ns() + START_MS * INT64_C(1000000), left = end;
    while ((left = end - clock_mono_ns()) > 0) {
        int ready = poll(&(struct pollfd){in, POLLIN, 0}, 1, (int)(left / 1000000) + 1);
        ssize_t n = ready == 1 ? read(in, ret, sizeof *ret) : ready;
        if (n >= 0 || errno != EINTR)
            return n == (ssize_t)sizeof *ret;
    }
    return false;
}

err_t minder_start(const struct spawn *s, pid_t *ret_pid, pid_t *ret_main, int *ret_end) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(errno, "pipe");
    own_fd int in = ends[0], out = ends[1];
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(errno, "no new process can be made: end what runs in the room");
    if (pid == 0)
        mind(s, out);
    own_closep(&out);
    struct started first;
    bool whole = hear_start(in, &first);
    if (!whole || !first.main) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        if (whole)
            return copy(&first.why);
        err_t e = err_new(EXIT_FAILED, "the command was ended before it was known to have begun");
        e->errnum = EPIPE;
        return e;
    }
    *ret_pid = pid;
    *ret_main = first.main;
    *ret_end = TAKE_FD(in);
    return NULL;
}
