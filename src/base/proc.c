/*
 * One child at a time, in a process group of its own so that a time-out ends what it started too. Everything
 * the child needs is prepared before fork(); between fork and exec only async-signal-safe calls are made. A
 * child that cannot be executed says errno and stage through a close-on-exec pipe, so "could not be run" is
 * never mistaken for an exit status. The parent waits on that pipe, on the output pipes and on a pidfd in one
 * poll(): it ends when the program ends, although a grandchild may still hold the pipes open.
 */
#include "base/proc.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { QUOTE_MAX = 300 };

enum stage { STAGE_TIE, STAGE_FDS, STAGE_NETNS, STAGE_DIR, STAGE_EXEC };
static const char *const stage_said[] = {
    [STAGE_TIE] = "tie our end to",
    [STAGE_FDS] = "pass descriptors to",
    [STAGE_NETNS] = "enter the network namespace for",
    [STAGE_DIR] = "enter the start folder of",
    [STAGE_EXEC] = "execute",
};

struct failure {
    int errnum;
    enum stage stage;
};

/* What is open in the parent while the child lives. Descriptors are -1 when closed. */
struct run {
    const struct proc_spec *spec;
    char *program;
    char *const *env;
    const char *plain[12]; /* the environment of programs that are given none */
    char *own[9];
    int in, out[2], err[2], said[2];
    struct buf errors; /* standard error that nobody asked for, kept for the sentence */
    pid_t pid, parent;
    int pidfd;
    bool stopped; /* `until` was readable */
};

char *proc_find(const char *name) {
    if (strchr(name, '/'))
        return access(name, X_OK) == 0 ? xstrdup(name) : NULL;
    for (const char *at = PROC_PATH; *at;) {
        size_t n = strcspn(at, ":");
        char *path = xasprintf("%.*s/%s", (int)n, at, name);
        if (access(path, X_OK) == 0)
            return path;
        free(path);
        at += n + (at[n] == ':');
    }
    return NULL;
}

const char *proc_name(const char *path) {
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (!slash)
        return path;
    for (const char *at = PROC_PATH; *at; at += strspn(at, ":")) {
        size_t k = strcspn(at, ":");
        if (k == n && !memcmp(at, path, n))
            return slash + 1;
        at += k;
    }
    return NULL;
}

/* Closes [from, to]. Kernels before 5.9 have no close_range(2): one by one up to the soft limit then. */
static void close_span(unsigned from, unsigned to) {
    if (from > to || syscall(SYS_close_range, from, to, 0) == 0)
        return;
    struct rlimit lim;
    unsigned last =
        getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < 1 << 20 ? (unsigned)lim.rlim_cur : 1 << 20;
    for (unsigned fd = from; fd <= to && fd < last; fd++)
        close((int)fd);
}

void fds_close_from(int from, const int *keep, size_t nkeep) {
    unsigned at = (unsigned)from;
    for (;;) {
        unsigned next = ~0u;
        for (size_t i = 0; i < nkeep; i++)
            if (keep[i] >= 0 && (unsigned)keep[i] >= at && (unsigned)keep[i] < next)
                next = (unsigned)keep[i];
        if (next == ~0u)
            break;
        if (next > at)
            close_span(at, next - 1);
        at = next + 1;
    }
    close_span(at, ~0u);
}

static _Noreturn void child_fails(int fd, enum stage stage) {
    struct failure f = {errno, stage};
    (void)!write(fd, &f, sizeof f);
    _exit(EXIT_FAILED);
}

/* Puts the descriptors in their places: first all of them above the places, then down. Returns the failure
 * pipe's. */
static int child_fds(const struct run *r) {
    const struct proc_spec *s = r->spec;
    int from[3 + PROC_KEEP_MAX] = {r->in, r->out[1], r->err[1]}, high = 3 + PROC_KEEP_MAX;
    size_t n = 3 + s->nkeep;
    memcpy(from + 3, s->keep, s->nkeep * sizeof from[0]);
    int said = fcntl(r->said[1], F_DUPFD_CLOEXEC, high);
    if (said < 0)
        child_fails(r->said[1], STAGE_FDS);
    for (size_t i = 0; i < n; i++)
        if ((from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, high)) < 0)
            child_fails(said, STAGE_FDS);
    for (size_t i = 0; i < n; i++)
        if (dup2(from[i], (int)i) < 0)
            child_fails(said, STAGE_FDS);
    fds_close_from((int)n, (const int[]){said}, 1);
    return said;
}

