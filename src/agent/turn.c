#include "agent/turn.h"
#include "agent/excerpt.h"
#include "agent/from_manager.h"
#include "agent/inbox.h"
#include "agent/intray.h"
#include "agent/journal.h"
#include "agent/live.h"
#include "agent/model.h"
#include "agent/outputs.h"
#include "agent/questions.h"
#include "agent/sessions.h"
#include "agent/to_executor.h"
#include "agent/to_harness.h"
#include "agent/witness.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"

#include <stdlib.h>
#include <string.h>

enum { ORDER_ARG_MAX = 128 }; /* messages.def */
enum state { NONE_, RUNNING, STOPPING, STATES };
enum event_kind { OUTPUT, EVENT, ENDED, LOST, ORDER, LATE, EVENTS };

struct happened {
    struct bytes output;
    const struct msg *event;
    const char *outcome, *text;
    int64_t status;
    enum order order;
    uint64_t cookie;
};

struct waiting {
    enum order order;
    uint64_t cookie;
    char arg[ORDER_ARG_MAX + 1];
};

struct turn {
    struct agent *a;
    enum state state;
    uint64_t id;
    int64_t start_ns;
    bool leaving;
    struct inbox *inbox;
    struct outputs *outputs;
    struct live *live;
    struct event *late;
    struct waiting orders[TURN_ORDERS_MAX]; /* answered when the turn is over */
    size_t norders;
    uint64_t tokens, tools; /* of the turn, as the harness tells */
    uint64_t counted;       /* by the gateway, when the turn began */
    struct buf differs;     /* what the two witnesses do not agree on */
    struct excerpt excerpt;
};

/* --- ending --- */

/* Appends a sentence on a line of its own. */
static void add_line(struct buf *b, const char *text) {
    if (!text || !text[0])
        return;
    if (b->len && b->p[b->len - 1] != '\n')
        buf_adds(b, "\n");
    buf_printf(b, "[%s]\n", text);
}

/* Remembers and says how message `id` ended (C3). */
static void record_end(struct turn *t, uint64_t id, const struct ending *end) {
    err_t e = journal_finish(t->a->journal, id, end);
    if (e) /* Said all the same: a restart that does not know it would say "unknown", and the manager keeps
              the first word. */
        log_error("message %llu: %s", (unsigned long long)id, err_text(e));
    err_free(e);
    const struct entry *entry = journal_find(t->a->journal, id);
    if (entry && entry->state == ENTRY_FINISHED)
        desk_finished(t->a, entry);
}

/* Refused before C2. */
static void refuse(struct turn *t, uint64_t id, const char *who, const char *why) {
    struct ending end = {.outcome = OUTCOME_REFUSED, .status = EXIT_FAILED, .text = why, .output = ""};
    journal_refuse(t->a->journal, id, who, (uint64_t)clock_wall_ms(), &end);
    desk_finished(t->a, journal_find(t->a->journal, id));
}

/* Another session is current from here on; no turn is under way. */
static err_t change_session(struct turn *t, const struct waiting *w, const char **ret_good) {
    if (!to_harness_idle(t->a))
        return err_new(EXIT_FAILED, "the harness is not running; try again in a moment");
    *ret_good = w->order == ORDER_FRESH ? "a new session begins" : "the conversation of that session goes on";
    TRY(w->order == ORDER_FRESH ? sessions_begin(t->a->sessions, w->arg)
                                : sessions_resume(t->a->sessions, w->arg));
    TRY(intray_of(t->a->intray, sessions_current(t->a->sessions)));
    return to_harness_session(t->a);
}

static void answer_orders(struct turn *t, const char *text) {
    for (size_t i = 0; i < t->norders; i++) {
        const struct waiting *w = &t->orders[i];
        const char *good = text;
        own_err err_t e = w->order == ORDER_HALT ? NULL : change_session(t, w, &good);
        desk_order_end(t->a, w->cookie, e ? e->status : EXIT_OK, e ? err_text(e) : good);
    }
    t->norders = 0;
}

