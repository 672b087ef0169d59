/* A start that fails is an error with its cause and leaves no process; one that works has nothing of ours. */
#include "executor/spawn.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
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

enum { STARTS = 2000 };

static char dir[] = "/tmp/unit-spawn-XXXXXX";

static err_t start(const char *exe, const char *cwd, const char *text, int out, pid_t *ret) {
    char *words[] = {NULL, (char *)(uintptr_t)exe, (char *)"-c", (char *)(uintptr_t)text, NULL};
    char *env[] = {NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), high = fcntl(null, F_DUPFD_CLOEXEC, 10);
    int high_out = fcntl(out >= 0 ? out : null, F_DUPFD_CLOEXEC, 10);
    struct spawn s = {.exe = exe,
                      .path = "/n:/o:/w:/h:/e:/r:/nowhere:/usr/bin:/bin",
                      .args = {words + 1},
                      .env = env,
                      .cwd = cwd,
                      .fds = {high, high_out, high},
                      .cgroup = -1,
                      .procs = -1};
    err_t e = spawn(&s, ret);
    close(null);
    close(high);
    close(high_out);
    return e;
}

static void expect_error(const char *exe, const char *cwd, int status, int errnum) {
    pid_t pid;
    own_err err_t e = start(exe, cwd, "true", -1, &pid);
    assert_non_null(e);
    assert_int_equal(e->status, status);
    assert_int_equal(e->errnum, errnum);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    assert_int_equal(errno, ECHILD);
}

static void test_refusals(void **state) {
    (void)state;
    expect_error("no-such-program", "/", EXIT_NOTFOUND, ENOENT);
    expect_error("/no/such/program", "/", EXIT_NOTFOUND, ENOENT);
    expect_error("/etc/passwd", "/", EXIT_POLICY, EACCES);
    expect_error("/tmp", "/", EXIT_POLICY, EACCES);
    expect_error("bash", "/no/such/folder", EXIT_POLICY, ENOENT);
    expect_error("bash", "/etc/passwd", EXIT_POLICY, ENOTDIR);
}

static void expect_says(const char *exe, const char *cwd, const char *text, const char *want) {
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t pid;
    err_t e = start(exe, cwd, text, out[1], &pid);
    if (e)
        fail_msg("%s", err_text(e));
    close(out[1]);
    char said[512];
    size_t n = 0;
    for (ssize_t k; (k = read(out[0], said + n, sizeof said - 1 - n)) > 0;)
        n += (size_t)k;
    said[n] = 0;
    close(out[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_string_equal(said, want);
}

static void test_child(void **state) {
    (void)state;
    expect_says("bash", "/usr", "pwd", "/usr\n");
    expect_says("bash", "/", "ps -o sid= -p $$ | grep -qw $$ && echo leads", "leads\n");
    expect_says("bash", "/", "exec grep SigBlk /proc/self/status", "SigBlk:\t0000000000000000\n");
    expect_says("bash", "/", "yes | head -1; echo ${PIPESTATUS[0]}", "y\n141\n");
    expect_says("bash", "/", "exec ls /proc/self/fd", "0\n1\n2\n3\n");
}

/* As execvp: what the kernel does not know as a program is a script for /bin/sh. */
static void test_script(void **state) {
    (void)state;
    own_free char *path = xasprintf("%s/script", dir);
    own_fd int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    static const char text[] = "echo script $1\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    own_closep(&fd);
    expect_says(path, "/", "x", "script -c\n");
    expect_says("./script", dir, "x", "script -c\n");
}

static void heard(int signo) {
    (void)signo;
}

/* Whoever runs under this uid can send signals: one that interrupts the wait is not taken for why a folder has no such program. */
static void test_signals_meanwhile(void **state) {
    (void)state;
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = heard}, NULL);
    pid_t sender = fork();
    if (!sender)
        for (prctl(PR_SET_PDEATHSIG, SIGKILL); !kill(getppid(), SIGUSR1);)
            ;
    for (int i = 0; i < STARTS; i++) {
        pid_t pid;
        err_t e = start("true", "/", "", -1, &pid);
        if (e)
            fail_msg("start %d: %s", i, err_text(e));
        while (waitpid(pid, NULL, 0) < 0)
            assert_int_equal(errno, EINTR);
    }
    kill(sender, SIGKILL);
    while (waitpid(sender, NULL, 0) < 0)
        assert_int_equal(errno, EINTR);
}

static int make_dir(void **state) {
    (void)state;
    signal(SIGPIPE, SIG_IGN); /* as in the broker */
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_dir(void **state) {
    (void)state;
    own_free char *path = xasprintf("%s/script", dir);
    unlink(path);
    return rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refusals), cmocka_unit_test(test_child),
                                       cmocka_unit_test(test_script),
                                       cmocka_unit_test(test_signals_meanwhile)};
    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
