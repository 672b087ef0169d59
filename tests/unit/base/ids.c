/* Uid ranges, on files of the test's own. */
#include "base/ids.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/names.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[64];

static void good(err_t e) {
    if (e)
        fail_msg("%s", err_text(e));
}

static void put(const char *file, const char *text) {
    own_free char *path = xasprintf("%s/etc/%s", dir, file);
    good(fs_write(path, text, strlen(text), geteuid(), getegid(), 0644));
}

static char *get(const char *file) {
    own_free char *path = xasprintf("%s/etc/%s", dir, file);
    own_buf struct buf b = {0};
    good(fs_read(path, 1 << 20, &b));
    return buf_take(&b);
}

static int set_up(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/unit-ids-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    own_free char *etc = xasprintf("%s/etc", dir);
    good(fs_dirs(etc));
    ids_etc(dir);
    put("passwd",
        "root:x:0:0:root:/root:/bin/sh\ncage_relay:x:990:991::/:/bin/false\nodd:x:992:992::home:/\n");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    ids_etc("");
    good(fs_remove(dir));
    return 0;
}

static void accounts(void **state) {
    (void)state;
    uid_t uid = 0;
    gid_t gid = 0;
    good(ids_account("cage_relay", &uid, &gid));
    assert_int_equal(uid, 990);
    assert_int_equal(gid, 991);
    own_err err_t e = ids_account("cage_rela", &uid, &gid);
    assert_int_equal(e->status, EXIT_NOTFOUND);
    own_free char *name = ids_name(990), *none = ids_name(991);
    assert_string_equal(name, "cage_relay");
    assert_null(none);
    own_free char *home = ids_home(0), *relative = ids_home(992), *nobodys = ids_home(993);
    assert_string_equal(home, "/root");
    assert_true(!relative && !nobodys);
}

static void reserves_and_rises(void **state) {
    (void)state;
    put("subuid", "me:100000:65536\nodd line\nother:1879048192:1"); /* no newline at the end */
    uint32_t a = 0, b = 0;
    good(ids_next_range("", dir, &a));
    good(ids_next_range("", dir, &b));
    assert_int_equal(a, IDS_FIRST + UIDS_EACH); /* the first is taken by other's one id */
    assert_int_equal(b, a + UIDS_EACH);
    own_free char *subuid = get("subuid"), *subgid = get("subgid");
    assert_string_equal(subuid, "me:100000:65536\nodd line\nother:1879048192:1\ncage:1879113728:16777216\n");
    assert_string_equal(subgid, "cage:1879113728:16777216\n");
    uint64_t n = 0;
    good(ids_reserved("", &n));
    assert_int_equal(n, IDS_BLOCK);
    good(ids_drop(""));
    own_free char *after = get("subuid");
    assert_string_equal(after, "me:100000:65536\nodd line\nother:1879048192:1\n");
    good(ids_next_range("", dir, &a)); /* a dropped block does not bring the mark back */
    assert_true(a >= b + UIDS_EACH);
}

static void fleets_do_not_meet(void **state) {
    (void)state;
    own_free char *one = xasprintf("%s/one", dir), *two = xasprintf("%s/two", dir);
    good(fs_dirs(one));
    good(fs_dirs(two));
    uint32_t a = 0, b = 0;
    good(ids_next_range("", one, &a));
    good(ids_next_range("t1_", two, &b));
    assert_int_equal(b - a, IDS_BLOCK);
    assert_true(ids_ours("t1_", b + UIDS_EACH - 1) && ids_ours("", a));
    assert_false(ids_ours("t1_", a) || ids_ours("", b) || ids_ours("t1_", b + IDS_BLOCK) ||
                 ids_ours("", 1000));
    good(ids_drop("t1_"));
    uint64_t n = 0;
    good(ids_reserved("", &n));
    assert_int_equal(n, IDS_BLOCK);
}

static void a_second_block_when_the_first_is_used_up(void **state) {
    (void)state;
    uint32_t first = 0, next = 0;
    good(ids_next_range("", dir, &first));
    own_free char *mark = xasprintf("%s/next-uid", dir), *text = xasprintf("%u\n", first + IDS_BLOCK);
    good(fs_write(mark, text, strlen(text), geteuid(), getegid(), 0600));
    good(ids_next_range("", dir, &next));
    assert_int_equal(next, first + IDS_BLOCK);
    uint64_t n = 0;
    good(ids_reserved("", &n));
    assert_int_equal(n, 2 * IDS_BLOCK);
}

static void heals_one_file_of_two(void **state) {
    (void)state;
    put("subuid", "cage:1879113728:16777216\n");
    uint64_t n;
    own_err err_t e = ids_reserved("", &n);
    assert_non_null(e);
    uint32_t a = 0;
    good(ids_next_range("", dir, &a));
    assert_int_equal(a, 1879113728);
    good(ids_reserved("", &n));
}

static void full_and_broken(void **state) {
    (void)state;
    put("subuid", "hog:1879048192:2415919104\n");
    uint32_t a = 7;
    own_err err_t e = ids_next_range("", dir, &a);
    assert_non_null(e);
    put("subuid", "");
    own_free char *mark = xasprintf("%s/next-uid", dir);
    good(fs_write(mark, "12x\n", 4, geteuid(), getegid(), 0600));
    own_err err_t broken = ids_next_range("", dir, &a);
    assert_non_null(broken);
    assert_int_equal(a, 7);
}

/* Many at once: every range is given once. */
static void side_by_side(void **state) {
    (void)state;
    enum { MANY = 8, EACH = 10 };
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    for (int i = 0; i < MANY; i++)
        if (fork() == 0) {
            for (int k = 0; k < EACH; k++) {
                uint32_t a = 0;
                err_free(ids_next_range("", dir, &a));
                (void)!write(fds[1], &a, sizeof a);
            }
            _exit(0);
        }
    close(fds[1]);
    uint32_t seen[MANY * EACH], n = 0;
    while (n < MANY * EACH && read(fds[0], &seen[n], sizeof seen[n]) == sizeof seen[n]) {
        assert_true(seen[n] >= IDS_FIRST);
        for (uint32_t k = 0; k < n; k++)
            assert_int_not_equal(seen[k], seen[n]);
        n++;
    }
    assert_int_equal(n, MANY * EACH);
    close(fds[0]);
    while (wait(NULL) > 0)
        ;
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(accounts),
        T(reserves_and_rises),
        T(fleets_do_not_meet),
        T(a_second_block_when_the_first_is_used_up),
        T(heals_one_file_of_two),
        T(full_and_broken),
        T(side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
