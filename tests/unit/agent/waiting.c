/* What waits in the agent: messages before they are started (inbox), rows until they are kept (ledger). */
#include "agent/inbox.h"
#include "agent/ledger.h"
#include "base/fs.h"
#include "base/own.h"
#include "../scratch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void messages_come_out_in_order(void **state) {
    (void)state;
    struct inbox *in;
    assert_null(inbox_open(scratch, &in));
    static char big[60001];
    memset(big, 'b', sizeof big - 1);
    enum { N = 60 }; /* 3.6 MB: most of it waits in files */
    for (uint64_t id = 1; id <= N; id++) {
        big[0] = (char)('0' + id % 10);
        assert_null(inbox_add(in, id, "anna", id % 5 ? big : ""));
    }
    assert_int_equal(inbox_count(in), N);
    assert_true(inbox_has(in, N));
    assert_false(inbox_has(in, N + 1));
    struct delivered *d;
    assert_null(inbox_take(in, &d));
    inbox_put_back(in, d); /* still the first */
    for (uint64_t id = 1; id <= N; id++) {
        assert_null(inbox_take(in, &d));
        assert_int_equal(d->id, id);
        assert_string_equal(d->who, "anna");
        assert_int_equal(strlen(d->text), id % 5 ? sizeof big - 1 : 0);
        if (id % 5)
            assert_int_equal(d->text[0], '0' + id % 10);
        delivered_free(d);
    }
    assert_null(inbox_take(in, &d));
    assert_null(d);
    assert_null(inbox_add(in, 99, "a", "again"));
    assert_null(inbox_take(in, &d));
    assert_int_equal(d->id, 99);
    delivered_free(d);
    inbox_free(in);
    own_free char *folder = xasprintf("%s/inbox", scratch_dir);
    assert_int_equal(rmdir(folder), 0); /* no file is left */
}

static void lost_text_is_said(void **state) {
    (void)state;
    struct inbox *in;
    assert_null(inbox_open(scratch, &in));
    static char big[INBOX_MEMORY + 2];
    memset(big, 'b', sizeof big - 1);
    assert_null(inbox_add(in, 1, "a", big));
    own_free char *path = xasprintf("%s/inbox/1", scratch_dir);
    assert_int_equal(unlink(path), 0);
    struct delivered *d;
    own_err err_t e = inbox_take(in, &d);
    assert_non_null(e);
    assert_int_equal(d->id, 1);
    delivered_free(d);
    assert_null(inbox_add(in, 2, "a", big));
    inbox_free(in);
    assert_null(inbox_open(scratch, &in)); /* an earlier agent's files go */
    assert_int_equal(access(path, F_OK), -1);
    own_free char *path2 = xasprintf("%s/inbox/2", scratch_dir);
    assert_int_equal(access(path2, F_OK), -1);
    inbox_free(in);
}

static void add_row(struct ledger *k, uint64_t number, size_t size) {
    own_free char *big = xcalloc(size + 1, 1);
    memset(big, 'r', size);
    struct bytes argv[] = {{big, size}};
    struct msg m = {.type = MSG_desk_row};
    m.desk_row.row = number;
    m.desk_row.argv = (struct list){argv, 1};
    assert_null(ledger_add(k, &m));
}

/* The number of the next row to be said, 0 when there is none. */
static uint64_t next(struct ledger *k) {
    own_msg struct msg m = {0};
    return ledger_next(k, &m) ? m.desk_row.row : 0;
}

static void rows_are_said_until_settled(void **state) {
    (void)state;
    struct ledger *k = ledger_new();
    assert_int_equal(next(k), 0);
    for (uint64_t i = 1; i <= 4; i++)
        add_row(k, i, 10);
    add_row(k, 2, 10); /* came again: has it */
    assert_int_equal(next(k), 1);
    assert_int_equal(next(k), 2);
    ledger_settle(k, 3); /* before it was said */
    assert_int_equal(next(k), 4);
    assert_int_equal(next(k), 0);
    add_row(k, 5, 10);
    assert_int_equal(next(k), 5);
    ledger_settle(k, 5);
    ledger_settle(k, 77);
    ledger_rewind(k);
    add_row(k, 6, 10);
    uint64_t want[] = {1, 2, 4, 6, 0};
    for (size_t i = 0; i < COUNT(want); i++)
        assert_int_equal(next(k), want[i]);
    ledger_free(k);
}

static void rows_are_bounded(void **state) {
    (void)state;
    struct ledger *k = ledger_new();
    uint64_t n = 0;
    while (!ledger_full(k))
        add_row(k, ++n, 1 << 20);
    assert_int_equal(n, 8);
    ledger_settle(k, 1);
    assert_false(ledger_full(k));
    while (!ledger_full(k))
        add_row(k, ++n, 1);
    for (uint64_t i = 0; i <= n; i++)
        ledger_settle(k, i);
    assert_false(ledger_full(k));
    ledger_free(k);
}

#define row(f) cmocka_unit_test_setup_teardown(f, scratch_up, scratch_down)
int main(void) {
    const struct CMUnitTest tests[] = {
        row(messages_come_out_in_order),
        row(lost_text_is_said),
        cmocka_unit_test(rows_are_said_until_settled),
        cmocka_unit_test(rows_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
