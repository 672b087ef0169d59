/* From answers to verdicts: what is green needs an arm that shows that it could be otherwise. */
#include "break/judge.h"

#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the three above */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static struct answers one(size_t row, const char *answer) {
    struct answers a;
    answers_start(&a);
    if (answer)
        a.of[row] = xstrdup(answer);
    return a;
}

/* The verdict on a row of a sealed cage. */
static enum verdict judged(const char *what, const char *room, const char *plain, const char *full,
                           const char *host) {
    size_t row = row_find(what);
    assert_true(row < nrows);
    struct answers in = one(row, room), arms[ARMS_MAX] = {one(row, plain), one(row, full), one(row, host)};
    struct judged j = judge_row(row, KIND_SEALED, &in, arms);
    assert_int_equal(j.verdict == GREEN, j.why.len == 0);
    buf_free(&j.why);
    answers_free(&in);
    for (size_t i = 0; i < ARMS_MAX; i++)
        answers_free(&arms[i]);
    return j.verdict;
}

static void a_refusal_needs_an_arm(void **state) {
    (void)state;
    static const char what[] = "US-01 unshare(NEWUSER)";
    assert_int_equal(judged(what, "EPERM", "OK", NULL, NULL), GREEN);
    assert_int_equal(judged(what, "EPERM", "EPERM", "OK", NULL), GREEN);
    assert_int_equal(judged(what, "EPERM", "EPERM", "EPERM", NULL), NOT_JUDGED);
    assert_int_equal(judged(what, "EPERM", NULL, NULL, NULL), NOT_JUDGED);
    assert_int_equal(judged(what, NULL, "OK", "OK", NULL), NOT_JUDGED);
    assert_int_equal(judged(what, "OK", "OK", "OK", NULL), RED);
    assert_int_equal(judged(what, "ENOSYS", "OK", NULL, NULL), RED); /* the errno is named */
    assert_int_equal(judged(what, "SIGSYS", "OK", NULL, NULL), RED);
}

static void an_address_must_be_reached_outside(void **state) {
    (void)state;
    static const char what[] = "NW-02 tcp 10.88.0.1 80", six[] = "NW-09 tcp fd12:3456::1 80";
    assert_int_equal(judged(what, "ECONNREFUSED", "OK", NULL, NULL), GREEN);
    assert_int_equal(judged(what, "ECONNREFUSED", "ENETUNREACH", "ETIMEDOUT", NULL), NOT_JUDGED);
    assert_int_equal(judged(what, "ENETUNREACH", "OK", "OK", NULL), RED);
    assert_int_equal(judged(six, "ENETUNREACH", "OK", "OK", NULL), NOT_JUDGED); /* no IPv6 in this cage */
    assert_int_equal(judged(six, "ETIMEDOUT", "OK", "OK", NULL), RED);
}

static void what_must_work(void **state) {
    (void)state;
    assert_int_equal(judged("US-22 netlink ROUTE", "OK", NULL, NULL, NULL), GREEN);
    assert_int_equal(judged("US-22 netlink ROUTE", "EPERM", NULL, NULL, NULL), RED);
    assert_int_equal(judged("NW-14 tcp 1.1.1.1 53", "OK", NULL, NULL, NULL), GREEN);
    assert_int_equal(judged("NW-14 tcp 1.1.1.1 53", "ECONNREFUSED", NULL, NULL, "OK"), RED);
    assert_int_equal(judged("NW-14 tcp 1.1.1.1 53", "ETIMEDOUT", NULL, NULL, "ETIMEDOUT"), NOT_JUDGED);
}

static void answers(void **state) {
    (void)state;
    assert_true(row_right("EPERM|ENOSYS", "ENOSYS"));
    assert_true(row_right("=EINVAL", "EINVAL"));
    assert_false(row_right("EPERM|ENOSYS", "EPER"));
    assert_false(row_right("EPERM|ENOSYS", ""));
    struct answers a;
    answers_start(&a);
    answers_read(&a, "US-01 unshare(NEWUSER)\tEPERM\nno row\tOK\nUS-19 socket(AF_VSOCK)\nUS-06 unshare(an "
                     "invalid flag)\tEINVAL");
    assert_string_equal(a.of[row_find("US-01 unshare(NEWUSER)")], "EPERM");
    assert_string_equal(a.of[row_find("US-06 unshare(an invalid flag)")], "EINVAL");
    assert_null(a.of[row_find("US-19 socket(AF_VSOCK)")]);
    answers_free(&a);
}

static void the_table(void **state) {
    (void)state;
    for (size_t i = 0; i < nrows; i++) {
        assert_int_equal(row_find(rows[i].what), i); /* each row once */
        assert_null(strpbrk(rows[i].what, "\t\n"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_needs_an_arm),
        cmocka_unit_test(an_address_must_be_reached_outside),
        cmocka_unit_test(what_must_work),
        cmocka_unit_test(answers),
        cmocka_unit_test(the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
