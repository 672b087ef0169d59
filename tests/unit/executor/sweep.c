/* What is below a process is found by its parents, whatever it calls itself, and ended with all it makes meanwhile. */
#include "executor/sweep.h"
#include "base/own.h"
#include "base/procstat.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void test_name(void **state) {
    (void)state;
    char old[16];
    prctl(PR_GET_NAME, old);
    prctl(PR_SET_NAME, ") R 1 (x\n");
    struct procstat p;
    assert_true(procstat_read(getpid(), &p));
    prctl(PR_SET_NAME, old);
    assert_string_equal(p.name, ") R 1 (x\n");
    assert_int_equal(p.parent, getppid());
    assert_int_equal(p.state, 'R');
    assert_true(p.start > 0);
    assert_false(procstat_read(0x7ffffff0, &p));
}

/* A child that becomes the top of a tree: itself, `width` sleepers in sessions of their own, orphans among them. */
static pid_t make_tree(int width, int *ret_ready) {
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t top = fork();
    assert_true(top >= 0);
    if (top == 0) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        for (int i = 0; i < width; i++)
            if (fork() == 0) {
                setsid();
                if (i % 2 == 0 && fork() != 0)
                    _exit(0); /* its child is an orphan, which the top adopts */
                signal(SIGTERM, SIG_IGN);
                (void)!write(ready[1], "x", 1);
                for (;;)
                    pause();
            }
        for (;;)
            if (waitpid(-1, NULL, 0) < 0 && errno == ECHILD)
                _exit(0);
    }
    close(ready[1]);
    *ret_ready = ready[0];
    char c;
    for (int i = 0; i < width; i++)
        assert_int_equal(read(ready[0], &c, 1), 1);
    return top;
}

static void count(void *ctx, pid_t pid) {
    (void)pid;
    ++*(size_t *)ctx;
}

static void test_tree(void **state) {
    (void)state;
    enum { WIDTH = 12 };
    int ready;
    pid_t top = make_tree(WIDTH, &ready), other_top;
    int other;
    other_top = make_tree(2, &other);
    size_t seen = 0;
    assert_true(sweep_list(top, count, &seen) >= WIDTH); /* those that just ended may still be there */
    assert_true(seen >= WIDTH);
    sweep_kill(top);
    int status;
    assert_int_equal(waitpid(top, &status, 0), top); /* nothing is left, so it ended by itself */
    assert_int_equal(status, 0);
    assert_true(sweep_list(other_top, count, &seen) >= 2); /* and nobody else's */
    sweep_kill(other_top);
    assert_int_equal(waitpid(other_top, &status, 0), other_top);
    close(ready);
    close(other);
}

static void test_none(void **state) {
    (void)state;
    size_t seen = 0;
    assert_int_equal(sweep_list(getpid(), count, &seen), 0);
    sweep_kill(getpid());
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_name), cmocka_unit_test(test_tree),
                                       cmocka_unit_test(test_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
