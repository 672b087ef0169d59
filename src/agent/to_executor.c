#include "agent/to_executor.h"
#include "agent/ledger.h"
#include "agent/from_manager.h"
#include "agent/outputs.h"
#include "agent/turn.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "proto/file_name.h"
#include "wire/link.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { RUNS_MAX = 4096, FETCHES_MAX = 8 };

/* A file that the executor is writing into somebody's pipe. */
struct fetch {
    uint64_t cookie; /* 0: a free place */
    char *who, *name;
};

struct to_executor {
    struct agent *a;
    struct link *link;
    uint64_t *runs; /* under way, in no order */
    size_t nruns;
    struct fetch fetches[FETCHES_MAX];
    uint64_t survivors, last_command_wall_ms;
    int last_command; /* its file; -1 before part_go */
    char *survivor_text;
};

static const char no_link[] = "the executor is not running; see `agent-cage status`";

/* --- commands that were started from here --- */

static bool has_run(const struct to_executor *x, uint64_t run) {
    for (size_t i = 0; i < x->nruns; i++)
        if (x->runs[i] == run)
            return true;
    return false;
}

static void forget_run(struct to_executor *x, uint64_t run) {
    for (size_t i = 0; i < x->nruns; i++)
        if (x->runs[i] == run) {
            x->runs[i] = x->runs[--x->nruns];
            return;
        }
}

static void say(struct to_executor *x, const struct msg *m) {
    err_t e = x->link ? link_send(x->link, m) : NULL;
    if (e)
        log_warn("%s", err_text(e));
    err_free(e);
}

static void say_signal(struct to_executor *x, uint64_t run, uint64_t signo) {
    struct msg m = {.type = MSG_run_signal};
    m.run_signal.run = run;
    m.run_signal.signo = signo;
    say(x, &m);
}

/* --- up: what the executor says --- */

static void on_run_end(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct to_executor *x = ctx;
    if (!has_run(x, m->run_end.run))
        return;
    forget_run(x, m->run_end.run);
    desk_exec_end(x->a, m->run_end.run, m->run_end.how.p, m->run_end.status, m->run_end.text.p);
}

static void keep_last_command(struct to_executor *x, uint64_t wall_ms) {
    if (wall_ms <= x->last_command_wall_ms)
        return;
    x->last_command_wall_ms = wall_ms;
    uint64_t le = htole64(wall_ms);
    (void)!pwrite(x->last_command, &le, sizeof le, 0); /* only the strip shows it */
}

/* The executor does not know of turns: whose a harness's command was is told by the turn that it began in. */
static void add_turn(const struct to_executor *x, struct msg_desk_row *row, char output[OUTPUTS_NAME_MAX]) {
    row->output = bytes_of("");
    if (row->who.len)
        return;
    const char *who = "";
    row->id = turn_of(x->a->turn, row->start_wall_ms, &who);
    row->who = bytes_of(who);
    if (row->id) {
        outputs_name(output, row->id);
        row->output = bytes_of(output);
    }
}

static void keep_row(struct ledger *k, const struct msg *row) {
    own_err err_t e = ledger_add(k, row);
    if (e)
        log_warn("row %llu: %s", (unsigned long long)row->desk_row.row, err_text(e));
}

/* Over the ledger's bound it is only passed on: the manager then ends it by desk_open. */
static void on_ran_begin(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct to_executor *x = ctx;
    const struct msg_ran_begin *ran = &m->ran_begin;
    struct msg up = {.type = MSG_desk_row};
    up.desk_row = (struct msg_desk_row){.row = ran->row,
                                        .who = ran->who,
                                        .argv = ran->argv,
                                        .cwd = ran->cwd,
                                        .start_wall_ms = ran->start_wall_ms,
                                        .how = bytes_of("unknown")};
    char output[OUTPUTS_NAME_MAX];
    add_turn(x, &up.desk_row, output);
    if (!ran->who.len)
        turn_ran(x->a->turn, up.desk_row.id, ran->row, &ran->argv);
    if (!ledger_full(x->a->begun))
        keep_row(x->a->begun, &up);
    desk_begin(x->a, &up.desk_row);
}

/* What began below `first` will not be told: it ended with its executor, and nobody saw how. */
static void end_begun(struct to_executor *x, uint64_t first) {
    struct ledger *begun = x->a->begun;
    ledger_rewind(begun);
    for (;;) {
        own_msg struct msg m = {0};
        if (!ledger_next(begun, &m))
            break;
        struct msg_desk_row *row = &m.desk_row;
        if (row->row >= first)
            continue;
        int64_t ms = clock_wall_ms() - (int64_t)row->start_wall_ms;
        row->span_us = ms > 0 ? (uint64_t)ms * 1000 : 0;
        keep_row(x->a->ledger, &m);
        ledger_settle(begun, row->row);
    }
    desk_rows(x->a);
}

static void on_ran_open(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct to_executor *x = ctx;
    x->a->first_row = m->ran_open.first;
    end_begun(x, m->ran_open.first);
}

