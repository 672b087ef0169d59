/*
 * A part's memory: one SQLite file in WAL mode that this process alone has open, with the part's own tables and statements,
 * the latter prepared once. Errors carry errno ENOSPC in errnum when the disk (or a quota) is what is in the way: then
 * nothing of the transaction happened, and the same call works once there is room.
 */
#ifndef STORE_DB_H
#define STORE_DB_H

#include "proto/msg.h"

#include <stdbool.h>

struct db;

/* What a part makes of it. Statements are named by their place in sql[]; the first three are always the same. */
enum { DB_BEGIN, DB_COMMIT, DB_ROLLBACK, DB_OWN };
struct db_kind {
    const char *what; /* "the manager's memory", for errors */
    const char *const *sql;
    size_t nqueries;
    const char *const
        *steps;    /* from an empty file to this version, from 1; one that was released is never changed */
    size_t nsteps; /* with the empty place 0 */
};

/* Opens (makes) the file, 0600, and brings its tables to this version. A file of a later version, a damaged one or one
 * that another process has open is an error. */
err_t db_open(const struct db_kind *kind, const char *path, struct db **ret);
void db_close(struct db *db);

/* Values for the parameters of a query, in order. Texts and blobs must live until the call returns. */
struct db_value {
    char type; /* 'i' number, 't' text, 'b' blob */
    int64_t i;
    struct bytes b;
};

static inline struct db_value db_i(uint64_t i) {
    return (struct db_value){.type = 'i', .i = (int64_t)i};
}

static inline struct db_value db_t(struct bytes b) {
    return (struct db_value){.type = 't', .b = b};
}

static inline struct db_value db_b(struct bytes b) {
    return (struct db_value){.type = 'b', .b = b};
}

#define DB_VALUES(...)                                                                                       \
    (const struct db_value[]){__VA_ARGS__},                                                                  \
        sizeof((const struct db_value[]){__VA_ARGS__}) / sizeof(struct db_value)

/* Runs a query that answers no rows. */
err_t db_do(struct db *db, unsigned q, const struct db_value *v, size_t n);

/*
 * Runs a query and stands on its first row, if *ret_row. Its columns are good until db_next() or db_done() of the same
 * query; db_done() must follow, also after the last row. n 0: a query without parameters (v may be NULL).
 */
err_t db_first(struct db *db, unsigned q, const struct db_value *v, size_t n, bool *ret_row);
err_t db_next(struct db *db, unsigned q, bool *ret_row);
void db_done(struct db *db, unsigned q);

uint64_t db_col_u(struct db *db, unsigned q, int column);
/* Text or blob; .p is never NULL, and of a text NUL-terminated. */
struct bytes db_col(struct db *db, unsigned q, int column);

/* One number; `otherwise` when there is no row. */
err_t db_number(struct db *db, unsigned q, const struct db_value *v, size_t n, uint64_t otherwise,
                uint64_t *ret);

/* Rows changed by the last statement; id of the last row inserted. */
int db_changes(struct db *db);
uint64_t db_last_id(struct db *db);

/*
 * A transaction: db_begin(), work, `return db_end(db, e)`: commits when e is NULL, else undoes; a failed commit is undone
 * too and returned. LASTING is on the disk when db_end() returns (fsync): the commit points of delivery. QUICK outlives
 * this process at once, a power cut only after the next LASTING one.
 *
 * One that begins in another is a part of it: undone alone when its own e says so, committed with the whole and as strongly as
 * that. After some failures (a full disk) SQLite undoes the whole at once: then nothing more goes into it, and its end says so.
 */
enum db_strength { QUICK, LASTING };
err_t db_begin(struct db *db, enum db_strength strength) __attribute__((warn_unused_result));
err_t db_end(struct db *db, err_t e) __attribute__((warn_unused_result));

#endif
