#include "manager/queue.h"
#include "base/clock.h"
#include "manager/events.h"

static bool same(struct bytes a, struct bytes b) {
    return a.len == b.len && !memcmp(a.p, b.p, a.len);
}

/* *ret_id: of the message with this key, 0 when there is none. */
static err_t by_key(struct db *db, const struct queue_say *say, uint64_t *ret_id) {
    bool row;
    TRY(db_first(db, Q_message_by_key, DB_VALUES(db_t(say->key)), &row));
    *ret_id = row ? db_col_u(db, Q_message_by_key, 0) : 0;
    bool twin = row && same(db_col(db, Q_message_by_key, 1), say->agent) &&
                same(db_col(db, Q_message_by_key, 2), say->text);
    db_done(db, Q_message_by_key);
    if (row && !twin)
        return err_new(EXIT_USAGE,
                       "this key was used for another message: say it again with a key of its own");
    return NULL;
}

static err_t add(struct db *db, const struct queue_say *say, uint64_t *ret_id) {
    uint64_t open, now = (uint64_t)clock_wall_ms();
    TRY(db_number(db, Q_messages_open, DB_VALUES(db_t(say->agent)), 0, &open));
    if (open >= QUEUE_OPEN_MAX)
        return err_new(EXIT_POLICY, "%.*s has %d messages waiting: wait until some have ended",
                       (int)say->agent.len, say->agent.p, QUEUE_OPEN_MAX);
    TRY(db_do(db, Q_message_add,
              DB_VALUES(db_t(say->key), db_t(say->agent), db_t(say->who), db_t(say->text), db_i(now))));
    *ret_id = db_last_id(db);
    struct event event = {.agent = say->agent,
                          .id = *ret_id,
                          .kind = bytes_of("queued"),
                          .who = say->who,
                          .wall_ms = now,
                          .text = say->text};
    return events_add(db, &event, NULL);
}

err_t queue_say(struct db *db, const struct queue_say *say, uint64_t *ret_id, bool *ret_new) {
    if (!say->key.len || !say->text.len)
        return err_new(EXIT_USAGE, "a message needs a key and a text");
    uint64_t id = 0;
    TRY(by_key(db, say, &id));
    *ret_new = !id;
    if (!id) {
        TRY(db_begin(db, LASTING));
        TRY(db_end(db, add(db, say, &id)));
    }
    *ret_id = id;
    return NULL;
}

static err_t start(struct db *db, uint64_t id, struct bytes agent, uint64_t wall_ms, bool *ret_event) {
    TRY(db_do(db, Q_message_start, DB_VALUES(db_i(wall_ms), db_i(id), db_t(agent))));
    *ret_event = db_changes(db) == 1;
    struct event event = {
        .agent = agent, .id = id, .kind = bytes_of("started"), .who = agent, .wall_ms = wall_ms};
    return *ret_event ? events_add(db, &event, NULL) : NULL;
}

err_t queue_started(struct db *db, uint64_t id, struct bytes agent, uint64_t wall_ms, bool *ret_event) {
    *ret_event = false;
    TRY(db_begin(db, QUICK));
    return db_end(db, start(db, id, agent, wall_ms, ret_event));
}

/* Outcomes and the kind of event that tells them. */
static const struct {
    const char *outcome, *kind;
} outcomes[] = {{"done", "report"}, {"refused", "refused"}, {"unknown", "unknown"}};

static const char *kind_of(struct bytes outcome) {
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++)
        if (same(outcome, bytes_of(outcomes[i].outcome)))
            return outcomes[i].kind;
    return NULL;
}

/* Is it open, and this agent's? */
static err_t is_open(struct db *db, uint64_t id, struct bytes agent, bool *ret) {
    bool row;
    TRY(db_first(db, Q_message_open, DB_VALUES(db_i(id)), &row));
    *ret = row && same(db_col(db, Q_message_open, 0), agent);
    db_done(db, Q_message_open);
    return NULL;
}

static err_t finish(struct db *db, const struct queue_end *end, const char *kind) {
    uint64_t now = (uint64_t)clock_wall_ms(), seq = 0;
    struct event event = {.agent = end->agent,
                          .id = end->id,
                          .kind = bytes_of(kind),
                          .who = end->agent,
                          .wall_ms = now,
                          .status = end->status,
                          .span_ms = end->span_ms,
                          .text = end->text,
                          .tokens = end->tokens,
                          .tools = end->tools};
    TRY(events_add(db, &event, &seq));
    TRY(db_do(db, Q_message_finish,
              DB_VALUES(db_t(end->outcome), db_i(now), db_i((uint64_t)end->status), db_i(end->span_ms),
                        db_t(end->output), db_i(seq), db_i(end->id))));
    return db_do(db, Q_messages_prune, DB_VALUES(db_t(end->agent), db_i(QUEUE_KEEP)));
}

err_t queue_finished(struct db *db, const struct queue_end *end, bool *ret_new) {
    const char *kind = kind_of(end->outcome);
    if (!kind)
        return err_new(EXIT_USAGE, "a message ends done, refused or unknown, nothing else");
    TRY(is_open(db, end->id, end->agent, ret_new));
    if (!*ret_new)
        return NULL;
    TRY(db_begin(db, LASTING));
    return db_end(db, finish(db, end, kind));
}

err_t queue_next(struct db *db, struct bytes agent, uint64_t id, queue_give *give, void *ctx,
                 uint64_t *ret_id) {
    bool row;
    TRY(db_first(db, Q_messages_next, DB_VALUES(db_t(agent), db_i(id)), &row));
    *ret_id = row ? db_col_u(db, Q_messages_next, 0) : 0;
    if (row)
        give(ctx, *ret_id, db_col(db, Q_messages_next, 1), db_col(db, Q_messages_next, 2));
    db_done(db, Q_messages_next);
    return NULL;
}

err_t queue_waiting(struct db *db, struct bytes agent, uint64_t *ret) {
    return db_number(db, Q_messages_queued, DB_VALUES(db_t(agent)), 0, ret);
}

/* Also what is still "queued" may have been delivered and begun: nobody is left who knows. */
static err_t abandon(struct db *db, struct bytes agent) {
    for (;;) {
        uint64_t id;
        TRY(db_number(db, Q_messages_first, DB_VALUES(db_t(agent)), 0, &id));
        if (!id)
            return NULL;
        struct queue_end end = {.id = id,
                                .agent = agent,
                                .outcome = bytes_of("unknown"),
                                .text = bytes_of("the agent was removed before it told how this ended")};
        TRY(finish(db, &end, "unknown"));
    }
}

err_t queue_abandon(struct db *db, struct bytes agent) {
    uint64_t open;
    TRY(db_number(db, Q_messages_open, DB_VALUES(db_t(agent)), 0, &open));
    if (!open)
        return NULL;
    TRY(db_begin(db, LASTING));
    return db_end(db, abandon(db, agent));
}