static void on_ran_row(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct to_executor *x = ctx;
    const struct msg_ran_row *ran = &m->ran_row;
    struct msg up = {.type = MSG_desk_row};
    up.desk_row = (struct msg_desk_row){.row = ran->row,
                                        .who = ran->who,
                                        .argv = ran->argv,
                                        .cwd = ran->cwd,
                                        .start_wall_ms = ran->start_wall_ms,
                                        .span_us = ran->span_us,
                                        .how = ran->how,
                                        .status = ran->status};
    char output[OUTPUTS_NAME_MAX];
    add_turn(x, &up.desk_row, output);
    if (!ran->who.len)
        turn_ran(x->a->turn, up.desk_row.id, ran->row, &ran->argv);
    keep_row(x->a->ledger, &up);
    ledger_settle(x->a->begun, ran->row);
    keep_last_command(x, ran->start_wall_ms);
    desk_rows(x->a);
    desk_state(x->a);
    if (ledger_full(x->a->ledger))
        link_hold(l, true);
}

static void on_ran_survivors(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct to_executor *x = ctx;
    x->survivors = m->ran_survivors.count;
    free(x->survivor_text);
    x->survivor_text = xstrdup(m->ran_survivors.text.p);
    desk_state(x->a);
}

static void on_end(void *ctx, struct link *l, err_t why) {
    (void)l;
    struct to_executor *x = ctx;
    if (why)
        log_warn("%s", err_text(why));
    to_executor_unlink(x->a);
    part_lost(x->a->part, LINK_agent_executor, "");
}

/* The place of this cookie, or with 0 a free one; NULL: none. */
static struct fetch *fetch_of(struct to_executor *x, uint64_t cookie) {
    for (size_t i = 0; i < FETCHES_MAX; i++)
        if (x->fetches[i].cookie == cookie)
            return &x->fetches[i];
    return NULL;
}

static void forget_fetch(struct fetch *f) {
    free(f->who);
    free(f->name);
    *f = (struct fetch){0};
}

static void on_run_got(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct to_executor *x = ctx;
    const struct msg_run_got *got = &m->run_got;
    struct fetch *f = got->cookie ? fetch_of(x, got->cookie) : NULL;
    if (!f)
        return;
    desk_order_end(x->a, got->cookie, (int)(got->status < 256 ? got->status : EXIT_FAILED), got->text.p);
    own_free char *note = xasprintf("%s fetched %s from the outbox, %llu byte%s", f->who, f->name,
                                    (unsigned long long)got->size, got->size == 1 ? "" : "s");
    if (!got->status)
        desk_note(x->a, note);
    forget_fetch(f);
}

static link_fn *const handlers[MSG_COUNT] = {
    [MSG_run_got] = on_run_got,     [MSG_run_end] = on_run_end, [MSG_ran_open] = on_ran_open,
    [MSG_ran_begin] = on_ran_begin, [MSG_ran_row] = on_ran_row, [MSG_ran_survivors] = on_ran_survivors,
};
static const struct link_ops ops = {.on = handlers, .on_end = on_end};

/* --- the link --- */

struct to_executor *to_executor_new(struct agent *a) {
    struct to_executor *x = xcalloc(1, sizeof *x);
    x->a = a;
    x->survivor_text = xstrdup("");
    x->last_command = -1;
    return x;
}

void to_executor_free(struct to_executor *x) {
    if (!x)
        return;
    link_free(x->link);
    free(x->runs);
    for (size_t i = 0; i < FETCHES_MAX; i++)
        forget_fetch(&x->fetches[i]);
    free(x->survivor_text);
    own_closep(&x->last_command);
    free(x);
}

