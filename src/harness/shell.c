/*
 * The harness `shell`: each message is one command line for bash, in the project folder. In this room
 * /bin/bash is the shim, so the command itself runs in the executor; its two pipes come with it.
 *
 * A turn is over when bash has ended, even if something that it left in the background holds a pipe: what is
 * in the pipes at that moment still belongs to the report (FIONREAD: a survivor that goes on writing must not
 * keep the turn open). From then on the pipe is read and forgotten, so that a server in the background does
 * not die of its next line.
 */
#include "harness/child.h"
#include "harness/harness.h"
#include "base/own.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TERM_TO_KILL_MS = 1000, LEFT_MAX = 64 };

struct shell;

struct pipe_end {
    struct shell *shell;
    enum stream stream;
    struct event *readable; /* NULL: at its end, or handed on */
    size_t left;            /* once bash has ended: bytes that are still read for the report */
};

/* A pipe that outlived its turn. */
struct leftover {
    struct event *readable;
    struct shell *shell;
    struct leftover *next;
};

struct shell {
    const struct floor *floor;
    pid_t pid; /* 0: no turn */
    bool ended, stopping;
    int status;
    struct pipe_end ends[2];
    struct event *kill_timer;
    struct leftover *leftovers; /* newest first */
    char chunk[OUTPUT_MAX];
};

/* --- leftovers --- */

static void leftover_free(struct leftover *gone) {
    struct leftover **at = &gone->shell->leftovers;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    close(event_get_fd(gone->readable));
    event_free(gone->readable);
    free(gone);
}

static void on_leftover(evutil_socket_t fd, short what, void *arg) {
    (void)what;
    struct leftover *lo = arg;
    ssize_t n = read(fd, lo->shell->chunk, sizeof lo->shell->chunk);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        leftover_free(lo);
}

static void leave_over(struct shell *s, int fd) {
    struct leftover *lo = xcalloc(1, sizeof *lo);
    *lo = (struct leftover){.shell = s, .next = s->leftovers};
    lo->readable = event_new(s->floor->base, fd, EV_READ | EV_PERSIST, on_leftover, lo);
    event_add(lo->readable, NULL);
    s->leftovers = lo;
    size_t n = 0;
    for (struct leftover *at = s->leftovers, *next; at; at = next) {
        next = at->next;
        if (++n > LEFT_MAX)
            leftover_free(at);
    }
}

/* --- a turn's output --- */

static void end_pipe(struct pipe_end *p, bool at_end) {
    int fd = event_get_fd(p->readable);
    event_free(TAKE(p->readable));
    p->left = 0;
    if (at_end)
        close(fd);
    else
        leave_over(p->shell, fd);
}

static void end_turn_if_drained(struct shell *s) {
    if (!s->ended || s->ends[0].left || s->ends[1].left)
        return;
    for (size_t i = 0; i < COUNT(s->ends); i++)
        if (s->ends[i].readable)
            end_pipe(&s->ends[i], false);
    s->pid = 0;
    say_end(s->floor->up, "done", WIFSIGNALED(s->status) ? 128 + WTERMSIG(s->status) : WEXITSTATUS(s->status),
            "");
}

/* Reads once. */
static void on_readable(evutil_socket_t fd, short what, void *arg) {
    (void)what;
    struct pipe_end *p = arg;
    struct shell *s = p->shell;
    if (say_full(s->floor->up)) { /* until resume() */
        event_del(p->readable);
        return;
    }
    size_t most = s->ended && p->left < sizeof s->chunk ? p->left : sizeof s->chunk;
    ssize_t n = most ? read(fd, s->chunk, most) : 0;
    if (n > 0) {
        say_output(s->floor->up, p->stream, s->chunk, (size_t)n);
        p->left -= s->ended ? (size_t)n : 0;
    } else if (most && (n == 0 || (errno != EAGAIN && errno != EINTR)))
        end_pipe(p, true);
    end_turn_if_drained(s);
}

static void begin_pipe(struct shell *s, size_t i, enum stream stream, int fd) {
    struct pipe_end *p = &s->ends[i];
    *p = (struct pipe_end){.shell = s, .stream = stream};
    p->readable = event_new(s->floor->base, fd, EV_READ | EV_PERSIST, on_readable, p);
    event_add(p->readable, NULL);
}

static void shell_resume(void *h) {
    struct shell *s = h;
    for (size_t i = 0; i < COUNT(s->ends); i++)
        if (s->ends[i].readable)
            event_add(s->ends[i].readable, NULL);
}

/* --- a turn --- */

static err_t shell_start(void *h, const char *text) {
    struct shell *s = h;
    static char bash[] = "bash", command[] = "-c", no_more_options[] = "--";
    own_free char *copy = xstrdup(text);
    char *argv[5] = {bash, command};
    size_t n = 2;
    if (text[0] == '-' || text[0] == '+') /* looks like an option, and is the command all the same */
        argv[n++] = no_more_options;
    argv[n] = copy;
    struct child child;
    TRY(child_start("/bin/bash", argv, s->floor->env, s->floor->project, false, &child));
    s->pid = child.pid;
    s->ended = s->stopping = false;
    begin_pipe(s, 0, STREAM_OUT, child.out);
    begin_pipe(s, 1, STREAM_ERR, child.err);
    return NULL;
}

static void on_kill_timer(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct shell *s = arg;
    if (s->pid && !s->ended)
        kill(-s->pid, SIGKILL);
}

static void shell_stop(void *h) {
    struct shell *s = h;
    if (!s->pid || s->ended || s->stopping)
        return;
    s->stopping = true;
    kill(-s->pid, SIGTERM);
    struct timeval tv = {TERM_TO_KILL_MS / 1000, TERM_TO_KILL_MS % 1000 * 1000};
    event_add(s->kill_timer, &tv);
}

static void shell_exited(void *h, pid_t pid, int status) {
    struct shell *s = h;
    if (!s->pid || pid != s->pid)
        return;
    if (s->stopping)
        kill(-pid, SIGKILL); /* the rest of its group */
    event_del(s->kill_timer);
    s->ended = true;
    s->status = status;
    for (size_t i = 0; i < COUNT(s->ends); i++) {
        int there = 0;
        if (s->ends[i].readable && ioctl(event_get_fd(s->ends[i].readable), FIONREAD, &there) == 0 &&
            there > 0)
            s->ends[i].left = (size_t)there;
    }
    end_turn_if_drained(s);
}

static err_t shell_open(const struct floor *f, void **ret) {
    if (f->arg[0])
        return err_new(EXIT_USAGE, "the harness shell takes no argument");
    struct shell *s = xcalloc(1, sizeof *s);
    s->floor = f;
    s->kill_timer = event_new(f->base, -1, 0, on_kill_timer, s);
    *ret = s;
    return NULL;
}

static void shell_close(void *h) {
    struct shell *s = h;
    if (s->pid && !s->ended)
        kill(-s->pid, SIGKILL);
    for (size_t i = 0; i < COUNT(s->ends); i++)
        if (s->ends[i].readable)
            end_pipe(&s->ends[i], true);
    while (s->leftovers)
        leftover_free(s->leftovers);
    event_free(s->kill_timer);
    free(s);
}

extern const struct harness shell_harness;
const struct harness shell_harness = {
    .open = shell_open,
    .start = shell_start,
    .stop = shell_stop,
    .resume = shell_resume,
    .exited = shell_exited,
    .close = shell_close,
};
