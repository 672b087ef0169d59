/* What a file that is sent or fetched may be called, and what it is called when its name is taken. */
#include "proto/file_name.h"
#include "base/escape.h"
#include "base/own.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define NAME(s) ((struct bytes){(s), sizeof(s) - 1})

static const struct bytes good[] = {
    NAME("a"),           NAME("report 2026 (final).pdf"), NAME("-rf"), NAME("~"), NAME("na\xc3\xafve.txt"),
    NAME("a\\b\"c'$`;"), NAME("\xf0\x9f\x93\x8e.png"),
};

static const struct bytes bad[] = {
    NAME(""),
    NAME("."),
    NAME(".."),
    NAME(".ssh"),
    NAME("../x"),
    NAME("a/b"),
    NAME("/etc/passwd"),
    NAME("a\0b"),
    NAME("a\nb"),
    NAME("a\tb"),
    NAME("a\x1b[2Jb"),
    NAME("a\x7f"),
    NAME("a\xc2\x9b"), /* C1 */
    NAME("a\xe2\x80\xae"
         "b"), /* U+202E: right-to-left override */
    NAME("a\xe2\x81\xa6"
         "b"), /* U+2066: isolate */
    NAME("a\xe2\x80\x8b"
         "b"), /* U+200B: zero width */
    NAME("a\xe2\x80\xa8"
         "b"),         /* U+2028: line separator */
    NAME("a\xff"),     /* no UTF-8 */
    NAME("a\xc0\xaf"), /* an overlong slash */
};

static void names(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        own_err err_t e = file_check(good[i], 0);
        if (e)
            fail_msg("%s", err_text(e));
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        own_err err_t e = file_check(bad[i], 0);
        if (!e)
            fail_msg("name %zu passes", i);
        assert_int_equal(e->status, EXIT_POLICY);
        own_buf struct buf shown = {0};
        escape_text(&shown, ESCAPE_LINE, err_text(e), strlen(err_text(e)));
        assert_string_equal(buf_text(&shown), err_text(e)); /* it can be shown */
    }
}

static void bounds(void **state) {
    (void)state;
    char name[256];
    memset(name, 'n', sizeof name);
    own_err err_t fits = file_check((struct bytes){name, 255}, FILE_BYTES_MAX);
    own_err err_t is_long = file_check((struct bytes){name, 256}, 0);
    own_err err_t is_large = file_check((struct bytes){name, 1}, FILE_BYTES_MAX + 1);
    own_err err_t is_negative = file_check((struct bytes){name, 1}, UINT64_MAX);
    assert_null(fits);
    assert_true(is_long && is_large && is_negative);
}

static void others(void **state) {
    (void)state;
    static const struct {
        const char *name;
        unsigned n;
        const char *want;
    } rows[] = {{"report.pdf", 2, "report-2.pdf"},
                {"a.tar.gz", 10, "a.tar-10.gz"},
                {"Makefile", 3, "Makefile-3"},
                {"x.", 2, "x-2."}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        own_free char *other = file_name_other(rows[i].name, rows[i].n);
        assert_string_equal(other, rows[i].want);
    }
}

/* However long: it is a name that passes, another one, and no character is cut in two. */
static void long_others(void **state) {
    (void)state;
    static const char *const ends[] = {"", ".pdf", "\xc3\xa4", ".\xc3\xa4\xc3\xa4"};
    for (size_t i = 0; i < COUNT(ends); i++)
        for (size_t len = 248; len <= 255; len++)
            for (unsigned n = 2; n < 20000; n += 1999)
                for (int dotted = 0; dotted < 2; dotted++) {
                    char name[256] = "";
                    size_t at = 0;
                    for (; at + 2 <= len - strlen(ends[i]); at += 2)
                        memcpy(name + at, "\xc3\xa4", 3);
                    if (dotted)
                        name[0] = 'a', name[1] = '.';
                    memcpy(name + at, ends[i], strlen(ends[i]) + 1);
                    own_free char *other = file_name_other(name, n);
                    own_err err_t e = file_check(bytes_of(other), 0);
                    if (e || !strcmp(other, name))
                        fail_msg("%s: %s", other, e ? err_text(e) : "the same");
                }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(bounds),
                                       cmocka_unit_test(others), cmocka_unit_test(long_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
