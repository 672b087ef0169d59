#include "manager/db.h"

_Static_assert((int)Q_begin == (int)DB_BEGIN && (int)Q_commit == (int)DB_COMMIT &&
                   (int)Q_rollback == (int)DB_ROLLBACK,
               "queries.def begins with them");

static const char *const sql[Q_COUNT] = {
#define QUERY(name, text) [Q_##name] = text,
#include "manager/queries.def"
#undef QUERY
};

static const char *const steps[] = {
#define STEP(number, text) [number] = text,
#include "manager/schema.def"
#undef STEP
};

const struct db_kind manager_db = {"the manager's memory", sql, Q_COUNT, steps, sizeof steps / sizeof *steps};
