/* Where a model may be said to be, and where not. */
#include "proto/upstream.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void each(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool good;
        enum vendor vendor;
        bool tls, numeric;
        const char *host;
        uint16_t port;
        const char *path;
    } rows[] = {
        {"https://api.anthropic.com", true, NO_VENDOR, true, false, "api.anthropic.com", 443, ""},
        {"anthropic+https://API.z.ai/api/anthropic/", true, ANTHROPIC, true, false, "api.z.ai", 443,
         "/api/anthropic"},
        {"openai+http://10.88.0.1:8080/v1", true, OPENAI, false, true, "10.88.0.1", 8080, ""},
        {"http://[fd00::1]:80", true, NO_VENDOR, false, true, "fd00::1", 80, ""},
        {"http://localhost", true, NO_VENDOR, false, false, "localhost", 80, ""},
        {"", false},
        {"api.anthropic.com", false},
        {"ftp://x", false},
        {"https://", false},
        {"https://u:p@h", false},
        {"https://h:0", false},
        {"https://h:65536", false},
        {"https://h:x", false},
        {"https://h/a?b", false},
        {"https://h/a/../b", false},
        {"https://h//x", false},
        {"https://h/\n", false},
        {"google+https://h", false},
        {"https://[::1", false},
        {"https://h h", false},
        {"https://[1.2.3.4]", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct upstream u = {0};
        own_err err_t e = upstream_of(rows[i].text, &u);
        if (!e != rows[i].good)
            fail_msg("%s: %s", rows[i].text, e ? err_text(e) : "taken");
        if (e)
            continue;
        assert_int_equal(u.vendor, rows[i].vendor);
        assert_int_equal(u.tls, rows[i].tls);
        assert_int_equal(u.numeric, rows[i].numeric);
        assert_int_equal(u.port, rows[i].port);
        assert_string_equal(u.host, rows[i].host);
        assert_string_equal(u.path, rows[i].path);
    }
}

static void loopback(void **state) {
    (void)state;
    static const char *const local[] = {"http://127.0.0.1:1", "http://127.9.9.9", "http://[::1]",
                                        "http://localhost:8"};
    struct upstream u;
    for (size_t i = 0; i < COUNT(local); i++) {
        own_err err_t e = upstream_of(local[i], &u);
        assert_null(e);
        assert_true(upstream_is_loopback(&u));
    }
    own_err err_t e = upstream_of("http://10.88.0.1", &u);
    assert_null(e);
    assert_false(upstream_is_loopback(&u));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each), cmocka_unit_test(loopback)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
