#include "store/db.h"
#include "base/own.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>

struct db {
    const struct db_kind *kind;
    sqlite3 *sqlite;
    sqlite3_stmt **prepared;
    enum db_strength strength; /* that `synchronous` is set to */
    unsigned depth;            /* of transactions, one in the other */
};

/* A row holds at most a message's text or an audit row's argv, both far below this. */
enum { VALUE_MAX = 4 << 20, LOCK_WAIT_MS = 5000 };

static err_t failed(struct db *db, int rc, const char *what) {
    int cause = sqlite3_system_errno(db->sqlite), primary = rc & 0xff;
    bool full = primary == SQLITE_FULL ||
                (primary == SQLITE_IOERR && (cause == ENOSPC || cause == EDQUOT || cause == EFBIG));
    if (full)
        return err_sys(ENOSPC, "%s: %s", db->kind->what, what);
    if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB)
        return err_new(EXIT_FAILED, "%s: %s: the file is damaged; move it away to start a new one",
                       db->kind->what, what);
    if (primary == SQLITE_BUSY)
        return err_new(EXIT_FAILED, "%s: %s: another process has it open", db->kind->what, what);
    return err_new(EXIT_FAILED, "%s: %s: %s", db->kind->what, what, sqlite3_errmsg(db->sqlite));
}

static err_t run_sql(struct db *db, const char *text) {
    int rc = sqlite3_exec(db->sqlite, text, NULL, NULL, NULL);
    return rc == SQLITE_OK ? NULL : failed(db, rc, "a word to it");
}

/* ---- opening ---- */

static err_t configure(struct db *db) {
    sqlite3_limit(db->sqlite, SQLITE_LIMIT_LENGTH, VALUE_MAX);
    sqlite3_busy_timeout(db->sqlite, LOCK_WAIT_MS);
    /* EXCLUSIVE before the first access in WAL mode: no shared-memory file, and one process only. */
    return run_sql(db,
                   "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                   "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY;"
                   "PRAGMA cache_size = -1024; PRAGMA journal_size_limit = 8388608;");
}

static err_t version(struct db *db, uint64_t *ret) {
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(db->sqlite, "PRAGMA user_version", -1, &s, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(s);
        *ret = (uint64_t)sqlite3_column_int64(s, 0);
        sqlite3_finalize(s);
    }
    return rc == SQLITE_ROW ? NULL : failed(db, rc, "read its version");
}

static err_t migrate(struct db *db) {
    uint64_t have = 0;
    TRY(version(db, &have));
    if (have >= db->kind->nsteps)
        return err_new(EXIT_FAILED, "%s was written by a later version (%d): install that one again",
                       db->kind->what, (int)have);
    for (size_t i = have + 1; i < db->kind->nsteps; i++) {
        own_free char *step =
            xasprintf("BEGIN IMMEDIATE; %s PRAGMA user_version = %zu; COMMIT;", db->kind->steps[i], i);
        TRY(run_sql(db, step));
    }
    return NULL;
}

static err_t prepare(struct db *db) {
    for (size_t q = 0; q < db->kind->nqueries; q++) {
        int rc = sqlite3_prepare_v3(db->sqlite, db->kind->sql[q], -1, SQLITE_PREPARE_PERSISTENT,
                                    &db->prepared[q], NULL);
        if (rc != SQLITE_OK)
            return failed(db, rc, db->kind->sql[q]);
    }
    return NULL;
}

err_t db_open(const struct db_kind *kind, const char *path, struct db **ret) {
    struct db *db = xcalloc(1, sizeof *db);
    *db = (struct db){.kind = kind, .strength = LASTING};
    db->prepared = xcalloc(kind->nqueries, sizeof(sqlite3_stmt *));
    mode_t before = umask(077);
    int rc = sqlite3_open_v2(
        path, &db->sqlite,
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL);
    err_t e = rc == SQLITE_OK ? configure(db) : failed(db, rc, "open it");
    if (!e)
        e = migrate(db);
    if (!e)
        e = prepare(db);
    umask(before);
    if (e) {
        db_close(db);
        return err_wrap(e, "%s", path);
    }
    *ret = db;
    return NULL;
}

void db_close(struct db *db) {
    if (!db)
        return;
    for (size_t q = 0; q < db->kind->nqueries; q++)
        sqlite3_finalize(db->prepared[q]);
    sqlite3_close(db->sqlite);
    free(db->prepared);
    free(db);
}

