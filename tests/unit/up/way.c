/* A folder on the way to the binary that root runs: who else could put another one there. */
#include "up/prepare.h"

#include "../scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <cmocka.h>

enum { SOMEBODY = 12345 };

static void only_roots_way_is_taken(void **state) {
    (void)state;
    AS_ROOT();
    static const struct {
        uid_t uid;
        gid_t gid;
        mode_t mode;
        bool good;
    } rows[] = {
        {0, 0, 0755, true},          {0, 0, 0711, true},         {0, 0, 0750, false},
        {0, 0, 0775, true},          {0, SOMEBODY, 0755, true},  {0, SOMEBODY, 0775, false},
        {0, SOMEBODY, 02775, false}, {0, SOMEBODY, 01775, true}, {0, 0, 0777, false},
        {0, 0, 01777, true},         {SOMEBODY, 0, 0755, false}, {SOMEBODY, 0, 01755, false},
    };
    own_free char *way = xasprintf("%s/a/bin/", scratch_dir);
    assert_int_equal(chmod(scratch_dir, 0755), 0);
    assert_int_equal(mkdir("a", 0755) | mkdir("a/bin", 0755), 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(chown("a", rows[i].uid, rows[i].gid) | chmod("a", rows[i].mode), 0);
        own_err err_t e = prepare_way(way);
        if (!e != rows[i].good)
            fail_msg("row %zu: %s", i, e ? err_text(e) : "taken");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_roots_way_is_taken, scratch_up, scratch_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
