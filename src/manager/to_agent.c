/*
 * Delivery to the agents, and what they say of it. docs/delivery.md has the theory. What must be kept is gathered and stored
 * first (gather.h); what is told live, or answers, comes behind what the same agent had said before it.
 */
#include "base/log.h"
#include "base/own.h"
#include "manager/asked.h"
#include "manager/events.h"
#include "manager/queue.h"
#include "manager/room.h"

/* Messages that an agent holds at once, at most: a queue of a thousand is the manager's to keep. */
enum { WINDOW = 16 };

bool agent_say(struct agent *a, const struct msg *order) {
    if (!a->link)
        return false;
    own_err err_t e = link_send(a->link, order);
    if (e)
        log_warn("to %s: %s", a->name, err_text(e));
    return !e;
}

/* ---- delivery ---- */

static void give(void *ctx, uint64_t id, struct bytes who, struct bytes text) {
    struct msg o = {.type = MSG_desk_deliver};
    o.desk_deliver = (struct msg_desk_deliver){.id = id, .who = who, .text = text};
    agent_say(ctx, &o);
}

void agent_deliver(struct manager *m, struct agent *a) {
    while (a->link && a->undone < WINDOW && !link_full(a->link)) {
        uint64_t id;
        own_err err_t e = queue_next(m->db, bytes_of(a->name), a->delivered, give, a, &id);
        if (e)
            log_warn("deliver to %s: %s", a->name, err_text(e));
        if (e || !id)
            return;
        a->delivered = id;
        a->undone++;
    }
}

static void settle(struct agent *a, uint64_t id) {
    struct msg o = {.type = MSG_desk_settle};
    o.desk_settle.id = id;
    agent_say(a, &o);
}

void agent_settle_row(struct manager *m, const char *name, uint64_t row) {
    struct agent *a = fleet_find(&m->fleet, bytes_of(name));
    struct msg o = {.type = MSG_desk_settle_row};
    o.desk_settle_row.row = row;
    if (a)
        agent_say(a, &o);
}

/* ---- what is stored before anything is said of it: gather.h ---- */

static err_t finished_store(struct manager *m, struct gathered *g) {
    const struct msg_desk_finished *q = &g->msg.desk_finished;
    struct queue_end end = {.id = q->id,
                            .agent = bytes_of(g->agent->name),
                            .outcome = q->outcome,
                            .status = q->status,
                            .span_ms = q->span_ms,
                            .text = q->text,
                            .output = q->output,
                            .tokens = q->tokens,
                            .tools = q->tools};
    return queue_finished(m->db, &end, &g->is_new);
}

/* Also one that had ended before is told to be kept. */
static void finished_stored(struct manager *m, struct gathered *g) {
    struct agent *a = g->agent;
    uint64_t id = g->msg.desk_finished.id;
    if (g->e) {
        log_warn("%s, message %llu: %s", a->name, (unsigned long long)id, err_text(g->e));
        return;
    }
    settle(a, id);
    if (g->is_new && id <= a->delivered && a->undone)
        a->undone--;
    agent_deliver(m, a);
}

static err_t started_store(struct manager *m, struct gathered *g) {
    const struct msg_desk_started *q = &g->msg.desk_started;
    return queue_started(m->db, q->id, bytes_of(g->agent->name), q->wall_ms, &g->is_new);
}

static err_t note_store(struct manager *m, struct gathered *g) {
    struct event event = {.agent = bytes_of(g->agent->name),
                          .kind = bytes_of("note"),
                          .who = bytes_of(g->agent->name),
                          .text = g->msg.desk_note.text};
    return events_note(m->db, &event);
}

/* These two may be lost: they tell, they promise nothing. */
static void told_stored(struct manager *m, struct gathered *g) {
    (void)m;
    if (g->e)
        log_warn("%s, %s is lost: %s", g->agent->name, msg_rows[g->msg.type].name, err_text(g->e));
}

static const struct gather_kind finished_kind = {LASTING, true, finished_store, finished_stored},
                                started_kind = {QUICK, false, started_store, told_stored},
                                note_kind = {QUICK, false, note_store, told_stored};

static void on_desk_finished(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct agent *a = ctx;
    gather_add(a->m, &finished_kind, a, msg, msg->desk_finished.text.len);
}

static void on_desk_started(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct agent *a = ctx;
    gather_add(a->m, &started_kind, a, msg, 0);
}

static void on_desk_note(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct agent *a = ctx;
    gather_add(a->m, &note_kind, a, msg, msg->desk_note.text.len);
}

/* ---- rows ---- */

