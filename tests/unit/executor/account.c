/* Lines are kept until settled, numbered upwards, and told again on a new link. */
#include "executor/account.h"
#include "base/own.h"
#include "wire/seq.h"

#include <event2/event.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void on_end(void *ctx, struct link *l, err_t why) {
    (void)ctx, (void)l, (void)why;
}

static link_fn *const none[MSG_COUNT];
static const struct link_ops ops = {.on = none, .on_end = on_end};

struct world {
    struct event_base *base;
    struct link *link;
    int peer;
};

static void join(struct world *w) {
    int pair[2];
    assert_null(seq_pair(pair));
    fcntl(pair[1], F_SETFL, O_NONBLOCK);
    w->peer = pair[1];
    w->link = link_new(w->base, pair[0], LINK_agent_executor, false, &ops, NULL);
}

static void leave(struct world *w) {
    link_free(w->link);
    own_closep(&w->peer);
}

static int up(void **state) {
    struct world *w = xcalloc(1, sizeof *w);
    w->base = event_base_new();
    join(w);
    *state = w;
    return 0;
}

static int down(void **state) {
    struct world *w = *state;
    leave(w);
    event_base_free(w->base);
    free(w);
    return 0;
}

static void add(struct account *a, size_t bytes) {
    char *arena = xmalloc(sizeof(struct bytes) + bytes + 1);
    struct bytes *item = (struct bytes *)(void *)arena;
    char *text = arena + sizeof *item;
    memset(text, 'x', bytes);
    text[bytes] = 0;
    *item = (struct bytes){text, bytes};
    struct row row = {.argv = {item, 1}, .cwd = bytes_of("/"), .how = "exit", .arena = arena};
    account_add(a, &row);
}

/* The number of the next line that the peer is told, 0: none. */
static uint64_t told(struct world *w) {
    own_msg struct msg m = {0};
    enum seq_got got;
    assert_null(seq_recv(w->peer, &m, &got));
    if (got != SEQ_MESSAGE)
        return 0;
    assert_int_equal(m.type, MSG_ran_row);
    return m.ran_row.row;
}

static void test_kept_until_settled(void **state) {
    struct world *w = *state;
    struct account *a = account_new();
    add(a, 1);
    add(a, 1);
    account_link(a, w->link);
    uint64_t first = told(w), second = told(w);
    assert_true(first > 1600000000000000u); /* microseconds since 1970 */
    assert_int_equal(second, first + 1);
    add(a, 1);
    assert_int_equal(told(w), first + 2);
    assert_int_equal(told(w), 0);
    account_settle(a, second); /* in any order; a number that is not there is nothing */
    account_settle(a, 7);
    account_link(a, NULL);
    leave(w);
    join(w);
    account_link(a, w->link);
    assert_int_equal(told(w), first);
    assert_int_equal(told(w), first + 2);
    assert_int_equal(told(w), 0);
    account_settle(a, first + 2);
    add(a, 1);
    assert_int_equal(told(w), first + 3);
    account_free(a);
}

static void test_full_by_bytes(void **state) {
    (void)state;
    struct account *a = account_new();
    add(a, ACCOUNT_BYTES / 2);
    assert_false(account_full(a));
    add(a, ACCOUNT_BYTES / 2);
    assert_true(account_full(a));
    add(a, 1); /* what ran is written down all the same */
    account_free(a);
}

static void test_full_by_lines(void **state) {
    struct world *w = *state;
    struct account *a = account_new();
    account_link(a, w->link);
    for (size_t i = 0; i < ACCOUNT_ROWS; i++) {
        assert_false(account_full(a));
        add(a, 1);
    }
    assert_true(account_full(a));
    account_settle(a, told(w));
    assert_false(account_full(a));
    account_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kept_until_settled, up, down),
        cmocka_unit_test_setup_teardown(test_full_by_bytes, up, down),
        cmocka_unit_test_setup_teardown(test_full_by_lines, up, down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
