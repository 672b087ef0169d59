/* Questions: each front's message has a kind or none, what is kept is what was said, and a stream moves on. */
#include "relay/question.h"
#include "base/own.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

/* The front's and the manager's answers are one struct in two names: the same fields with the same bounds. */
static void answers_are_the_same_struct(void **state) {
    (void)state;
    int pairs = 0;
    for (int t = MSG_none + 1; t < MSG_COUNT; t++) {
        const struct msg_row *ret = &msg_rows[t];
        if (ret->link != LINK_relay_manager || ret->way != UP)
            continue;
        enum msg_type as = question_answer((enum msg_type)t);
        assert_int_not_equal(as, MSG_none);
        const struct msg_row *relay = &msg_rows[as];
        assert_int_equal(relay->link, LINK_front_relay);
        assert_string_equal(strchr(relay->name, '_'), strchr(ret->name, '_'));
        assert_int_equal(relay->nfields, ret->nfields);
        for (size_t i = 0; i < ret->nfields; i++) {
            assert_string_equal(relay->fields[i].name, ret->fields[i].name);
            assert_int_equal(relay->fields[i].type, ret->fields[i].type);
            assert_true(relay->fields[i].max >= ret->fields[i].max);
            assert_true(relay->fields[i].max_items >= ret->fields[i].max_items);
        }
        pairs++;
    }
    assert_int_equal(pairs, 7);
}

/* A row that is added to the table of messages without a kind here would end the front's link. */
static void every_question_has_a_kind(void **state) {
    (void)state;
    for (int t = MSG_none + 1; t < MSG_COUNT; t++) {
        if (msg_rows[t].link != LINK_front_relay || msg_rows[t].way != DOWN || t == MSG_front_hello ||
            t == MSG_front_signal || t == MSG_front_word)
            continue;
        const struct question_kind *k = question_kind((enum msg_type)t);
        assert_non_null(k);
        assert_int_equal(msg_rows[k->fleet].link, LINK_relay_manager);
        assert_int_equal(msg_rows[k->fleet].way, DOWN);
    }
    assert_null(question_kind(MSG_front_hello));
    assert_null(question_kind(MSG_front_signal));
}

static void what_is_kept_is_a_copy(void **state) {
    (void)state;
    char text[] = "the text", key[] = "k";
    struct msg m = {.type = MSG_front_say};
    m.front_say.cookie = 9;
    m.front_say.key = bytes_of(key);
    m.front_say.agent = bytes_of("demo");
    m.front_say.text = bytes_of(text);
    struct question *q;
    assert_null(question_new(&m, "terminal:0", &q));
    memset(text, 'x', sizeof text - 1);
    assert_string_equal(q->kept.fleet_say.text.p, "the text");
    assert_string_equal(q->kept.fleet_say.who.p, "terminal:0");
    assert_int_equal(q->theirs, 9);
    question_sent(q);
    assert_true(question_again(q)); /* its key makes it one message */
    assert_string_equal(q->kept.fleet_say.text.p, "the text");
    q->answered = true;
    assert_false(question_again(q));
    question_free(q);
}

static void a_command_is_not_kept_nor_its_descriptors(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    struct bytes argv[] = {bytes_of("true")};
    struct msg m = {.type = MSG_front_exec, .fds = {ends[1], ends[1], ends[1]}, .nfds = 3};
    m.front_exec.agent = bytes_of("demo");
    m.front_exec.argv = (struct list){argv, 1};
    struct question *q;
    assert_null(question_new(&m, "terminal:0", &q));
    close(ends[1]);
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), -1); /* q has the other end */
    assert_true(question_again(q));
    question_sent(q);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    assert_false(question_again(q));
    question_free(q);
    close(ends[0]);
}

static void a_stream_goes_on_behind_what_came(void **state) {
    (void)state;
    struct msg m = {.type = MSG_front_log}, row = {.type = MSG_ret_row};
    m.front_log.after = 10;
    m.front_log.limit = 2;
    struct question *q;
    assert_null(question_new(&m, "terminal:0", &q));
    question_sent(q);
    row.ret_row.seq = 14;
    question_moves(q, &row);
    assert_int_equal(q->kept.fleet_log.after, 14);
    assert_int_equal(q->kept.fleet_log.limit, 1);
    assert_false(q->complete);
    row.ret_row.seq = 15;
    question_moves(q, &row);
    assert_true(q->complete);
    assert_true(question_again(q));
    question_free(q);
}

static void bounds_are_an_error(void **state) {
    (void)state;
    static char name[65];
    memset(name, 'a', sizeof name - 1);
    struct msg m = {.type = MSG_front_status};
    m.front_status.agent = bytes_of(name);
    struct question *q;
    assert_null(question_new(&m, "terminal:0", &q));
    question_free(q);
    struct msg hello = {.type = MSG_front_hello};
    own_err err_t e = question_new(&hello, "terminal:0", &q);
    assert_non_null(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_same_struct),
        cmocka_unit_test(every_question_has_a_kind),
        cmocka_unit_test(what_is_kept_is_a_copy),
        cmocka_unit_test(a_command_is_not_kept_nor_its_descriptors),
        cmocka_unit_test(a_stream_goes_on_behind_what_came),
        cmocka_unit_test(bounds_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
