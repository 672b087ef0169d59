/*
 * A command that is ended takes its whole tree with it, wherever its processes hid; one that ends by itself
 * leaves what it meant to leave. In all three modes of keeping a command together.
 */
#include "bed.h"
#include "base/clock.h"
#include "base/own.h"
#include "wire/seq.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static uint64_t run;

/* Five processes that do not want to end: one of its own session, a double fork, a nohup, a deaf one. */
#define HIDE                                                                                                 \
    "trap '' TERM HUP INT; setsid nohup sleep 1000 >/dev/null 2>&1 & (sleep 1000 &) ; (setsid bash -c "      \
    "'(trap \"\" TERM; sleep 1000) & sleep 1000' &) ; "

static void expect_end(const char *how) {
    struct msg m;
    bed_hear(&bed, MSG_run_end, &m);
    assert_int_equal(m.run_end.run, run);
    if (strcmp(m.run_end.how.p, how) != 0)
        fail_msg("%s, not %s: %s", m.run_end.how.p, how, m.run_end.text.p);
    msg_free(&m);
}

static void expect_none(void) {
    int64_t ms = bed_until(&bed, 0);
    assert_true(ms >= 0);
    for (int i = 0; i < 2000 && bed_children(&bed); i++) /* and is reaped */
        poll(NULL, 0, 5);
    assert_int_equal(bed_children(&bed), 0);
    bed_settle(&bed, 20);
    assert_true(bed_groups(&bed) <= 1);
}

/* Waits until the command's processes are there. */
static void expect_some(size_t least) {
    int64_t start = clock_mono_ns();
    while (bed_count(&bed) < least && clock_mono_ns() - start < BED_MS * 1000000LL)
        poll(NULL, 0, 2);
    assert_true(bed_count(&bed) >= least);
}

static void say(const struct msg *m) {
    assert_null(seq_send(bed.agent, m));
}

static void halt(bool survivors) {
    struct msg m = {.type = MSG_run_halt};
    m.run_halt.survivors = survivors;
    say(&m);
}

static void test_timeout(void **state) {
    (void)state;
    bed_ask(&bed, ++run, HIDE "sleep 1000", 300, NULL);
    expect_end("timeout");
    expect_none();
    bed_ask(&bed, ++run, "sleep 1000", 100, NULL); /* one that obeys SIGTERM does not take the whole grace */
    int64_t start = clock_mono_ns();
    expect_end("timeout");
    assert_true(clock_mono_ns() - start < 1500000000LL);
    expect_none();
}

static void test_signal_9(void **state) {
    (void)state;
    bed_ask(&bed, ++run, HIDE "sleep 1000", 0, NULL);
    expect_some(6);
    struct msg m = {.type = MSG_run_signal};
    m.run_signal.run = run;
    m.run_signal.signo = SIGKILL;
    say(&m);
    expect_end("killed");
    expect_none();
}

static void test_dead_shim(void **state) {
    (void)state;
    char *const argv[] = {(char *)"bash", (char *)"-c", (char *)(HIDE "sleep 1000"), NULL};
    pid_t pid = bed_start((int[]){-1, -1, 2}, argv, NULL);
    expect_some(6);
    kill(pid, SIGKILL);
    bed_wait(pid);
    expect_none();
}

static void test_lost_agent(void **state) {
    (void)state;
    bed_ask(&bed, ++run, HIDE "sleep 1000", 0, NULL);
    expect_some(6);
    bed_link_agent(&bed);
    expect_none();
}

static void test_halt(void **state) {
    (void)state;
    bed_ask(&bed, ++run, HIDE "sleep 1000", 0, NULL);
    expect_some(6);
    halt(false);
    expect_end("killed");
    expect_none();
}

static uint64_t hear_survivors(uint64_t want) {
    struct msg m;
    int64_t start = clock_mono_ns();
    uint64_t count;
    do {
        bed_hear(&bed, MSG_ran_survivors, &m);
        count = m.ran_survivors.count;
        if (count == want && want)
            assert_non_null(strstr(m.ran_survivors.text.p, " sleep "));
        msg_free(&m);
    } while (count != want && clock_mono_ns() - start < BED_MS * 1000000LL);
    return count;
}

