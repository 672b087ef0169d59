/* Numbers and names: what is taken, and what is not although a lenient parser would. */
#include "base/names.h"
#include "base/own.h"
#include "base/parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

typedef err_t parser(const char *text, uint64_t *ret);

static err_t u64(const char *text, uint64_t *ret) {
    return parse_u64(text, 1000, ret);
}

struct row {
    parser *parse;
    const char *text;
    uint64_t want; /* NOT: refused */
};
#define NOT UINT64_MAX

static const struct row rows[] = {
    {u64, "0", 0},
    {u64, "1000", 1000},
    {u64, "1001", NOT},
    {u64, "", NOT},
    {u64, "007", NOT},
    {u64, "-1", NOT},
    {u64, "+1", NOT},
    {u64, " 1", NOT},
    {u64, "1 ", NOT},
    {u64, "0x10", NOT},
    {u64, "18446744073709551616", NOT},
    {u64, "99999999999999999999999", NOT},
    {parse_size, "4096", 4096},
    {parse_size, "512m", UINT64_C(512) << 20},
    {parse_size, "4G", UINT64_C(4) << 30},
    {parse_size, "1k", 1024},
    {parse_size, "1t", UINT64_C(1) << 40},
    {parse_size, "4gb", NOT},
    {parse_size, "m", NOT},
    {parse_size, "1.5g", NOT},
    {parse_size, "9223372036854775807t", NOT},
    {parse_size, "18446744073709551615", NOT},
    {parse_span, "30", 30000},
    {parse_span, "250ms", 250},
    {parse_span, "2m", 120000},
    {parse_span, "1h", 3600000},
    {parse_span, "7d", UINT64_C(604800000)},
    {parse_span, "2 m", NOT},
    {parse_span, "1w", NOT},
    {parse_cpus, "2", 2000},
    {parse_cpus, "1.5", 1500},
    {parse_cpus, "0.25", 250},
    {parse_cpus, "0.01", 10},
    {parse_cpus, "1.", NOT},
    {parse_cpus, ".5", NOT},
    {parse_cpus, "0", NOT},
    {parse_cpus, "0.001", NOT},
    {parse_cpus, "1e3", NOT},
    {parse_cpus, "5000", NOT},
};

static void numbers(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t got = 4711;
        own_err err_t e = rows[i].parse(rows[i].text, &got);
        if ((e == NULL) != (rows[i].want != NOT) || got != (e ? 4711 : rows[i].want))
            fail_msg("row %zu: '%s' gave %llu (%s)", i, rows[i].text, (unsigned long long)got, err_text(e));
        if (e)
            assert_int_equal(e->status, EXIT_USAGE);
    }
}

static void hostile_text_is_escaped(void **state) {
    (void)state;
    uint64_t v;
    own_err err_t e = parse_size("\033[2J", &v);
    assert_null(strchr(err_text(e), 033));
    own_err err_t n = name_check("a\nb\033");
    assert_null(strchr(err_text(n), '\n'));
    assert_null(strchr(err_text(n), 033));
}

static void agents_names(void **state) {
    (void)state;
    static const char *const good[] = {"a", "demo", "a-1", "abcdefghijklmnopqrst", "x9--"};
    static const char *const bad[] = {"",     "A",   "1a",  "-a",  "a_b",      "a.b",
                                      "../a", "a/b", "a\n", "a b", "\xc3\xa4", "abcdefghijklmnopqrstu",
                                      "a:b"};
    for (size_t i = 0; i < COUNT(good); i++)
        assert_true(name_ok(good[i]));
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(name_ok(bad[i]));
        own_err err_t e = name_check(bad[i]);
        assert_int_equal(e->status, EXIT_USAGE);
    }
    assert_false(name_ok(NULL));
    assert_true(prefix_ok(""));
    assert_true(prefix_ok("t1_"));
    assert_false(prefix_ok("Root"));
    assert_false(prefix_ok("a:b"));
    assert_false(prefix_ok("ninechars"));
}

static void words_and_rooms(void **state) {
    (void)state;
    for (int i = 0; i < MODE_COUNT; i++) {
        enum mode m = MODE_COUNT;
        assert_null(mode_of(mode_name((enum mode)i), &m));
        assert_int_equal(m, i);
    }
    enum net n = NET_NONE;
    own_err err_t e = net_of("Open", &n);
    assert_string_equal(err_text(e), "'Open' is not a network policy: open, sealed or none");
    assert_int_equal(n, NET_NONE);
    for (int i = 0; i < ROOM_COUNT; i++)
        assert_in_range(room_uid((enum room)i), 1000, UIDS_EACH - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(hostile_text_is_escaped),
        cmocka_unit_test(agents_names),
        cmocka_unit_test(words_and_rooms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
