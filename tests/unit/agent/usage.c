/* Budgets and prices as arithmetic; figures through torn writes; the credential's file. */
#include "agent/gateway/secret.h"
#include "agent/gateway/usage.h"
#include "base/fs.h"
#include "base/own.h"
#include "../good.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static void budgets_as_text(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t limit, span_s;
        bool bad;
    } rows[] = {
        {"5M/day", 5000000, 86400, false},
        {"200k/hour", 200000, 3600, false},
        {"1.5M/week", 1500000, 604800, false},
        {"20M", 20000000, 0, false},
        {"300", 300, 0, false},
        {"none", 0, 0, false},
        {"", 0, 0, false},
        {"0.5k/day", 500, 86400, false},
        {"M/day", 0, 0, true},
        {"5M/month", 0, 0, true},
        {"5Mday", 0, 0, true},
        {"-5M", 0, 0, true},
        {"5M/", 0, 0, true},
        {"5 M", 0, 0, true},
        {"0", 0, 0, true},
        {"99999999999999999999", 0, 0, true},
        {"1.2.3M", 0, 0, true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct budget b = {0};
        own_err err_t e = budget_of(rows[i].text, &b);
        if ((e != NULL) != rows[i].bad || b.limit != rows[i].limit || b.span_s != rows[i].span_s)
            fail_msg("'%s': %s, %d, %d", rows[i].text, e ? err_text(e) : "fine", (int)b.limit, (int)b.span_s);
    }
}

static void windows(void **state) {
    (void)state;
    const int64_t hour = 3600000, noon = 20000 * 24 * hour + 12 * hour; /* a Thursday */
    struct budget day = {1000, BUDGET_DAY_S}, week = {1000, BUDGET_WEEK_S}, none = {0, 0};
    struct window w = {0};
    window_at(&w, &day, noon);
    assert_int_equal(w.start_ms, noon - 12 * hour);
    window_use(&w, &day, &(struct tokens){100, 200, 300, 399});
    assert_false(window_over(&w, &day));
    window_use(&w, &day, &(struct tokens){1, 0, 0, 0});
    assert_true(window_over(&w, &day));
    window_at(&w, &day, noon + 11 * hour);
    assert_true(window_over(&w, &day));
    window_at(&w, &day, noon - 48 * hour); /* the clock was set back: nothing is given back */
    assert_true(window_over(&w, &day));
    window_at(&w, &day, noon + 12 * hour);
    assert_int_equal(w.used, 0);
    assert_int_equal(window_until_ms(&w), noon + 36 * hour);
    window_use(&w, &day, &(struct tokens){.input = 5});
    window_at(&w, &week, noon + 13 * hour); /* another span keeps what was used */
    assert_int_equal(w.used, 5);
    assert_int_equal(w.start_ms % (7 * 24 * hour), 4 * 24 * hour); /* a Monday */
    window_at(&w, &none, noon);
    assert_int_equal(w.used, 0);
    window_use(&w, &none, &(struct tokens){.input = 5});
    assert_false(window_over(&w, &none));
}

static void prices(void **state) {
    (void)state;
    static const char table[] = "claude 3 15 0.3 3.75; claude-haiku 1 5 .1 1.25 ;gpt 1 1 1 1";
    struct tokens t = {1000000, 1000000, 1000000, 1000000};
    NO_ERROR(price_check(table));
    assert_int_equal(price_nano(table, "claude-opus-4", &t), 22050000000);
    assert_int_equal(price_nano(table, "claude-haiku-4", &t), 7350000000);
    assert_int_equal(price_nano(table, "other", &t), 0);
    assert_int_equal(price_nano("", "claude", &t), 0);
    for (const char *const *bad =
             (const char *const[]){"claude 3 15", "claude 3 15 1 x", "claude 1 2 3 4 5", NULL};
         *bad; bad++) {
        own_err err_t e = price_check(*bad);
        assert_non_null(e);
    }
}

struct folder {
    char path[64];
    int fd;
};

static int set_up(void **state) {
    struct folder *f = xcalloc(1, sizeof *f);
    snprintf(f->path, sizeof f->path, "/tmp/agent-cage-usage-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct folder *f = *state;
    close(f->fd);
    NO_ERROR(fs_remove(f->path));
    free(f);
    return 0;
}

/* Whatever a write left behind: what is read is the last figures that were whole. */
static void figures_through_torn_writes(void **state) {
    struct folder *f = *state;
    for (int cut = 0; cut < 512; cut += 37) {
        struct usage u, back;
        unlinkat(f->fd, "usage", 0);
        NO_ERROR(usage_open(f->fd, &u));
        for (int i = 1; i <= 3; i++) {
            u.total.input = (uint64_t)i;
            u.window.used = (uint64_t)i * 10;
            usage_write(&u);
        }
        assert_int_equal(pwrite(u.fd, "                ", 16, 512 + cut < 1008 ? 512 + cut : 1008),
                         16); /* the third's place */
        usage_close(&u);
        NO_ERROR(usage_open(f->fd, &back));
        assert_in_range(back.total.input, 2, 3); /* 3: only what stands behind its end was torn */
        assert_int_equal(back.window.used, back.total.input * 10);
        usage_close(&back);
    }
}

static void the_credential_in_its_file(void **state) {
    struct folder *f = *state;
    struct secret *s, *back;
    NO_ERROR(secret_kept(f->fd, ANTHROPIC, &back));
    assert_null(back);
    NO_ERROR(secret_new(ANTHROPIC, "", " sk-ant-oat01-abc\n", 18, &s));
    assert_int_equal(s->login, LOGIN_TOKEN);
    assert_int_equal(s->n, 16);
    NO_ERROR(secret_keep(f->fd, s));
    struct stat st;
    assert_int_equal(fstatat(f->fd, "credential", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    NO_ERROR(secret_kept(f->fd, ANTHROPIC, &back));
    assert_int_equal(back->login, LOGIN_TOKEN);
    assert_memory_equal(back->p, "sk-ant-oat01-abc", 16);
    secret_drop(back);
    struct secret *twice = secret_use(s);
    secret_drop(s);
    assert_memory_equal(twice->p, "sk-ant", 6);
    secret_drop(twice);
    NO_ERROR(secret_forget(f->fd));
    NO_ERROR(secret_kept(f->fd, ANTHROPIC, &back));
    assert_null(back);
    for (const char *const *bad =
             (const char *const[]){"", "short", "two words in it", "with\x01odd-bytes", NULL};
         *bad; bad++) {
        own_err err_t e = secret_new(OPENAI, "", *bad, strlen(*bad), &back);
        assert_non_null(e);
    }
    NO_ERROR(secret_new(ANTHROPIC, "", "sk-ant-api03-xyz", 16, &s));
    assert_int_equal(s->login, LOGIN_KEY);
    secret_drop(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_as_text),
        cmocka_unit_test(windows),
        cmocka_unit_test(prices),
        cmocka_unit_test_setup_teardown(figures_through_torn_writes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_credential_in_its_file, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