/* The answer comes at once though a survivor holds the pipe; the survivor is listed and lives until the halt. */
static void test_survivors(void **state) {
    (void)state;
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    int64_t start = clock_mono_ns();
    bed_ask(&bed, ++run, "sleep 1000 & setsid sleep 1000 & echo started", 0, (int[]){-1, out[1], -1});
    close(out[1]);
    expect_end("exit");
    assert_true(clock_mono_ns() - start < 5000000000LL);
    char text[32] = "";
    assert_int_equal(read(out[0], text, sizeof text), 8);
    assert_int_equal(hear_survivors(2), 2);
    halt(false); /* ends commands, not what outlived them */
    bed_settle(&bed, 100);
    assert_int_equal(bed_count(&bed), bed.mode == BED_MINDED ? 3 : 2); /* and their minder */
    halt(true);
    assert_int_equal(hear_survivors(0), 0);
    expect_none();
    close(out[0]);
}

static void test_shim_and_survivor(void **state) {
    (void)state;
    struct outcome o;
    int64_t start = clock_mono_ns();
    char *const argv[] = {(char *)"bash", (char *)"-c", (char *)"sleep 1000 & echo said", NULL};
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(bed_wait(bed_start((int[]){-1, out[1], 2}, argv, NULL)), 0);
    assert_true(clock_mono_ns() - start < 5000000000LL);
    (void)o;
    close(out[0]);
    close(out[1]);
    halt(true);
    expect_none();
}

static void test_stopped(void **state) {
    (void)state;
    bed_ask(&bed, ++run, "sleep 1000 & kill -STOP $! $$; sleep 1000", 300, NULL);
    expect_end("timeout");
    expect_none();
}

/* As many processes as the room may have, each making more. */
static void test_fork_storm(void **state) {
    (void)state;
    bed_ask(&bed, ++run,
            "trap '' TERM HUP INT; f() { f | f & }; f 2>/dev/null; while :; do f 2>/dev/null; done", 0, NULL);
    expect_some(200);
    int64_t start = clock_mono_ns();
    halt(true);
    expect_end("killed");
    int64_t answered = clock_mono_ns();
    expect_none();
    print_message("fork storm: answered %.1f ms, gone %.1f ms after the halt\n",
                  (double)(answered - start) / 1e6, (double)(clock_mono_ns() - start) / 1e6);
    bed_ask(&bed, ++run, "exit 0", 0, NULL);
    expect_end("exit");
}

/* Nothing from inside ends the broker, or what it has not been asked to end. */
static void test_attacks(void **state) {
    (void)state;
    bed_ask(&bed, ++run, "kill -9 1; kill -STOP 1; kill -TERM 1; cat /proc/1/mem; cat /proc/1/environ", 0,
            NULL);
    expect_end("exit");
    /* kill(-1) takes all commands along, this one included */
    bed_ask(&bed, ++run, "kill -9 -1", 0, NULL);
    struct msg m;
    bed_hear(&bed, MSG_run_end, &m);
    msg_free(&m);
    expect_none();
    bed_ask(&bed, ++run, "exit 0", 0, NULL);
    expect_end("exit");
}

enum { GROUP_PATH = 400 };

/* The folder of the one group that is ready for the next command. */
static void ready_group(char out[GROUP_PATH]) {
    *out = 0;
    for (int i = 0; i < 2000 && (bed_children(&bed) || bed_groups(&bed) != 1); i++)
        poll(NULL, 0, 5);
    DIR *dir = opendir(bed.cgroup_path);
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir));)
        if (!strncmp(d->d_name, "cmd-", 4))
            snprintf(out, GROUP_PATH, "%s/%s", bed.cgroup_path, d->d_name);
    closedir(dir);
    assert_int_not_equal(*out, 0);
}

static void one_more(char group[GROUP_PATH]) {
    bed_ask(&bed, ++run, "exit 0", 0, NULL);
    expect_end("exit");
    bed_settle(&bed, 20);
    ready_group(group);
}

