/* The fleet's memory: store/db.h with the manager's tables (schema.def) and statements (queries.def). */
#ifndef MANAGER_DB_H
#define MANAGER_DB_H

#include "store/db.h"

enum query {
#define QUERY(name, sql) Q_##name,
#include "manager/queries.def"
#undef QUERY
    Q_COUNT
};

extern const struct db_kind manager_db;

#endif