void agent_holds(struct manager *m) {
    for (struct agent *a = m->fleet.first; a; a = a->next)
        if (a->link)
            link_hold(a->link, gather_stuck(m, a) || audit_full(m->audit));
}

static void on_desk_row(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct agent *a = ctx;
    const struct msg_desk_row *q = &msg->desk_row;
    struct audit_row row = {.agent = bytes_of(a->name),
                            .who = q->who,
                            .argv = q->argv,
                            .cwd = q->cwd,
                            .start_wall_ms = q->start_wall_ms,
                            .span_us = q->span_us,
                            .how = q->how,
                            .status = q->status,
                            .output = q->output};
    audit_add(a->m->audit, q->row, q->id, &row);
    if (audit_full(a->m->audit)) /* no other agent's next row has a place either */
        agent_holds(a->m);
}

static void on_desk_begin(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct agent *a = ctx;
    const struct msg_desk_begin *q = &msg->desk_begin;
    struct audit_row row = {.agent = bytes_of(a->name),
                            .who = q->who,
                            .argv = q->argv,
                            .cwd = q->cwd,
                            .start_wall_ms = q->start_wall_ms,
                            .output = q->output};
    audit_begin(a->m->audit, q->row, q->id, &row);
}

static void end_open(struct manager *m, const char *agent, uint64_t before) {
    own_err err_t e = audit_end_open(m->audit, bytes_of(agent), before);
    if (e)
        log_warn("%s, commands whose end nobody saw: %s", agent, err_text(e));
}

static void on_desk_open(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct agent *a = ctx;
    end_open(a->m, a->name, msg->desk_open.first);
}

void agent_absent(struct manager *m, struct agent *a) {
    if (!a->link && !strcmp(a->state, "stopped"))
        end_open(m, a->name, INT64_MAX);
}

/* ---- what is told live ---- */

static void on_desk_output(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct agent *a = ctx;
    gather_before(a->m, a);
    struct event e = {.agent = bytes_of(a->name),
                      .id = msg->desk_output.id,
                      .kind = bytes_of("output"),
                      .who = bytes_of(a->name),
                      .text = msg->desk_output.text};
    follow_live(a->m->follows, &e);
}

/* What an agent may show while a turn runs; a report, or the end of a message, is the manager's to tell. */
static bool is_live(const char *kind) {
    static const char *const kinds[] = {"text", "tool_start", "tool_end", "usage", "note"};
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (!strcmp(kind, kinds[i]))
            return true;
    return false;
}

static void on_desk_event(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct agent *a = ctx;
    const struct msg_desk_event *q = &msg->desk_event;
    if (!is_live(q->kind.p))
        return;
    gather_before(a->m, a);
    struct event e = {.agent = bytes_of(a->name),
                      .id = q->id,
                      .kind = q->kind,
                      .who = bytes_of(a->name),
                      .status = q->status,
                      .text = q->text,
                      .call = q->call,
                      .name = q->name};
    follow_live(a->m->follows, &e);
}

static void on_desk_ask(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct agent *a = ctx;
    gather_before(a->m, a);
    asked_put(a->m, a, msg);
}

static void on_desk_asked(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct agent *a = ctx;
    gather_before(a->m, a);
    const struct msg_desk_asked *q = &msg->desk_asked;
    asked_over(a, q->question);
    struct event e = {.agent = bytes_of(a->name),
                      .id = q->id,
                      .kind = bytes_of("answer"),
                      .who = q->who,
                      .status = (int64_t)q->choice,
                      .text = q->text,
                      .question = q->question};
    follow_live(a->m->follows, &e);
}

static void on_desk_state(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct agent *a = ctx;
    const struct msg_desk_state *q = &msg->desk_state;
    free(a->login);
    free(a->survivor_text);
    a->login = xstrdup(q->login.p);
    buf_clear(&a->token_key);
    buf_add(&a->token_key, q->token_key.p, q->token_key.len);
    a->survivor_text = xstrdup(q->survivor_text.p);
    a->sessions = q->sessions;
    a->survivors = q->survivors;
    a->last_command_wall_ms = q->last_command_wall_ms;
}

static void on_desk_usage(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct agent *a = ctx;
    a->usage = msg->desk_usage;
}

/* ---- answers ---- */

/* Numbers can be guessed: an agent answers what it was asked itself, nothing else. */
static struct ask *asked(const struct agent *a, enum ask_kind kind, uint64_t number) {
    struct ask *ask = asks_find(&a->m->asks, kind, number);
    return ask && !strcmp(ask->agent, a->name) ? ask : NULL;
}

