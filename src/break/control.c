#include "break/control.h"

#include "base/own.h"
#include "base/proc.h"
#include "break/open_net.h"
#include "break/row.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ids that no account has; as root the arms get a whole range, as in a cage, else the caller's own id alone. */
#define RANGE_START 0xE0000000u
enum { RANGE = 65536, PLAIN_ID = 60000 };

struct start {
    enum arm arm;
    const char *dir;
    const struct words *facts;
    bool root;
    int out;             /* the probe's standard output */
    int ready[2], go[2]; /* the namespaces are made; their ids are mapped */
};

static uid_t inside_id(const struct start *s) {
    return s->arm == ARM_FULL ? 0 : s->root ? PLAIN_ID : getuid();
}

/* ---- the tree in memory ---- */

static bool bind_to(const char *from, const char *to) {
    return !mount(from, to, NULL, MS_BIND | MS_REC, NULL);
}

static bool folders(void) {
    static const char *const names[] = {"bin",     "etc",     "usr",   "run",    "run/lock", "var",
                                        "var/tmp", "tmp",     "dev",   "proc",   "sys",      "home",
                                        "cage",    "project", "inbox", "outbox", "scratch",  "root"};
    for (size_t i = 0; i < COUNT(names); i++)
        if (mkdir(names[i], 01777))
            return false;
    static const char *const files[] = {"bin/true", "cage/agent-cage"};
    for (size_t i = 0; i < COUNT(files); i++) {
        own_fd int fd = open(files[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
        if (fd < 0)
            return false;
    }
    return true;
}

/* Our own file by its path: what /proc/self/exe leads to is in the mount namespace that we came from. */
static bool bind_self(const char *to) {
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    return bind_to(path, to);
}

/* The host's own /proc serves where this one's cannot be mounted (a container with masks). */
static bool full_tree(const char *dir) {
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("none", dir, "tmpfs", 0, "mode=0755") ||
        chdir(dir) || !folders() || !bind_self("cage/agent-cage") || !bind_to("/dev", "dev") ||
        !bind_to("/sys", "sys"))
        return false;
    if (mount("proc", "proc", "proc", 0, NULL) && !bind_to("/proc", "proc"))
        return false;
    return !mount("none", "dev/shm", "tmpfs", 0, NULL) && !chroot(".") && !chdir("/project");
}

/* ---- the child ---- */

static bool drop(const struct start *s) {
    uid_t id = RANGE_START + inside_id(s);
    if (s->root && (setgroups(0, NULL) || setresgid(id, id, id) || setresuid(id, id, id)))
        return false;
    return !prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* else the maps belong to root */
}

static _Noreturn void become_probe(const struct start *s) {
    const char *argv[FACTS_MAX + 4] = {"agent-cage", "probe", "arm=1"};
    size_t n = 3;
    for (size_t i = 0; i < s->facts->n && n + 1 < COUNT(argv); i++)
        argv[n++] = s->facts->w[i];
    argv[n] = NULL;
    struct rlimit core = {RLIM_INFINITY, RLIM_INFINITY};
    if (!getrlimit(RLIMIT_CORE, &core))
        setrlimit(RLIMIT_CORE, &(struct rlimit){core.rlim_max, core.rlim_max});
    execv(s->arm == ARM_FULL ? "/cage/agent-cage" : "/proc/self/exe", (char *const *)argv);
    _exit(1);
}

static _Noreturn void child(struct start *s) {
    int flags = CLONE_NEWUSER | CLONE_NEWNET;
    char byte = 1;
    if (s->arm == ARM_FULL)
        flags |= CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
    own_fd int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (!drop(s) || unshare(flags) || write(s->ready[1], &byte, 1) != 1 || read(s->go[0], &byte, 1) != 1)
        _exit(1);
    uid_t id = inside_id(s);
    if (setresgid(id, id, id) || setresuid(id, id, id) || dup2(null, 0) < 0 || dup2(s->out, 1) < 0)
        _exit(1);
    fds_close_from(3, NULL, 0);
    open_net(); /* what fails there shows as rows that are not judged */
    if (s->arm == ARM_PLAIN) {
        if (chdir(s->dir))
            _exit(1);
        become_probe(s);
    }
    pid_t first = fork(); /* the first process of its process namespace */
    if (!first) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!full_tree(s->dir))
            _exit(1);
        become_probe(s);
    }
    int status;
    _exit(first < 0 || waitpid(first, &status, 0) < 0 || status);
}

/* ---- the parent ---- */

static err_t write_proc(pid_t pid, const char *file, const char *text) {
    own_free char *path = xasprintf("/proc/%d/%s", pid, file);
    own_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        return err_sys(errno, "%s", path);
    return NULL;
}

static err_t map_ids(const struct start *s, pid_t pid) {
    if (s->root) {
        own_free char *range = xasprintf("0 %u %d", RANGE_START, RANGE);
        TRY(write_proc(pid, "uid_map", range));
        return write_proc(pid, "gid_map", range);
    }
    own_free char *uid = xasprintf("%u %u 1", inside_id(s), getuid());
    own_free char *gid = xasprintf("%u %u 1", inside_id(s), getgid());
    TRY(write_proc(pid, "uid_map", uid));
    TRY(write_proc(pid, "setgroups", "deny"));
    return write_proc(pid, "gid_map", gid);
}

static err_t let_go(const struct start *s, pid_t pid) {
    char byte;
    if (read(s->ready[0], &byte, 1) != 1)
        return err_new(EXIT_FAILED, "this kernel lets nobody make a user namespace to try things in");
    TRY(map_ids(s, pid));
    return write(s->go[1], "", 1) == 1 ? NULL : err_sys(errno, "a control arm ended");
}

static void close_both(int pair[2]) {
    own_closep(&pair[0]);
    own_closep(&pair[1]);
}

err_t control_start(enum arm arm, const char *dir, const struct words *facts, pid_t *ret_pid, int *ret_out) {
    int out[2] = {-1, -1};
    struct start s = {
        .arm = arm, .dir = dir, .facts = facts, .root = geteuid() == 0, .ready = {-1, -1}, .go = {-1, -1}};
    err_t e = NULL;
    if (pipe2(out, O_CLOEXEC) || pipe2(s.ready, O_CLOEXEC) || pipe2(s.go, O_CLOEXEC))
        e = err_sys(errno, "no pipe");
    if (!e && s.root && chown(dir, RANGE_START + inside_id(&s), RANGE_START + inside_id(&s)))
        e = err_sys(errno, "%s", dir);
    pid_t pid = -1;
    if (!e) {
        s.out = out[1];
        pid = fork();
        if (!pid)
            child(&s);
    }
    own_closep(&out[1]);
    own_closep(&s.ready[1]);
    if (!e && pid > 0)
        e = let_go(&s, pid);
    close_both(s.ready);
    close_both(s.go);
    if (e) {
        if (pid > 0)
            waitpid(pid, NULL, 0);
        own_closep(&out[0]);
        return err_wrap(e, "no control arm");
    }
    *ret_pid = pid;
    *ret_out = out[0];
    return NULL;
}