/* ---- statements ---- */

static void bind_values(sqlite3_stmt *s, const struct db_value *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int at = (int)i + 1, len = (int)v[i].b.len;
        if (v[i].type == 'i')
            sqlite3_bind_int64(s, at, v[i].i);
        else if (v[i].type == 't')
            sqlite3_bind_text(s, at, v[i].b.p ? v[i].b.p : "", len, SQLITE_STATIC);
        else
            sqlite3_bind_blob(s, at, v[i].b.p ? v[i].b.p : "", len, SQLITE_STATIC);
    }
}

err_t db_next(struct db *db, unsigned q, bool *ret_row) {
    int rc = sqlite3_step(db->prepared[q]);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return failed(db, rc, "a statement");
    *ret_row = rc == SQLITE_ROW;
    return NULL;
}

void db_done(struct db *db, unsigned q) {
    sqlite3_reset(db->prepared[q]);
    sqlite3_clear_bindings(db->prepared[q]);
}

err_t db_first(struct db *db, unsigned q, const struct db_value *v, size_t n, bool *ret_row) {
    bind_values(db->prepared[q], v, n);
    err_t e = db_next(db, q, ret_row);
    if (e)
        db_done(db, q);
    return e;
}

err_t db_do(struct db *db, unsigned q, const struct db_value *v, size_t n) {
    bool row;
    TRY(db_first(db, q, v, n, &row));
    db_done(db, q);
    return NULL;
}

err_t db_number(struct db *db, unsigned q, const struct db_value *v, size_t n, uint64_t otherwise,
                uint64_t *ret) {
    bool row;
    TRY(db_first(db, q, v, n, &row));
    *ret = row ? db_col_u(db, q, 0) : otherwise;
    db_done(db, q);
    return NULL;
}

uint64_t db_col_u(struct db *db, unsigned q, int column) {
    return (uint64_t)sqlite3_column_int64(db->prepared[q], column);
}

struct bytes db_col(struct db *db, unsigned q, int column) {
    sqlite3_stmt *s = db->prepared[q];
    bool text = sqlite3_column_type(s, column) == SQLITE_TEXT; /* only column_text() promises the NUL */
    const void *p = text ? (const void *)sqlite3_column_text(s, column) : sqlite3_column_blob(s, column);
    return (struct bytes){p ? p : "", (size_t)sqlite3_column_bytes(s, column)};
}

int db_changes(struct db *db) {
    return sqlite3_changes(db->sqlite);
}

uint64_t db_last_id(struct db *db) {
    return (uint64_t)sqlite3_last_insert_rowid(db->sqlite);
}

/* ---- transactions ---- */

/* True also when SQLite has undone a whole transaction by itself, as it does after some failures. */
static bool undone(struct db *db) {
    return sqlite3_get_autocommit(db->sqlite);
}

static err_t begin_inner(struct db *db) {
    if (undone(db))
        return err_new(EXIT_FAILED, "%s: what this is a part of was undone", db->kind->what);
    return run_sql(db, "SAVEPOINT inner");
}

static err_t begin_outer(struct db *db, enum db_strength strength) {
    if (strength != db->strength)
        TRY(run_sql(db, strength == LASTING ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL"));
    db->strength = strength;
    return db_do(db, DB_BEGIN, NULL, 0);
}

err_t db_begin(struct db *db, enum db_strength strength) {
    TRY(db->depth ? begin_inner(db) : begin_outer(db, strength));
    db->depth++;
    return NULL;
}

static err_t end_inner(struct db *db, err_t e) {
    if (!e && !undone(db))
        e = run_sql(db, "RELEASE inner");
    if (e && !undone(db))
        err_free(run_sql(db, "ROLLBACK TO inner; RELEASE inner"));
    return e;
}

static err_t end_outer(struct db *db, err_t e) {
    if (!e)
        e = db_do(db, DB_COMMIT, NULL, 0);
    if (e && !undone(db))
        err_free(db_do(db, DB_ROLLBACK, NULL, 0));
    return e;
}

err_t db_end(struct db *db, err_t e) {
    if (!e && undone(db))
        e = err_new(EXIT_FAILED, "%s: what this is a part of was undone", db->kind->what);
    return --db->depth ? end_inner(db, e) : end_outer(db, e);
}