static void on_desk_order_end(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ((struct agent *)ctx)->m;
    gather_before(m, ctx);
    struct ask *ask = asked(ctx, ASK_DESK, msg->desk_order_end.cookie);
    if (!ask)
        return;
    relay_end(m, ask->cookie, (unsigned)msg->desk_order_end.status, 0, msg->desk_order_end.text.p);
    asks_drop(&m->asks, ask);
}

static void on_desk_session(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ((struct agent *)ctx)->m;
    const struct msg_desk_session *q = &msg->desk_session;
    struct ask *ask = asked(ctx, ASK_DESK, q->cookie);
    if (!ask)
        return;
    struct msg r = {.type = MSG_ret_session};
    r.ret_session = (struct msg_ret_session){.cookie = ask->cookie,
                                             .number = q->number,
                                             .name = q->name,
                                             .created_wall_ms = q->created_wall_ms,
                                             .used_wall_ms = q->used_wall_ms,
                                             .turns = q->turns,
                                             .tokens = q->tokens,
                                             .current = q->current};
    relay_say(m, &r);
}

static void on_desk_exec_end(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ((struct agent *)ctx)->m;
    const struct msg_desk_exec_end *q = &msg->desk_exec_end;
    struct ask *ask = asked(ctx, ASK_RUN, q->run);
    if (!ask)
        return;
    struct msg r = {.type = MSG_ret_exec_end};
    r.ret_exec_end =
        (struct msg_ret_exec_end){.cookie = ask->cookie, .how = q->how, .status = q->status, .text = q->text};
    asks_drop(&m->asks, ask);
    relay_say(m, &r);
}

static link_fn *const handlers[MSG_COUNT] = {
    [MSG_desk_started] = on_desk_started,     [MSG_desk_finished] = on_desk_finished,
    [MSG_desk_output] = on_desk_output,       [MSG_desk_event] = on_desk_event,
    [MSG_desk_session] = on_desk_session,     [MSG_desk_ask] = on_desk_ask,
    [MSG_desk_asked] = on_desk_asked,         [MSG_desk_note] = on_desk_note,
    [MSG_desk_exec_end] = on_desk_exec_end,   [MSG_desk_begin] = on_desk_begin,
    [MSG_desk_open] = on_desk_open,           [MSG_desk_row] = on_desk_row,
    [MSG_desk_state] = on_desk_state,         [MSG_desk_usage] = on_desk_usage,
    [MSG_desk_order_end] = on_desk_order_end,
};

/* ---- the link ---- */

/* The link is over: what it was asked is not answered any more; what it did not store comes again on the next one. */
static void cut(struct manager *m, struct agent *a) {
    link_free(a->link);
    a->link = NULL;
    gather_now(m); /* what it said last */
    gather_drop(m, a);
    buf_clear(&a->token_key);
    a->delivered = a->undone = 0;
    asked_drop(a);
    for (struct ask *ask = m->asks.first, *next; ask; ask = next) {
        next = ask->next;
        if ((ask->kind != ASK_RUN && ask->kind != ASK_DESK) || strcmp(ask->agent, a->name) != 0)
            continue;
        own_free char *text =
            xasprintf("%s went away: %s", a->name,
                      ask->kind == ASK_RUN ? "its command was ended" : "try again when it runs");
        relay_end(m, ask->cookie, EXIT_FAILED, 0, text);
        asks_drop(&m->asks, ask);
    }
}

static void on_end(void *ctx, struct link *l, err_t why) {
    (void)l;
    struct agent *a = ctx;
    struct manager *m = a->m;
    if (why)
        log_warn("%s: %s", a->name, err_text(why));
    cut(m, a);
    part_lost(m->part, LINK_manager_agent, a->name);
    agent_absent(m, a);
    fleet_sweep(&m->fleet, a);
}

static void on_room(void *ctx, struct link *l) {
    (void)l;
    struct agent *a = ctx;
    agent_deliver(a->m, a);
}

static const struct link_ops ops = {.on = handlers, .on_end = on_end, .on_room = on_room};

void agent_link(struct manager *m, const char *name, int fd) {
    struct agent *a = fleet_make(&m->fleet, bytes_of(name));
    cut(m, a);
    a->m = m;
    a->link = link_new(m->base, fd, LINK_manager_agent, true, &ops, a);
    if (audit_full(m->audit))
        link_hold(a->link, true);
    agent_deliver(m, a);
}

void agent_unlink(struct manager *m, const char *name) {
    struct agent *a = fleet_find(&m->fleet, bytes_of(name));
    if (!a)
        return;
    cut(m, a);
    agent_absent(m, a);
    fleet_sweep(&m->fleet, a);
}