/* A group that was left as it was made serves the next command; any other is made anew, also when it went. */
static void test_groups_again(void **state) {
    (void)state;
    if (bed.mode == BED_MINDED)
        return;
    char first[GROUP_PATH], next[GROUP_PATH], inner[GROUP_PATH + 8];
    one_more(first);
    one_more(next);
    assert_string_equal(next, first);
    assert_int_equal(rmdir(first), 0);
    one_more(next);
    assert_string_not_equal(next, first);
    snprintf(inner, sizeof inner, "%s/inner", next);
    assert_int_equal(mkdir(inner, 0755), 0);
    one_more(first);
    assert_string_not_equal(next, first);
    bed_ask(&bed, ++run, "sleep 1000", 0, NULL);
    expect_some(1);
    halt(false);
    expect_end("killed");
    one_more(next);
    assert_string_not_equal(next, first);
}

/* Without cgroups: who kills the minder of its own command ends everything, itself included. */
static void test_dead_minder(void **state) {
    (void)state;
    if (bed.mode != BED_MINDED)
        return;
    bed_ask(&bed, ++run, HIDE "kill -9 $PPID; sleep 1000", 0, NULL);
    struct msg m;
    bed_hear(&bed, MSG_run_end, &m);
    msg_free(&m);
    expect_none();
    bed_ask(&bed, ++run, "exit 0", 0, NULL);
    expect_end("exit");
}

/* The first child of a process; 0: it has none. */
static pid_t child_of(pid_t pid) {
    own_free char *path = xasprintf("/proc/%d/task/%d/children", pid, pid);
    own_file FILE *f = fopen(path, "re");
    int child;
    return f && fscanf(f, "%d", &child) == 1 ? child : 0;
}

/* Until it is ended: signals to the broker, or death to a minder that has just begun its command. */
static pid_t pester(bool kill_minders) {
    pid_t pid = fork();
    if (!pid)
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* of a test that fails */
    while (!pid) {
        pid_t minder = kill_minders ? child_of(bed.first) : 0;
        if (!kill_minders)
            kill(bed.first, SIGUSR1);
        else if (minder && child_of(minder))
            kill(minder, SIGKILL);
        usleep(kill_minders ? 0 : 100);
    }
    return pid;
}

static void leave_be(pid_t pid) {
    kill(pid, SIGKILL);
    bed_wait(pid);
}

static void test_signals_are_no_answer(void **state) {
    (void)state;
    pid_t pest = pester(false);
    for (int i = 0; i < 30; i++) {
        bed_ask(&bed, ++run, "exit 0", 0, NULL);
        expect_end("exit");
    }
    leave_be(pest);
}

/* Whenever it is that a minder dies, nothing of its command goes on unseen. */
static void test_minders_that_die_at_any_moment(void **state) {
    (void)state;
    if (bed.mode != BED_MINDED)
        return;
    pid_t pest = pester(true);
    for (int i = 0; i < 100; i++) {
        struct msg m;
        bed_ask(&bed, ++run, "sleep 1000", 0, NULL);
        bed_hear(&bed, MSG_run_end, &m);
        msg_free(&m);
        if (bed_until(&bed, 0) < 0)
            fail_msg("something of command %d goes on", i);
    }
    leave_be(pest);
    expect_none();
}

/* The warden's stop: everything is asked, then the room's process ends and with it the rest. */
static int stop(void **state) {
    (void)state;
    bed_ask(&bed, ++run, HIDE "sleep 1000", 0, NULL);
    expect_some(6);
    struct msg m = {.type = MSG_part_stop};
    m.part_stop.grace_ms = 200;
    assert_null(seq_send(bed.control, &m));
    assert_true(bed_until(&bed, 0) >= 0);
    return bed_remove(state);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    bed_root(argv[1], argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_signal_9),
        cmocka_unit_test(test_dead_shim),
        cmocka_unit_test(test_lost_agent),
        cmocka_unit_test(test_halt),
        cmocka_unit_test(test_survivors),
        cmocka_unit_test(test_shim_and_survivor),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_fork_storm),
        cmocka_unit_test(test_attacks),
        cmocka_unit_test(test_groups_again),
        cmocka_unit_test(test_dead_minder),
        cmocka_unit_test(test_signals_are_no_answer),
        cmocka_unit_test(test_minders_that_die_at_any_moment),
    };
    int failed = cmocka_run_group_tests_name("in a cgroup", tests, bed_up_grouped, stop);
    failed += cmocka_run_group_tests_name("moved into a cgroup", tests, bed_up_moved, stop);
    return failed + cmocka_run_group_tests_name("minded", tests, bed_up_minded, stop);
}
