#include "harness/program.h"
#include "base/buf.h"
#include "base/escape.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/proc.h"
#include "harness/child.h"
#include "harness/json_line.h"
#include "harness/lines.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { SHOWN_MAX = 300 };

struct program {
    const struct floor *floor;
    const struct program_ops *ops;
    void *ctx;
    pid_t pid; /* 0: none */
    bool ended, end_input;
    bool closing, told_to_end; /* by its input's end; by SIGTERM */
    int status;
    struct event *out, *err, *in; /* NULL: closed */
    struct event *patience;       /* while closing */
    size_t left;                  /* once ended: bytes of standard output that are still read */
    struct buf queue;
    struct lines lines;
    struct buf errors;
    char shown[SHOWN_MAX];
    char chunk[OUTPUT_MAX];
};

/* --- hearing --- */

static void on_line(void *ctx, char *text, size_t n) {
    struct program *p = ctx;
    own_json json_t *j = json_line(text, n);
    if (j) {
        p->ops->line(p->ctx, j);
        return;
    }
    p->ops->plain(p->ctx, text);
}

static void on_cut(void *ctx, uint64_t n) {
    struct program *p = ctx;
    char sentence[120];
    snprintf(sentence, sizeof sentence, "a line of %" PRIu64 " bytes was passed over (%d are the most)", n,
             LINE_MAX_BYTES);
    p->ops->cut(p->ctx, sentence);
}

static const struct lines_ops line_ops = {.line = on_line, .cut = on_cut};

static void shut(struct event **end) {
    if (!*end)
        return;
    close(event_get_fd(*end));
    event_free(TAKE(*end));
}

/* Everything but what waits to be asked: program_errors(). */
static void forget(struct program *p) {
    shut(&p->out);
    shut(&p->err);
    shut(&p->in);
    buf_clear(&p->queue);
    lines_free(&p->lines);
    event_del(p->patience);
    p->pid = 0;
    p->ended = p->end_input = p->closing = p->told_to_end = false;
}

/* What reaches its standard output later is nobody's. */
static void tell_if_over(struct program *p) {
    if (!p->ended || (p->left && p->out))
        return;
    pid_t pid = p->pid;
    if (!p->closing)
        lines_end(&p->lines, &line_ops, p);
    if (p->pid != pid)
        return; /* that line made its owner drop it */
    int status = p->status;
    forget(p);
    p->ops->over(p->ctx, status);
}

