/* The audit chain's hash: a known value, and that no two different rows share an encoding. */
#include "proto/audit_hash.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const struct bytes words[] = {{"echo", 4}, {"hi", 2}};
static const uint8_t zeros[AUDIT_HASH];

static struct audit_row row(void) {
    return (struct audit_row){.seq = 1,
                              .agent = bytes_of("demo"),
                              .who = bytes_of("operator"),
                              .argv = {words, 2},
                              .cwd = bytes_of("/project"),
                              .start_wall_ms = 1000,
                              .span_us = 5,
                              .how = bytes_of("exit"),
                              .status = 0,
                              .output = bytes_of("")};
}

static void hex_of(const struct audit_row *r, const uint8_t *before, char hex[2 * AUDIT_HASH + 1]) {
    uint8_t out[AUDIT_HASH];
    assert_null(audit_hash(before, r, out));
    for (size_t i = 0; i < AUDIT_HASH; i++)
        snprintf(hex + 2 * i, 3, "%02x", out[i]);
}

/* Made by another program from the header's words (Python's hashlib), so the format cannot change unseen. */
static void known(void **state) {
    (void)state;
    struct audit_row r = row();
    char hex[2 * AUDIT_HASH + 1];
    hex_of(&r, zeros, hex);
    assert_string_equal(hex, "95add3b89d41fe590da67845a458cec3e810a8838e300159fe1d60d491f060af");
}

static void every_field_counts(void **state) {
    (void)state;
    static const struct bytes other[] = {{"echo", 4}, {"ho", 2}}, glued[] = {{"echohi", 6}},
                              moved[] = {{"ech", 3}, {"ohi", 3}};
    static const uint8_t ones[AUDIT_HASH] = {1};
    struct audit_row rows[] = {row(), row(), row(), row(), row(), row(), row(),
                               row(), row(), row(), row(), row(), row()};
    rows[1].seq = 2;
    rows[2].agent = bytes_of("dem");
    rows[3].who = bytes_of("");
    rows[4].argv = (struct list){other, 2};
    rows[5].argv = (struct list){glued, 1};
    rows[6].argv = (struct list){moved, 2};
    rows[7].cwd = bytes_of("/");
    rows[8].start_wall_ms++;
    rows[9].span_us++;
    rows[10].how = bytes_of("signal");
    rows[11].status = -1;
    rows[12].output = bytes_of("x");
    char hex[COUNT(rows) + 1][2 * AUDIT_HASH + 1];
    for (size_t i = 0; i < COUNT(rows); i++)
        hex_of(&rows[i], zeros, hex[i]);
    hex_of(&rows[0], ones, hex[COUNT(rows)]);
    for (size_t i = 0; i <= COUNT(rows); i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(hex[i], hex[k]);
}

/* Bytes that move from one field to its neighbour change the hash. */
static void fields_have_ends(void **state) {
    (void)state;
    struct audit_row a = row(), b = row();
    a.agent = bytes_of("ab"), a.who = bytes_of("c");
    b.agent = bytes_of("a"), b.who = bytes_of("bc");
    char x[2 * AUDIT_HASH + 1], y[2 * AUDIT_HASH + 1];
    hex_of(&a, zeros, x);
    hex_of(&b, zeros, y);
    assert_string_not_equal(x, y);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known), cmocka_unit_test(every_field_counts),
                                       cmocka_unit_test(fields_have_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
