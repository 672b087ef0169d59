/* Programs run exactly as described: environment, folder, descriptors, bounds, time. */
#include "base/proc.h"
#include "base/clock.h"
#include "base/own.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* Runs a shell line (the test's, not the product's) and returns its status. */
static int sh(struct proc_spec spec, const char *line) {
    const char *argv[] = {"sh", "-c", line, NULL};
    spec.argv = argv;
    int status = -1;
    err_t e = proc_run(&spec, &status);
    if (e)
        print_error("%s\n", err_text(e));
    assert_null(e);
    return status;
}

static void captures_apart(void **state) {
    (void)state;
    own_buf struct buf out = {0}, err = {0};
    int status = sh((struct proc_spec){.out = &out, .err_out = &err}, "echo out; echo err >&2; exit 7");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_string_equal(buf_text(&out), "out\n");
    assert_string_equal(buf_text(&err), "err\n");
}

static void knows_only_its_environment(void **state) {
    (void)state;
    setenv("SECRET", "1", 1);
    own_buf struct buf out = {0};
    const char *argv[] = {"env", NULL};
    int status;
    assert_null(proc_run(&(struct proc_spec){.argv = argv, .out = &out}, &status));
    assert_string_equal(buf_text(&out), "PATH=" PROC_PATH "\nLC_ALL=C.UTF-8\nHOME=/root\n");
    own_buf struct buf where = {0};
    sh((struct proc_spec){.out = &where}, "pwd");
    assert_string_equal(buf_text(&where), "/\n");
}

static void passes_input(void **state) {
    (void)state;
    own_buf struct buf out = {0};
    sh((struct proc_spec){.input = "a\nb\n", .out = &out}, "cat");
    assert_string_equal(buf_text(&out), "a\nb\n");
    buf_clear(&out);
    sh((struct proc_spec){.out = &out}, "cat; echo end");
    assert_string_equal(buf_text(&out), "end\n");
}

static void passes_listed_descriptors_alone(void **state) {
    (void)state;
    int a[2], b[2], stray = open("/dev/null", O_RDONLY); /* not close-on-exec, on purpose */
    assert_int_equal(pipe(a), 0);
    assert_int_equal(pipe(b), 0);
    own_buf struct buf out = {0};
    /* Given in the reverse order of their numbers, so that one's place is the other's number. */
    sh((struct proc_spec){.keep = {b[1], a[1]}, .nkeep = 2, .out = &out},
       "echo three >&3; echo four >&4; ls /proc/self/fd | tr '\\n' ' '");
    char got[16] = "";
    assert_int_equal(read(b[0], got, sizeof got - 1), 6);
    assert_string_equal(got, "three\n");
    assert_int_equal(read(a[0], got, sizeof got - 1), 5);
    /* ls itself has the folder open as 5 */
    assert_string_equal(buf_text(&out), "0 1 2 3 4 5 ");
    close(stray);
    for (int i = 0; i < 2; i++)
        close(a[i]), close(b[i]);
}

static void bounds_output(void **state) {
    (void)state;
    own_buf struct buf out = {0};
    int status = sh((struct proc_spec){.out = &out}, "head -c 5000000 /dev/zero; exit 3");
    assert_int_equal(WEXITSTATUS(status), 3);
    assert_int_equal(out.len, PROC_OUTPUT_MAX);
}

static void kills_the_group_when_time_is_up(void **state) {
    (void)state;
    own_buf struct buf out = {0};
    const char *argv[] = {"sh", "-c", "trap '' TERM; sleep 60 & echo $!; wait; sleep 60", NULL};
    int64_t before = clock_mono_ns();
    int status;
    own_err err_t e = proc_run(&(struct proc_spec){.argv = argv, .timeout_ms = 300, .out = &out}, &status);
    assert_non_null(e);
    assert_int_equal(e->status, EXIT_TIMED_OUT);
    assert_true(clock_mono_ns() - before < 10 * INT64_C(1000000000));
    pid_t child = (pid_t)strtol(buf_text(&out), NULL, 10);
    assert_true(child > 1);
    for (int i = 0; i < 1000 && kill(child, 0) == 0; i++) { /* until init has reaped it, or it is a zombie */
        char path[64], text[512] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
        own_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, text, sizeof text - 1) <= 0 || strstr(text, ") Z "))
            return;
        usleep(10000);
    }
    assert_int_not_equal(kill(child, 0), 0);
}

static void does_not_wait_for_a_grandchild(void **state) {
    (void)state;
    own_buf struct buf out = {0};
    int64_t before = clock_mono_ns();
    sh((struct proc_spec){.out = &out}, "sleep 20 & echo $!");
    assert_true(clock_mono_ns() - before < 10 * INT64_C(1000000000));
    kill((pid_t)strtol(buf_text(&out), NULL, 10), SIGKILL);
}

