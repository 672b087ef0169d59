#include "agent/from_manager.h"
#include "agent/intray.h"
#include "agent/ledger.h"
#include "agent/model.h"
#include "agent/questions.h"
#include "agent/sessions.h"
#include "agent/signin.h"
#include "agent/to_executor.h"
#include "agent/to_harness.h"
#include "agent/token_box.h"
#include "agent/turn.h"
#include "base/log.h"
#include "base/own.h"
#include "wire/link.h"

#include <stdlib.h>
#include <string.h>

struct desk {
    struct agent *a;
    struct link *link;
    uint64_t said_first;   /* the last desk_open on this link */
    struct buf said_state; /* the last desk_state on this link, encoded */
};

enum { FLUSH_MS = 200 };

/* --- up: what the agent says --- */

/* Nothing is lost when it fails: see from_manager.h. Before part_go nothing is said: desk_go() says it all. */
static void say(struct agent *a, const struct msg *m) {
    own_msg struct msg starred = {0};
    if (!a->desk->link || !a->gone)
        return;
    err_t e = link_send(a->desk->link, model_stars(a, m, &starred) ? &starred : m);
    if (e)
        log_warn("%s", err_text(e));
    err_free(e);
}

void desk_started(struct agent *a, const struct entry *e) {
    struct msg m = {.type = MSG_desk_started};
    m.desk_started.id = e->id;
    m.desk_started.wall_ms = e->start_wall_ms;
    say(a, &m);
}

void desk_finished(struct agent *a, const struct entry *e) {
    struct msg m = {.type = MSG_desk_finished};
    m.desk_finished.id = e->id;
    m.desk_finished.outcome = bytes_of(outcome_name(e->end.outcome));
    m.desk_finished.status = e->end.status;
    m.desk_finished.span_ms = e->end.span_ms;
    m.desk_finished.text = bytes_of(e->end.text);
    m.desk_finished.output = bytes_of(e->end.output);
    m.desk_finished.tokens = e->end.tokens;
    m.desk_finished.tools = e->end.tools;
    say(a, &m);
}

void desk_output(struct agent *a, uint64_t id, const char *text, size_t len) {
    if (!a->desk->link || link_full(a->desk->link))
        return;
    struct msg m = {.type = MSG_desk_output};
    m.desk_output.id = id;
    m.desk_output.text = (struct bytes){text, len};
    say(a, &m);
}

void desk_event(struct agent *a, const struct msg *turn_event) {
    const struct msg_turn_event *q = &turn_event->turn_event;
    if (!a->desk->link || link_full(a->desk->link))
        return;
    struct msg m = {.type = MSG_desk_event};
    m.desk_event = (struct msg_desk_event){
        .id = q->id, .kind = q->kind, .call = q->call, .name = q->name, .status = q->status, .text = q->text};
    say(a, &m);
}

bool desk_note(struct agent *a, const char *text) {
    struct msg m = {.type = MSG_desk_note};
    m.desk_note.text = bytes_of(text);
    say(a, &m);
    return a->desk->link && a->gone;
}

void desk_ask(struct agent *a, const struct msg *m) {
    say(a, m);
}

void desk_asked(struct agent *a, const struct msg_desk_ask *q, const char *who, uint64_t choice,
                const char *text) {
    struct msg m = {.type = MSG_desk_asked};
    m.desk_asked = (struct msg_desk_asked){
        .id = q->id, .question = q->question, .who = bytes_of(who), .choice = choice, .text = bytes_of(text)};
    say(a, &m);
}

void desk_usage(struct agent *a, const struct msg *m) {
    if (a->desk->link && !link_full(a->desk->link))
        say(a, m);
}

void desk_exec_end(struct agent *a, uint64_t run, const char *how, int64_t status, const char *text) {
    struct msg m = {.type = MSG_desk_exec_end};
    m.desk_exec_end.run = run;
    m.desk_exec_end.how = bytes_of(how);
    m.desk_exec_end.status = status;
    m.desk_exec_end.text = bytes_of(text);
    say(a, &m);
}

void desk_session(struct agent *a, const struct msg_desk_session *session) {
    struct msg m = {.type = MSG_desk_session};
    m.desk_session = *session;
    say(a, &m);
}