static _Noreturn void child(const struct run *r) {
    const struct proc_spec *s = r->spec;
    setpgid(0, 0);
    if (s->with_us && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != r->parent))
        child_fails(r->said[1], STAGE_TIE);
    if (s->netns > 0 && setns(s->netns, CLONE_NEWNET) < 0)
        child_fails(r->said[1], STAGE_NETNS);
    int said = child_fds(r);
    if (chdir(s->dir ? s->dir : "/") < 0)
        child_fails(said, STAGE_DIR);
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(022);
    execve(r->program, (char *const *)s->argv, r->env);
    child_fails(said, STAGE_EXEC);
}

static void close_pair(int fds[2]) {
    own_closep(&fds[0]);
    own_closep(&fds[1]);
}

static void run_free(struct run *r) {
    own_closep(&r->in);
    close_pair(r->out);
    close_pair(r->err);
    close_pair(r->said);
    own_closep(&r->pidfd);
    buf_free(&r->errors);
    for (size_t i = 0; i < COUNT(r->own); i++)
        free(r->own[i]);
    free(r->program);
}

/* Standard input: a memfd with the text (a pipe could block us both), else /dev/null. */
static err_t open_input(const char *text, int *ret_fd) {
    own_fd int fd = text ? memfd_create("input", MFD_CLOEXEC) : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(errno, "open standard input");
    for (size_t at = 0, n = text ? strlen(text) : 0; at < n;) {
        ssize_t put = write(fd, text + at, n - at);
        if (put < 0 && errno != EINTR)
            return err_sys(errno, "write standard input");
        at += put > 0 ? (size_t)put : 0;
    }
    lseek(fd, 0, SEEK_SET);
    *ret_fd = TAKE_FD(fd);
    return NULL;
}

