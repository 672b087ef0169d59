/*
 * What a tree goes through: started → main reaped → empty. "Main reaped" comes from SIGCHLD (a signalfd) or,
 * below a minder, from its pipe; "empty" from cgroup.events or from the minder's own end. The usual command
 * leaves nothing behind, so emptiness is read once when its main process was reaped, and watched only if it
 * was not empty then. libevent does not know EPOLLPRI, which is how the kernel tells of a change in
 * cgroup.events: those files have an epoll of their own, which libevent watches.
 *
 * One group is ready ahead, so that a command does not wait for mkdir: that of the last command, if it left it as it was.
 */
#include "executor/tree.h"
#include "base/own.h"
#include "executor/subgroup.h"
#include "executor/minder.h"
#include "executor/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

struct trees {
    struct event_base *base;
    enum tree_mode mode;
    int folder;
    struct subgroup spare; /* ready ahead; SUBGROUP_NONE when there is none */
    int watched;           /* the epoll of cgroup.events */
    int children;          /* signalfd */
    struct event *on_change, *on_child;
    struct tree *first;
};

struct tree {
    struct trees *of;
    struct tree *next, **link;
    const struct tree_ops *ops;
    void *ctx;
    pid_t main;   /* 0 once reaped */
    pid_t minder; /* TREE_MINDER; 0 once reaped */
    struct subgroup group;
    bool watching;
    int end; /* the minder's pipe */
    struct event *on_end, *again;
};

static void told_main(struct tree *t, int status) {
    t->main = 0;
    t->ops->on_main(t->ctx, status);
}

/* Exact once main was reaped. */
static bool tree_empty(const struct tree *t) {
    return t->of->mode == TREE_MINDER ? t->minder == 0 : subgroup_empty(&t->group);
}

/* After main is gone: tells, or waits for, the rest. */
static void look_for_end(struct tree *t) {
    if (tree_empty(t)) {
        t->ops->on_empty(t->ctx);
        return;
    }
    if (t->of->mode == TREE_MINDER || t->watching)
        return;
    struct epoll_event ev = {.events = EPOLLPRI | EPOLLET, .data.ptr = t};
    t->watching = epoll_ctl(t->of->watched, EPOLL_CTL_ADD, t->group.events, &ev) == 0;
    if (subgroup_empty(&t->group)) /* it may have become so just before we looked */
        t->ops->on_empty(t->ctx);
}

static void on_group_change(evutil_socket_t fd, short what, void *arg) {
    (void)what, (void)arg;
    struct epoll_event ev;
    while (epoll_wait(fd, &ev, 1, 0) == 1) {
        struct tree *t = ev.data.ptr;
        if (!t->main && subgroup_empty(&t->group))
            t->ops->on_empty(t->ctx);
    }
}

/* The minder ended by itself, when nothing was left; or it was killed, and what it minded is ours now. */
static void minder_gone(struct tree *t, int status) {
    t->minder = 0;
    if (!WIFEXITED(status))
        trees_kill_all(t->of);
    if (t->main)
        told_main(t, SIGKILL);
    t->ops->on_empty(t->ctx);
}

static void on_minder_word(evutil_socket_t fd, short what, void *arg) {
    (void)what;
    struct tree *t = arg;
    int status;
    ssize_t n = read(fd, &status, sizeof status);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    event_del(t->on_end);
    if (n == (ssize_t)sizeof status)
        told_main(t, status);
}

static struct tree *find(struct trees *ts, pid_t pid) {
    struct tree *t = ts->first;
    while (t && (ts->mode == TREE_MINDER ? t->minder : t->main) != pid)
        t = t->next;
    return t;
}

static void reaped(struct trees *ts, pid_t pid, int status) {
    struct tree *t = find(ts, pid);
    if (!t)
        return; /* an orphan that we adopted */
    if (ts->mode == TREE_MINDER) {
        if (t->main && WIFEXITED(status))
            on_minder_word(t->end, EV_READ, t); /* said before it ended */
        minder_gone(t, status);
        return;
    }
    told_main(t, status);
    look_for_end(t);
}

static void on_children(evutil_socket_t fd, short what, void *arg) {
    (void)what;
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) > 0)
        ;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        reaped(arg, pid, status);
}

static char *choose(struct trees *ts) {
    ts->mode = TREE_MINDER;
    if (ts->folder < 0)
        return xstrdup("no cgroup-v2 folder was given: commands are minded by parent links");
    int error = subgroup_new(ts->folder, &ts->spare);
    if (error)
        return xasprintf(
            "no group can be made in the cgroup folder (%s): commands are minded by parent links",
            strerrorname_np(error));
    error = spawn_probe(ts->spare.folder, -1);
    if (!error) {
        ts->mode = TREE_CGROUP;
        return NULL;
    }
    own_fd int procs = subgroup_procs(&ts->spare);
    int error2 = procs < 0 ? errno : spawn_probe(-1, procs);
    if (!error2) {
        ts->mode = TREE_MOVED;
        return xasprintf("commands cannot be born in their group (%s): they move there",
                         strerrorname_np(error));
    }
    subgroup_end(&ts->spare);
    return xasprintf("commands cannot enter a cgroup (%s, %s): they are minded by parent links",
                     strerrorname_np(error), strerrorname_np(error2));
}

static void trees_free(struct trees *ts) {
    if (ts->on_change)
        event_free(ts->on_change);
    if (ts->on_child)
        event_free(ts->on_child);
    subgroup_end(&ts->spare);
    own_closep(&ts->watched);
    own_closep(&ts->children);
    own_closep(&ts->folder);
    free(ts);
}

