/*
 * States of a run and what each may do:
 *
 *   WAITING  not started, the account is full. Should start when it has room; must hold no process.
 *   RUNNING  its main process lives. Should answer as soon as that is reaped; must not touch the rest then.
 *   ASKED    its time is over, SIGTERM was sent. Should end when the main process obeys or the grace is over.
 *   DOOMED   SIGKILL was sent to all of it. Should answer when its tree is empty, or after RUN_EMPTY_MS (a
 *            process can be stuck in the kernel); must not start anything.
 */
#include "executor/run.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/proc.h"
#include "executor/account.h"
#include "executor/environ.h"
#include "executor/given.h"
#include "executor/executor.h"
#include "executor/survivors.h"
#include "executor/tree.h"
#include "wire/link.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

enum state { WAITING, RUNNING, ASKED, DOOMED, STATES };
enum happening { ON_MAIN, ON_EMPTY, ON_TIMER, ON_KILL, EVENTS };

struct run {
    struct executor *x;
    struct run *next, **link;
    struct command c;
    run_done *done;
    void *ctx;
    enum state state;
    struct tree *tree;
    struct event *timer;
    int64_t start_ns, start_wall_ms;
    bool main_ended, timed_out, told;
    uint64_t number; /* of its line in the account; 0: it has not begun */
    int status;      /* of the main process, as waitpid's */
};

static void happen(struct run *r, enum happening what);

void command_take(struct command *c, struct msg *m) {
    c->arena = TAKE(m->arena);
    for (int i = 0; i < 3; i++)
        c->fds[i] = TAKE_FD(m->fds[i]);
}

static void drop_fds(struct command *c) {
    for (int i = 0; i < 3; i++)
        own_closep(&c->fds[i]);
}

static void destroy(struct run *r) {
    if (r->next)
        r->next->link = r->link;
    *r->link = r->next;
    if (r->timer)
        event_free(r->timer);
    drop_fds(&r->c);
    free(r->c.arena);
    struct executor *x = r->x;
    free(r);
    executor_quiet(x);
}

/* The answer and the account's line; ends r. */
static void finish(struct run *r, const char *how, int64_t status, const char *text) {
    if (r->done)
        r->done(r->ctx, how, status, text);
    struct row row = {.number = r->number,
                      .argv = r->c.argv,
                      .cwd = r->c.cwd,
                      .start_wall_ms = (uint64_t)r->start_wall_ms,
                      .span_us = (uint64_t)(clock_mono_ns() - r->start_ns) / 1000,
                      .status = status,
                      .arena = r->c.arena};
    r->c.arena = NULL;
    snprintf(row.how, sizeof row.how, "%s", how);
    snprintf(row.who, sizeof row.who, "%s", r->c.who);
    account_add(r->x->account, &row);
    destroy(r);
}

static void finish_ended(struct run *r) {
    if (r->timed_out)
        finish(r, "timeout", 0, "");
    else if (r->state == DOOMED)
        finish(r, "killed", SIGKILL, "");
    else if (WIFSIGNALED(r->status))
        finish(r, "signal", WTERMSIG(r->status), "");
    else
        finish(r, "exit", WEXITSTATUS(r->status), "");
}

static void set_timer(struct run *r, uint64_t ms);

/* RUNNING: it ended by itself. What it left goes on. */
static void end_by_itself(struct run *r) {
    struct tree *t = TAKE(r->tree);
    survivors_take(r->x->survivors, t);
    finish_ended(r);
}

static void doom(struct run *r) {
    r->state = DOOMED;
    set_timer(r, RUN_EMPTY_MS);
    tree_kill(r->tree);
}

static void ask(struct run *r) {
    r->state = ASKED;
    r->timed_out = true;
    set_timer(r, RUN_GRACE_MS);
    tree_terminate(r->tree);
}

static void end_when_empty(struct run *r) {
    tree_free(TAKE(r->tree));
    finish_ended(r);
}

/* Something in it does not die: the answer must not wait for that; survivors keep an eye on it. */
static void end_stuck(struct run *r) {
    end_by_itself(r);
}

static void give_up(struct run *r) {
    r->start_ns = clock_mono_ns();
    r->start_wall_ms = clock_wall_ms();
    finish(r, "failed", ECANCELED, "the command was ended before it began");
}

static void nothing(struct run *r) {
    (void)r;
}

static void (*const matrix[STATES][EVENTS])(struct run *) = {
    [WAITING] = {[ON_MAIN] = nothing, [ON_EMPTY] = nothing, [ON_TIMER] = nothing, [ON_KILL] = give_up},
    [RUNNING] = {[ON_MAIN] = end_by_itself, [ON_EMPTY] = end_when_empty, [ON_TIMER] = ask, [ON_KILL] = doom},
    [ASKED] = {[ON_MAIN] = doom, [ON_EMPTY] = end_when_empty, [ON_TIMER] = doom, [ON_KILL] = doom},
    [DOOMED] =
        {[ON_MAIN] = nothing, [ON_EMPTY] = end_when_empty, [ON_TIMER] = end_stuck, [ON_KILL] = nothing},
};
_Static_assert(STATES == 4 && EVENTS == 4, "a new state or event needs its row or column in the matrix");

static void happen(struct run *r, enum happening what) {
    matrix[r->state][what](r);
}

static void on_main(void *ctx, int status) {
    struct run *r = ctx;
    r->main_ended = true;
    r->status = status;
    happen(r, ON_MAIN);
}

static void on_empty(void *ctx) {
    happen(ctx, ON_EMPTY);
}