static void finish(struct turn *t, enum outcome outcome, int64_t status, const char *why) {
    bool stopped = t->state == STOPPING;
    t->state = NONE_;
    event_del(t->late);
    questions_over(t->a->questions, stopped ? "the turn was stopped" : "the turn is over");
    live_end(t->live);
    outputs_end(t->outputs);
    own_buf struct buf text = {0};
    excerpt_text(&t->excerpt, &text);
    add_line(&text, stopped ? "stopped" : NULL);
    add_line(&text, why);
    add_line(&text, buf_text(&t->differs));
    buf_clear(&t->differs);
    char output[OUTPUTS_NAME_MAX];
    outputs_name(output, t->id);
    struct ending end = {.outcome = outcome,
                         .status = status,
                         .span_ms = (uint64_t)(clock_mono_ns() - t->start_ns) / 1000000,
                         .tokens = model_counts(t->a) ? model_tokens(t->a) - t->counted : t->tokens,
                         .tools = t->tools,
                         .text = buf_text(&text),
                         .output = t->excerpt.total ? output : ""};
    record_end(t, t->id, &end);
    sessions_turn_ended(t->a->sessions);
    if (stopped)
        to_executor_halt(t->a); /* what the harness began before it heard of the stop */
    answer_orders(t, "the turn was stopped");
    desk_state(t->a);
    if (t->leaving)
        agent_quiet(t->a);
    else
        turn_pump(t);
}

/* --- what happens in which state --- */

/* For the report, and whole for the file. */
static void keep(struct turn *t, struct bytes output) {
    excerpt_add(&t->excerpt, output.p, output.len);
    own_err err_t e = outputs_add(t->outputs, output.p, output.len);
    if (e)
        log_warn("message %llu: %s", (unsigned long long)t->id, err_text(e));
}

static void keep_output(struct turn *t, const struct happened *h) {
    live_add(t->live, h->output.p, h->output.len);
    keep(t, h->output);
}

static bool is_kind(const struct msg_turn_event *q, const char *kind) {
    return !strcmp(q->kind.p, kind);
}

/* What the model says is the report; the rest is counted, and told while it happens. */
static void keep_event(struct turn *t, const struct happened *h) {
    const struct msg_turn_event *q = &h->event->turn_event;
    if (is_kind(q, "text"))
        keep(t, q->text);
    else if (is_kind(q, "tool_start"))
        t->tools++;
    else if (is_kind(q, "usage") && q->status > 0)
        t->tokens += (uint64_t)q->status;
    witness_tool(t->a->witness, q);
    desk_event(t->a, h->event);
}

/* What the harness had an answer to has begun before: the executor's word of it is here or on its link. */
static void judge(struct turn *t) {
    to_executor_hear(t->a);
    witness_judge(t->a->witness, &t->differs);
    if (t->differs.len)
        to_executor_flag(t->a, buf_text(&t->differs), t->id);
}

static void end_as_said(struct turn *t, const struct happened *h) {
    enum outcome outcome;
    if (!outcome_of(h->outcome, &outcome))
        outcome = OUTCOME_UNKNOWN;
    judge(t); /* whatever it says: it would choose not to be judged */
    finish(t, outcome, h->status, h->text);
}

static void end_unknown(struct turn *t, const struct happened *h) {
    (void)h;
    judge(t);
    finish(t, OUTCOME_UNKNOWN, EXIT_FAILED,
           "the harness ended in the middle; it is not known how far this message came");
}

static void stop(struct turn *t, const struct happened *h) {
    (void)h;
    t->state = STOPPING;
    questions_over(t->a->questions, "the turn was stopped");
    struct timeval tv = {TURN_STOP_MS / 1000, TURN_STOP_MS % 1000 * 1000};
    event_add(t->late, &tv);
    to_harness_stop(t->a, t->id);
    to_executor_halt(t->a);
}

static void do_order(struct turn *t, const struct happened *h) {
    (void)h;
    to_executor_halt(t->a);
    answer_orders(t, "no turn was under way");
}

static void wait_for_end(struct turn *t, const struct happened *h) {
    (void)t, (void)h;
}