void to_executor_open(struct agent *a, int home) {
    struct to_executor *x = a->executor;
    x->last_command = openat(home, "last-command", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    uint64_t le; /* without the file the strip forgets, no more */
    if (pread(x->last_command, &le, sizeof le, 0) == sizeof le)
        x->last_command_wall_ms = le64toh(le);
}

void to_executor_link(struct agent *a, int fd) {
    struct to_executor *x = a->executor;
    to_executor_unlink(a);
    x->link = link_new(a->base, fd, LINK_agent_executor, true, &ops, x);
    if (a->gone)
        to_executor_go(a);
    else
        link_hold(x->link, true);
}

void to_executor_unlink(struct agent *a) {
    struct to_executor *x = a->executor;
    if (!x->link)
        return;
    link_free(TAKE(x->link));
    while (x->nruns)
        desk_exec_end(a, x->runs[--x->nruns], "failed", EPIPE, "the executor ended while the command ran");
    for (size_t i = 0; i < FETCHES_MAX; i++)
        if (x->fetches[i].cookie) {
            desk_order_end(x->a, x->fetches[i].cookie, EXIT_FAILED,
                           "the executor ended while it gave the file");
            forget_fetch(&x->fetches[i]);
        }
    x->survivors = 0; /* a new executor says its own */
    x->survivor_text[0] = 0;
    if (a->gone)
        desk_state(a);
    if (a->leaving) /* the warden ends the executor first: no other comes that could tell */
        to_executor_leave(a);
}

void to_executor_leave(struct agent *a) {
    if (a->executor->link)
        return;
    end_begun(a->executor, UINT64_MAX);
    agent_quiet(a);
}

void to_executor_go(struct agent *a) {
    if (!a->executor->link)
        return;
    link_hold(a->executor->link, ledger_full(a->ledger));
    turn_pump(a->turn);
}

void to_executor_hear(struct agent *a) {
    if (a->executor->link)
        link_hear(a->executor->link);
}

void to_executor_flag(struct agent *a, const char *text, uint64_t id) {
    struct bytes words[] = {bytes_of("witness"), bytes_of(text)};
    uint64_t now = (uint64_t)clock_wall_ms();
    struct msg m = {.type = MSG_desk_row};
    m.desk_row =
        (struct msg_desk_row){.row = now * 1000, /* as an executor that began now would number its first */
                              .id = id,
                              .who = bytes_of("witness"),
                              .argv = {words, COUNT(words)},
                              .start_wall_ms = now,
                              .how = bytes_of("differs")};
    keep_row(a->ledger, &m);
    desk_rows(a);
}

bool to_executor_up(const struct agent *a) {
    return a->executor->link;
}

/* --- down: what the agent commands --- */

/* NULL: it is under way. Else why not, for desk_exec_end. */
static const char *start(struct to_executor *x, const struct msg *desk) {
    if (!x->link)
        return no_link;
    if (has_run(x, desk->desk_exec.run))
        return "a command with this number is under way";
    if (x->nruns == RUNS_MAX)
        return "too many commands at once";
    struct msg m = {.type = MSG_run_start, .fds = {desk->fds[0], desk->fds[1], desk->fds[2]}, .nfds = 3};
    const struct msg_desk_exec *d = &desk->desk_exec;
    m.run_start = (struct msg_run_start){.run = d->run,
                                         .who = d->who,
                                         .timeout_ms = d->timeout_ms,
                                         .cwd = d->cwd,
                                         .argv = d->argv,
                                         .env = d->env,
                                         .tty = d->tty};
    own_err err_t e = link_send(x->link, &m);
    if (e) {
        log_warn("%s", err_text(e));
        return no_link;
    }
    x->runs = xrealloc(x->runs, x->nruns + 1, sizeof *x->runs);
    x->runs[x->nruns++] = d->run;
    return NULL;
}

void to_executor_run(struct agent *a, const struct msg *desk) {
    const char *why = start(a->executor, desk);
    if (why)
        desk_exec_end(a, desk->desk_exec.run, "failed", ENOTCONN, why);
}

/* NULL: the executor has it. */
static err_t ask_get(struct to_executor *x, const struct msg *desk) {
    const struct msg_desk_get *q = &desk->desk_get;
    TRY(file_check(q->name, 0));
    struct fetch *f = fetch_of(x, 0);
    if (!x->link)
        return err_new(EXIT_FAILED, "%s", no_link);
    if (!f || !q->cookie)
        return err_new(EXIT_POLICY, "%d files are being fetched already: wait until one is done",
                       FETCHES_MAX);
    struct msg m = {.type = MSG_run_get, .fds = {desk->fds[0]}, .nfds = 1};
    m.run_get = (struct msg_run_get){.cookie = q->cookie, .name = q->name};
    TRY(link_send(x->link, &m));
    *f = (struct fetch){.cookie = q->cookie, .who = xstrdup(q->who.p), .name = xstrdup(q->name.p)};
    return NULL;
}

void to_executor_get(struct agent *a, const struct msg *desk) {
    own_err err_t e = ask_get(a->executor, desk);
    if (e)
        desk_order_end(a, desk->desk_get.cookie, e->status, err_text(e));
}

void to_executor_signal(struct agent *a, uint64_t run, uint64_t signo) {
    if (has_run(a->executor, run))
        say_signal(a->executor, run, signo);
}

void to_executor_halt(struct agent *a) {
    struct msg m = {.type = MSG_run_halt};
    m.run_halt.survivors = 1;
    say(a->executor, &m);
}

void to_executor_end_runs(struct agent *a) {
    struct to_executor *x = a->executor;
    for (size_t i = 0; i < x->nruns; i++)
        say_signal(x, x->runs[i], SIGKILL);
}

void to_executor_settle(struct agent *a, uint64_t row) {
    struct to_executor *x = a->executor;
    struct msg m = {.type = MSG_run_settle};
    m.run_settle.row = row;
    say(x, &m);
    if (x->link && !ledger_full(a->ledger))
        link_hold(x->link, false);
}

void to_executor_state(const struct agent *a, struct msg *state) {
    const struct to_executor *x = a->executor;
    state->desk_state.survivors = x->survivors;
    state->desk_state.survivor_text = bytes_of(x->survivor_text);
    state->desk_state.last_command_wall_ms = x->last_command_wall_ms;
}