err_t trees_new(struct event_base *base, int folder, struct trees **ret, char **ret_why) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &child, NULL) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return err_sys(errno, "adopt orphans");
    struct trees *ts = xcalloc(1, sizeof *ts);
    *ts = (struct trees){.base = base, .folder = folder, .spare = SUBGROUP_NONE};
    ts->children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    ts->watched = epoll_create1(EPOLL_CLOEXEC);
    if (ts->children < 0 || ts->watched < 0) {
        err_t e = err_sys(errno, "watch children");
        trees_free(ts);
        return e;
    }
    *ret_why = choose(ts);
    ts->on_change = event_new(base, ts->watched, EV_READ | EV_PERSIST, on_group_change, ts);
    ts->on_child = event_new(base, ts->children, EV_READ | EV_PERSIST, on_children, ts);
    event_add(ts->on_change, NULL);
    event_add(ts->on_child, NULL);
    *ret = ts;
    return NULL;
}

void trees_kill_all(struct trees *ts) {
    if (ts->mode != TREE_MINDER)
        for (struct tree *t = ts->first; t; t = t->next)
            subgroup_kill(&t->group);
    if (getpid() == 1)
        kill(-1, SIGKILL); /* kill(2): everything in our PID namespace but us, under one lock */
    else
        sweep_kill(getpid());
}

static err_t start_in_spare(struct tree *t, struct spawn *s) {
    struct trees *ts = t->of;
    int error = ts->spare.events < 0 ? subgroup_new(ts->folder, &ts->spare) : 0;
    if (error)
        return err_sys(error, "no cgroup can be made for the command");
    own_fd int procs = ts->mode == TREE_MOVED ? subgroup_procs(&ts->spare) : -1;
    if (ts->mode == TREE_MOVED && procs < 0)
        return err_sys(errno == ENOENT ? ENODEV : errno, "the command's cgroup cannot be entered");
    s->procs = procs;
    s->cgroup = ts->mode == TREE_CGROUP ? ts->spare.folder : -1;
    TRY(spawn(s, &t->main));
    t->group = ts->spare;
    subgroup_used(&t->group);
    ts->spare = SUBGROUP_NONE;
    return NULL;
}

/* In a bare room the workload owns the folder too: a group that it removed (ENODEV) is made anew. */
static err_t start_in_group(struct tree *t, struct spawn *s) {
    err_t e = start_in_spare(t, s);
    if (!e || e->errnum != ENODEV)
        return e;
    err_free(e);
    subgroup_end(&t->of->spare);
    return start_in_spare(t, s);
}

static err_t start_minded(struct tree *t, struct spawn *s) {
    s->procs = s->cgroup = -1;
    err_t e = minder_start(s, &t->minder, &t->main, &t->end);
    if (e && e->errnum == EPIPE) /* what it may have started is ours now, and told apart from nothing */
        trees_kill_all(t->of);
    TRY(e);
    fcntl(t->end, F_SETFL, O_NONBLOCK);
    t->on_end = event_new(t->of->base, t->end, EV_READ | EV_PERSIST, on_minder_word, t);
    event_add(t->on_end, NULL);
    return NULL;
}

err_t tree_start(struct trees *ts, const struct spawn *what, const struct tree_ops *ops, void *ctx,
                 struct tree **ret) {
    struct spawn s = *what;
    struct tree *t = xcalloc(1, sizeof *t);
    *t = (struct tree){.of = ts, .ops = ops, .ctx = ctx, .group = SUBGROUP_NONE, .end = -1};
    err_t e = ts->mode == TREE_MINDER ? start_minded(t, &s) : start_in_group(t, &s);
    if (e) {
        free(t);
        return e;
    }
    t->next = ts->first;
    t->link = &ts->first;
    if (t->next)
        t->next->link = &t->next;
    ts->first = t;
    *ret = t;
    return NULL;
}

void tree_hand(struct tree *t, const struct tree_ops *ops, void *ctx) {
    t->ops = ops;
    t->ctx = ctx;
}

void tree_signal(struct tree *t, int signo, bool group) {
    if (t->main > 0)
        kill(group ? -t->main : t->main, signo);
}

static void on_again(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    tree_kill(arg);
}

void tree_kill(struct tree *t) {
    if (t->of->mode != TREE_MINDER) {
        subgroup_kill(&t->group);
        return;
    }
    if (t->minder > 0)
        sweep_kill(t->minder);
    /* One sweep sees one moment; it is repeated until the minder has nothing left and ends. */
    struct timeval soon = {0, 20000};
    if (!t->again)
        t->again = evtimer_new(t->of->base, on_again, t);
    evtimer_add(t->again, &soon);
}

static void terminate(void *ctx, pid_t pid) {
    (void)ctx;
    kill(pid, SIGTERM);
}

void tree_terminate(struct tree *t) {
    tree_list(t, terminate, NULL);
}

void tree_list(struct tree *t, void (*each)(void *ctx, pid_t pid), void *ctx) {
    if (t->of->mode != TREE_MINDER)
        subgroup_list(&t->group, each, ctx);
    else if (t->minder > 0)
        sweep_list(t->minder, each, ctx);
}

/* One that was watched still is: its descriptor must go. */
static void keep_spare(struct tree *t) {
    struct trees *ts = t->of;
    if (ts->mode == TREE_MINDER || ts->spare.events >= 0)
        return;
    if (!t->watching && t->group.events >= 0 && subgroup_again(&t->group)) {
        ts->spare = t->group;
        t->group = SUBGROUP_NONE;
    } else
        subgroup_new(ts->folder, &ts->spare);
}

void tree_free(struct tree *t) {
    if (!t)
        return;
    if (t->next)
        t->next->link = t->link;
    *t->link = t->next;
    if (t->on_end)
        event_free(t->on_end);
    if (t->again)
        event_free(t->again);
    own_closep(&t->end);
    keep_spare(t);
    subgroup_end(&t->group);
    free(t);
}
