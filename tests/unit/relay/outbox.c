/* The Telegram front's outbox as its memory has it: what is due, counted as it changes; no look that grows with what waits. */
#include "base/fs.h"
#include "base/own.h"
#include "relay/telegram/inside.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static char dir[64];
static struct db *db;

static char *place(void) {
    return xasprintf("%s/telegram.db", dir);
}

static void again(void) {
    own_free char *path = place();
    db_close(db);
    db = NULL;
    assert_null(db_open(&telegram_db, path, &db));
}

static int begin(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/unit-outbox-XXXXXX");
    assert_non_null(mkdtemp(dir));
    again();
    return 0;
}

static int end(void **state) {
    (void)state;
    db_close(db);
    db = NULL;
    assert_null(fs_remove(dir));
    return 0;
}

static void put(const char *slot, int64_t chat, const char *body) {
    struct bytes none = bytes_of("");
    assert_null(db_do(db, TQ_post_put,
                      DB_VALUES(db_t(bytes_of(slot)), db_i((uint64_t)chat), db_t(none),
                                db_t(bytes_of("strip")), db_t(bytes_of(body)), db_t(none))));
}

static void due(uint64_t posts, uint64_t bytes) {
    bool row;
    assert_null(db_first(db, TQ_posts_due, NULL, 0, &row));
    assert_true(row);
    assert_int_equal(db_col_u(db, TQ_posts_due, 0), posts);
    assert_int_equal(db_col_u(db, TQ_posts_due, 1), bytes);
    db_done(db, TQ_posts_due);
}

static void shown(uint64_t rev, uint64_t id) {
    assert_null(db_do(db, TQ_post_shown, DB_VALUES(db_i(rev), db_i(id))));
}

static void what_is_due(void **state) {
    (void)state;
    due(0, 0);
    put("a", 1, "four");
    put("b", -2, "ä"); /* bytes, not characters */
    due(2, 6);
    put("a", 1, "four"); /* nothing new */
    due(2, 6);
    put("a", 1, "sixsix"); /* an edit replaces one that is not shown yet */
    due(2, 8);
    again();
    due(2, 8);
    shown(1, 1); /* it was edited meanwhile */
    due(2, 8);
    shown(2, 1);
    due(1, 2);
    put("a", 1, "once more");
    due(2, 11);
    assert_null(db_do(db, TQ_posts_move, DB_VALUES(db_i((uint64_t)-2), db_i(1))));
    due(2, 11);
    assert_null(db_do(db, TQ_post_drop, DB_VALUES(db_i(1))));
    due(1, 2);
    assert_null(memory_wipe(db));
    due(0, 0);
}

/* So much that no more events are taken, until enough of it is gone that asking for them is worth it. */
static void full_and_room_again(void **state) {
    (void)state;
    enum { FULL = 5000, ROOM = FULL / 8 * 7 };
    struct front f = {.db = db};
    assert_true(outbox_has_room(&f));
    assert_null(db_begin(db, QUICK));
    for (int i = 0; i <= FULL; i++) {
        assert_false(outbox_full(&f));
        own_free char *slot = xasprintf("%d", i);
        put(slot, 1, "text");
    }
    assert_true(outbox_full(&f));
    for (uint64_t id = 1; id <= FULL - ROOM; id++) {
        assert_null(db_do(db, TQ_post_drop, DB_VALUES(db_i(id))));
        assert_false(outbox_full(&f));
        assert_false(outbox_has_room(&f));
    }
    assert_null(db_do(db, TQ_post_drop, DB_VALUES(db_i(FULL))));
    assert_true(outbox_has_room(&f));
    assert_null(db_end(db, NULL));
}

/* A file of the version before has posts that were not counted. */
static void what_was_due_before(void **state) {
    (void)state;
    own_free char *path = place();
    sqlite3 *s;
    put("a", 1, "four");
    put("b", 1, "gone");
    shown(1, 2);
    db_close(db);
    db = NULL;
    assert_int_equal(sqlite3_open(path, &s), SQLITE_OK);
    assert_int_equal(sqlite3_exec(s,
                                  "DROP TRIGGER post_in; DROP TRIGGER post_out; DROP TRIGGER post_changed; "
                                  "DROP TABLE due; PRAGMA user_version = 1",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(s);
    again();
    due(1, 4);
}

static void each_chat_in_turn(void **state) {
    (void)state;
    static const int64_t chats[] = {-100, 7, 9};
    for (int i = 0; i < 50; i++)
        for (size_t c = 0; c < COUNT(chats); c++) {
            own_free char *slot = xasprintf("%zu:%d", c, i);
            put(slot, chats[c], "text");
        }
    int64_t at = INT64_MIN;
    for (size_t c = 0; c <= COUNT(chats); c++) {
        bool row;
        assert_null(db_first(db, TQ_posts_chat, DB_VALUES(db_i((uint64_t)at)), &row));
        assert_int_equal(row, c < COUNT(chats));
        if (row)
            at = (int64_t)db_col_u(db, TQ_posts_chat, 0);
        db_done(db, TQ_posts_chat);
        if (row)
            assert_int_equal(at, chats[c]);
    }
}

/* Each statement finds its rows by an index, or walks along one and stops early. Those that do not have few rows to read. */
static void no_look_grows(void **state) {
    (void)state;
    static const struct {
        const char *name, *sql;
    } all[] = {
#define QUERY(name, text) {#name, "EXPLAIN QUERY PLAN " text},
#include "relay/telegram/queries.def"
#undef QUERY
    };
    static const char walks[] =
        " people owner group_of group_late groups post_at posts_due posts_asked posts_strips "
        "chore_next act_next act_file acts presses_drop presses_late wipe_posts ";
    own_free char *path = place();
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
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {CASE(what_is_due), CASE(full_and_room_again),
                                       CASE(what_was_due_before), CASE(each_chat_in_turn),
                                       CASE(no_look_grows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
