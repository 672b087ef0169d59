/* Where an outbox is made, and where not: in a folder that is not its owner's, and through a link. */
#include "sealed/outbox_place.h"

#include "base/own.h"
#include "../scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { OWNER = 4711 };

static void refused(const char *home, uid_t owner) {
    struct outbox_place box;
    own_err err_t e = outbox_make_in(home, owner, "session", getuid(), getgid(), &box);
    assert_non_null(e);
    assert_int_equal(e->status, EXIT_POLICY);
    assert_int_equal(access("home/agent-cage-outbox", F_OK), -1);
}

static void made_in_its_owners_folder(void **state) {
    (void)state;
    own_free char *home = xasprintf("%s/home", scratch_dir),
                  *path = xasprintf("%s/agent-cage-outbox/session", home);
    struct outbox_place box;
    struct stat st;
    assert_int_equal(mkdir("home", 0755), 0);
    assert_int_equal(chown("home", OWNER, OWNER), geteuid() ? -1 : 0);
    own_err err_t e = outbox_make_in(home, geteuid() ? getuid() : OWNER, "session", getuid(), getgid(), &box);
    assert_null(e);
    assert_string_equal(box.path, path);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISDIR(st.st_mode) && (st.st_mode & 07777) == 0700);
    assert_int_equal(st.st_uid, geteuid() ? getuid() : OWNER);
    assert_int_equal(access("home/agent-cage-outbox/README", F_OK), 0);
    outbox_place_close(&box);
}

static void only_in_its_owners_folder(void **state) {
    (void)state;
    own_free char *home = xasprintf("%s/home", scratch_dir);
    assert_int_equal(mkdir("home", 0755), 0);
    refused(home, getuid() + 1);
}

static void through_no_link(void **state) {
    (void)state;
    own_free char *last = xasprintf("%s/link", scratch_dir), *within = xasprintf("%s/up/home", scratch_dir);
    assert_int_equal(mkdir("home", 0755), 0);
    assert_int_equal(symlink("home", "link"), 0);
    assert_int_equal(symlink(".", "up"), 0);
    refused(last, getuid());
    refused(within, getuid());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(made_in_its_owners_folder, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(only_in_its_owners_folder, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(through_no_link, scratch_up, scratch_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
