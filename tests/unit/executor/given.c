/* Which words name a program that ran, and which are another's name. */
#include "executor/given.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void names(void **state) {
    (void)state;
    assert_true(given_names("bash", "/usr/bin/bash"));
    assert_true(given_names("-bash", "/usr/bin/bash"));
    assert_true(given_names("/bin/bash", "/usr/bin/bash"));
    assert_true(given_names("/usr/local/bin/git", "git"));
    assert_true(given_names("/cage/x", "/cage/x"));
    assert_true(given_names("./x", "./x"));
}

static void lies(void **state) {
    (void)state;
    assert_false(given_names("git", "/usr/bin/bash"));
    assert_false(given_names("sh", "/usr/bin/dash"));
    assert_false(given_names("bash", "/project/bash"));
    assert_false(given_names("/usr/bin/bash", "/project/bash"));
    assert_false(given_names("bash", "bin/bash"));
    assert_false(given_names("bash", "/bash"));
    assert_false(given_names("bash", "/usr/bin/../../project/bash"));
    assert_false(given_names("bash", "/usr/bin//bash"));
    assert_false(given_names("x/bash", "/usr/bin/bash"));
    assert_false(given_names("", "/usr/bin/bash"));
    assert_false(given_names("-", "/usr/bin/bash"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(lies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
