/* The file: made once, opened by one, refused when it is of a later version or damaged; transactions. */
#include "memory.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

static void raw(const char *sql) {
    own_free char *path = memory_path();
    sqlite3 *s;
    db_close(db);
    db = NULL;
    assert_int_equal(sqlite3_open(path, &s), SQLITE_OK);
    assert_int_equal(sqlite3_exec(s, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(s);
}

static void refused(const char *why) {
    own_free char *path = memory_path();
    own_err err_t e = db_open(&manager_db, path, &db);
    assert_non_null(e);
    assert_non_null(strstr(err_text(e), why));
    assert_non_null(strstr(err_text(e), path));
}

static err_t drop_agent(const char *name) {
    return db_do(db, Q_agent_drop, DB_VALUES(db_t(bytes_of(name))));
}

static err_t put_agent(const char *name) {
    struct bytes t = bytes_of("");
    return db_do(
        db, Q_agent_put,
        DB_VALUES(db_t(bytes_of(name)), db_t(t), db_t(t), db_t(t), db_t(t), db_t(t), db_t(t), db_i(1)));
}

static bool has_agents(void) {
    bool row;
    assert_null(db_first(db, Q_agents, NULL, 0, &row));
    db_done(db, Q_agents);
    return row;
}

static void it_stays(void **state) {
    (void)state;
    own_free char *path = memory_path();
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_null(put_agent("demo"));
    memory_again();
    assert_true(has_agents());
}

static void transactions(void **state) {
    (void)state;
    for (int strength = QUICK; strength <= LASTING; strength++) {
        assert_null(db_begin(db, strength));
        own_err err_t e = db_end(db, put_agent("demo") ?: err_new(EXIT_FAILED, "no"));
        assert_non_null(e);
        assert_false(has_agents());
        assert_null(db_begin(db, strength));
        assert_null(db_end(db, put_agent("demo")));
        assert_true(has_agents());
        assert_null(drop_agent("demo"));
    }
}

/* One in another is undone alone, and with the whole. */
static void in_one_another(void **state) {
    (void)state;
    for (int whole = 0; whole <= 1; whole++) {
        assert_null(db_begin(db, LASTING));
        assert_null(put_agent("outer"));
        assert_null(db_begin(db, QUICK));
        own_err err_t no = db_end(db, put_agent("undone") ?: err_new(EXIT_FAILED, "no"));
        assert_non_null(no);
        assert_null(db_begin(db, LASTING));
        assert_null(db_end(db, put_agent("inner")));
        own_err err_t e = db_end(db, whole ? NULL : err_new(EXIT_FAILED, "no"));
        assert_int_equal(!e, whole);
        assert_int_equal(has_agents(), whole);
        assert_null(drop_agent("undone"));
        assert_int_equal(db_changes(db), 0);
    }
    memory_again();
    assert_null(drop_agent("inner"));
    assert_int_equal(db_changes(db), 1);
}

/* SQLite gives the whole up (here by its own word for that): what comes after is no part of anything, and the end says so. */
static void undone_as_a_whole(void **state) {
    (void)state;
    assert_null(db_begin(db, LASTING));
    assert_null(put_agent("demo"));
    assert_null(db_do(db, Q_rollback, NULL, 0));
    own_err err_t inner = db_begin(db, LASTING), e = db_end(db, NULL);
    assert_non_null(inner);
    assert_non_null(e);
    assert_false(has_agents());
    assert_null(db_begin(db, LASTING));
    assert_null(db_end(db, put_agent("demo")));
    assert_true(has_agents());
}

static void of_a_later_version(void **state) {
    (void)state;
    raw("PRAGMA user_version = 99");
    refused("later version");
}

static void damaged(void **state) {
    (void)state;
    own_free char *path = memory_path();
    db_close(db);
    db = NULL;
    assert_null(fs_write(path, "this is no database, whatever its name says, and it is long enough to tell",
                         74, getuid(), getgid(), 0600));
    refused("damaged");
}

static void one_at_a_time(void **state) {
    (void)state;
    refused("another process");
    memory_again();
}

static void a_link_is_not_followed(void **state) {
    (void)state;
    own_free char *path = memory_path(), *aside = xasprintf("%s/aside", memory_dir);
    db_close(db);
    db = NULL;
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(symlink(aside, path), 0);
    refused("open it");
}

/* Each statement finds its rows by an index, or walks along one and stops early: none reads a whole table. */
static void no_statement_scans(void **state) {
    (void)state;
    static const struct {
        const char *name, *sql;
    } all[] = {
#define QUERY(name, text) {#name, "EXPLAIN QUERY PLAN " text},
#include "manager/queries.def"
#undef QUERY
    };
    static const char walks[] = " agents events_back rows_head rows_back rows_oldest ";
    own_free char *path = memory_path();
    sqlite3 *s;
    db_close(db);
    db = NULL;
    assert_int_equal(sqlite3_open(path, &s), SQLITE_OK);
    for (size_t i = 0; i < COUNT(all); i++) {
        own_free char *word = xasprintf(" %s ", all[i].name);
        sqlite3_stmt *plan;
        assert_int_equal(sqlite3_prepare_v2(s, all[i].sql, -1, &plan, NULL), SQLITE_OK);
        while (sqlite3_step(plan) == SQLITE_ROW)
            if (!strncmp((const char *)sqlite3_column_text(plan, 3), "SCAN", 4) && !strstr(walks, word))
                fail_msg("%s: %s", all[i].name, sqlite3_column_text(plan, 3));
        sqlite3_finalize(plan);
    }
    sqlite3_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(it_stays),          CASE(transactions),           CASE(in_one_another),
        CASE(undone_as_a_whole), CASE(of_a_later_version),     CASE(damaged),
        CASE(one_at_a_time),     CASE(a_link_is_not_followed), CASE(no_statement_scans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