void desk_order_end(struct agent *a, uint64_t cookie, int status, const char *text) {
    struct msg m = {.type = MSG_desk_order_end};
    m.desk_order_end.cookie = cookie;
    m.desk_order_end.status = (uint64_t)status;
    m.desk_order_end.text = bytes_of(text);
    say(a, &m);
}

void desk_begin(struct agent *a, const struct msg_desk_row *row) {
    struct msg m = {.type = MSG_desk_begin};
    m.desk_begin = (struct msg_desk_begin){.row = row->row,
                                           .id = row->id,
                                           .who = row->who,
                                           .argv = row->argv,
                                           .cwd = row->cwd,
                                           .start_wall_ms = row->start_wall_ms,
                                           .output = row->output};
    say(a, &m);
}

static void say_begun(struct agent *a) {
    ledger_rewind(a->begun);
    for (;;) {
        own_msg struct msg m = {0};
        if (!ledger_next(a->begun, &m))
            return;
        desk_begin(a, &m.desk_row);
    }
}

/* Behind the last row: the manager may now end what none of them told of. */
static void say_open(struct agent *a) {
    struct desk *d = a->desk;
    if (!a->first_row || d->said_first == a->first_row)
        return;
    struct msg m = {.type = MSG_desk_open};
    m.desk_open.first = d->said_first = a->first_row;
    say(a, &m);
}

void desk_rows(struct agent *a) {
    while (a->gone && a->desk->link && !link_full(a->desk->link)) {
        own_msg struct msg m = {0};
        if (!ledger_next(a->ledger, &m)) {
            say_open(a);
            return;
        }
        say(a, &m);
    }
}

void desk_state(struct agent *a) {
    struct desk *d = a->desk;
    if (!d->link || !a->gone)
        return;
    struct msg m = {.type = MSG_desk_state};
    m.desk_state.login = bytes_of(a->login);
    if (a->token_box)
        m.desk_state.token_key = token_box_key(a->token_box);
    m.desk_state.sessions = turn_running(a->turn) || to_harness_programs(a);
    to_executor_state(a, &m);
    own_buf struct buf now = {0};
    err_t e = msg_encode(&m, &now);
    if (!e && (now.len != d->said_state.len || memcmp(now.p, d->said_state.p, now.len) != 0)) {
        say(a, &m);
        buf_free(&d->said_state);
        d->said_state = now;
        now = (struct buf){0};
    }
    err_free(e);
}

/* --- down: what the manager commands --- */

static void on_desk_deliver(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    turn_deliver(d->a->turn, m->desk_deliver.id, m->desk_deliver.who.p, m->desk_deliver.text.p);
}

static void on_desk_settle(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    err_t e = journal_settle(d->a->journal, m->desk_settle.id);
    if (e)
        log_warn("message %llu: %s", (unsigned long long)m->desk_settle.id, err_text(e));
    err_free(e);
    turn_pump(d->a->turn); /* it waits when too many ends are untold */
}

static void on_desk_halt(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    if (signin_cancel(d->a->signin))
        desk_order_end(d->a, m->desk_halt.cookie, EXIT_OK, "the log-in was ended");
    else
        turn_order(d->a->turn, ORDER_HALT, m->desk_halt.cookie, "");
}

static void on_desk_fresh(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    turn_order(d->a->turn, ORDER_FRESH, m->desk_fresh.cookie, m->desk_fresh.arg.p);
}

static void on_desk_resume(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    turn_order(d->a->turn, ORDER_RESUME, m->desk_resume.cookie, m->desk_resume.arg.p);
}

static void on_desk_sessions(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    sessions_say(d->a->sessions, m->desk_sessions.cookie);
}

static void on_desk_model(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    own_err err_t e = model_choose(d->a, m->desk_model.model.p);
    desk_order_end(d->a, m->desk_model.cookie, e ? e->status : EXIT_OK,
                   e ? err_text(e) : "another model from the next message on");
}

static void on_desk_answer(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    questions_answer(d->a->questions, &m->desk_answer);
}

