#include "harness/login.h"
#include "base/fs.h"
#include "base/lockin.h"
#include "base/log.h"
#include "base/own.h"
#include "base/procstat.h"
#include "harness/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum state { NONE_, EMPTY_FIRST, RUNS, EMPTY_LAST };
enum { TICK_MS = 20, TICKS_MAX = 250, ROWS = 60, COLUMNS = 1000 }; /* fewer than the agent's screen.h has */

static const struct way {
    const char *word, *path;
    const char *argv[4];
    const char *file; /* where it keeps the credential; NULL: it shows it */
} ways[] = {
    {"claude", "/cage/harness/claude", {"claude", "setup-token"}, NULL},
    {"codex", "/cage/harness/codex", {"codex", "login", "--device-auth"}, "auth.json"},
};

struct login {
    const struct floor *floor;
    const struct way *way; /* NULL: this harness has no log-in */
    const struct login_ops *ops;
    void *ctx;
    enum state state;
    struct event *tick;
    unsigned ticks;
    char *dir; /* its home, while it is there */
    pid_t pid;
    int64_t status;
    int file;
    char why[256];
};

/* ---- emptying the room ---- */

static bool is_alone(void) {
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

/* Children alone: theirs become ours when they are gone, and are met at the next tick. */
static void kill_children(void) {
    DIR *proc = opendir("/proc");
    for (struct dirent *d; proc && (d = readdir(proc));) {
        struct procstat p;
        pid_t pid = (pid_t)strtol(d->d_name, NULL, 10); /* 0: no process's folder */
        if (pid > 0 && procstat_read(pid, &p) && p.parent == getpid())
            kill(pid, SIGKILL);
    }
    if (proc)
        closedir(proc);
}

static void again(struct login *l) {
    event_add(l->tick, &(struct timeval){0, TICK_MS * 1000});
}

static void empty(struct login *l, enum state state) {
    l->state = state;
    l->ticks = 0;
    again(l);
}

/* ---- its program ---- */

static err_t open_terminal(int *ret_master, int *ret_slave) {
    own_fd int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    char name[64];
    if (master < 0 || unlockpt(master) < 0 || ptsname_r(master, name, sizeof name))
        return err_sys(errno, "a terminal for the log-in");
    own_fd int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    const struct winsize size = {.ws_row = ROWS, .ws_col = COLUMNS};
    if (slave < 0 || ioctl(slave, TIOCSWINSZ, &size) < 0)
        return err_sys(errno, "a terminal for the log-in");
    *ret_master = TAKE_FD(master);
    *ret_slave = TAKE_FD(slave);
    return NULL;
}

static err_t start(struct login *l) {
    char dir[] = "/tmp/login-XXXXXX";
    if (!mkdtemp(dir))
        return err_sys(errno, "a folder for the log-in");
    l->dir = xstrdup(dir);
    own_free char *home = xasprintf("HOME=%s", dir), *tmp = xasprintf("TMPDIR=%s", dir),
                  *claude = xasprintf("CLAUDE_CONFIG_DIR=%s", dir), *codex = xasprintf("CODEX_HOME=%s", dir),
                  *claude_tmp = xasprintf("CLAUDE_CODE_TMPDIR=%s", dir),
                  *proxy = xasprintf("HTTPS_PROXY=%s", l->floor->world->base_url);
    char *const env[] = {"PATH=/usr/bin:/bin",
                         "LANG=C.UTF-8",
                         "TERM=xterm-256color",
                         "IS_SANDBOX=1",
                         "DISABLE_AUTOUPDATER=1",
                         "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
                         home,
                         tmp,
                         claude,
                         claude_tmp,
                         codex,
                         proxy,
                         NULL};
    own_fd int master = -1, slave = -1, ruleset = -1;
    TRY(open_terminal(&master, &slave));
    TRY(lockin_writes((const char *const[]){dir, "/dev/null", "/dev/tty", "/dev/pts", NULL}, &ruleset));
    if (ruleset < 0)
        log_warn("this kernel has no Landlock: what the log-in writes outside its home stays in the room");
    l->ops->pty(l->ctx, master);
    char *argv[COUNT(l->way->argv)];
    memcpy(argv, l->way->argv, sizeof argv);
    /* Not in its home: the folders above that are /tmp, where the agent's program may have left a .claude or a .git. */
    return child_start_on(l->way->path, argv, env, "/", slave, ruleset, &l->pid);
}

/* Only a plain file of this name, not where a link leads. */
static void keep_file(struct login *l) {
    if (!l->way->file)
        return;
    own_free char *path = xasprintf("%s/%s", l->dir, l->way->file);
    l->file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/* ---- its states ---- */

static void over(struct login *l) {
    if (l->dir) {
        own_err err_t e = fs_remove(l->dir);
        if (e)
            log_warn("%s", err_text(e));
        free(TAKE(l->dir));
    }
    own_fd int file = TAKE_FD(l->file);
    l->state = NONE_;
    l->ops->end(l->ctx, l->status, l->why, file);
}

static void fail(struct login *l, const char *why) {
    l->status = EXIT_FAILED;
    snprintf(l->why, sizeof l->why, "%s", why);
}

static void on_empty(struct login *l) {
    if (l->state == EMPTY_LAST) {
        over(l);
        return;
    }
    l->state = RUNS;
    own_err err_t e = start(l);
    if (!e)
        return;
    fail(l, err_text(e));
    empty(l, EMPTY_LAST);
}

static void on_late(struct login *l) {
    if (l->state == EMPTY_LAST) { /* something that saw the log-in lives on: it ends with the room */
        log_error("what a log-in left in the room does not end");
        _exit(EXIT_FAILED);
    }
    fail(l, "the harness room could not be emptied for the log-in: restart the agent and try again");
    over(l);
}

static void on_tick(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct login *l = arg;
    if (is_alone())
        on_empty(l);
    else if (++l->ticks > TICKS_MAX)
        on_late(l);
    else {
        kill_children();
        again(l);
    }
}

err_t login_begin(struct login *l) {
    if (!l->way)
        return err_new(EXIT_USAGE, "this harness has no log-in of its own");
    l->status = 0;
    l->why[0] = 0;
    l->pid = 0;
    empty(l, EMPTY_FIRST);
    return NULL;
}

void login_stop(struct login *l) {
    if (l->state == EMPTY_FIRST || l->state == RUNS)
        empty(l, EMPTY_LAST);
}

void login_exited(struct login *l, pid_t pid, int status) {
    if (l->state != RUNS || pid != l->pid)
        return;
    l->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    keep_file(l);
    empty(l, EMPTY_LAST);
}

struct login *login_new(const struct floor *f, const char *word, const struct login_ops *ops, void *ctx) {
    struct login *l = xcalloc(1, sizeof *l);
    *l = (struct login){.floor = f, .ops = ops, .ctx = ctx, .file = -1};
    for (size_t i = 0; i < COUNT(ways); i++)
        if (!strcmp(ways[i].word, word))
            l->way = &ways[i];
    l->tick = event_new(f->base, -1, 0, on_tick, l);
    return l;
}

void login_free(struct login *l) {
    if (!l)
        return;
    if (l->dir) {
        own_err err_t e = fs_remove(l->dir);
    }
    own_closep(&l->file);
    free(l->dir);
    event_free(l->tick);
    free(l);
}
