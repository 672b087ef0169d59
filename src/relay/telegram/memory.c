#include "relay/telegram/memory.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/parse.h"

#include <inttypes.h>

enum { QUIET_MS = 6 * 24 * 3600 * 1000 };

_Static_assert((int)TQ_begin == (int)DB_BEGIN && (int)TQ_commit == (int)DB_COMMIT &&
                   (int)TQ_rollback == (int)DB_ROLLBACK,
               "queries.def begins with them");

static const char *const sql[TQ_COUNT] = {
#define QUERY(name, text) [TQ_##name] = text,
#include "relay/telegram/queries.def"
#undef QUERY
};

static const char *const steps[] = {
#define STEP(number, text) [number] = text,
#include "relay/telegram/schema.def"
#undef STEP
};

const struct db_kind telegram_db = {"the Telegram front's memory", sql, TQ_COUNT, steps, COUNT(steps)};

err_t memory_text(struct db *db, const char *name, struct buf *ret) {
    bool row;
    TRY(db_first(db, TQ_fact, DB_VALUES(db_t(bytes_of(name))), &row));
    struct bytes b = row ? db_col(db, TQ_fact, 0) : bytes_of("");
    buf_add(ret, b.p, b.len);
    db_done(db, TQ_fact);
    return NULL;
}

err_t memory_number(struct db *db, const char *name, uint64_t otherwise, uint64_t *ret) {
    own_buf struct buf text = {0};
    *ret = otherwise;
    TRY(memory_text(db, name, &text));
    return text.len ? parse_u64(buf_text(&text), UINT64_MAX, ret) : NULL;
}

err_t memory_set_text(struct db *db, const char *name, const char *value) {
    return db_do(db, TQ_fact_put, DB_VALUES(db_t(bytes_of(name)), db_t(bytes_of(value))));
}

err_t memory_set(struct db *db, const char *name, uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return memory_set_text(db, name, text);
}

err_t memory_unset(struct db *db, const char *name) {
    return db_do(db, TQ_fact_drop, DB_VALUES(db_t(bytes_of(name))));
}

err_t memory_mark(struct db *db, uint64_t *ret) {
    uint64_t mark, at;
    TRY(memory_number(db, "mark", 0, &mark));
    TRY(memory_number(db, "mark_ms", 0, &at));
    *ret = at && (uint64_t)clock_wall_ms() - at > QUIET_MS ? 0 : mark;
    return NULL;
}

err_t memory_has(struct db *db, unsigned query, const struct db_value *v, size_t n, bool *ret) {
    TRY(db_first(db, query, v, n, ret));
    db_done(db, query);
    return NULL;
}

err_t memory_wipe(struct db *db) {
    for (unsigned q = TQ_wipe_people; q <= TQ_wipe_facts; q++)
        TRY(db_do(db, q, NULL, 0));
    return NULL;
}