static void says_what_could_not_run(void **state) {
    (void)state;
    own_err err_t e = proc_call("no-such-program-here", NULL);
    assert_int_equal(e->status, EXIT_NOTFOUND);
    own_err err_t dir = proc_call("/etc", NULL); /* a folder: found, not executable */
    assert_non_null(dir);
    own_err err_t failed = proc_call("sh", "-c", "printf 'a\\033[31mb\\n' >&2; exit 9", NULL);
    assert_non_null(strstr(err_text(failed), "status 9"));
    assert_non_null(strstr(err_text(failed), "a\\x1b[31mb"));
    own_err err_t killed = proc_call("sh", "-c", "kill -9 $$", NULL);
    assert_non_null(strstr(err_text(killed), "signal 9"));
    const char *argv[] = {"true", NULL};
    own_err err_t where = proc_must(&(struct proc_spec){.argv = argv, .dir = "/no/such/folder"});
    assert_non_null(strstr(err_text(where), "start folder"));
}

static void leaks_nothing(void **state) {
    (void)state;
    int before = dup(0);
    close(before);
    for (int i = 0; i < 20; i++) {
        err_free(proc_call("no-such-program-here", NULL));
        assert_null(proc_call("true", NULL));
        err_free(proc_call("false", NULL));
    }
    int after = dup(0);
    close(after);
    assert_int_equal(before, after);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

static void closes_all_but_the_kept(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        int fds[8];
        for (int i = 0; i < 8; i++)
            fds[i] = fcntl(0, F_DUPFD, 20);
        fds_close_from(20, (const int[]){fds[6], fds[1], -1}, 3);
        for (int i = 0; i < 8; i++)
            if ((fcntl(fds[i], F_GETFD) >= 0) != (i == 1 || i == 6))
                _exit(1);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void ends_when_it_is_told(void **state) {
    (void)state;
    int pipe_ends[2], status;
    assert_int_equal(pipe(pipe_ends), 0);
    assert_int_equal(write(pipe_ends[1], "x", 1), 1);
    const char *argv[] = {"sleep", "100", NULL};
    int64_t from = clock_mono_ns();
    own_err err_t e = proc_run(&(struct proc_spec){.argv = argv, .until = pipe_ends[0]}, &status);
    assert_string_equal(err_text(e), "sleep was stopped");
    assert_true(clock_mono_ns() - from < INT64_C(20000000000));
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

/* The pipe's writing end is the sleeper's alone once the runner is dead. */
static volatile sig_atomic_t ticks;

static void on_tick(int signo) {
    (void)signo;
    if (++ticks > 200) /* ten seconds: it does not end */
        _exit(99);
}

static void goes_on_after_a_signal(void **state) {
    (void)state;
    struct sigaction was;
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_tick}, &was);
    struct itimerval each = {{0, 50000}, {0, 50000}}, off = {0};
    setitimer(ITIMER_REAL, &each, NULL);
    int status = sh((struct proc_spec){0}, "sleep 0.5; exit 3");
    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &was, NULL);
    assert_int_equal(WEXITSTATUS(status), 3);
    assert_true(ticks > 0);
}

static void dies_with_its_runner(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t runner = fork();
    if (runner == 0) {
        const char *argv[] = {"sh", "-c", "echo >&3; sleep 100 & wait", NULL};
        const char *apart[] = {"unshare", "--pid", "--fork", "--kill-child", argv[0], argv[1], argv[2], NULL};
        close(ends[0]);
        err_free(proc_must(&(struct proc_spec){
            .argv = geteuid() ? argv : apart, .with_us = true, .keep = {ends[1]}, .nkeep = 1}));
        _exit(0);
    }
    close(ends[1]);
    char c;
    assert_int_equal(read(ends[0], &c, 1), 1); /* it runs */
    kill(runner, SIGKILL);
    waitpid(runner, NULL, 0);
    if (!geteuid())
        assert_int_equal(read(ends[0], &c, 1), 0); /* and all of it is gone */
    close(ends[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captures_apart),
        cmocka_unit_test(knows_only_its_environment),
        cmocka_unit_test(passes_input),
        cmocka_unit_test(passes_listed_descriptors_alone),
        cmocka_unit_test(bounds_output),
        cmocka_unit_test(kills_the_group_when_time_is_up),
        cmocka_unit_test(does_not_wait_for_a_grandchild),
        cmocka_unit_test(ends_when_it_is_told),
        cmocka_unit_test(goes_on_after_a_signal),
        cmocka_unit_test(dies_with_its_runner),
        cmocka_unit_test(says_what_could_not_run),
        cmocka_unit_test(leaks_nothing),
        cmocka_unit_test(closes_all_but_the_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
