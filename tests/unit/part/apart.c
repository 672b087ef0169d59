/* Each attempt runs in a child that went on as a room of that kind would; pods, and agents without a program, are the control arm. */
#include "part/apart.h"
#include "base/err.h"
#include "base/lockin.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { UID = 65533, NOT_ENTERED = 255 };

static int bind_to(int type, const char *path) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    own_fd int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    return bind(fd, (struct sockaddr *)&a, sizeof a);
}

static int stream(const char *to) {
    return bind_to(SOCK_STREAM, to);
}

static int datagram(const char *to) {
    return bind_to(SOCK_DGRAM, to);
}

static int packet(const char *to) {
    return bind_to(SOCK_SEQPACKET, to);
}

static int node(const char *to) {
    return mknod(to, S_IFSOCK | 0600, 0);
}

static int through_proc(const char *to) {
    own_free char *folder = xstrndup(to, (size_t)(strrchr(to, '/') - to));
    own_fd int fd = open(folder, O_PATH | O_CLOEXEC);
    own_free char *path = xasprintf("/proc/self/fd/%d/s", fd);
    return bind_to(SOCK_STREAM, path);
}

static int renamed(const char *to) {
    return stream("home/s") ? -2 : rename("home/s", to);
}

static int linked(const char *to) {
    return stream("home/s") ? -2 : link("home/s", to);
}

static int in_a_folder(const char *to) {
    return mkdir("home/d", 0700) || stream("home/d/s") ? -2 : rename("home/d", to);
}

static int made(const char *path) {
    own_fd int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    return fd < 0 ? -1 : 0;
}

static int plain_renamed(const char *to) {
    return made("project/a/f") ? -2 : rename("project/a/f", to);
}

static int plain_linked(const char *to) {
    return made("project/a/f") ? -2 : link("project/a/f", to);
}

static int folder_renamed(const char *to) {
    return mkdir("project/a/d", 0700) || made("project/a/d/f") ? -2 : rename("project/a/d", to);
}

static int fifo(const char *to) {
    return mkfifo(to, 0600);
}

/* A debugger of the room and what it started. */
static int traced(const char *to) {
    (void)to;
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    int ret = (int)ptrace(PTRACE_SEIZE, pid, NULL, NULL), why = errno;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    errno = why;
    return ret;
}

struct room {
    const char *mode, *harness;
    int one_mount; /* home is a folder of the mount in which the project is */
};
static const struct room sealed = {"sealed", "claude", 0}, alike = {"sealed", "claude", 1},
                         pod = {"pod", "claude", 0}, shell = {"sealed", "shell", 0},
                         bare = {"bare", "claude", 1};

static char dir[] = "/tmp/apart-XXXXXX";

/* project and scratch in one mount, home in another or the same, all of a mount namespace of its own. */
static void furnish(const struct room *r) {
    static const char *const folders[] = {"project", "scratch", "home", "project/a", "project/b"};
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("x", dir, "tmpfs", 0, "mode=0777") || chdir(dir))
        _exit(NOT_ENTERED);
    for (size_t i = 0; i < COUNT(folders); i++)
        if (mkdir(folders[i], 0700) || chown(folders[i], UID, UID))
            _exit(NOT_ENTERED);
    if (!r->one_mount && mount("y", "home", "tmpfs", 0, "mode=0777"))
        _exit(NOT_ENTERED);
}

static err_t enter(const struct room *r) {
    char project[64], scratch[64], home[64];
    snprintf(project, sizeof project, "%s/project", dir);
    snprintf(scratch, sizeof scratch, "%s/scratch", dir);
    snprintf(home, sizeof home, "%s/home", dir);
    struct msg_part_go go = {.mode = bytes_of(r->mode),
                             .harness = bytes_of(r->harness),
                             .project = bytes_of(project),
                             .scratch = bytes_of(scratch),
                             .home = bytes_of(home)};
    TRY(lockin_become(UID, UID, NULL, 0));
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* as exec does */
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return apart_sockets(&go);
}

