/* One way to open what a cage wrote, against all that may stand in the place; and the walk's bounds. */
#include "sealed/collector.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/own.h"
#include "../scratch.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static void put(const char *name, const char *text) {
    own_fd int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* Opening `name` is refused at once, with this status. */
static void refused(const char *name, int status) {
    own_fd int fd = -1;
    struct stat st;
    int64_t began = clock_mono_ns();
    own_err err_t e = collect_open(scratch, name, 1000, &fd, &st);
    assert_non_null(e);
    if (e->status != status)
        fail_msg("%s: status %d, %s", name, e->status, err_text(e));
    assert_int_equal(fd, -1);
    assert_true(clock_mono_ns() - began < 100000000);
}

static void plain_file(void **state) {
    (void)state;
    own_buf struct buf b = {0};
    assert_int_equal(mkdir("a", 0755), 0);
    put("a/file", "the words");
    assert_null(collect_read(scratch, "a/file", 1000, &b));
    assert_string_equal(buf_text(&b), "the words");
}

static void links(void **state) {
    (void)state;
    put("file", "x");
    assert_int_equal(mkdir("folder", 0755), 0);
    put("folder/in", "x");
    const char *const to[] = {"file", "/etc/hostname",   "nothing",
                              "self", "/proc/self/fd/0", "../../etc/hostname"};
    const char *const names[] = {"relative", "absolute", "dangling", "self", "magic", "up"};
    for (size_t i = 0; i < COUNT(to); i++) {
        assert_int_equal(symlink(to[i], names[i]), 0);
        refused(names[i], EXIT_POLICY);
    }
    assert_int_equal(symlink("folder", "parent"), 0);
    refused("parent/in", EXIT_POLICY);
    refused("folder/../../x", EXIT_POLICY);
    refused("/etc/hostname", EXIT_POLICY);
    refused("missing", EXIT_NOTFOUND);
}

