/* Commands as lines: what bash would read back, and nothing that a terminal obeys. */
#include "cli/quote.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void lines(void **state) {
    (void)state;
    static const struct {
        struct bytes word;
        const char *line;
    } cases[] = {
        {{"echo", 4}, "echo"},
        {{"", 0}, "''"},
        {{"a b", 3}, "'a b'"},
        {{"it's", 4}, "'it'\\''s'"},
        {{"$(id)`id`", 9}, "'$(id)`id`'"},
        {{"--x=/a/b.c,d:e@f%g+h", 20}, "--x=/a/b.c,d:e@f%g+h"},
        {{"~", 1}, "'~'"},
        {{"\xc3\xa9t\xc3\xa9", 5}, "'\xc3\xa9t\xc3\xa9'"},
        {{"a\nb", 3}, "$'a\\nb'"},
        {{"\x1b[2J'\\", 6}, "$'\\033[2J\\'\\\\'"},
        {{"\xff"
          "1",
          2},
         "$'\\3771'"},
        {{"\xe2\x80\xae", 3}, "$'\\342\\200\\256'"}, /* turns the rest of the line around */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        own_buf struct buf b = {0};
        quote_argv(&b, (struct list){&cases[i].word, 1});
        assert_string_equal(buf_text(&b), cases[i].line);
    }
    const struct bytes argv[] = {bytes_of("sh"), bytes_of("-c"), bytes_of("a; b")};
    own_buf struct buf b = {0};
    quote_argv(&b, (struct list){argv, 3});
    assert_string_equal(buf_text(&b), "sh -c 'a; b'");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
