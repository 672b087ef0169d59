/* Files and folders beside hostile neighbours: links, mounts, depth, strange names. */
#include "base/fs.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[64];
#define AT(name) strcat_dir(name)

static const char *strcat_dir(const char *name) {
    static char ring[16][4200];
    static unsigned i;
    char *p = ring[i++ % 16];
    snprintf(p, sizeof ring[0], "%s/%s", dir, name);
    return p;
}

static int set_up(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/unit-fs-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    err_t e = fs_remove(dir);
    if (e)
        print_error("%s\n", err_text(e));
    return e != NULL || access(dir, F_OK) == 0;
}

static void touch(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    close(fd);
}

static void good(err_t e) {
    if (e)
        fail_msg("%s", err_text(e));
}

static void bad(err_t e) {
    assert_non_null(e);
    err_free(e);
}

static void folders(void **state) {
    (void)state;
    struct stat st;
    umask(077);
    good(fs_dir(AT("a"), geteuid(), getegid(), 02750));
    assert_int_equal(stat(AT("a"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 02750);
    good(fs_dir(AT("a"), geteuid(), getegid(), 0711)); /* put right */
    assert_int_equal(stat(AT("a"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0711);
    assert_int_equal(symlink("a", AT("link")), 0);
    bad(fs_dir(AT("link"), geteuid(), getegid(), 0700));
    touch(AT("file"));
    bad(fs_dir(AT("file"), geteuid(), getegid(), 0700));
    bad(fs_dir(AT("no/where"), geteuid(), getegid(), 0700));
    good(fs_dirs(AT("x//y/z/")));
    assert_int_equal(stat(AT("x/y/z"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    bad(fs_dirs(AT("file/below")));
    umask(022);
}

static void writes_in_one_step(void **state) {
    (void)state;
    own_buf struct buf b = {0};
    touch(AT("target"));
    assert_int_equal(symlink("target", AT("f")), 0);
    good(fs_write(AT("f"), "one", 3, geteuid(), getegid(), 0640)); /* replaces the link, not its target */
    bad(fs_read(AT("gone"), 10, &b));
    good(fs_read(AT("f"), 3, &b));
    assert_string_equal(buf_text(&b), "one");
    bad(fs_read(AT("f"), 2, &b));
    char room[4];
    size_t n = 0;
    good(fs_read_into(AT("f"), room, 4, &n));
    assert_int_equal(n, 3);
    assert_memory_equal(room, "one", 3);
    bad(fs_read_into(AT("f"), room, 3, &n)); /* there may be more */
    bad(fs_read_into(AT("gone"), room, 4, &n));
    struct stat st;
    assert_int_equal(lstat(AT("f"), &st), 0);
    assert_int_equal(st.st_mode, S_IFREG | 0640);
    assert_int_equal(stat(AT("target"), &st), 0);
    assert_int_equal(st.st_size, 0);
    good(fs_copy(AT("f"), AT("g"), geteuid(), getegid(), 0755));
    own_free char *line = NULL;
    good(fs_read_line(AT("g"), &line));
    assert_string_equal(line, "one");
    assert_int_equal(symlink("f", AT("s")), 0);
    assert_int_equal(mkfifo(AT("p"), 0600), 0);
    bad(fs_read(AT("s"), 10, &b));
    bad(fs_read(AT("p"), 10, &b)); /* and does not wait for a writer */
    bad(fs_copy(AT("s"), AT("h"), geteuid(), getegid(), 0755));
}

static void reads_proc(void **state) {
    (void)state;
    own_buf struct buf b = {0};
    good(fs_read("/proc/self/status", 1 << 16, &b));
    assert_non_null(strstr(buf_text(&b), "NoNewPrivs:"));
    own_free char *line = NULL;
    good(fs_read_line("/proc/sys/kernel/ostype", &line));
    assert_string_equal(line, "Linux");
}

static void removes_without_following(void **state) {
    (void)state;
    good(fs_dirs(AT("keep/inner")));
    touch(AT("keep/inner/file"));
    good(fs_dirs(AT("tree/a/b/c")));
    assert_int_equal(symlink("../../keep", AT("tree/a/link")), 0);
    assert_int_equal(symlink("../keep", AT("tree/.remove-0")), 0); /* a name of ours, taken */
    assert_int_equal(mkfifo(AT("tree/a/b/fifo"), 0), 0);
    touch(AT("tree/a/b/c/\xff\n"));
    good(fs_remove(AT("tree")));
    assert_int_equal(access(AT("tree"), F_OK), -1);
    assert_int_equal(access(AT("keep/inner/file"), F_OK), 0);
    assert_int_equal(symlink("keep", AT("top")), 0);
    good(fs_remove(AT("top")));
    assert_int_equal(access(AT("keep/inner/file"), F_OK), 0);
    good(fs_remove(AT("not/there")));
    good(fs_remove(AT("keep/inner/file")));
}

/* As the person whose tree it is: closed folders, also one that must be moved to be emptied. */
static void removes_what_is_closed(void **state) {
    (void)state;
    pid_t pid = fork();
    if (!pid) {
        char own[] = "/tmp/unit-fs-closed-XXXXXX";
        if (setgid(65534) || setuid(65534) || !mkdtemp(own) || chdir(own))
            _exit(2);
        if (mkdir("a", 0755) || mkdir("a/b", 0755) || mkdir("a/b/c", 0755) || chmod("a/b", 0) ||
            chmod("a", 0500))
            _exit(3);
        own_err err_t e = fs_remove(own);
        _exit(e ? 4 : access(own, F_OK) == 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void removes_any_depth_and_width(void **state) {
    (void)state;
    enum { DEPTH = 3000 };
    int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEPTH; i++) {
        assert_int_equal(mkdirat(at, "deeper", 0700), 0);
        assert_int_equal(mkdirat(at, "beside", 0700), 0);
        int next = openat(at, "deeper", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    close(at);
    good(fs_dirs(AT("deeper/wide")));
    for (int i = 0; i < 2000; i++) {
        char name[64];
        snprintf(name, sizeof name, "deeper/wide/%d", i);
        touch(AT(name));
    }
    good(fs_remove(AT("deeper")));
    good(fs_remove(AT("beside")));
}

/* Exit status of a child that has its own mount namespace, with something mounted at tree/a/mount. */
static int in_own_mounts(const char *source, const char *type, unsigned long flags) {
    good(fs_dirs(AT("tree/a/mount")));
    good(fs_dirs(AT("other")));
    touch(AT("other/precious"));
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount(source, AT("tree/a/mount"), type ? type : "none", flags, NULL) < 0)
            _exit(77);
        if (type)
            touch(AT("tree/a/mount/precious"));
        err_t e = fs_remove(AT("tree")), direct = fs_remove(AT("tree/a/mount"));
        bool refused = e && direct;
        err_free(e);
        err_free(direct);
        _exit(!refused || access(AT("tree/a/mount/precious"), F_OK) < 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    good(fs_remove(AT("tree")));
    assert_int_equal(access(AT("other/precious"), F_OK), 0);
    return WEXITSTATUS(status);
}

static void stops_at_mounts(void **state) {
    (void)state;
    if (geteuid())
        skip();
    assert_int_equal(in_own_mounts("none", "tmpfs", 0), 0);
    assert_int_equal(in_own_mounts(AT("other"), NULL, MS_BIND), 0); /* the same file system */
}

static void opens_beneath(void **state) {
    (void)state;
    good(fs_dirs(AT("d/sub")));
    touch(AT("d/sub/file"));
    touch(AT("outside"));
    assert_int_equal(symlink("sub/file", AT("d/link")), 0);
    assert_int_equal(symlink("sub", AT("d/dirlink")), 0);
    assert_int_equal(symlink("..", AT("d/up")), 0);
    int d = open(AT("d"), O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
    good(fs_open_beneath(d, "sub/file", O_RDONLY, 0, &fd));
    close(fd);
    good(fs_open_beneath(d, "sub/new", O_WRONLY | O_CREAT, 0600, &fd));
    close(fd);
    static const char *const refused[] = {"link",       "dirlink/file", "up/outside",
                                          "../outside", "/etc/passwd",  "sub/../../outside"};
    for (size_t i = 0; i < COUNT(refused); i++)
        bad(fs_open_beneath(d, refused[i], O_RDONLY, 0, &fd));
    close(d);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(folders),
        T(writes_in_one_step),
        T(reads_proc),
        T(removes_without_following),
        T(removes_what_is_closed),
        T(removes_any_depth_and_width),
        T(stops_at_mounts),
        T(opens_beneath),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
