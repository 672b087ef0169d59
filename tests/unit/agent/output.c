/* A turn's output: any bytes, however cut, become TEXT of bounded size; the whole is in a file of bounded size. */
#include "agent/excerpt.h"
#include "agent/live.h"
#include "agent/outputs.h"
#include "agent/text.h"
#include "base/escape.h"
#include "base/fs.h"
#include "base/own.h"
#include "../scratch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static bool is_text(const char *p, size_t n) {
    return utf8_valid(p, n) && !memchr(p, 0, n);
}

static void cuts_between_characters(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n, whole, rest;
    } rows[] = {
        {"", 0, 0, 0},
        {"abc", 3, 3, 0},
        {"ab\xc3", 3, 2, 0},
        {"ab\xc3\xa9", 4, 4, 0},
        {"\xa9"
         "b",
         2, 2, 1},
        {"a\xf0\x9f", 3, 1, 0},
        {"a\xf0\x9f\x98", 4, 1, 0},
        {"a\xf0\x9f\x98\x80", 5, 5, 0},
        {"\x9f\x98\x80z", 4, 4, 3},
        {"\x80\x80\x80\x80", 4, 4, 3}, /* garbage: cut somewhere */
        {"a\xff", 2, 2, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(text_whole(rows[i].bytes, rows[i].n), rows[i].whole);
        assert_int_equal(text_rest(rows[i].bytes, rows[i].n), rows[i].rest);
    }
}

static void cleans_any_bytes(void **state) {
    (void)state;
    own_buf struct buf b = {0};
    text_clean(&b, "a\0b\xff\0", 5);
    assert_string_equal(buf_text(&b), "a\xef\xbf\xbd"
                                      "b\xef\xbf\xbd\xef\xbf\xbd");
}

static void short_output_is_shown_whole(void **state) {
    (void)state;
    static char all[EXCERPT_HEAD + EXCERPT_TAIL + 1];
    for (size_t i = 0; i + 1 < sizeof all; i++) /* a character across the seam of head and tail */
        all[i] = i % 2 ? "\xc3\xa9"[0] : "\xc3\xa9"[1];
    all[0] = 'x';
    for (size_t step = 1; step < sizeof all; step = step * 3 + 1) {
        struct excerpt x = {0};
        for (size_t at = 0; at < sizeof all - 1; at += step)
            excerpt_add(&x, all + at, at + step > sizeof all - 1 ? sizeof all - 1 - at : step);
        own_buf struct buf b = {0}, want = {0};
        excerpt_text(&x, &b);
        text_clean(&want, all, sizeof all - 1);
        assert_int_equal(b.len, want.len);
        assert_memory_equal(b.p, want.p, b.len);
    }
}

static void long_output_loses_its_middle(void **state) {
    (void)state;
    srand(7);
    for (int round = 0; round < 300; round++) {
        struct excerpt x = {0};
        own_buf struct buf all = {0}, b = {0};
        while (all.len < 40000) {
            char chunk[5000];
            size_t n = (size_t)rand() % sizeof chunk;
            for (size_t i = 0; i < n; i++)
                chunk[i] = (char)(round % 2 ? rand() : 'a' + rand() % 26);
            buf_add(&all, chunk, n);
            excerpt_add(&x, chunk, n);
        }
        excerpt_text(&x, &b);
        assert_true(is_text(b.p, b.len));
        assert_in_range(b.len, 1, 60000);
        const char *note = strstr(b.p, " bytes left out]\n");
        assert_non_null(note);
        if (round % 2)
            continue;
        size_t shown = b.len - strlen("\n[NNNNN bytes left out]\n"), left_out = strtoull(note - 5, NULL, 10);
        assert_int_equal(shown + left_out, all.len);
        assert_memory_equal(b.p, all.p, EXCERPT_HEAD);
        assert_memory_equal(b.p + b.len - EXCERPT_TAIL, all.p + all.len - EXCERPT_TAIL, EXCERPT_TAIL);
    }
}

/* --- live --- */

struct said {
    int pieces;
    struct buf all;
};

static void on_piece(void *ctx, const char *text, size_t len) {
    struct said *s = ctx;
    assert_true(is_text(text, len));
    assert_in_range(len, 1, LIVE_MAX);
    s->pieces++;
    buf_add(&s->all, text, len);
}

