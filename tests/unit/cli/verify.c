/* log --verify: a log as it should be, and everything that somebody could do to it. */
#include "cli/verify.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ROWS = 8 };
static struct audit_row rows[ROWS];
static uint8_t hashes[ROWS][AUDIT_HASH];

/* A chain of rows, made anew from `from` on. */
static void chain(size_t from) {
    static const uint8_t zeros[AUDIT_HASH];
    for (size_t i = from; i < ROWS; i++)
        assert_null(audit_hash(i ? hashes[i - 1] : zeros, &rows[i], hashes[i]));
}

static int fresh(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS; i++)
        rows[i] = (struct audit_row){.seq = i + 1,
                                     .agent = bytes_of("demo"),
                                     .who = bytes_of(""),
                                     .cwd = bytes_of("/"),
                                     .start_wall_ms = 1000 + i,
                                     .how = bytes_of("exit"),
                                     .output = bytes_of("")};
    chain(0);
    return 0;
}

static char *head_line(size_t i) {
    own_buf struct buf b = {0};
    buf_printf(&b, "%zu ", i + 1);
    for (size_t k = 0; k < AUDIT_HASH; k++)
        buf_printf(&b, "%02x", hashes[i][k]);
    buf_adds(&b, " 1700000000000\n");
    return buf_take(&b);
}

/* Heads of rows 2, 4 and 7, as the honest log had them. */
static void heads(struct verify *v) {
    own_free char *text = xstrdup("");
    static const size_t kept[] = {1, 3, 6};
    for (size_t i = 0; i < COUNT(kept); i++) {
        own_free char *line = head_line(kept[i]), *all = xasprintf("%s%s", text, line);
        char *old = text;
        text = TAKE(all);
        free(old);
    }
    own_file FILE *f = fmemopen(text, strlen(text), "r");
    assert_null(verify_heads(v, f));
    assert_int_equal(v->nheads, 3);
}

static void run(struct verify *v, size_t from, size_t to, size_t without) {
    for (size_t i = from; i < to; i++)
        if (i != without)
            assert_null(verify_row(v, &rows[i], (struct bytes){(const char *)hashes[i], AUDIT_HASH}));
    verify_end(v);
}

static void bad(struct verify *v, uint64_t row, const char *why) {
    if (v->bad != row || !strstr(v->why, why))
        fail_msg("row %d: %s", (int)v->bad, v->why);
    verify_free(v);
}

static void honest(void **state) {
    (void)state;
    struct verify v = {0};
    heads(&v);
    run(&v, 0, ROWS, ROWS);
    assert_string_equal(v.why, "");
    assert_int_equal(v.compared, 3);
    assert_int_equal(v.last, ROWS);
    verify_free(&v);
}

static void changed(void **state) {
    (void)state;
    struct verify v = {0};
    heads(&v);
    rows[2].status = 1;
    run(&v, 0, ROWS, ROWS);
    bad(&v, 3, "does not follow");
}

static void changed_and_chained_anew(void **state) {
    (void)state;
    struct verify v = {0};
    heads(&v);
    rows[2].status = 1;
    chain(2);
    run(&v, 0, ROWS, ROWS);
    bad(&v, 4, "the warden kept another hash");
}

static void left_out(void **state) {
    (void)state;
    struct verify v = {0};
    heads(&v);
    run(&v, 0, ROWS, 4);
    bad(&v, 5, "missing");
}

static void cut_off_at_the_end(void **state) {
    (void)state;
    struct verify v = {0};
    heads(&v);
    run(&v, 0, 5, ROWS);
    bad(&v, 6, "the warden kept a hash of row 7");
}

static void all_gone(void **state) {
    (void)state;
    struct verify v = {0};
    heads(&v);
    run(&v, 0, 0, ROWS);
    bad(&v, 1, "missing");
}

/* The oldest were let go: checked from the head before, or from the first that is left. */
static void pruned(void **state) {
    (void)state;
    struct verify v = {0};
    heads(&v);
    run(&v, 4, ROWS, ROWS);
    assert_string_equal(v.why, "");
    assert_false(v.first_unchecked);
    verify_free(&v);
    heads(&v);
    run(&v, 5, ROWS, ROWS);
    assert_string_equal(v.why, "");
    assert_true(v.first_unchecked);
    verify_free(&v);
    heads(&v);
    rows[4].status = 1; /* the first that is left, with a head before it */
    run(&v, 4, ROWS, ROWS);
    bad(&v, 5, "does not follow");
}

static void heads_of(const char *text, size_t count, const char *why, bool error) {
    struct verify v = {0};
    own_free char *copy = xstrdup(text);
    own_file FILE *f = fmemopen(copy, strlen(copy), "r");
    own_err err_t e = verify_heads(&v, f);
    assert_int_equal(e != NULL, error);
    assert_int_equal(v.nheads, count);
    assert_non_null(strstr(v.why, why));
    verify_free(&v);
}

static void the_warden_s_file(void **state) {
    (void)state;
    own_free char *one = head_line(0), *two = head_line(1), *three = head_line(2);
    own_free char *other = xstrdup(one);
    other[2] = other[2] == 'a' ? 'b' : 'a';
    own_free char *torn = xasprintf("%s%.20s", one, two), *same = xasprintf("%s%s", one, one);
    own_free char *two_hashes = xasprintf("%s%s", one, other), *back = xasprintf("%s%s%s", one, three, two);
    heads_of(torn, 1, "", false);
    heads_of(same, 1, "", false);
    heads_of(two_hashes, 1, "two different hashes", false);
    heads_of(back, 2, "began anew", false);
    heads_of("nonsense\n", 0, "", true);
    heads_of("1 00 5\n", 0, "", true);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup(f, fresh)
    const struct CMUnitTest tests[] = {
        CASE(honest),
        CASE(changed),
        CASE(changed_and_chained_anew),
        CASE(left_out),
        CASE(cut_off_at_the_end),
        CASE(all_gone),
        CASE(pruned),
        CASE(the_warden_s_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
