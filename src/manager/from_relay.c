/*
 * The relay's questions. Each is answered: some at once, some when the warden or an agent has answered (asks.c), some page
 * by page (follow.c); the last word on a cookie is ret_end, or ret_exec_end for a command that ran.
 */
#include "base/escape.h"
#include "base/log.h"
#include "base/names.h"
#include "base/own.h"
#include "manager/events.h"
#include "manager/queue.h"
#include "manager/room.h"
#include "proto/file_name.h"

#include <errno.h>
#include <signal.h>

/* ---- answers ---- */

void relay_say(struct manager *m, const struct msg *answer) {
    if (!m->relay)
        return;
    own_err err_t e = link_send(m->relay, answer);
    if (e)
        log_warn("to the relay: %s", err_text(e));
}

void relay_end(struct manager *m, uint64_t cookie, unsigned status, uint64_t id, const char *text) {
    struct msg a = {.type = MSG_ret_end};
    a.ret_end = (struct msg_ret_end){.cookie = cookie, .status = status, .id = id, .text = bytes_of(text)};
    relay_say(m, &a);
}

void relay_fail(struct manager *m, uint64_t cookie, err_t e) {
    if (e->errnum == ENOSPC)
        relay_end(
            m, cookie, EXIT_FAILED, 0,
            "the disk with the manager's memory is full: nothing was kept; free some space and ask again");
    else
        relay_end(m, cookie, (unsigned)e->status, 0, err_text(e));
    err_free(e);
}

