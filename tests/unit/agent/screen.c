/* What a program drew, read off the screen: as Claude Code draws, and bytes that mean nothing. */
#include "agent/screen.h"
#include "base/own.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SET "abcdefghijklmnopqrstuvwxyz0123456789-:/"

static struct screen *s;

static int set_up(void **state) {
    (void)state;
    err_t e = screen_new(&s);
    assert_null(e);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    screen_free(TAKE(s));
    return 0;
}

static void feed(const char *text) {
    screen_feed(s, text, strlen(text));
}

static void assert_text(struct bytes b, const char *text) {
    assert_int_equal(b.len, strlen(text));
    assert_memory_equal(b.p, text, b.len);
}

/* Blanks are moves; what is the same already is not said again; an older end is cleared away. */
static void moves_and_repairs(void **state) {
    (void)state;
    struct bytes b;
    feed("\x1b[2J\x1b[H\x1b[38;5;174mWelcome\x1b[9Gto\x1b[12Gthis\x1b[39m\r\n");
    assert_true(screen_behind(s, "Welcome", &b));
    assert_text(b, " to this");
    feed("token-abcdef....\r\x1b[1A\x1b[1B\x1b[13Gghi\x1b[K\r\n");
    assert_true(screen_find(s, "token-", SET, &b));
    assert_text(b, "token-abcdefghi");
    feed("\x1b[2A\x1b[6Gbye\x1b[1K");
    assert_false(screen_behind(s, "Welcome", &b));
    feed("\x1b[3;5Hhttps://a\x1b[0K\x1b]0;title https://b\x07\x1b(B\xe2\x9c\xb6");
    assert_true(screen_find(s, "https://", SET, &b));
    assert_text(b, "https://a");
    assert_true(screen_last(s, &b));
    assert_text(b, "https://a?");
}

static void under_a_line(void **state) {
    (void)state;
    struct bytes b;
    feed("2. Enter this one-time code \x1b[90m(soon)\x1b[0m\r\n\r\n   \x1b[94mABCD-12345\x1b[0m \r\n");
    assert_true(screen_below(s, "one-time code", &b));
    assert_text(b, "ABCD-12345");
    assert_false(screen_below(s, "no such line", &b));
}

/* A long line goes on in the next; the oldest leaves at the top. */
static void wraps_and_scrolls(void **state) {
    (void)state;
    struct bytes b;
    feed("first\r\n");
    for (int i = 0; i < SCREEN_COLUMNS; i++)
        feed("x");
    feed("y\r\n");
    assert_true(screen_last(s, &b));
    assert_text(b, "y");
    for (int i = 0; i < SCREEN_ROWS; i++)
        feed("\n");
    assert_false(screen_last(s, &b));
}

/* A place that is kept and gone back to; rows, tabs; what is cleared from the cursor on, up to it, and all. */
static void places_and_clearing(void **state) {
    (void)state;
    struct bytes b;
    feed("\x1b[3;3Hold\x1b"
         "7\x1b[10;1Hbelow\x1b"
         "8er\x1b[5d\x1b[1Gfive\tx");
    assert_true(screen_find(s, "old", SET, &b));
    assert_text(b, "older");
    assert_true(screen_behind(s, "five", &b));
    assert_text(b, "    x");
    feed("\x1b[4;1H\x1b[J");
    assert_true(screen_last(s, &b));
    assert_text(b, "older");
    feed("\x1b[3;4H\x1b[1J");
    assert_true(screen_last(s, &b));
    assert_text(b, "der");
    feed("\x1b(0\x1b[3J");
    assert_false(screen_last(s, &b));
}

/* Sequences cut, numbers beyond every bound, any bytes: what is drawn stays on the screen. */
static void any_bytes(void **state) {
    (void)state;
    feed("\x1b[99999999999;;;;;;;;77H\x1b[99999999D\x1b[99999999CZ\x1b[99999B\x1b[9999C\tZ\b\b\x1b[1J\x1b["
         "2K\x1b[");
    feed("\x1b]never ended \x1b\x1b\\ok");
    static const char set[] = "\x1b[;0123456789ABCDGHJKdf78]P\\\r\n\b\t\x07 xyz\xe2\x9c\xff(";
    unsigned seed = 7;
    char block[4096];
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof block; i++) {
            seed = seed * 1103515245 + 12345;
            block[i] = set[seed / 65536 % (sizeof set - 1)];
        }
        screen_feed(s, block, sizeof block);
    }
    struct bytes b;
    screen_last(s, &b);
    screen_find(s, "xyz", SET, &b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(moves_and_repairs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(under_a_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wraps_and_scrolls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(places_and_clearing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_bytes, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
