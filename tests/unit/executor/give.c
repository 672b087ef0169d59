/* Opening a file of an outbox, against all that code in the room may have put in its place. */
#include "executor/give.h"

#include "base/clock.h"
#include "proto/file_name.h"
#include "wire/seq.h"
#include "../scratch.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <cmocka.h>

static char box[64];

static int up(void **state) {
    int failed = scratch_up(state);
    snprintf(box, sizeof box, "%s/outbox", scratch_dir);
    return failed || mkdir(box, 0700) || chdir(box);
}

static void put(const char *name) {
    own_fd int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
}

static void refused(const char *name, int status) {
    own_fd int fd = -1;
    uint64_t size = 0;
    int64_t began = clock_mono_ns();
    own_err err_t e = give_open(box, bytes_of(name), &fd, &size);
    if (!e || e->status != status)
        fail_msg("%s: %s", name, e ? err_text(e) : "opened");
    assert_true(fd < 0 && clock_mono_ns() - began < 1000000000);
}

static void plain_file(void **state) {
    (void)state;
    own_fd int fd = -1;
    uint64_t size = 0;
    put("file");
    own_err err_t e = give_open(box, bytes_of("file"), &fd, &size);
    assert_null(e);
    assert_true(fd >= 0 && size == 1);
    assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    refused("missing", EXIT_NOTFOUND);
}

static void links(void **state) {
    (void)state;
    put("file");
    put("../outside");
    static const char *const to[] = {"file",  "/etc/hostname",   "nothing",
                                     "self4", "/proc/self/fd/0", "../outside"};
    for (size_t i = 0; i < COUNT(to); i++) {
        own_free char *name = xasprintf("self%zu", i + 1);
        assert_int_equal(symlink(to[i], name), 0);
        refused(name, EXIT_POLICY);
    }
    assert_int_equal(link("file", "second"), 0);
    refused("second", EXIT_POLICY);
    refused("file", EXIT_POLICY);
    assert_int_equal(link("../outside", "hard"), 0);
    refused("hard", EXIT_POLICY);
}

static void ways_out(void **state) {
    (void)state;
    put("../outside");
    assert_int_equal(mkdir("folder", 0700), 0);
    put("folder/in");
    static const char *const names[] = {"../outside", "..", ".", "folder/in", "/etc/hostname", ".hidden", ""};
    for (size_t i = 0; i < COUNT(names); i++)
        refused(names[i], EXIT_POLICY);
}

static void things_that_are_no_files(void **state) {
    (void)state;
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "sock"};
    own_fd int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s, (struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(mkfifo("fifo", 0644), 0);
    assert_int_equal(mkdir("folder", 0755), 0);
    refused("sock", EXIT_POLICY);
    refused("fifo", EXIT_POLICY); /* at once, though nobody writes it */
    refused("folder", EXIT_POLICY);
    if (mknod("null", S_IFCHR | 0644, makedev(1, 3)) == 0)
        refused("null", EXIT_POLICY);
}

static void too_large(void **state) {
    (void)state;
    put("file");
    assert_int_equal(truncate("file", (off_t)FILE_BYTES_MAX), 0);
    own_fd int fd = -1;
    uint64_t size;
    own_err err_t e = give_open(box, bytes_of("file"), &fd, &size);
    assert_null(e);
    assert_int_equal(truncate("file", (off_t)FILE_BYTES_MAX + 1), 0);
    refused("file", EXIT_POLICY);
}

/* The outbox itself may have become a link. */
static void another_outbox(void **state) {
    (void)state;
    assert_int_equal(symlink("/etc", "../other"), 0);
    snprintf(box, sizeof box, "%s/other", scratch_dir);
    refused("hostname", EXIT_FAILED);
}

static void on_end(void *ctx, struct link *l, err_t why) {
    (void)ctx, (void)l, (void)why;
}

static link_fn *const nothing[MSG_COUNT];
static const struct link_ops ops = {.on = nothing, .on_end = on_end};

/* Who asked keeps the pipe's end, and with it the flags that both have: the executor is never made to wait. */
static void a_pipe_whose_sender_clears_its_flags(void **state) {
    (void)state;
    enum { SIZE = 300001 };
    char *bytes = xmalloc(SIZE), *came = xmalloc(SIZE);
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (char)(i * 31 + i / 4096);
    own_fd int file = open("file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(file, bytes, SIZE), SIZE);
    int pair[2], ends[2];
    assert_null(seq_pair(pair));
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct executor x = {.base = event_base_new(), .outbox = box};
    struct link *l = link_new(x.base, pair[0], LINK_agent_executor, false, &ops, NULL);
    struct gives *g = gives_new(&x, l);
    own_msg struct msg m = {.type = MSG_run_get, .fds = {fcntl(ends[1], F_DUPFD_CLOEXEC, 3)}, .nfds = 1};
    m.run_get = (struct msg_run_get){.cookie = 7, .name = bytes_of("file")};
    gives_start(g, &m);
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);

    alarm(60); /* a loop that waits ends this process */
    event_base_loop(x.base, EVLOOP_NONBLOCK);
    event_base_loop(x.base, EVLOOP_NONBLOCK);
    size_t n = 0;
    for (ssize_t one; n < SIZE; n += (size_t)one) { /* a little room at a time */
        one = read(ends[0], came + n, n < 100000 ? 5000 : SIZE - n);
        assert_true(one > 0);
        event_base_loop(x.base, EVLOOP_NONBLOCK);
    }
    event_base_loop(x.base, EVLOOP_NONBLOCK);
    alarm(0);
    assert_memory_equal(came, bytes, SIZE);
    own_msg struct msg got = {0};
    enum seq_got what;
    assert_null(seq_recv(pair[1], &got, &what));
    assert_true(what == SEQ_MESSAGE && got.type == MSG_run_got);
    assert_true(got.run_got.cookie == 7 && got.run_got.status == 0 && got.run_got.size == SIZE);
    gives_free(g);
    link_free(l);
    event_base_free(x.base);
    close(pair[1]);
    close(ends[0]);
    close(ends[1]);
    free(bytes);
    free(came);
}

#define row(f) cmocka_unit_test_setup_teardown(f, up, scratch_down)

int main(void) {
    const struct CMUnitTest tests[] = {row(plain_file),
                                       row(links),
                                       row(ways_out),
                                       row(things_that_are_no_files),
                                       row(too_large),
                                       row(another_outbox),
                                       row(a_pipe_whose_sender_clears_its_flags)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