static void fail(struct manager *m, uint64_t cookie, unsigned status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void fail(struct manager *m, uint64_t cookie, unsigned status, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    relay_end(m, cookie, status, 0, text);
}

/* The agent of this name, or NULL after the one sentence was said. */
static struct agent *must_know(struct manager *m, uint64_t cookie, struct bytes name) {
    struct agent *a = fleet_known(&m->fleet, name);
    char shown[128];
    if (!a && !m->heard_all)
        fail(m, cookie, EXIT_FAILED,
             "the warden has not said yet which agents there are: try again in a moment");
    else if (!a)
        fail(m, cookie, EXIT_NOTFOUND, "there is no agent '%s': `agent-cage ls` lists those that there are",
             escape_into(shown, sizeof shown, ESCAPE_LINE, name.p, name.len));
    return a;
}

/* The same, and it must be reachable. */
static struct agent *must_reach(struct manager *m, uint64_t cookie, struct bytes name) {
    struct agent *a = must_know(m, cookie, name);
    if (!a || (a->link && !link_full(a->link)))
        return a;
    if (a->link)
        fail(m, cookie, EXIT_FAILED, "%s does not keep up with what it is asked: try again", a->name);
    else
        fail(m, cookie, EXIT_FAILED, "%s cannot be reached (it is %s): `agent-cage start %s` starts it",
             a->name, a->state, a->name);
    return NULL;
}

/* A question on its way, or NULL after the one sentence was said. */
static struct ask *must_ask(struct manager *m, enum ask_kind kind, uint64_t cookie, struct bytes agent) {
    struct ask *ask = asks_add(&m->asks, kind, cookie, agent);
    if (!ask)
        fail(m, cookie, EXIT_POLICY, "%d questions wait for an answer already: try again", ASKS_MAX);
    return ask;
}

/* Sends the agent what was asked of it; away: what to say when it is gone meanwhile. */
static void pass_on(struct manager *m, struct agent *a, struct ask *ask, const struct msg *o,
                    const char *away) {
    uint64_t cookie = ask->cookie;
    if (agent_say(a, o))
        return;
    asks_drop(&m->asks, ask);
    fail(m, cookie, EXIT_FAILED, "%s went away: %s", a->name, away);
}

/* ---- questions ---- */

/* When will a message be delivered that cannot be now? The caller frees. */
static char *waits_for(const struct agent *a) {
    if (!strcmp(a->state, "running"))
        return xasprintf("%s cannot be reached for a moment: it gets the message as soon as it can", a->name);
    return xasprintf("%s is %s: it gets the message as soon as it runs", a->name, a->state);
}

static err_t say_store(struct manager *m, struct gathered *g) {
    const struct msg_fleet_say *q = &g->msg.fleet_say;
    struct queue_say say = {q->key, q->agent, q->who, q->text};
    return queue_say(m->db, &say, &g->id, &g->is_new);
}

static void say_stored(struct manager *m, struct gathered *g) {
    const struct msg_fleet_say *q = &g->msg.fleet_say;
    struct agent *a = fleet_known(&m->fleet, q->agent);
    if (g->e) {
        relay_fail(m, q->cookie, TAKE(g->e));
        return;
    }
    own_free char *waits = !a || a->link ? xstrdup("") : waits_for(a);
    relay_end(m, q->cookie, EXIT_OK, g->id, waits);
    if (a)
        agent_deliver(m, a);
}

static const struct gather_kind say_kind = {LASTING, false, say_store, say_stored};

static void on_fleet_say(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    if (must_know(m, msg->fleet_say.cookie, msg->fleet_say.agent))
        gather_add(m, &say_kind, NULL, msg, msg->fleet_say.text.len);
}

/* Who takes an order: the warden, or the agent itself as which message. */
static const struct {
    const char *order;
    enum msg_type desk; /* MSG_none: the warden's */
} orders[] = {
    {"start", MSG_none},         {"stop", MSG_none},        {"restart", MSG_none},
    {"halt", MSG_desk_halt},     {"fresh", MSG_desk_fresh}, {"model", MSG_desk_model},
    {"resume", MSG_desk_resume}, {"login", MSG_desk_login},
};

enum { ORDER_NAME_MAX = 128 }; /* messages.def: of a session, of a model */

static void order_warden(struct manager *m, const struct msg_fleet_order *q) {
    struct ask *ask = must_ask(m, ASK_ORDER, q->cookie, q->agent);
    if (!ask)
        return;
    struct msg o = {.type = MSG_ask_order};
    o.ask_order = (struct msg_ask_order){.cookie = ask->number, .order = q->order, .agent = q->agent};
    if (warden_ask(m, &o))
        return;
    asks_drop(&m->asks, ask);
    fail(m, q->cookie, EXIT_FAILED, "the warden cannot be reached now: try again in a moment");
}

static void order_desk(struct manager *m, const struct msg_fleet_order *q, enum msg_type type) {
    if (type != MSG_desk_login && q->arg.len > ORDER_NAME_MAX) {
        fail(m, q->cookie, EXIT_USAGE, "that name is too long: %d bytes at most", ORDER_NAME_MAX);
        return;
    }
    struct agent *a = must_reach(m, q->cookie, q->agent);
    struct ask *ask = a ? must_ask(m, ASK_DESK, q->cookie, q->agent) : NULL;
    if (!ask)
        return;
    struct msg o = {.type = type};
    if (type == MSG_desk_halt)
        o.desk_halt.cookie = ask->number;
    else if (type == MSG_desk_model)
        o.desk_model = (struct msg_desk_model){.cookie = ask->number, .model = q->arg};
    else if (type == MSG_desk_resume)
        o.desk_resume = (struct msg_desk_resume){.cookie = ask->number, .arg = q->arg};
    else if (type == MSG_desk_login)
        o.desk_login = (struct msg_desk_login){.cookie = ask->number, .code = q->arg};
    else
        o.desk_fresh = (struct msg_desk_fresh){.cookie = ask->number, .arg = q->arg};
    pass_on(m, a, ask, &o, "try again");
}

static void on_fleet_order(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    const struct msg_fleet_order *q = &msg->fleet_order;
    if (!must_know(m, q->cookie, q->agent))
        return;
    for (size_t i = 0; i < COUNT(orders); i++)
        if (!strcmp(orders[i].order, q->order.p)) {
            if (orders[i].desk == MSG_none)
                order_warden(m, q);
            else
                order_desk(m, q, orders[i].desk);
            return;
        }
    fail(m, q->cookie, EXIT_USAGE,
         "no such order: there are start, stop, restart, halt, fresh, resume, model and login");
}

static void on_fleet_answer(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    const struct msg_fleet_answer *q = &msg->fleet_answer;
    struct agent *a = must_reach(m, q->cookie, q->agent);
    struct ask *ask = a ? must_ask(m, ASK_DESK, q->cookie, q->agent) : NULL;
    if (!ask)
        return;
    struct msg o = {.type = MSG_desk_answer};
    o.desk_answer = (struct msg_desk_answer){.cookie = ask->number,
                                             .who = q->who,
                                             .question = q->question,
                                             .digest = q->digest,
                                             .choice = q->choice};
    pass_on(m, a, ask, &o, "the question is not open any more");
}

static void on_fleet_token(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    const struct msg_fleet_token *q = &msg->fleet_token;
    struct agent *a = must_reach(m, q->cookie, q->agent);
    struct ask *ask = a ? must_ask(m, ASK_DESK, q->cookie, q->agent) : NULL;
    if (!ask)
        return;
    struct msg o = {.type = MSG_desk_token};
    o.desk_token = (struct msg_desk_token){.cookie = ask->number, .box = q->box};
    pass_on(m, a, ask, &o, "try again");
}

static void on_fleet_sessions(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    const struct msg_fleet_sessions *q = &msg->fleet_sessions;
    struct agent *a = must_reach(m, q->cookie, q->agent);
    struct ask *ask = a ? must_ask(m, ASK_DESK, q->cookie, q->agent) : NULL;
    if (!ask)
        return;
    struct msg o = {.type = MSG_desk_sessions};
    o.desk_sessions.cookie = ask->number;
    pass_on(m, a, ask, &o, "try again");
}

static void on_fleet_list(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    uint64_t cookie = msg->fleet_list.cookie;
    for (struct agent *a = m->fleet.first; a; a = a->next) {
        if (!a->known)
            continue;
        struct msg r = {.type = MSG_ret_agent};
        r.ret_agent = (struct msg_ret_agent){.cookie = cookie,
                                             .agent = bytes_of(a->name),
                                             .mode = bytes_of(a->mode),
                                             .harness = bytes_of(a->harness),
                                             .project = bytes_of(a->project),
                                             .net = bytes_of(a->net),
                                             .state = bytes_of(a->state),
                                             .why = bytes_of(a->why),
                                             .since_wall_ms = a->since_wall_ms};
        relay_say(m, &r);
    }
    relay_end(m, cookie, EXIT_OK, 0, "");
}

/* Asks for one agent's figures, or tells what is known without them. */
static void ask_status(struct manager *m, uint64_t cookie, struct agent *a) {
    struct ask *ask = asks_add(&m->asks, ASK_STATE, cookie, bytes_of(a->name));
    if (ask) {
        struct msg o = {.type = MSG_ask_state};
        o.ask_state = (struct msg_ask_state){.cookie = ask->number, .agent = bytes_of(a->name)};
        if (warden_ask(m, &o))
            return;
        asks_drop(&m->asks, ask);
    }
    warden_status(m, cookie, a, NULL);
}

static void on_fleet_status(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    const struct msg_fleet_status *q = &msg->fleet_status;
    struct agent *only = q->agent.len ? must_know(m, q->cookie, q->agent) : NULL;
    if (q->agent.len && !only)
        return;
    for (struct agent *a = m->fleet.first; a; a = a->next)
        if (a->known && (!only || a == only))
            ask_status(m, q->cookie, a);
    if (!asks_of(&m->asks, q->cookie)) /* else the last answer ends it */
        relay_end(m, q->cookie, EXIT_OK, 0, "");
}

/* May this agent's past be read? A removed one's may, while it is kept. */
static bool has_past(struct manager *m, enum follow_what what, struct bytes agent) {
    uint64_t seq = 0;
    if (!agent.len || fleet_known(&m->fleet, agent))
        return true;
    err_free(what == FOLLOW_EVENTS ? events_back(m->db, agent, 0, 0, &seq)
                                   : audit_back(m->db, agent, 0, &seq));
    return seq;
}

static void follow(struct manager *m, const struct follow_ask *ask) {
    if (!has_past(m, ask->what, ask->agent)) {
        must_know(m, ask->cookie, ask->agent);
        return;
    }
    err_t e = follow_start(m->follows, ask);
    if (e)
        relay_fail(m, ask->cookie, e);
}

static void on_fleet_events(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    const struct msg_fleet_events *q = &msg->fleet_events;
    follow(ctx, &(struct follow_ask){.what = FOLLOW_EVENTS,
                                     .cookie = q->cookie,
                                     .agent = q->agent,
                                     .after = q->after,
                                     .before = q->before,
                                     .follow = q->follow});
}

static void on_fleet_log(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    const struct msg_fleet_log *q = &msg->fleet_log;
    audit_flush(m->audit); /* a command that ended is in the log that is asked for after it */
    follow(m, &(struct follow_ask){.what = FOLLOW_ROWS,
                                   .cookie = q->cookie,
                                   .agent = q->agent,
                                   .after = q->after,
                                   .limit = q->limit,
                                   .follow = q->follow});
}

static void on_fleet_exec(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    const struct msg_fleet_exec *q = &msg->fleet_exec;
    struct agent *a = must_reach(m, q->cookie, q->agent);
    struct ask *ask = a ? must_ask(m, ASK_RUN, q->cookie, q->agent) : NULL;
    if (!ask)
        return;
    struct msg o = {.type = MSG_desk_exec, .nfds = msg->nfds};
    o.desk_exec = (struct msg_desk_exec){.run = ask->number,
                                         .who = q->who,
                                         .timeout_ms = q->timeout_ms,
                                         .cwd = q->cwd,
                                         .argv = q->argv,
                                         .env = q->env,
                                         .tty = q->tty};
    memcpy(o.fds, msg->fds, sizeof o.fds); /* duplicated by the link; ours are closed after this handler */
    pass_on(m, a, ask, &o, "try again");
}

/* A file to the agent, or from it: what both have in common. The descriptor is duplicated by the link. */
static void pass_file(struct manager *m, struct msg *desk, const struct msg *msg, uint64_t cookie,
                      struct bytes agent, err_t no) {
    if (no) {
        relay_fail(m, cookie, no);
        return;
    }
    struct agent *a = must_reach(m, cookie, agent);
    struct ask *ask = a ? must_ask(m, ASK_DESK, cookie, agent) : NULL;
    if (!ask)
        return;
    desk->desk_put.cookie = ask->number; /* the first field of both */
    desk->fds[desk->nfds++] = msg->fds[0];
    if (agent_say(a, desk))
        return;
    asks_drop(&m->asks, ask);
    fail(m, cookie, EXIT_FAILED, "%s went away: try again", a->name);
}

static void on_fleet_put(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    const struct msg_fleet_put *q = &msg->fleet_put;
    struct msg o = {.type = MSG_desk_put};
    o.desk_put = (struct msg_desk_put){.who = q->who, .name = q->name, .size = q->size};
    pass_file(ctx, &o, msg, q->cookie, q->agent, file_check(q->name, q->size));
}

static void on_fleet_get(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    const struct msg_fleet_get *q = &msg->fleet_get;
    struct msg o = {.type = MSG_desk_get};
    o.desk_get = (struct msg_desk_get){.who = q->who, .name = q->name};
    pass_file(ctx, &o, msg, q->cookie, q->agent, file_check(q->name, 0));
}

static void signal_run(struct manager *m, const struct ask *ask, uint64_t signo) {
    struct agent *a = fleet_find(&m->fleet, bytes_of(ask->agent));
    struct msg o = {.type = MSG_desk_signal};
    o.desk_signal = (struct msg_desk_signal){.run = ask->number, .signo = signo};
    if (a)
        agent_say(a, &o);
}

static void on_fleet_signal(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    struct ask *ask = asks_of(&m->asks, msg->fleet_signal.cookie);
    if (ask && ask->kind == ASK_RUN)
        signal_run(m, ask, msg->fleet_signal.signo);
}

/* Nobody waits for this answer any more: a command of it ends. */
static void forget(struct manager *m, struct ask *ask) {
    if (ask->kind == ASK_RUN)
        signal_run(m, ask, SIGKILL);
    asks_drop(&m->asks, ask);
}

static void on_fleet_forget(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    uint64_t cookie = msg->fleet_forget.cookie;
    follow_stop(m->follows, cookie);
    for (struct ask *ask; (ask = asks_of(&m->asks, cookie));)
        forget(m, ask);
}

static link_fn *const questions[MSG_COUNT] = {
    [MSG_fleet_order] = on_fleet_order,   [MSG_fleet_sessions] = on_fleet_sessions,
    [MSG_fleet_answer] = on_fleet_answer, [MSG_fleet_list] = on_fleet_list,
    [MSG_fleet_status] = on_fleet_status, [MSG_fleet_events] = on_fleet_events,
    [MSG_fleet_log] = on_fleet_log,       [MSG_fleet_exec] = on_fleet_exec,
    [MSG_fleet_signal] = on_fleet_signal, [MSG_fleet_forget] = on_fleet_forget,
    [MSG_fleet_put] = on_fleet_put,       [MSG_fleet_get] = on_fleet_get,
    [MSG_fleet_token] = on_fleet_token,
};

/* Whoever asks next sees, and orders, what was said before. */
static void on_question(void *ctx, struct link *l, struct msg *msg) {
    gather_now(ctx);
    questions[msg->type](ctx, l, msg);
}

static link_fn *const handlers[MSG_COUNT] = {
    [MSG_fleet_say] = on_fleet_say,   [MSG_fleet_order] = on_question,  [MSG_fleet_sessions] = on_question,
    [MSG_fleet_answer] = on_question, [MSG_fleet_list] = on_question,   [MSG_fleet_status] = on_question,
    [MSG_fleet_events] = on_question, [MSG_fleet_log] = on_question,    [MSG_fleet_exec] = on_question,
    [MSG_fleet_signal] = on_question, [MSG_fleet_forget] = on_question, [MSG_fleet_put] = on_question,
    [MSG_fleet_get] = on_question,    [MSG_fleet_token] = on_question,
};

/* ---- the link ---- */

static void forget_all(struct manager *m) {
    follow_stop_all(m->follows);
    while (m->asks.first)
        forget(m, m->asks.first);
}

static void on_end(void *ctx, struct link *l, err_t why) {
    struct manager *m = ctx;
    if (why)
        log_warn("relay: %s", err_text(why));
    m->relay = NULL;
    link_free(l);
    gather_now(m); /* it was said; nobody hears the answer */
    forget_all(m);
    part_lost(m->part, LINK_relay_manager, "");
}

static void on_room(void *ctx, struct link *l) {
    (void)l;
    struct manager *m = ctx;
    follow_room(m->follows);
}

static const struct link_ops ops = {.on = handlers, .on_end = on_end, .on_room = on_room};

void relay_link(struct manager *m, int fd) {
    link_free(m->relay);
    m->relay = NULL;
    gather_now(m); /* its answers are none of the new link's */
    forget_all(m);
    m->relay = link_new(m->base, fd, LINK_relay_manager, false, &ops, m);
}
