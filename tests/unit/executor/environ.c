/* What is declared cannot be replaced by the asker; defaults can; nothing malformed is added. */
#include "executor/environ.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

static bool has(char **table, const char *line) {
    for (; *table; table++)
        if (!strcmp(*table, line))
            return true;
    return false;
}

static size_t count(char **table, const char *start) {
    size_t n = 0;
    for (; *table; table++)
        n += !strncmp(*table, start, strlen(start));
    return n;
}

static void test_table(void **state) {
    (void)state;
    struct environ *e = environ_new("/home/cage", "/scratch", "someone");
    struct bytes lines[] = {bytes_of("TERM=xterm"),   bytes_of("PATH=/evil"), bytes_of("HOME=/evil"),
                            bytes_of("TMPDIR=/evil"), bytes_of("USER=root"),  bytes_of("LANG=de_DE.UTF-8"),
                            bytes_of("no equals"),    bytes_of("=x"),         bytes_of("SHELL=/evil")};
    own_free char **table = environ_make(e, &(struct list){lines, COUNT(lines)});
    assert_true(has(table, "HOME=/home/cage"));
    assert_true(has(table, "TMPDIR=/scratch"));
    assert_true(has(table, "USER=someone"));
    assert_true(has(table, "LOGNAME=someone"));
    assert_true(has(table, "SHELL=/bin/bash"));
    assert_true(has(table, "TERM=xterm"));
    assert_true(has(table, "LANG=de_DE.UTF-8"));
    static const char *const once[] = {"PATH=", "HOME=", "TMPDIR=", "USER=", "LANG=", "SHELL="};
    for (size_t i = 0; i < COUNT(once); i++)
        assert_int_equal(count(table, once[i]), 1);
    assert_false(has(table, "no equals"));
    assert_false(has(table, "=x"));
    environ_free(e);
}

static void test_default(void **state) {
    (void)state;
    struct environ *e = environ_new("/h", "/t", "u");
    own_free char **table = environ_make(e, &(struct list){NULL, 0});
    assert_true(has(table, "LANG=C.UTF-8"));
    environ_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_default)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
