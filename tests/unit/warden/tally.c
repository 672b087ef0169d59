/* A room of a sealed agent that cannot be removed: what it reached is not known, and the session knows that. */
#include "warden/tally.h"

#include "base/fs.h"
#include "base/own.h"
#include "base/paths.h"
#include "sealed/reached.h"
#include "warden/control.h"
#include "warden/start.h"
#include "warden/warden.h"
#include "../scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct warden w;

/* ---- in place of the warden's, by the linker ---- */

err_t __wrap_clear_ward(struct ward *d, struct ward_exit *how);
err_t __wrap_clear_ward(struct ward *d, struct ward_exit *how) {
    (void)d, (void)how;
    return err_new(EXIT_FAILED, "it stays");
}

void __wrap_control_end(struct ward *d);
void __wrap_control_end(struct ward *d) {
    (void)d;
}

void __wrap_switchboard_down(struct ward *d);
void __wrap_switchboard_down(struct ward *d) {
    (void)d;
}

void __wrap_box_changed(struct box *b);
void __wrap_box_changed(struct box *b) {
    if (b->ward[ROOM_EXECUTOR].state == WARD_ABSENT)
        event_base_loopbreak(w.base);
}

void __wrap_warden_changed(struct warden *of);
void __wrap_warden_changed(struct warden *of) {
    (void)of;
}

/* ---- */

static void what_cannot_be_removed_is_a_gap(void **state) {
    (void)state;
    AS_ROOT();
    own_free char *dir = path_of(DIR_LIB "/agents/odd/session"), *before = xasprintf("%s/before", dir),
                  *file = xasprintf("%s/reached", dir);
    static char name[] = "odd";
    struct box box = {.w = &w, .conf = {.name = name, .mode = MODE_SEALED, .net = NET_SEALED}};
    struct ward *d = &box.ward[ROOM_EXECUTOR];
    own_reached struct reached r = {0};
    assert_null(fs_dirs(dir));
    assert_null(fs_write(before, "", 0, 0, 0, 0600));
    w.base = event_base_new();
    ward_init(d, &w, &box, WARD_EXECUTOR);
    d->state = WARD_STOPPING;
    ward_event(d, WARD_LOST);
    event_base_dispatch(w.base);
    assert_int_equal(d->state, WARD_ABSENT);
    assert_null(reached_recall(file, &r));
    assert_true(r.gaps);
    ward_drop(d);
    event_base_free(w.base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_cannot_be_removed_is_a_gap, scratch_fleet_up,
                                        scratch_fleet_down),
    };
    return cmocka_run_group_tests_name("warden/tally", tests, NULL, NULL);
}
