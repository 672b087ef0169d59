/* Bytes as lines: whatever their cut, with a bound; and lines as JSON, put right where programs cut characters. */
#include "harness/lines.h"
#include "harness/json_line.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MAX = 16 };

static void on_line(void *ctx, char *p, size_t n) {
    assert_int_equal(p[n], 0);
    buf_printf(ctx, "<%.*s>", (int)n, p);
}

static void on_cut(void *ctx, uint64_t n) {
    buf_printf(ctx, "<%llu cut>", (unsigned long long)n);
}

static const struct lines_ops ops = {.line = on_line, .cut = on_cut};

static const struct {
    const char *in, *out;
} rows[] = {
    {"", ""},
    {"a\nb\n", "<a><b>"},
    {"a", "<a>"},
    {"\n\n\r\na\r\n", "<a>"},
    {"0123456789abcdef\nx\n", "<0123456789abcdef><x>"},
    {"0123456789abcdefg\nx\n", "<17 cut><x>"},
    {"0123456789abcdef0123456789abcdef0123456789abcdef\n", "<48 cut>"},
    {"0123456789abcdefghij", "<20 cut>"},
    {"ok\n0123456789abcdefghij\nok", "<ok><20 cut><ok>"},
};

static void cut_at_every_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t at = 0; at <= strlen(rows[i].in); at++) {
            struct lines l = {0};
            own_buf struct buf out = {0};
            lines_add(&l, MAX, rows[i].in, at, &ops, &out);
            lines_add(&l, MAX, rows[i].in + at, strlen(rows[i].in) - at, &ops, &out);
            lines_end(&l, &ops, &out);
            assert_string_equal(buf_text(&out), rows[i].out);
            lines_free(&l);
        }
}

static void fifty_megabytes_in_constant_memory(void **state) {
    (void)state;
    static char block[1 << 16];
    memset(block, 'x', sizeof block);
    struct lines l = {0};
    own_buf struct buf out = {0};
    for (size_t i = 0; i < (50 << 20) / sizeof block; i++) {
        lines_add(&l, LINE_MAX_BYTES, block, sizeof block, &ops, &out);
        assert_true(l.part.len <= LINE_MAX_BYTES);
    }
    assert_int_equal(l.part.cap, 0);
    lines_add(&l, LINE_MAX_BYTES, "\nnext\n", 6, &ops, &out);
    assert_string_equal(buf_text(&out), "<52428800 cut><next>");
    lines_free(&l);
}

static const struct {
    const char *line, *text; /* of its member "t"; NULL: no object */
} json_rows[] = {
    {"{\"t\":\"a\"}", "a"},
    {"{\"t\":\"\\ud83d\\ude00\"}", "\xf0\x9f\x98\x80"},
    {"{\"t\":\"\\ud83d\"}", "\xef\xbf\xbd"},
    {"{\"t\":\"\\ud83dx\\ude00\"}", "\xef\xbf\xbdx\xef\xbf\xbd"},
    {"{\"t\":\"\\ud83d\\ud83d\\ude00\"}", "\xef\xbf\xbd\xf0\x9f\x98\x80"},
    {"{\"t\":\"\\\\ud83d\"}", "\\ud83d"},
    {"{\"t\":\"\xff\xfe\"}", "\xef\xbf\xbd\xef\xbf\xbd"},
    {"{\"t\":\"a\\u0000b\"}", "a\xef\xbf\xbd"
                              "b"},
    {"{\"t\":1}", ""},
    {"{}", ""},
    {"{\"t\":\"a\"", NULL},
    {"[1]", NULL},
    {"\"a\"", NULL},
    {"banner of a program", NULL},
    {"{\"t\":\"\\u", NULL},
    {"\\", NULL},
};

static void lines_as_json(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(json_rows); i++) {
        own_free char *line = xstrdup(json_rows[i].line);
        own_json json_t *j = json_line(line, strlen(line));
        assert_int_equal(!j, !json_rows[i].text);
        if (j)
            assert_string_equal(json_words(j, "t"), json_rows[i].text);
    }
}

static void paths_into_any_shape(void **state) {
    (void)state;
    char line[] = "{\"a\":{\"b\":{\"c\":\"x\",\"n\":5,\"m\":-5}},\"l\":[1]}";
    own_json json_t *j = json_line(line, strlen(line));
    assert_string_equal(json_words(j, "a.b.c"), "x");
    assert_string_equal(json_words(j, "a.b.c.d"), "");
    assert_string_equal(json_words(j, "l.0"), "");
    assert_string_equal(json_words(NULL, "a"), "");
    assert_int_equal(json_count(j, "a.b.n"), 5);
    assert_int_equal(json_count(j, "a.b.m"), 0);
    assert_true(json_says(j, "a.b.c", "x"));
    assert_null(json_at(j, "z.z"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(fifty_megabytes_in_constant_memory),
        cmocka_unit_test(lines_as_json),
        cmocka_unit_test(paths_into_any_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
