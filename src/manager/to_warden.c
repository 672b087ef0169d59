/* What is asked of the warden, and what it says: the fleet as it has it, figures, how an order went. */
#include "base/log.h"
#include "base/own.h"
#include "manager/events.h"
#include "manager/queue.h"
#include "manager/room.h"

bool warden_ask(struct manager *m, const struct msg *question) {
    if (!m->warden || link_full(m->warden))
        return false;
    own_err err_t e = link_send(m->warden, question);
    if (e)
        log_warn("to the warden: %s", err_text(e));
    return !e;
}

void warden_keep_head(struct manager *m, uint64_t seq, const uint8_t hash[AUDIT_HASH]) {
    struct msg o = {.type = MSG_ask_keep_head};
    o.ask_keep_head = (struct msg_ask_keep_head){.seq = seq, .hash = {(const char *)hash, AUDIT_HASH}};
    warden_ask(m, &o); /* when the warden is away it gets the newest head with its next link */
}

void warden_status(struct manager *m, uint64_t cookie, const struct agent *a, const struct msg_ret_state *f) {
    static const struct msg_ret_state none = {.full = {"", 0}};
    uint64_t queued = 0;
    err_free(queue_waiting(m->db, bytes_of(a->name), &queued));
    if (!f)
        f = &none;
    struct msg r = {.type = MSG_ret_status};
    r.ret_status = (struct msg_ret_status){
        .cookie = cookie,
        .agent = bytes_of(a->name),
        .mode = bytes_of(a->mode),
        .harness = bytes_of(a->harness),
        .project = bytes_of(a->project),
        .net = bytes_of(a->net),
        .state = bytes_of(a->state),
        .why =
            f == &none && !*a->why ? bytes_of("the warden cannot be reached: no figures") : bytes_of(a->why),
        .login = bytes_of(a->login),
        .token_key = {buf_text(&a->token_key), a->token_key.len},
        .up_ms = f->up_ms,
        .sessions = a->sessions,
        .processes = f->processes,
        .survivors = a->survivors,
        .survivor_text = bytes_of(a->survivor_text),
        .last_command_wall_ms = a->last_command_wall_ms,
        .queued = queued,
        .memory_used = f->memory_used,
        .memory_max = f->memory_max,
        .memory_kills = f->memory_kills,
        .full = f->full,
        .pids_max = f->pids_max,
        .host_memory_total = f->host_memory_total,
        .host_memory_free = f->host_memory_free,
        .host_cpu_now = f->host_cpu_now,
        .host_cpu_5min = f->host_cpu_5min,
        .host_cores = f->host_cores,
        .tokens_input = a->usage.tokens_input,
        .tokens_output = a->usage.tokens_output,
        .tokens_cache_read = a->usage.tokens_cache_read,
        .tokens_cache_write = a->usage.tokens_cache_write,
        .tokens_session = a->usage.tokens_session,
        .model_requests = a->usage.model_requests,
        .cost_micro = a->usage.cost_micro,
        .budget_used = a->usage.budget_used,
        .budget_limit = a->usage.budget_limit,
        .budget_span_s = a->usage.budget_span_s,
        .budget_until_wall_ms = a->usage.budget_until_wall_ms,
    };
    relay_say(m, &r);
}

/* ---- what it says ---- */

static void on_has_agent(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    m->said_agents++;
    own_err err_t e = fleet_put(&m->fleet, m->db, &msg->has_agent);
    if (e)
        log_warn("agent %s: %s", msg->has_agent.agent.p, err_text(e));
    struct agent *a = fleet_find(&m->fleet, msg->has_agent.agent);
    agent_absent(m, a);
    agent_deliver(m, a);
}

static void gone(struct manager *m, struct agent *a) {
    own_free char *name = xstrdup(a->name);
    gather_now(m);
    own_err err_t open = audit_end_open(m->audit, bytes_of(name), INT64_MAX);
    if (open)
        log_warn("agent %s, its commands: %s", name, err_text(open));
    own_err err_t e = fleet_gone(&m->fleet, m->db, a);
    if (e)
        log_warn("agent %s, removed: %s", name, err_text(e));
    follow_wake(m->follows, FOLLOW_EVENTS);
}

