/* The front's memory: store/db.h with its tables (schema.def) and statements (queries.def), and small facts by name. */
#ifndef TELEGRAM_MEMORY_H
#define TELEGRAM_MEMORY_H

#include "store/db.h"

enum telegram_query {
#define QUERY(name, sql) TQ_##name,
#include "relay/telegram/queries.def"
#undef QUERY
    TQ_COUNT
};

extern const struct db_kind telegram_db;

/* A number kept under a name; `otherwise` when there is none. */
err_t memory_number(struct db *db, const char *name, uint64_t otherwise, uint64_t *ret);
err_t memory_set(struct db *db, const char *name, uint64_t value);
err_t memory_text(struct db *db, const char *name, struct buf *ret); /* "" when there is none */
err_t memory_set_text(struct db *db, const char *name, const char *value);
err_t memory_unset(struct db *db, const char *name);

/* The number from which on updates are new. 0: all are: none came yet, or for so long that numbers may have begun anew (the Bot
 * API's do after a week without any). */
err_t memory_mark(struct db *db, uint64_t *ret);

/* True when the query has a row. */
err_t memory_has(struct db *db, unsigned query, const struct db_value *v, size_t n, bool *ret);

/* Everything; inside a transaction of the caller's. */
err_t memory_wipe(struct db *db);

#endif
