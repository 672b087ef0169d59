#include "manager/events.h"
#include "base/clock.h"

enum { PRUNE_STEP = 128 };

/* Takes the oldest away, some at a time, until the agent is within its bounds. */
static err_t prune(struct db *db, struct bytes agent) {
    for (;;) {
        bool row;
        TRY(db_first(db, Q_kept, DB_VALUES(db_t(bytes_of("events")), db_t(agent)), &row));
        bool over =
            row && (db_col_u(db, Q_kept, 0) > EVENTS_KEEP || db_col_u(db, Q_kept, 1) > EVENTS_KEEP_BYTES);
        db_done(db, Q_kept);
        if (!over)
            return NULL;
        TRY(db_do(db, Q_events_oldest, DB_VALUES(db_t(agent), db_i(PRUNE_STEP))));
    }
}

err_t events_add(struct db *db, const struct event *e, uint64_t *ret_seq) {
    TRY(db_do(db, Q_event_add,
              DB_VALUES(db_t(e->agent), db_i(e->id), db_t(e->kind), db_t(e->who),
                        db_i(e->wall_ms ? e->wall_ms : (uint64_t)clock_wall_ms()), db_i((uint64_t)e->status),
                        db_i(e->span_ms), db_t(e->text), db_i(e->tokens), db_i(e->tools))));
    uint64_t seq = db_last_id(db);
    TRY(prune(db, e->agent));
    if (ret_seq)
        *ret_seq = seq;
    return NULL;
}

err_t events_note(struct db *db, const struct event *e) {
    TRY(db_begin(db, QUICK));
    return db_end(db, events_add(db, e, NULL));
}

err_t events_last(struct db *db, uint64_t *ret_seq) {
    return db_number(db, Q_events_last, NULL, 0, 0, ret_seq);
}

err_t events_back(struct db *db, struct bytes agent, uint64_t before, uint64_t n, uint64_t *ret_seq) {
    uint64_t end = before && before < INT64_MAX ? before : INT64_MAX;
    if (agent.len)
        return db_number(db, Q_events_back_of, DB_VALUES(db_i(n), db_t(agent), db_i(end)), 0, ret_seq);
    return db_number(db, Q_events_back, DB_VALUES(db_i(n), db_i(end)), 0, ret_seq);
}

static struct event here(struct db *db, enum query q) {
    return (struct event){.seq = db_col_u(db, q, 0),
                          .agent = db_col(db, q, 1),
                          .id = db_col_u(db, q, 2),
                          .kind = db_col(db, q, 3),
                          .who = db_col(db, q, 4),
                          .wall_ms = db_col_u(db, q, 5),
                          .status = (int64_t)db_col_u(db, q, 6),
                          .span_ms = db_col_u(db, q, 7),
                          .text = db_col(db, q, 8),
                          .tokens = db_col_u(db, q, 9),
                          .tools = db_col_u(db, q, 10)};
}

err_t events_after(struct db *db, struct bytes agent, uint64_t limit, events_give *give, void *ctx,
                   uint64_t *ret_seq, bool *ret_more) {
    enum query q = agent.len ? Q_events_after_of : Q_events_after;
    bool row, taken = true;
    uint64_t given = 0;
    TRY(db_first(db, q, DB_VALUES(db_i(*ret_seq), db_i(limit), db_t(agent)), &row));
    err_t e = NULL;
    while (!e && row) {
        struct event event = here(db, q);
        taken = give(ctx, &event);
        if (!taken)
            break;
        *ret_seq = event.seq;
        given++;
        e = db_next(db, q, &row);
    }
    db_done(db, q);
    *ret_more = !taken || given == limit;
    return e;
}