/* All were said: what was not is gone. A count that differs means that some were lost, and then nothing is concluded. */
static void on_has_all(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    if (msg->has_all.agents != m->said_agents) {
        log_warn("the warden has %llu agents, but said %u", (unsigned long long)msg->has_all.agents,
                 m->said_agents);
        return;
    }
    m->heard_all = true;
    for (struct agent *a = m->fleet.first, *next; a; a = next) {
        next = a->next;
        if (a->known && !a->seen)
            gone(m, a);
    }
}

static void on_has_gone(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    struct agent *a = fleet_known(&m->fleet, msg->has_gone.agent);
    if (a)
        gone(m, a);
}

static void on_has_report(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    gather_now(m);
    struct event event = {.agent = msg->has_report.agent,
                          .kind = bytes_of("note"),
                          .who = bytes_of("warden"),
                          .text = msg->has_report.text};
    own_err err_t e = events_note(m->db, &event);
    if (e)
        log_warn("a report of %s is lost: %s", msg->has_report.agent.p, err_text(e));
    follow_wake(m->follows, FOLLOW_EVENTS);
}

/* Ends the relay's question once all of it is answered. */
static void answered(struct manager *m, struct ask *ask) {
    uint64_t cookie = ask->cookie;
    asks_drop(&m->asks, ask);
    if (!asks_of(&m->asks, cookie))
        relay_end(m, cookie, EXIT_OK, 0, "");
}

static void on_ret_state(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    struct ask *ask = asks_find(&m->asks, ASK_STATE, msg->ret_state.cookie);
    if (!ask)
        return;
    struct agent *a = fleet_known(&m->fleet, bytes_of(ask->agent));
    if (a)
        warden_status(m, ask->cookie, a, &msg->ret_state);
    answered(m, ask);
}

static void on_ret_order(void *ctx, struct link *l, struct msg *msg) {
    (void)l;
    struct manager *m = ctx;
    struct ask *ask = asks_find(&m->asks, ASK_ORDER, msg->ret_order.cookie);
    if (!ask)
        return;
    relay_end(m, ask->cookie, (unsigned)msg->ret_order.status, 0, msg->ret_order.text.p);
    asks_drop(&m->asks, ask);
}

static link_fn *const handlers[MSG_COUNT] = {
    [MSG_has_agent] = on_has_agent,   [MSG_has_all] = on_has_all,     [MSG_has_gone] = on_has_gone,
    [MSG_has_report] = on_has_report, [MSG_ret_state] = on_ret_state, [MSG_ret_order] = on_ret_order,
};

/* ---- the link ---- */

/* Questions that this link will not answer any more. */
static void unanswered(struct manager *m) {
    for (struct ask *ask = m->asks.first, *next; ask; ask = next) {
        next = ask->next;
        if (ask->kind == ASK_STATE) {
            struct agent *a = fleet_known(&m->fleet, bytes_of(ask->agent));
            if (a)
                warden_status(m, ask->cookie, a, NULL);
            answered(m, ask);
        } else if (ask->kind == ASK_ORDER) {
            relay_end(m, ask->cookie, EXIT_FAILED, 0,
                      "the warden went away before it answered: `agent-cage status` shows how it went");
            asks_drop(&m->asks, ask);
        }
    }
}

static void on_end(void *ctx, struct link *l, err_t why) {
    struct manager *m = ctx;
    if (why)
        log_warn("warden: %s", err_text(why));
    m->warden = NULL;
    link_free(l);
    unanswered(m);
    part_lost(m->part, LINK_manager_warden, "");
}

static const struct link_ops ops = {.on = handlers, .on_end = on_end};

void warden_link(struct manager *m, int fd) {
    link_free(m->warden);
    m->warden = NULL;
    unanswered(m);
    m->said_agents = 0;
    for (struct agent *a = m->fleet.first; a; a = a->next)
        a->seen = false;
    m->warden = link_new(m->base, fd, LINK_manager_warden, true, &ops, m);
    uint8_t hash[AUDIT_HASH];
    uint64_t seq = audit_head(m->audit, hash);
    if (seq)
        warden_keep_head(m, seq, hash);
}