static err_t open_output(bool wanted, int ret[2]) {
    if (wanted) {
        if (pipe2(ret, O_CLOEXEC) < 0)
            return err_sys(errno, "pipe");
        fcntl(ret[0], F_SETFL, O_RDONLY | O_NONBLOCK);
        return NULL;
    }
    ret[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
    return ret[1] < 0 ? err_sys(errno, "open /dev/null") : NULL;
}

static const char *const *carried;

void proc_carry(const char *const *names) {
    carried = names;
}

static const char *const *plain_env(struct run *r) {
    static const char *const users[] = {"HOME", "XDG_RUNTIME_DIR", NULL};
    const char *const *names = carried ? carried : geteuid() != 0 ? users : users + COUNT(users) - 1;
    size_t n = 0, own = 0;
    r->plain[n++] = "PATH=" PROC_PATH;
    r->plain[n++] = "LC_ALL=C.UTF-8";
    if (!*names)
        r->plain[n++] = "HOME=/root";
    for (; *names && own < COUNT(r->own); names++)
        if (getenv(*names))
            r->plain[n++] = r->own[own++] = xasprintf("%s=%s", *names, getenv(*names));
    return r->plain;
}

static err_t start(struct run *r) {
    const struct proc_spec *s = r->spec;
    r->program = proc_find(s->argv[0]);
    if (!r->program)
        return err_new(EXIT_NOTFOUND, "%s is not installed (looked in %s)", s->argv[0], PROC_PATH);
    r->env = (char *const *)(s->env ? s->env : plain_env(r));
    TRY(open_input(s->input, &r->in));
    TRY(open_output(s->out, r->out));
    TRY(open_output(true, r->err));
    if (pipe2(r->said, O_CLOEXEC) < 0)
        return err_sys(errno, "pipe");
    r->parent = getpid();
    r->pid = fork();
    if (r->pid < 0)
        return err_sys(errno, "fork");
    if (r->pid == 0)
        child(r);
    setpgid(r->pid, r->pid);
    own_closep(&r->in);
    own_closep(&r->out[1]);
    own_closep(&r->err[1]);
    own_closep(&r->said[1]);
    r->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
    return NULL;
}

/* Reads what is there; bytes over the bound are read and dropped, so the program never blocks on us. */
static void take(int *fd, struct buf *to) {
    char chunk[16384];
    while (*fd >= 0) {
        ssize_t n = read(*fd, chunk, sizeof chunk);
        if (n > 0) {
            size_t room = to->len < PROC_OUTPUT_MAX ? PROC_OUTPUT_MAX - to->len : 0;
            buf_add(to, chunk, (size_t)n < room ? (size_t)n : room);
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else {
            if (n == 0)
                own_closep(fd);
            return;
        }
    }
}

static int left_ms(int64_t deadline) {
    if (!deadline)
        return -1;
    int64_t ms = (deadline - clock_mono_ns()) / 1000000;
    return ms < 0 ? 0 : ms > 1 << 30 ? 1 << 30 : (int)ms;
}

static bool reaped(struct run *r, int *ret_status) {
    pid_t got;
    do
        got = waitpid(r->pid, ret_status, WNOHANG);
    while (got < 0 && errno == EINTR);
    if (got < 0) { /* somebody else reaped it (SIGCHLD ignored): it is over, its status is lost */
        *ret_status = EXIT_FAILED << 8;
        return true;
    }
    return got == r->pid;
}

/* Until the program itself has ended. False: its time was up, or it was stopped, and its group was killed. */
static bool follow(struct run *r, int *ret_status) {
    struct buf *errors = r->spec->err_out ? r->spec->err_out : &r->errors, none = {0};
    int64_t deadline = r->spec->timeout_ms > 0 ? clock_mono_ns() + r->spec->timeout_ms * INT64_C(1000000) : 0;
    bool in_time = true;
    while (!reaped(r, ret_status)) {
        struct pollfd p[] = {{r->pidfd, POLLIN, 0},
                             {r->out[0], POLLIN, 0},
                             {r->err[0], POLLIN, 0},
                             {in_time && r->spec->until > 0 ? r->spec->until : -1, POLLIN, 0}};
        int ms = left_ms(deadline);
        if (deadline && in_time && ms == 0) {
            in_time = false;
            kill(-r->pid, SIGKILL);
        }
        if (!in_time || r->pidfd < 0) /* no pidfd before 5.3: look again soon */
            ms = 20;
        if (poll(p, COUNT(p), ms) > 0 && p[3].revents) {
            in_time = false;
            r->stopped = true;
            kill(-r->pid, SIGKILL);
        }
        take(&r->out[0], r->spec->out ? r->spec->out : &none);
        take(&r->err[0], errors);
        if (r->spec->watch)
            r->spec->watch(r->spec->watch_ctx, errors);
    }
    take(&r->out[0], r->spec->out ? r->spec->out : &none);
    take(&r->err[0], errors);
    buf_free(&none);
    return in_time;
}

static err_t finish(struct run *r, int *ret_status) {
    int status = 0;
    bool in_time = follow(r, &status);
    struct failure f;
    if (read(r->said[0], &f, sizeof f) == sizeof f)
        return err_as(err_sys(f.errnum, "%s %s", stage_said[f.stage], r->program),
                      f.stage == STAGE_EXEC && f.errnum == ENOENT ? EXIT_NOTFOUND : EXIT_FAILED);
    if (r->stopped)
        return err_new(EXIT_FAILED, "%s was stopped", r->spec->argv[0]);
    if (!in_time)
        return err_new(EXIT_TIMED_OUT, "%s did not end within %d ms and was killed", r->spec->argv[0],
                       r->spec->timeout_ms);
    *ret_status = status;
    return NULL;
}

/* The end of what the program said, one escaped line. */
static void quote(char out[QUOTE_MAX], const struct buf *said) {
    const char *text = buf_text(said);
    size_t n = said->len;
    while (n && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    size_t from = n > QUOTE_MAX / 2 ? n - QUOTE_MAX / 2 : 0;
    escape_into(out, QUOTE_MAX, ESCAPE_LINE, text + from, n - from);
}

static err_t judge(const struct proc_spec *spec, int status, const struct buf *said) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return NULL;
    char text[QUOTE_MAX];
    quote(text, said);
    const char *sub = spec->argv[1] ? spec->argv[1] : "";
    if (WIFSIGNALED(status))
        return err_new(EXIT_FAILED, "%s %.40s was ended by signal %d%s%s", spec->argv[0], sub,
                       WTERMSIG(status), text[0] ? ": " : "", text);
    return err_new(EXIT_FAILED, "%s %.40s failed with status %d%s%s", spec->argv[0], sub, WEXITSTATUS(status),
                   text[0] ? ": " : "", text);
}

static err_t run(const struct proc_spec *spec, bool must, int *ret_status) {
    struct run r = {.spec = spec, .in = -1, .out = {-1, -1}, .err = {-1, -1}, .said = {-1, -1}, .pidfd = -1};
    int status = 0;
    err_t e = start(&r);
    if (!e)
        e = finish(&r, &status);
    if (!e && must)
        e = judge(spec, status, spec->err_out ? spec->err_out : &r.errors);
    run_free(&r);
    if (!e && ret_status)
        *ret_status = status;
    return e;
}

err_t proc_run(const struct proc_spec *spec, int *ret_status) {
    return run(spec, false, ret_status);
}

err_t proc_must(const struct proc_spec *spec) {
    return run(spec, true, NULL);
}

err_t proc_call_argv(const char *const *argv) {
    return proc_must(&(struct proc_spec){.argv = argv});
}
