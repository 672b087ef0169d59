/* Shares of the processors from /proc/stat, and the disk's hysteresis. */
#include "warden/state.h"
#include "warden/disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void parses(void **state) {
    (void)state;
    struct cpu_ticks t;
    assert_true(cpu_parse("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3 4", &t));
    assert_int_equal(t.busy, 150);
    assert_int_equal(t.all, 1000);
    assert_true(cpu_parse("cpu  1 2 3 4", &t)); /* old kernels have fewer columns */
    assert_false(cpu_parse("cpu  1 2 3", &t));
    assert_false(cpu_parse("intr 1 2 3 4 5", &t));
    assert_false(cpu_parse("", &t));
}

static void shares(void **state) {
    (void)state;
    struct cpu_ticks from = {150, 1000}, half = {200, 1100}, idle = {150, 1100}, full = {250, 1100};
    assert_int_equal(cpu_share(&from, &half), 50);
    assert_int_equal(cpu_share(&from, &idle), 0);
    assert_int_equal(cpu_share(&from, &full), 100);
    assert_int_equal(cpu_share(&from, &from), 0); /* no time has passed */
    assert_int_equal(cpu_share(&half, &from), 0); /* counters that went back (a container that moved) */
}

static void hysteresis(void **state) {
    (void)state;
    uint64_t reserve = 1000;
    assert_int_equal(disk_step(1000, reserve, false), DISK_LEAVE);
    assert_int_equal(disk_step(999, reserve, false), DISK_FREEZE);
    assert_int_equal(disk_step(0, reserve, true), DISK_LEAVE);
    assert_int_equal(disk_step(1000, reserve, true), DISK_LEAVE);
    assert_int_equal(disk_step(1099, reserve, true), DISK_LEAVE);
    assert_int_equal(disk_step(1100, reserve, true), DISK_THAW);
    assert_int_equal(disk_step(0, 0, false), DISK_LEAVE); /* no reserve: never */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parses), cmocka_unit_test(shares),
                                       cmocka_unit_test(hysteresis)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
