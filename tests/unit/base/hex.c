/* Hexadecimal digits: what is written is read, and nothing else is. */
#include "base/hex.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_byte_comes_back(void **state) {
    (void)state;
    unsigned char all[256], back[256];
    char text[513];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (unsigned char)i;
    hex_put(text, all, sizeof all);
    assert_int_equal(strlen(text), 512);
    assert_memory_equal(text + 2 * 0xa9, "a9aa", 4);
    assert_true(hex_get(text, back, sizeof all));
    assert_memory_equal(all, back, sizeof all);
    hex_put(text, all, 0);
    assert_string_equal(text, "");
}

static void what_is_no_hex_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",     "0",    "00",   "000",  "00000", "0x00",
                                      " 000", "000 ", "00g0", "+000", "-1-1"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        unsigned char out[2] = {7, 8};
        assert_false(hex_get(bad[i], out, sizeof out));
        assert_int_equal(out[0] << 8 | out[1], 0x708);
    }
    unsigned char out[2];
    assert_true(hex_get("aB0C", out, 2));
    assert_int_equal(out[0] << 8 | out[1], 0xab0c);
    for (int c = 0; c < 256; c++)
        assert_int_equal(hex_digit((char)c) >= 0, c && strchr("0123456789abcdefABCDEF", c));
}

static void random_keys_differ(void **state) {
    (void)state;
    char a[HEX_KEY] = "", b[HEX_KEY] = "";
    assert_null(hex_key(a));
    assert_null(hex_key(b));
    assert_int_equal(strlen(a), HEX_KEY - 1);
    assert_string_not_equal(a, b);
    char out[2 * HEX_RANDOM_MAX + 3];
    assert_null(hex_random(out, HEX_RANDOM_MAX));
    own_err err_t e = hex_random(out, HEX_RANDOM_MAX + 1);
    assert_non_null(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_byte_comes_back),
                                       cmocka_unit_test(what_is_no_hex_is_refused),
                                       cmocka_unit_test(random_keys_differ)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