static void give_up(struct turn *t, const struct happened *h) {
    (void)h;
    log_warn("message %llu: the harness does not end its turn; its link is made anew",
             (unsigned long long)t->id);
    to_harness_unlink(t->a); /* turn_lost() ends it */
}

typedef void act(struct turn *t, const struct happened *h);
static act *const acts[STATES][EVENTS] = {
    [NONE_] = {[ORDER] = do_order},
    [RUNNING] = {[OUTPUT] = keep_output,
                 [EVENT] = keep_event,
                 [ENDED] = end_as_said,
                 [LOST] = end_unknown,
                 [ORDER] = stop},
    [STOPPING] = {[OUTPUT] = keep_output,
                  [EVENT] = keep_event,
                  [ENDED] = end_as_said,
                  [LOST] = end_unknown,
                  [ORDER] = wait_for_end,
                  [LATE] = give_up},
};

static void happen(struct turn *t, enum event_kind kind, const struct happened *h) {
    if (acts[t->state][kind])
        acts[t->state][kind](t, h);
}

void turn_output(struct turn *t, uint64_t id, const char *p, size_t n) {
    if (id == t->id)
        happen(t, OUTPUT, &(struct happened){.output = {p, n}});
}

void turn_event(struct turn *t, const struct msg *m) {
    if (m->turn_event.id == t->id)
        happen(t, EVENT, &(struct happened){.event = m});
}

void turn_asks(struct turn *t, const struct msg *m) {
    if (t->state == RUNNING && m->turn_ask.id == t->id)
        questions_ask(t->a->questions, &m->turn_ask);
    else
        to_harness_answer(t->a, m->turn_ask.id, m->turn_ask.question, 0);
}

void turn_ran(struct turn *t, uint64_t id, uint64_t row, const struct list *argv) {
    if (t->state != NONE_ && id == t->id)
        witness_ran(t->a->witness, row, argv);
}

void turn_ended(struct turn *t, uint64_t id, const char *outcome, int64_t status, const char *text) {
    if (id == t->id)
        happen(t, ENDED, &(struct happened){.outcome = outcome, .status = status, .text = text});
}

void turn_lost(struct turn *t) {
    happen(t, LOST, &(struct happened){0});
}

void turn_order(struct turn *t, enum order order, uint64_t cookie, const char *arg) {
    if (t->norders == TURN_ORDERS_MAX) {
        desk_order_end(t->a, cookie, EXIT_FAILED, "too many orders at once");
        return;
    }
    struct waiting *w = &t->orders[t->norders++];
    *w = (struct waiting){order, cookie, ""};
    snprintf(w->arg, sizeof w->arg, "%s", arg);
    happen(t, ORDER, &(struct happened){0});
}

bool turn_changes_session(const struct turn *t) {
    for (size_t i = 0; i < t->norders; i++)
        if (t->orders[i].order != ORDER_HALT)
            return true;
    return false;
}

void turn_leave(struct turn *t) {
    t->leaving = true;
    if (t->state == NONE_)
        agent_quiet(t->a);
    else
        happen(t, ORDER, &(struct happened){0});
}

static void on_late(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    happen(arg, LATE, &(struct happened){0});
}

/* --- starting --- */

void turn_deliver(struct turn *t, uint64_t id, const char *who, const char *text) {
    const struct entry *e = journal_find(t->a->journal, id);
    if (e && e->state == ENTRY_STARTED)
        desk_started(t->a, e);
    else if (e)
        desk_finished(t->a, e);
    if (e || inbox_has(t->inbox, id))
        return;
    own_err err_t full = inbox_add(t->inbox, id, who, text);
    if (full)
        refuse(t, id, who, err_text(full));
    turn_pump(t);
}

static bool may_start(const struct turn *t) {
    return t->state == NONE_ && !t->leaving && !t->norders && inbox_count(t->inbox) &&
           journal_untold(t->a->journal) < TURN_UNTOLD_MAX && to_harness_idle(t->a) && to_executor_up(t->a);
}

