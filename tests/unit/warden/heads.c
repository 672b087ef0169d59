/* The heads of the audit chain: only rising, never changed, also over restarts, torn lines and a full disk. */
#include "warden/heads.h"
#include "../scratch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static int tear_down(void **state) {
    heads_close();
    return scratch_fleet_down(state);
}

static void ok(err_t e) {
    if (e)
        fail_msg("%s", err_text(e));
}

static void refused(err_t e, int status) {
    assert_non_null(e);
    assert_int_equal(e->status, status);
    err_free(e);
}

static err_t keep(uint64_t seq, char fill) {
    char hash[32];
    memset(hash, fill, sizeof hash);
    return heads_keep(seq, hash, sizeof hash);
}

static size_t lines(void) {
    own_free char *path = path_of(PATH_HEADS);
    own_buf struct buf b = {0};
    ok(fs_read(path, 1 << 20, &b));
    size_t n = 0;
    for (size_t i = 0; i < b.len; i++)
        n += b.p[i] == '\n';
    return n;
}

static void only_rises(void **state) {
    (void)state;
    ok(heads_open());
    ok(keep(1, 1));
    ok(keep(7, 2));
    refused(keep(6, 3), EXIT_POLICY);
    refused(keep(7, 3), EXIT_POLICY); /* the same number, another hash */
    ok(keep(7, 2));                   /* the same head again says nothing new */
    assert_int_equal(lines(), 2);
    refused(heads_keep(8, "short", 5), EXIT_USAGE);
}

static void remembers(void **state) {
    (void)state;
    ok(heads_open());
    ok(keep(UINT64_MAX - 1, 9));
    ok(heads_open()); /* a restarted warden */
    refused(keep(5, 9), EXIT_POLICY);
    refused(keep(UINT64_MAX - 1, 8), EXIT_POLICY);
    ok(keep(UINT64_MAX, 9));
}

static void cuts_a_torn_line(void **state) {
    (void)state;
    ok(heads_open());
    ok(keep(3, 1));
    own_free char *path = path_of(PATH_HEADS);
    int fd = open(path, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "4 0123", 6), 6);
    close(fd);
    ok(heads_open());
    assert_int_equal(lines(), 1);
    refused(keep(3, 2), EXIT_POLICY);
    ok(keep(4, 2));
    assert_int_equal(lines(), 2);
}

static void stays_small(void **state) {
    (void)state;
    ok(heads_open());
    for (uint64_t seq = 1; seq <= 30000; seq++)
        ok(keep(seq, (char)seq));
    assert_in_range(lines(), 3000, 15000);
    ok(heads_open());
    refused(keep(29999, 1), EXIT_POLICY);
    refused(keep(30000, 1), EXIT_POLICY);
    ok(keep(30000, (char)30000));
    ok(keep(30001, 1));
}

static void refuses_a_file_that_is_none(void **state) {
    (void)state;
    own_free char *path = path_of(PATH_HEADS);
    ok(fs_write(path, "hello\n", 6, getuid(), getgid(), 0600));
    refused(heads_open(), EXIT_FAILED);
    ok(fs_remove(path));
    assert_int_equal(symlink("/etc/passwd", path), 0);
    refused(heads_open(), EXIT_FAILED);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, scratch_fleet_up, tear_down)
    const struct CMUnitTest tests[] = {T(only_rises), T(remembers), T(cuts_a_torn_line), T(stays_small),
                                       T(refuses_a_file_that_is_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