static void on_out(evutil_socket_t fd, short what, void *arg) {
    (void)what;
    struct program *p = arg;
    if (!p->closing && say_full(p->floor->up)) { /* until program_resume() */
        event_del(p->out);
        return;
    }
    pid_t pid = p->pid;
    size_t most = p->ended && p->left < sizeof p->chunk ? p->left : sizeof p->chunk;
    ssize_t n = most ? read(fd, p->chunk, most) : 0;
    if (n > 0) {
        p->left -= p->ended ? (size_t)n : 0;
        if (!p->closing)
            lines_add(&p->lines, LINE_MAX_BYTES, p->chunk, (size_t)n, &line_ops, p);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        shut(&p->out);
    if (p->pid == pid)
        tell_if_over(p);
}

/* The newest PROGRAM_ERRORS_MAX bytes. */
static void on_err(evutil_socket_t fd, short what, void *arg) {
    (void)what;
    struct program *p = arg;
    ssize_t n = read(fd, p->chunk, sizeof p->chunk);
    if (n > 0) {
        buf_add(&p->errors, p->chunk, (size_t)n);
        if (p->errors.len > PROGRAM_ERRORS_MAX)
            buf_drop(&p->errors, p->errors.len - PROGRAM_ERRORS_MAX);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        shut(&p->err);
}

/* --- speaking --- */

static void on_in(evutil_socket_t fd, short what, void *arg) {
    (void)what;
    struct program *p = arg;
    ssize_t n = p->queue.len ? write(fd, p->queue.p, p->queue.len) : 0;
    if (n > 0)
        buf_drop(&p->queue, (size_t)n);
    else if (n < 0 && errno != EAGAIN && errno != EINTR) {
        shut(&p->in); /* it does not listen any more: its end tells */
        return;
    }
    if (p->queue.len)
        event_add(p->in, NULL);
    else if (p->end_input)
        shut(&p->in);
}

bool program_write(struct program *p, const char *bytes, size_t n, bool end) {
    if (p->queue.len + n > PROGRAM_QUEUE_MAX)
        return false;
    if (!p->in || p->closing)
        return true; /* it closed its input; that it ended will be told */
    buf_add(&p->queue, bytes, n);
    p->end_input |= end;
    event_add(p->in, NULL);
    return true;
}

bool program_say(struct program *p, json_t *j) {
    own_json json_t *owned = j;
    own_free char *text = json_dumps(owned, JSON_COMPACT);
    if (!text)
        return false;
    own_buf struct buf line = {0};
    buf_adds(&line, text);
    buf_adds(&line, "\n");
    return program_write(p, line.p, line.len, false);
}

/* --- its life --- */

static struct event *listen_on(struct program *p, int fd, event_callback_fn fn) {
    struct event *e = event_new(p->floor->base, fd, EV_READ | EV_PERSIST, fn, p);
    event_add(e, NULL);
    return e;
}

err_t program_start(struct program *p, const char *path, char *const argv[], char *const env[]) {
    own_free char *ours = strchr(path, '/') ? NULL : xasprintf("/cage/harness/bin/%s", path);
    own_free char *own = ours ? proc_find(ours) : NULL;
    own_free char *found = own ? TAKE(own) : proc_find(path);
    if (!found)
        return err_new(EXIT_NOTFOUND, "this room has no program %s", path);
    struct child child;
    TRY(child_start(found, argv, env, p->floor->project, true, &child));
    forget(p);
    buf_clear(&p->errors);
    p->pid = child.pid;
    p->left = 0;
    p->out = listen_on(p, child.out, on_out);
    p->err = listen_on(p, child.err, on_err);
    p->in = event_new(p->floor->base, child.in, EV_WRITE, on_in, p);
    return NULL;
}

bool program_runs(const struct program *p) {
    return p->pid && !p->ended && !p->closing;
}

bool program_leaves(const struct program *p) {
    return p->closing;
}

/* A kernel without CONFIG_PROC_CHILDREN has no such file, of any thread. */
static bool children_are_told(void) {
    own_buf struct buf pids = {0};
    own_err err_t no = fs_read("/proc/thread-self/children", 65536, &pids);
    return !no;
}

/* Of its main thread and of the others (proc(5): children are told thread by thread). */
bool program_has_children(const struct program *p) {
    if (program_runs(p) && !children_are_told())
        return true; /* where it cannot be known it may have */
    own_free char *path = xasprintf("/proc/%d/task", p->pid);
    DIR *dir = program_runs(p) ? opendir(path) : NULL;
    bool any = false;
    for (struct dirent *d; dir && !any && (d = readdir(dir));) {
        own_free char *file = xasprintf("%s/%s/children", path, d->d_name);
        own_buf struct buf pids = {0};
        own_err err_t e = d->d_name[0] == '.' ? NULL : fs_read(file, 65536, &pids);
        any = pids.len || (e && e->status != EXIT_NOTFOUND); /* not found: that thread ended */
    }
    if (dir)
        closedir(dir);
    return any;
}

void program_signal(struct program *p, int signo) {
    if (program_runs(p))
        kill(-p->pid, signo);
}

void program_drop(struct program *p) {
    if (p->pid && !p->ended)
        kill(-p->pid, SIGKILL);
    forget(p);
}

static void on_patience(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct program *p = arg;
    kill(-p->pid, p->told_to_end ? SIGKILL : SIGTERM);
    p->told_to_end = true;
    event_add(p->patience, &(struct timeval){PROGRAM_TERM_MS / 1000, PROGRAM_TERM_MS % 1000 * 1000});
}

void program_close(struct program *p, unsigned ms) {
    if (!program_runs(p)) {
        if (!p->closing)
            forget(p);
        return;
    }
    p->closing = true;
    buf_clear(&p->queue);
    p->end_input = true;
    if (p->in)
        event_add(p->in, NULL);
    if (p->out)
        event_add(p->out, NULL); /* it may want to say much before it reads that */
    event_add(p->patience, &(struct timeval){(time_t)(ms / 1000), (suseconds_t)(ms % 1000) * 1000});
}

void program_exited(struct program *p, pid_t pid, int status) {
    if (!p->pid || pid != p->pid || p->ended)
        return;
    kill(-pid, SIGKILL); /* the rest of its group */
    p->ended = true;
    p->status = status;
    int there = 0;
    if (!p->closing && p->out && ioctl(event_get_fd(p->out), FIONREAD, &there) == 0 && there > 0)
        p->left = (size_t)there;
    while (p->err && ioctl(event_get_fd(p->err), FIONREAD, &there) == 0 && there > 0)
        on_err(event_get_fd(p->err), EV_READ, p);
    tell_if_over(p);
}

void program_resume(struct program *p) {
    if (p->out)
        event_add(p->out, NULL);
}

const char *program_errors(struct program *p) {
    size_t len = p->errors.len;
    while (len && strchr("\r\n\t ", p->errors.p[len - 1]))
        len--;
    size_t from = len > 200 ? len - 200 : 0;
    while (from < len && ((unsigned char)p->errors.p[from] & 0xc0) == 0x80)
        from++;
    return escape_into(p->shown, sizeof p->shown, ESCAPE_LINE, buf_text(&p->errors) + from, len - from);
}

bool program_complained(const struct program *p, const char *phrase) {
    return p->errors.len && memmem(p->errors.p, p->errors.len, phrase, strlen(phrase));
}

struct program *program_new(const struct floor *f, const struct program_ops *ops, void *ctx) {
    struct program *p = xcalloc(1, sizeof *p);
    *p = (struct program){.floor = f, .ops = ops, .ctx = ctx};
    p->patience = evtimer_new(f->base, on_patience, p);
    return p;
}

void program_free(struct program *p) {
    if (!p)
        return;
    program_drop(p);
    event_free(p->patience);
    buf_free(&p->queue);
    buf_free(&p->errors);
    free(p);
}
