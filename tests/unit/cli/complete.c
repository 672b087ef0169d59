/* The Tab key of the chat. */
#include "cli/chat/complete.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static size_t complete(const char *text, const char *adds) {
    static struct chat c = {.agents = {{"demo"}, {"demon"}, {"other"}}, .nagents = 3};
    own_buf struct buf add = {0};
    const char *names[8];
    size_t n = complete_text(&c, text, strlen(text), &add, names, COUNT(names));
    assert_string_equal(buf_text(&add), adds);
    return n;
}

static void commands_and_names(void **state) {
    (void)state;
    assert_int_equal(complete("/he", "lp "), 1);
    assert_int_equal(complete("/st", ""), 3);  /* status, start, stop */
    assert_int_equal(complete("/sta", ""), 2); /* status, start */
    assert_int_equal(complete("/use de", "mo"), 2);
    assert_int_equal(complete("/use o", "ther "), 1);
    assert_int_equal(complete("/use ", ""), 3);
    assert_int_equal(complete("/use x", ""), 0);
    assert_int_equal(complete("/use demo x", ""), 0);
    assert_int_equal(complete("plain te", ""), 0);
    assert_int_equal(complete("", ""), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(commands_and_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
