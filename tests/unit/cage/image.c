/* Who else makes an image is waited for: said, and ended by what asks this process to end. */
#include "cage/half.h"
#include "cage/image.h"

#include "../scratch.h"
#include "../good.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
/* after the three above */
#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { WAIT_MS = 10000 };

static void say(void *ctx, const char *line) {
    dprintf(*(int *)ctx, "%s\n", line);
}

/* A process that wants the workbench: what it says comes from *ret_said, its error's status is how it ends. */
static pid_t wanting(int *ret_said) {
    int said[2];
    assert_int_equal(pipe2(said, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves it waiting */
        own_free char *root = NULL;
        own_free char *images = xasprintf("%s/images", scratch_dir);
        own_err err_t e = image_workbench(images, say, &said[1], &root);
        say(&said[1], err_text(e));
        _exit(e ? e->status : 0);
    }
    close(said[1]);
    *ret_said = said[0];
    return pid;
}

static void hear(int fd, struct buf *all, const char *what) {
    while (!strstr(buf_text(all), what)) {
        struct pollfd p = {fd, POLLIN, 0};
        char chunk[512];
        ssize_t n = poll(&p, 1, WAIT_MS) > 0 ? read(fd, chunk, sizeof chunk) : -1;
        if (n <= 0)
            fail_msg("no \"%s\" in: %s", what, buf_text(all));
        buf_add(all, chunk, (size_t)n);
    }
}

static int status_of(pid_t pid) {
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_wait_is_said_and_can_be_ended(void **state) {
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    own_free char *others = xasprintf("images/.new-%d", (int)getpid());
    own_free char *who =
        xasprintf("waiting for the image that another process (pid %d) makes", (int)getpid());
    own_fd int held = -1;
    assert_int_equal(mkdir("images", 0700), 0);
    NO_ERROR(half_lock("images", &held));
    assert_int_equal(mkdir(others, 0700), 0);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        own_buf struct buf all = {0};
        own_fd int said = -1;
        pid_t pid = wanting(&said);
        hear(said, &all, who);
        kill(pid, signals[i]);
        hear(said, &all, "stopped; the other process goes on with the image");
        assert_int_equal(status_of(pid), 128 + signals[i]);
        assert_null(strstr(buf_text(&all), "removed"));
        assert_int_equal(access(others, F_OK), 0);
    }
}

static void count(void *ctx, pid_t maker) {
    assert_int_equal(maker, 0);
    ++*(int *)ctx;
}

static void the_lock_is_had_once_it_is_free(void **state) {
    (void)state;
    int waits = 0, held = -1;
    own_fd int mine = -1, none = -1;
    NO_ERROR(half_lock(".", &held));
    assert_int_equal(mkdir(".new-1", 0700), 0); /* the number of nobody who could be meant */
    pid_t pid = fork();
    if (!pid) {
        poll(NULL, 0, 300);
        _exit(0);
    }
    close(held); /* the child has it still, for a while */
    NO_ERROR(half_lock_until(".", -1, count, &waits, &mine));
    assert_true(mine >= 0);
    assert_int_equal(waits, 1);
    assert_int_equal(status_of(pid), 0);
    int stop[2];
    assert_int_equal(pipe2(stop, O_CLOEXEC), 0);
    close(stop[1]);
    NO_ERROR(half_lock_until(".", stop[0], count, &waits, &none));
    assert_int_equal(none, -1);
    close(stop[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_wait_is_said_and_can_be_ended, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(the_lock_is_had_once_it_is_free, scratch_up, scratch_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