static void on_desk_login(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    const char *text = "";
    own_err err_t e = signin_say(d->a->signin, m->desk_login.code.p, &text);
    desk_order_end(d->a, m->desk_login.cookie, e ? e->status : EXIT_OK, e ? err_text(e) : text);
}

static void on_desk_token(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    const char *text = "";
    own_err err_t e = token_box_take(d->a, m->desk_token.box, &text);
    desk_order_end(d->a, m->desk_token.cookie, e ? e->status : EXIT_OK, e ? err_text(e) : text);
}

static void on_desk_exec(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    to_executor_run(d->a, m);
}

static void on_desk_put(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    own_err err_t e = intray_take(d->a->intray, m);
    if (e)
        desk_order_end(d->a, m->desk_put.cookie, e->status, err_text(e));
}

static void on_desk_get(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    to_executor_get(d->a, m);
}

static void on_desk_signal(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    to_executor_signal(d->a, m->desk_signal.run, m->desk_signal.signo);
}

static void on_desk_settle_row(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct desk *d = ctx;
    ledger_settle(d->a->ledger, m->desk_settle_row.row);
    to_executor_settle(d->a, m->desk_settle_row.row);
    agent_quiet(d->a);
}

static void on_end(void *ctx, struct link *l, err_t why) {
    (void)l;
    struct desk *d = ctx;
    if (why)
        log_warn("%s", err_text(why));
    desk_unlink(d->a);
    part_lost(d->a->part, LINK_manager_agent, "");
}

static void on_room(void *ctx, struct link *l) {
    (void)l;
    struct desk *d = ctx;
    desk_rows(d->a);
}

static link_fn *const handlers[MSG_COUNT] = {
    [MSG_desk_deliver] = on_desk_deliver,
    [MSG_desk_settle] = on_desk_settle,
    [MSG_desk_halt] = on_desk_halt,
    [MSG_desk_fresh] = on_desk_fresh,
    [MSG_desk_resume] = on_desk_resume,
    [MSG_desk_sessions] = on_desk_sessions,
    [MSG_desk_model] = on_desk_model,
    [MSG_desk_exec] = on_desk_exec,
    [MSG_desk_answer] = on_desk_answer,
    [MSG_desk_signal] = on_desk_signal,
    [MSG_desk_settle_row] = on_desk_settle_row,
    [MSG_desk_login] = on_desk_login,
    [MSG_desk_token] = on_desk_token,
    [MSG_desk_put] = on_desk_put,
    [MSG_desk_get] = on_desk_get,
};
static const struct link_ops ops = {.on = handlers, .on_end = on_end, .on_room = on_room};

/* --- the link --- */

struct desk *desk_new(struct agent *a) {
    struct desk *d = xcalloc(1, sizeof *d);
    d->a = a;
    return d;
}

void desk_free(struct desk *d) {
    if (!d)
        return;
    link_free(d->link);
    buf_free(&d->said_state);
    free(d);
}

void desk_link(struct agent *a, int fd) {
    desk_unlink(a);
    a->desk->link = link_new(a->base, fd, LINK_manager_agent, false, &ops, a->desk);
    if (a->gone)
        desk_go(a);
    else
        link_hold(a->desk->link, true);
}

void desk_unlink(struct agent *a) {
    struct desk *d = a->desk;
    if (!d->link)
        return;
    link_free(TAKE(d->link));
    buf_clear(&d->said_state);
    d->said_first = 0;
    to_executor_end_runs(a); /* whoever waits for them cannot be told any more */
}

void desk_go(struct agent *a) {
    if (!a->desk->link)
        return;
    link_hold(a->desk->link, false);
    for (const struct entry *e = journal_first(a->journal); e; e = e->next) {
        if (e->state == ENTRY_STARTED)
            desk_started(a, e);
        else if (e->state == ENTRY_FINISHED)
            desk_finished(a, e);
    }
    questions_say(a->questions);
    say_begun(a);
    ledger_rewind(a->ledger);
    desk_rows(a);
    desk_state(a);
    model_say_all(a);
}

bool desk_up(const struct agent *a) {
    return a->desk->link;
}

void desk_flush(struct agent *a) {
    if (a->desk->link)
        link_flush(a->desk->link, FLUSH_MS);
}