static void live_output_is_thinned(void **state) {
    (void)state;
    struct event_base *base = event_base_new();
    struct said said = {0};
    struct live *l = live_new(base, on_piece, &said);
    live_add(l, "first\xc3", 6); /* at once; the half character waits */
    assert_int_equal(said.pieces, 1);
    assert_string_equal(buf_text(&said.all), "first");
    live_add(l, "\xa9", 1);
    static char much[100000];
    memset(much, 0xff, sizeof much);
    for (int i = 0; i < 50; i++)
        live_add(l, much, sizeof much);
    live_add(l, "end", 3);
    assert_int_equal(said.pieces, 1);
    event_base_loop(base, EVLOOP_ONCE);
    assert_int_equal(said.pieces, 2);
    assert_non_null(strstr(said.all.p, " bytes left out]\n"));
    assert_string_equal(said.all.p + said.all.len - 3, "end");
    live_add(l, "forgotten", 9);
    live_end(l);
    event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(said.pieces, 2);
    live_free(l);
    event_base_free(base);
    buf_free(&said.all);
}

/* --- files --- */

/* The bytes of output `id`'s file, -1 when it is not there. */
static long size_of(uint64_t id) {
    char name[OUTPUTS_NAME_MAX];
    outputs_name(name, id);
    struct stat st;
    return fstatat(scratch, name, &st, 0) == 0 ? (long)st.st_size : -1;
}

static void whole_output_is_capped(void **state) {
    (void)state;
    struct outputs *o;
    assert_null(outputs_open(scratch, 1000, &o));
    assert_null(outputs_begin(o, 3));
    static char some[700];
    memset(some, 's', sizeof some);
    assert_null(outputs_add(o, some, sizeof some));
    assert_int_equal(size_of(3), 700);
    assert_null(outputs_add(o, some, sizeof some));
    assert_null(outputs_add(o, some, sizeof some));
    outputs_end(o);
    outputs_end(o);
    own_free char *path = xasprintf("%s/outputs/3", scratch_dir);
    own_buf struct buf b = {0};
    assert_null(fs_read(path, 2000, &b));
    assert_string_equal(b.p + 1000, "\n[1100 bytes more are not kept]\n");
    outputs_free(o);
}

static void old_outputs_make_room(void **state) {
    (void)state;
    struct outputs *o;
    assert_null(outputs_open(scratch, 1000, &o));
    static char some[900];
    for (uint64_t id = 1; id <= 20; id++) {
        assert_null(outputs_begin(o, id));
        assert_null(outputs_add(o, some, sizeof some));
    }
    outputs_end(o);
    for (uint64_t id = 1; id <= 20; id++)
        assert_int_equal(size_of(id), id <= 16 ? -1 : 900);
    for (uint64_t id = 100; id < 100 + 2 * OUTPUTS_FILES; id++)
        assert_null(outputs_begin(o, id));
    outputs_free(o);
    for (uint64_t id = 100; id < 100 + 2 * OUTPUTS_FILES; id++)
        assert_int_equal(size_of(id), id < 100 + OUTPUTS_FILES ? -1 : 0);
}

static void full_disk_ends_the_file_alone(void **state) {
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    struct outputs *o;
    assert_null(outputs_open(scratch, 1000, &o));
    assert_null(outputs_begin(o, 1));
    struct rlimit r;
    getrlimit(RLIMIT_FSIZE, &r);
    rlim_t was = r.rlim_cur;
    r.rlim_cur = 50;
    setrlimit(RLIMIT_FSIZE, &r);
    static char some[100];
    own_err err_t once = outputs_add(o, some, sizeof some);
    assert_non_null(once);
    assert_null(outputs_add(o, some, sizeof some)); /* said once */
    r.rlim_cur = was;
    setrlimit(RLIMIT_FSIZE, &r);
    outputs_end(o);
    assert_in_range(size_of(1), 50, 100);
    assert_null(outputs_begin(o, 2));
    assert_null(outputs_add(o, some, sizeof some));
    outputs_free(o);
    assert_int_equal(size_of(2), 100);
}

static void a_link_in_its_place_is_not_followed(void **state) {
    (void)state;
    struct outputs *o;
    assert_null(outputs_open(scratch, 1000, &o));
    own_free char *path = xasprintf("%s/outputs/1", scratch_dir),
                  *target = xasprintf("%s/target", scratch_dir);
    assert_int_equal(symlink(target, path), 0);
    own_err err_t e = outputs_begin(o, 1);
    assert_non_null(e);
    assert_null(outputs_add(o, "x", 1));
    outputs_free(o);
    assert_int_equal(access(target, F_OK), -1);
}

#define row(f) cmocka_unit_test_setup_teardown(f, scratch_up, scratch_down)
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_between_characters),
        cmocka_unit_test(cleans_any_bytes),
        cmocka_unit_test(short_output_is_shown_whole),
        cmocka_unit_test(long_output_loses_its_middle),
        cmocka_unit_test(live_output_is_thinned),
        row(whole_output_is_capped),
        row(old_outputs_make_room),
        row(full_disk_ends_the_file_alone),
        row(a_link_in_its_place_is_not_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