/* 0, or the errno of the attempt. */
static int outcome(const struct room *r, int (*attempt)(const char *), const char *to) {
    pid_t pid = fork();
    if (pid == 0) {
        furnish(r);
        if (enter(r))
            _exit(NOT_ENTERED);
        int ret = attempt(to);
        _exit(ret == -2 ? NOT_ENTERED : ret ? errno : 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

struct row {
    const char *name;
    int (*attempt)(const char *);
    const char *to;
    int apart, control;
};

static const struct row rows[] = {
    {"bind in the project", stream, "project/s", EACCES, 0},
    {"bind below it", datagram, "project/a/s", EACCES, 0},
    {"bind a packet socket", packet, "project/a/s", EACCES, 0},
    {"bind in the scratch folder", stream, "scratch/s", EACCES, 0},
    {"mknod in the project", node, "project/s", EACCES, 0},
    {"mknod in the scratch folder", node, "scratch/s", EACCES, 0},
    {"bind through /proc", through_proc, "scratch/s", EACCES, 0},
    {"rename a socket in", renamed, "project/s", EXDEV, EXDEV},
    {"link a socket in", linked, "scratch/s", EXDEV, EXDEV},
    {"rename a folder with one in", in_a_folder, "project/d", EXDEV, EXDEV},
    {"bind in the home", stream, "home/s", 0, 0},
    {"rename a file", plain_renamed, "project/b/f", 0, 0},
    {"rename a file to the scratch folder", plain_renamed, "scratch/f", 0, 0},
    {"link a file", plain_linked, "project/b/f", 0, 0},
    {"rename a folder", folder_renamed, "project/b/d", 0, 0},
    {"a FIFO", fifo, "project/f", 0, 0},
    {"trace", traced, "", 0, 0},
};

static int cannot(void) {
    return getuid() != 0 || lockin_landlock_abi() < 2;
}

static void sockets_are_made_where_a_room_is_alone(void **state) {
    (void)state;
    if (cannot())
        skip();
    for (size_t i = 0; i < COUNT(rows); i++) {
        print_message("%s\n", rows[i].name);
        assert_int_equal(outcome(&sealed, rows[i].attempt, rows[i].to), rows[i].apart);
        assert_int_equal(outcome(&pod, rows[i].attempt, rows[i].to), rows[i].control);
        assert_int_equal(outcome(&shell, rows[i].attempt, rows[i].to), rows[i].control);
    }
}

/* From a home in the shared mount a folder with a socket in it could be renamed into the project. */
static void not_where_it_could_be_renamed_from(void **state) {
    (void)state;
    if (cannot())
        skip();
    assert_int_equal(outcome(&alike, stream, "home/s"), EACCES);
    assert_int_equal(outcome(&bare, in_a_folder, "project/d"), 0); /* the control arm */
}

static void forbid_landlock(void) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter || seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(landlock_create_ruleset), 0) ||
        seccomp_load(filter))
        _exit(NOT_ENTERED);
    seccomp_release(filter);
}

static int enters(const struct room *r, int with_landlock) {
    pid_t pid = fork();
    if (pid == 0) {
        furnish(r);
        if (!with_landlock)
            forbid_landlock();
        err_t e = enter(r);
        _exit(e ? e->status : 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_kernel_that_cannot_is_refused(void **state) {
    (void)state;
    if (cannot())
        skip();
    assert_int_equal(enters(&sealed, 1), 0);
    assert_int_equal(enters(&sealed, 0), EXIT_POLICY);
    assert_int_equal(enters(&pod, 0), 0);
    assert_int_equal(enters(&shell, 0), 0);
}

static void tmpdir_takes_sockets(void **state) {
    (void)state;
    own_free char *tmpdir = NULL, *want = xasprintf("%s/.tmp", dir), *plain = NULL;
    struct msg_part_go go = {.mode = bytes_of("sealed"),
                             .harness = bytes_of("claude"),
                             .scratch = bytes_of("/scratch"),
                             .home = bytes_of(dir)};
    for (int i = 0; i < 2; i++) { /* also when it is there already */
        free(TAKE(tmpdir));
        assert_null(apart_tmpdir(&go, &tmpdir));
        assert_string_equal(tmpdir, want);
    }
    assert_int_equal(rmdir(want), 0);
    go.mode = bytes_of("pod");
    assert_null(apart_tmpdir(&go, &plain));
    assert_string_equal(plain, "/scratch");
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    return rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sockets_are_made_where_a_room_is_alone),
        cmocka_unit_test(not_where_it_could_be_renamed_from),
        cmocka_unit_test(a_kernel_that_cannot_is_refused),
        cmocka_unit_test(tmpdir_takes_sockets),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
