#include "warden/worker.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/paths.h"
#include "base/proc.h"
#include "wire/seq.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct worker {
    struct worker *next;
    struct event_base *base;
    const struct worker_ops *ops;
    void *job, *ctx;
    int fd;
    struct event *readable;
    bool running, forgotten, ended;
    struct err why;
    bool failed;
    unsigned char result[WORKER_RESULT_MAX];
    size_t nresult;
};

enum record_kind { LINE = 'L', RESULT = 'R', END = 'E' };
struct record {
    char kind;
    union {
        char line[WORKER_LINE_MAX];
        unsigned char result[WORKER_RESULT_MAX];
        struct err why; /* status 0: it worked */
    };
};

static struct worker *workers; /* running ones and, behind them, those that wait */

static void pump(void);

static void unlist(const struct worker *w) {
    for (struct worker **p = &workers; *p; p = &(*p)->next)
        if (*p == w) {
            *p = w->next;
            return;
        }
}

static void finish(struct worker *w) {
    unlist(w);
    if (w->readable)
        event_free(w->readable);
    own_closep(&w->fd);
    if (!w->ended) {
        w->failed = true;
        own_err err_t e = err_new(EXIT_FAILED, "the worker died before its work was done");
        w->why = *e;
    }
    if (!w->forgotten)
        w->ops->on_end(w->ctx, w->failed ? &w->why : NULL, w->result, w->failed ? 0 : w->nresult);
    free(w);
    pump();
}

/* False: the worker is over. */
static bool take(struct worker *w, struct record *r, size_t n) {
    size_t body = n - offsetof(struct record, line);
    switch (r->kind) {
    case LINE:
        r->line[body < sizeof r->line ? body : sizeof r->line - 1] = 0;
        if (w->ops->on_line && !w->forgotten)
            w->ops->on_line(w->ctx, r->line);
        return true;
    case RESULT:
        memcpy(w->result, r->result, body);
        w->nresult = body;
        return true;
    default:
        w->why = r->why;
        w->failed = r->why.status != 0;
        w->ended = true;
        return false;
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg) {
    (void)what;
    struct worker *w = arg;
    for (;;) {
        struct record r = {0};
        ssize_t n = recv(fd, &r, sizeof r, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= (ssize_t)offsetof(struct record, line) || !take(w, &r, (size_t)n)) {
            finish(w);
            return;
        }
    }
}

static void tell(int report, const struct record *r, size_t body) {
    while (send(report, r, offsetof(struct record, line) + body, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

/* The child: nothing of the warden's but standard output and the way to report. */
_Noreturn static void be_worker(struct worker *w, int report) {
    sigset_t none;
    sigemptyset(&none);
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, NULL);
    const int kept[] = {report, w->ops->keep ? w->ops->keep(w->job) : -1};
    fds_close_from(3, kept, COUNT(kept));
    struct record r = {.kind = END};
    err_t e = w->ops->run(w->job, report);
    if (e)
        r.why = *e;
    tell(report, &r, sizeof r.why);
    _exit(e ? 1 : 0);
}

static void launch(struct worker *w) {
    int pair[2];
    err_t e = seq_pair(pair);
    pid_t pid = -1;
    if (!e) {
        pid = fork();
        if (pid == 0)
            be_worker(w, pair[1]);
        if (pid < 0)
            e = err_sys(errno, "fork a worker");
        close(pair[1]);
        w->fd = pair[0];
    }
    w->running = true;
    if (e) { /* told from the loop, as any end */
        struct record r = {.kind = END, .why = *e};
        take(w, &r, sizeof r);
        err_free(e);
    }
    w->readable = event_new(w->base, w->fd, w->fd < 0 ? 0 : EV_READ | EV_PERSIST, on_readable, w);
    if (w->ended)
        event_active(w->readable, EV_READ, 0);
    else
        event_add(w->readable, NULL);
}

static void pump(void) {
    size_t running = 0;
    for (struct worker *w = workers; w; w = w->next)
        running += w->running;
    for (struct worker *w = workers; w && running < WORKERS_AT_ONCE; w = w->next)
        if (!w->running) {
            running++;
            launch(w);
        }
}

struct worker *worker_start(struct event_base *base, const struct worker_ops *ops, void *job, void *ctx) {
    struct worker *w = xcalloc(1, sizeof *w), **last = &workers;
    *w = (struct worker){.base = base, .ops = ops, .job = job, .ctx = ctx, .fd = -1};
    while (*last)
        last = &(*last)->next;
    *last = w;
    pump();
    return w;
}

void worker_forget(struct worker *w) {
    if (w && w->running)
        w->forgotten = true;
    else if (w) {
        unlist(w);
        free(w);
    }
}

size_t workers_busy(void) {
    size_t n = 0;
    for (struct worker *w = workers; w; w = w->next)
        n++;
    return n;
}

void worker_say(int report, const char *fmt, ...) {
    struct record r = {.kind = LINE};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r.line, sizeof r.line, fmt, ap);
    va_end(ap);
    tell(report, &r, strlen(r.line) + 1);
}

void worker_result(int report, const void *p, size_t n) {
    struct record r = {.kind = RESULT};
    if (n > sizeof r.result)
        return;
    memcpy(r.result, p, n);
    tell(report, &r, n);
}

err_t worker_lock(const char *name) {
    own_free char *path = path_of(DIR_RUN "/lock/%s", name);
    int fd; /* held until this process ends */
    return fs_lock(path, &fd);
}
