#include "executor/from_agent.h"
#include "base/log.h"
#include "base/own.h"
#include "executor/account.h"
#include "executor/from_shim.h"
#include "executor/give.h"
#include "executor/run.h"
#include "executor/survivors.h"
#include "executor/tree.h"
#include "wire/link.h"

#include <errno.h>

/* The agent's commands of one link. */
struct asked {
    struct desk *desk;
    struct asked *next, **link;
    uint64_t number;
    struct run *run;
};

/* What belongs to one link; it goes with it. */
struct desk {
    struct executor *x;
    struct link *link;
    struct asked *first;
    size_t n;
    struct gives *gives;
};

static void forget(struct asked *a) {
    if (a->next)
        a->next->link = a->link;
    *a->link = a->next;
    a->desk->n--;
    free(a);
}

static void say_end(struct link *l, uint64_t number, const char *how, int64_t status, const char *text) {
    struct msg m = {.type = MSG_run_end};
    m.run_end.run = number;
    m.run_end.how = bytes_of(how);
    m.run_end.status = status;
    m.run_end.text = bytes_of(text);
    err_free(link_send(l, &m)); /* the link is over: its end is on the way here too */
}

static void on_run_done(void *ctx, const char *how, int64_t status, const char *text) {
    struct asked *a = ctx;
    say_end(a->desk->link, a->number, how, status, text);
    forget(a);
}

static struct asked *find(struct desk *d, uint64_t number) {
    struct asked *a = d->first;
    while (a && a->number != number)
        a = a->next;
    return a;
}

static void on_run_start(void *ctx, struct link *l, struct msg *m) {
    struct desk *d = ctx;
    const struct msg_run_start *ask = &m->run_start;
    if (d->n >= AGENT_RUNS_MAX || find(d, ask->run)) {
        say_end(l, ask->run, "failed", EAGAIN, "too many commands at a time: wait until one ended");
        return;
    }
    struct command c = {
        .cwd = ask->cwd, .argv = ask->argv, .env = ask->env, .tty = ask->tty, .timeout_ms = ask->timeout_ms};
    snprintf(c.who, sizeof c.who, "%s", ask->who.p);
    struct asked *a = xcalloc(1, sizeof *a);
    *a = (struct asked){.desk = d, .next = d->first, .link = &d->first, .number = ask->run};
    if (a->next)
        a->next->link = &a->next;
    d->first = a;
    d->n++;
    command_take(&c, m);
    struct run *r = run_new(d->x, &c, on_run_done, a);
    if (r)
        a->run = r;
}

static void on_run_signal(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct asked *a = find(ctx, m->run_signal.run);
    if (a)
        run_signal(a->run, (int)m->run_signal.signo);
}

static void on_run_halt(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    runs_kill(d->x);
    if (m->run_halt.survivors) {
        survivors_kill(d->x->survivors);
        trees_kill_all(d->x->trees);
    }
}

static void on_run_get(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    gives_start(d->gives, m);
}

static void on_run_settle(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    struct executor *x = d->x;
    account_settle(x->account, m->run_settle.row);
    runs_go_on(x);
    shims_go_on(x);
    executor_quiet(x);
}

static void on_room(void *ctx, struct link *l) {
    (void)l;
    struct desk *d = ctx;
    runs_tell(d->x, false);
    account_push(d->x->account);
}

static void close_desk(struct desk *d) {
    for (struct asked *a; (a = d->first);) {
        struct run *r = a->run;
        forget(a);
        run_abandon(r);
    }
    gives_free(d->gives);
    account_link(d->x->account, NULL);
    if (d->x->survivors)
        survivors_link(d->x->survivors, NULL);
    d->x->agent = NULL;
    link_free(d->link);
    free(d);
}

static void on_end(void *ctx, struct link *l, err_t why) {
    (void)l;
    struct desk *d = ctx;
    struct executor *x = d->x;
    if (why)
        log_warn("agent: %s", err_text(why));
    close_desk(d);
    part_lost(x->part, LINK_agent_executor, "");
    executor_quiet(x);
}

static link_fn *const handlers[MSG_COUNT] = {
    [MSG_run_start] = on_run_start,   [MSG_run_signal] = on_run_signal, [MSG_run_halt] = on_run_halt,
    [MSG_run_settle] = on_run_settle, [MSG_run_get] = on_run_get,
};
static const struct link_ops link_ops = {.on = handlers, .on_end = on_end, .on_room = on_room};

void agent_linked(struct executor *x, int fd) {
    agent_unlinked(x);
    struct desk *d = xcalloc(1, sizeof *d);
    d->x = x;
    d->link = x->agent = link_new(x->base, fd, LINK_agent_executor, false, &link_ops, d);
    d->gives = gives_new(x, d->link);
    if (part_gone(x->part))
        agent_go(x);
    else
        link_hold(d->link, true);
}

void agent_unlinked(struct executor *x) {
    if (x->agent)
        close_desk(link_ctx(x->agent));
}

void agent_go(struct executor *x) {
    if (!x->agent)
        return;
    link_hold(x->agent, false);
    struct msg m = {.type = MSG_ran_open};
    m.ran_open.first = account_first(x->account);
    err_free(link_send(x->agent, &m)); /* a link that is over: the next one is told */
    runs_tell(x, true);
    account_link(x->account, x->agent);
    survivors_link(x->survivors, x->agent);
}