static void things_that_are_no_files(void **state) {
    (void)state;
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "sock"};
    own_fd int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(mkfifo("fifo", 0644), 0);
    assert_int_equal(bind(s, (struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(mkdir("folder", 0755), 0);
    refused("fifo", EXIT_POLICY);
    refused("sock", EXIT_POLICY);
    refused("folder", EXIT_POLICY);
    if (mknod("whiteout", S_IFCHR | 0644, makedev(0, 0)) == 0)
        refused("whiteout", EXIT_POLICY);
    if (mknod("null", S_IFCHR | 0644, makedev(1, 3)) == 0)
        refused("null", EXIT_POLICY);
}

static void other_names_and_sizes(void **state) {
    (void)state;
    put("one", "x");
    assert_int_equal(link("one", "two"), 0);
    refused("one", EXIT_POLICY);
    refused("two", EXIT_POLICY);
    put("large", "");
    assert_int_equal(truncate("large", 1001), 0);
    refused("large", EXIT_POLICY);
    assert_int_equal(truncate("large", 1000), 0);
    own_buf struct buf b = {0};
    assert_null(collect_read(scratch, "large", 1000, &b));
    assert_int_equal(b.len, 1000);
}

/* A file that grows while it is read gives at most the cap: here it has grown between the check and the read. */
static void no_end(void **state) {
    (void)state;
    own_buf struct buf b = {0};
    own_fd int fd = -1;
    struct stat st;
    put("grows", "12345");
    assert_null(collect_open(scratch, "grows", 5, &fd, &st));
    put("grows", "1234567890");
    refused("missing", EXIT_NOTFOUND);
    own_err err_t e = collect_read(scratch, "grows", 5, &b);
    assert_non_null(e);
    assert_true(b.len <= 5);
}

/* A lease makes a plain open wait for 45 s; ours does not, and succeeds when it is given up. */
static void leased(void **state) {
    (void)state;
    own_buf struct buf b = {0};
    put("leased", "x");
    int ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (!pid) {
        int fd = open("leased", O_RDWR | O_CLOEXEC);
        signal(SIGIO, SIG_IGN);
        char ok = fd >= 0 && !fcntl(fd, F_SETLEASE, F_WRLCK) ? 'y' : 'n';
        if (write(ready[1], &ok, 1) != 1)
            _exit(1);
        usleep(300000);
        _exit(0);
    }
    char ok = 'n';
    assert_int_equal(read(ready[0], &ok, 1), 1);
    int64_t began = clock_mono_ns();
    own_err err_t e = collect_read(scratch, "leased", 1000, &b);
    assert_true(clock_mono_ns() - began < 5000000000);
    if (ok == 'y')
        assert_null(e);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

/* One that is not given up is refused soon, and can be tried again. */
static void leased_for_long(void **state) {
    (void)state;
    own_buf struct buf b = {0};
    put("leased", "x");
    int ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (!pid) {
        int fd = open("leased", O_RDWR | O_CLOEXEC);
        signal(SIGIO, SIG_IGN);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        char ok = fd >= 0 && !fcntl(fd, F_SETLEASE, F_WRLCK) ? 'y' : 'n';
        if (write(ready[1], &ok, 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    char ok = 'n';
    assert_int_equal(read(ready[0], &ok, 1), 1);
    int64_t began = clock_mono_ns();
    own_err err_t e = ok == 'y' ? collect_read(scratch, "leased", 1000, &b) : NULL;
    int64_t took = clock_mono_ns() - began;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    if (ok != 'y') /* this file system has none */
        skip();
    assert_non_null(e);
    assert_int_equal(e->status, EXIT_POLICY);
    assert_true(took < 2500000000);
    assert_null(collect_read(scratch, "leased", 1000, &b));
}

/* A process that lets the two change places all the time. */
static pid_t flipping(const char *one, const char *other) {
    pid_t pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (!renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE))
        ;
    _exit(1);
}

/* A file and a link to a secret change places all the time: never a byte of the secret, and the race must have been run. */
static void a_file_that_flips(void **state) {
    (void)state;
    enum { COLLECTIONS = 100000, LEAST = 1000, MOST = 20 * COLLECTIONS };
    put("secret", "SECRET");
    put("entry", "plain");
    assert_int_equal(symlink("secret", "other"), 0);
    pid_t pid = flipping("entry", "other");
    size_t plain = 0, refused_links = 0;
    bool secret = false;
    for (int i = 0; !secret && (i < COLLECTIONS || ((plain < LEAST || refused_links < LEAST) && i < MOST));
         i++) {
        own_buf struct buf b = {0};
        own_err err_t e = collect_read(scratch, "entry", 100, &b);
        secret = strstr(buf_text(&b), "SECRET");
        plain += !e;
        refused_links += e && e->status == EXIT_POLICY;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_false(secret);
    assert_true(plain >= LEAST);
    assert_true(refused_links >= LEAST);
}

struct seen {
    struct buf text;
    size_t n;
    bool outside;
};

static bool see(void *ctx, const struct collect_entry *e) {
    struct seen *s = ctx;
    s->n++;
    buf_printf(&s->text, "%s|", e->path);
    return true;
}

static bool see_inside(void *ctx, const struct collect_entry *e) {
    struct seen *s = ctx;
    s->n += !strcmp(e->name, "in");
    s->outside |= !strcmp(e->name, "secret");
    return true;
}

/* So do a folder and a link to one that is elsewhere: never a name of that one. */
static void a_folder_that_flips(void **state) {
    (void)state;
    enum { WALKS = 20000, LEAST = 1000, MOST = 20 * WALKS };
    size_t links_seen = 0;
    struct seen s = {0};
    assert_true(!mkdir("elsewhere", 0755) && !mkdir("top", 0755) && !mkdir("top/folder", 0755));
    put("elsewhere/secret", "x");
    put("top/folder/in", "x");
    assert_int_equal(symlink("../elsewhere", "link"), 0);
    own_fd int top = open("top", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pid_t pid = flipping("top/folder", "link");
    for (int i = 0; !s.outside && (i < WALKS || ((s.n < LEAST || links_seen < LEAST) && i < MOST)); i++) {
        struct collect_sum sum;
        size_t before = s.n;
        assert_null(collect_walk(top, see_inside, &s, &sum));
        links_seen += s.n == before;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_false(s.outside);
    assert_true(s.n >= LEAST && links_seen >= LEAST);
}

static void walks(void **state) {
    (void)state;
    struct seen s = {0};
    struct collect_sum sum;
    assert_int_equal(mkdir("a", 0755), 0);
    assert_int_equal(mkdir("a/b", 0755), 0);
    put("a/b/c", "x");
    assert_int_equal(symlink("/etc", "a/etc"), 0);
    assert_null(collect_walk(scratch, see, &s, &sum));
    assert_int_equal(sum.entries, 4);
    assert_int_equal(sum.skipped, 0);
    assert_non_null(strstr(buf_text(&s.text), "a/b/c|"));
    assert_null(strstr(buf_text(&s.text), "a/etc/"));
    buf_free(&s.text);
}

static void walks_no_deeper_than_the_bound(void **state) {
    (void)state;
    struct seen s = {0};
    struct collect_sum sum;
    for (int i = 0; i < COLLECT_DEPTH_MAX + 5; i++) {
        assert_int_equal(mkdir("d", 0755), 0);
        assert_int_equal(chdir("d"), 0);
    }
    assert_int_equal(chdir(scratch_dir), 0);
    assert_null(collect_walk(scratch, see, &s, &sum));
    assert_int_equal(sum.skipped, 1);
    assert_int_equal(s.n, COLLECT_DEPTH_MAX + 1);
    assert_false(sum.cut);
    buf_free(&s.text);
}

static void walks_no_longer_paths_than_the_bound(void **state) {
    (void)state;
    struct seen s = {0};
    struct collect_sum sum;
    char name[201];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    for (int i = 0; i < 25; i++) {
        assert_int_equal(mkdir(name, 0755), 0);
        assert_int_equal(chdir(name), 0);
    }
    assert_int_equal(chdir(scratch_dir), 0);
    assert_null(collect_walk(scratch, see, &s, &sum));
    assert_int_equal(sum.skipped, 1);
    assert_int_equal(s.n, PATH_MAX / (int)sizeof name);
    buf_free(&s.text);
}

static bool see_slowly(void *ctx, const struct collect_entry *e) {
    usleep(20000);
    return see(ctx, e);
}

static void walks_no_longer_than_it_may(void **state) {
    (void)state;
    static const struct collect_how how = {.each = see_slowly, .ms = 1};
    struct seen s = {0};
    struct collect_sum sum;
    put("a", "x");
    put("b", "x");
    assert_null(collect_walk_as(scratch, &how, &s, &sum));
    assert_true(sum.cut);
    assert_true(s.n < 2);
    buf_free(&s.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plain_file, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(links, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(things_that_are_no_files, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(other_names_and_sizes, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(no_end, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(leased, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(leased_for_long, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(a_file_that_flips, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(a_folder_that_flips, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(walks, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(walks_no_deeper_than_the_bound, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(walks_no_longer_paths_than_the_bound, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(walks_no_longer_than_it_may, scratch_up, scratch_down),
    };
    return cmocka_run_group_tests_name("sealed/collector", tests, NULL, NULL);
}