static const struct tree_ops tree_ops = {on_main, on_empty};

static void on_timer(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    happen(arg, ON_TIMER);
}

static void set_timer(struct run *r, uint64_t ms) {
    struct timeval tv = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000) * 1000};
    if (!r->timer)
        r->timer = evtimer_new(r->x->base, on_timer, r);
    evtimer_add(r->timer, &tv);
}

/* The argument table, with the free place before it that spawn() wants. The caller frees *ret_room. */
static struct spawn_args args_make(const struct command *c, char ***ret_room) {
    const struct list *argv = &c->argv;
    char **room = xmalloc((argv->n + 2) * sizeof *room);
    room[0] = NULL;
    for (size_t i = 0; i < argv->n; i++)
        room[i + 1] = (char *)(uintptr_t)(i || !c->argv0 ? argv->v[i].p : c->argv0);
    room[argv->n + 1] = NULL;
    *ret_room = room;
    return (struct spawn_args){room + 1};
}

/* The account has what ran and where, as the kernel takes it: a program is not what its asker calls it, and a path ends at a NUL. */
static void put_straight(struct run *r) {
    struct command *c = &r->c;
    c->cwd = bytes_of(c->cwd.len ? c->cwd.p : r->x->project);
    if (!c->argv.n || !c->exe || !*c->exe || given_names(c->argv.v[0].p, c->exe))
        return;
    struct bytes *words = (struct bytes *)(uintptr_t)c->argv.v; /* in the arena, which is ours */
    c->argv0 = words[0].p;
    words[0] = bytes_of(c->exe);
}

static err_t start_tree(struct run *r) {
    const struct command *c = &r->c;
    if (!c->argv.n)
        return err_new(EXIT_USAGE, "a command without words");
    char **room;
    struct spawn s = {.exe = c->exe && *c->exe ? c->exe : c->argv.v[0].p,
                      .path = PROC_PATH,
                      .args = args_make(c, &room),
                      .cwd = c->cwd.p,
                      .fds = {c->fds[0], c->fds[1], c->fds[2]},
                      .tty = c->tty};
    char **env = environ_make(r->x->environ, &c->env);
    s.env = env;
    err_t e = tree_start(r->x->trees, &s, &tree_ops, r, &r->tree);
    free(env);
    free(room);
    return e;
}

/* That it begins; later when the link is full (runs_tell). */
static void tell(struct run *r) {
    struct link *l = r->x->agent;
    if (r->told || !r->number || !l || link_full(l))
        return;
    struct msg m = {.type = MSG_ran_begin};
    m.ran_begin = (struct msg_ran_begin){.row = r->number,
                                         .who = bytes_of(r->c.who),
                                         .argv = r->c.argv,
                                         .cwd = r->c.cwd,
                                         .start_wall_ms = (uint64_t)r->start_wall_ms};
    own_err err_t e = link_send(l, &m); /* a link that is over: the next one is told */
    r->told = !e;
}

/* Told before it starts: what ran is known even if this room ends with it. False: it ended already. */
static bool begin(struct run *r) {
    r->start_ns = clock_mono_ns();
    r->start_wall_ms = clock_wall_ms();
    r->number = account_number(r->x->account);
    tell(r);
    own_err err_t e = start_tree(r);
    drop_fds(&r->c);
    if (e) {
        finish(r, "failed", e->errnum ? e->errnum : EIO, err_text(e));
        return false;
    }
    r->state = RUNNING;
    if (r->c.timeout_ms)
        set_timer(r, r->c.timeout_ms);
    return true;
}

struct run *run_new(struct executor *x, struct command *c, run_done *done, void *ctx) {
    struct run *r = xcalloc(1, sizeof *r);
    *r = (struct run){.x = x, .c = *c, .done = done, .ctx = ctx, .state = WAITING};
    put_straight(r);
    struct run **at = &x->runs; /* oldest first: those that wait start in the order they came */
    if (account_full(x->account))
        while (*at)
            at = &(*at)->next;
    r->next = *at;
    r->link = at;
    if (r->next)
        r->next->link = &r->next;
    *at = r;
    if (account_full(x->account))
        return r;
    return begin(r) ? r : NULL;
}

void run_signal(struct run *r, int signo) {
    bool ends = signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT;
    if (signo == SIGKILL || (ends && r->state == WAITING))
        run_kill(r);
    else if (signo > 0 && signo < NSIG && r->tree)
        tree_signal(r->tree, signo, signo != SIGUSR1 && signo != SIGUSR2);
}

void run_kill(struct run *r) {
    happen(r, ON_KILL);
}

static void nobody(void *ctx, const char *how, int64_t status, const char *text) {
    (void)ctx, (void)how, (void)status, (void)text;
}

void run_abandon(struct run *r) {
    r->done = nobody;
    run_kill(r);
}

void runs_kill(struct executor *x) {
    for (struct run *r = x->runs, *next; r; r = next) {
        next = r->next;
        run_kill(r);
    }
}

void runs_terminate(struct executor *x) {
    for (struct run *r = x->runs; r; r = r->next)
        if (r->tree)
            tree_terminate(r->tree);
}

void runs_go_on(struct executor *x) {
    for (struct run *r = x->runs, *next; r && !account_full(x->account); r = next) {
        next = r->next;
        if (r->state == WAITING)
            begin(r);
    }
}

void runs_tell(struct executor *x, bool again) {
    for (struct run *r = x->runs; r; r = r->next) {
        r->told &= !again;
        tell(r);
    }
}