static void begin(struct turn *t, uint64_t id) {
    t->state = RUNNING;
    t->id = id;
    t->start_ns = clock_mono_ns();
    t->tokens = t->tools = 0;
    t->counted = model_tokens(t->a);
    witness_begin(t->a->witness);
    memset(&t->excerpt, 0, sizeof t->excerpt);
    own_err err_t e = outputs_begin(t->outputs, id);
    if (e)
        log_warn("message %llu: %s", (unsigned long long)id, err_text(e));
    desk_state(t->a);
}

/* C2, then the harness. Takes d. */
static void start(struct turn *t, struct delivered *d) {
    const struct entry *entry = journal_find(t->a->journal, d->id); /* there when it was put back */
    const char *no = entry ? NULL : model_refuses(t->a);
    if (no) {
        refuse(t, d->id, d->who, no);
        delivered_free(d);
        return;
    }
    own_err err_t e = entry ? NULL : journal_start(t->a->journal, d->id, d->who, (uint64_t)clock_wall_ms());
    if (e) {
        refuse(t, d->id, d->who, err_text(e));
        delivered_free(d);
        return;
    }
    if (!entry)
        desk_started(t->a, journal_find(t->a->journal, d->id));
    sessions_turn_begins(t->a->sessions);
    if (to_harness_start(t->a, d->id, d->text)) {
        begin(t, d->id);
        delivered_free(d);
        return;
    }
    sessions_turn_never_began(t->a->sessions);
    inbox_put_back(t->inbox, d);
}

void turn_pump(struct turn *t) {
    while (may_start(t)) {
        struct delivered *d;
        own_err err_t e = inbox_take(t->inbox, &d);
        if (!e) {
            start(t, d);
            continue;
        }
        refuse(t, d->id, d->who, err_text(e));
        delivered_free(d);
    }
}

bool turn_running(const struct turn *t) {
    return t->state != NONE_;
}

uint64_t turn_of(const struct turn *t, uint64_t wall_ms, const char **ret_who) {
    const struct entry *found = NULL;
    for (const struct entry *e = journal_first(t->a->journal); e; e = e->next) {
        bool over = e->state != ENTRY_STARTED;
        /* Begin and span are whole milliseconds, cut: together they end up to two before the turn did. */
        if (e->start_wall_ms <= wall_ms && (!over || wall_ms <= e->start_wall_ms + e->end.span_ms + 2))
            found = e;
    }
    if (!found && t->state != NONE_) /* the clock was set back meanwhile */
        found = journal_find(t->a->journal, t->id);
    if (!found)
        return 0;
    *ret_who = found->who;
    return found->id;
}

/* --- opening --- */

static void live_say(void *ctx, const char *text, size_t len) {
    struct turn *t = ctx;
    desk_output(t->a, t->id, text, len);
}

/* What an earlier agent had begun: it may have been done, wholly, in part or not at all. */
static void end_interrupted(struct turn *t) {
    for (const struct entry *e = journal_first(t->a->journal); e; e = e->next) {
        if (e->state != ENTRY_STARTED)
            continue;
        char output[OUTPUTS_NAME_MAX];
        outputs_name(output, e->id);
        struct ending end = {
            .outcome = OUTCOME_UNKNOWN,
            .status = EXIT_FAILED,
            .output = output,
            .text = "[the agent ended in the middle; it is not known how far this message came, and it is "
                    "not run again]\n"};
        record_end(t, e->id, &end);
    }
}

err_t turn_open(struct agent *a, int home, uint64_t output_max, struct turn **ret) {
    struct turn *t = xcalloc(1, sizeof *t);
    t->a = a;
    err_t e = inbox_open(home, &t->inbox);
    if (!e)
        e = outputs_open(home, output_max, &t->outputs);
    if (e) {
        inbox_free(t->inbox);
        free(t);
        return e;
    }
    t->live = live_new(a->base, live_say, t);
    t->late = event_new(a->base, -1, 0, on_late, t);
    end_interrupted(t);
    *ret = t;
    return NULL;
}

void turn_free(struct turn *t) {
    if (!t)
        return;
    inbox_free(t->inbox);
    outputs_free(t->outputs);
    live_free(t->live);
    buf_free(&t->differs);
    event_free(t->late);
    free(t);
}
