#include "cage/share.h"

#include "base/fs.h"
#include "base/own.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMITS = 3 };

struct limit {
    const char *path;
    const char *host; /* where the host's own limit is seen, from any namespace */
    char value[24];   /* "" to leave it */
};

static err_t read_limit(const char *path, uint64_t *ret) {
    own_free char *line = NULL;
    TRY(fs_read_line(path, &line));
    return err_wrap(parse_u64(line, INT32_MAX, ret), "%s", path);
}

/* A part of what there is: a namespace that podman made says that it has no limit, and has the host's all the same. */
static err_t part_of(struct limit *l) {
    uint64_t ours, hosts;
    TRY(read_limit(l->path, &ours));
    TRY(read_limit(l->host, &hosts));
    snprintf(l->value, sizeof l->value, "%" PRIu64, (ours < hosts ? ours : hosts) / SHARE_PARTS);
    return NULL;
}

/* In a child: a namespace's limits are written from inside it. */
static int set_inside(int userns, const struct limit *limits) {
    if (setns(userns, CLONE_NEWUSER))
        return errno;
    for (size_t i = 0; i < LIMITS; i++) {
        own_fd int fd = limits[i].value[0] ? open(limits[i].path, O_WRONLY | O_CLOEXEC) : -1;
        ssize_t n = (ssize_t)strlen(limits[i].value);
        if (n && (fd < 0 || write(fd, limits[i].value, (size_t)n) != n))
            return errno;
    }
    return 0;
}

/* Never our own: these limits would be the host's. */
static err_t open_userns(pid_t pid, int *ret) {
    own_free char *path = xasprintf("/proc/%d/ns/user", (int)pid);
    own_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat its, ours;
    if (fd < 0 || fstat(fd, &its))
        return err_sys(errno, "the room ended before its limits were set");
    if (stat("/proc/self/ns/user", &ours) || its.st_ino == ours.st_ino)
        return err_new(EXIT_FAILED, "the room has no user namespace of its own");
    *ret = TAKE_FD(fd);
    return NULL;
}

err_t share_limit(const struct cage_spec *s, pid_t pid) {
    struct limit limits[LIMITS] = {
        {"/proc/sys/user/max_inotify_instances", "/proc/sys/fs/inotify/max_user_instances", ""},
        {"/proc/sys/user/max_inotify_watches", "/proc/sys/fs/inotify/max_user_watches", ""},
        {"/proc/sys/user/max_user_namespaces", NULL, ""}};
    own_fd int userns = -1;
    TRY(open_userns(pid, &userns));
    TRY(part_of(&limits[0]));
    TRY(part_of(&limits[1]));
    if (s->seccomp != SECCOMP_POD)
        snprintf(limits[2].value, sizeof limits[2].value, "0");
    pid_t child = fork();
    if (!child)
        _exit(set_inside(userns, limits));
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(errno, "a child that sets limits is lost");
    if (child > 0 && WIFEXITED(status) && !WEXITSTATUS(status))
        return NULL;
    return err_sys(child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN,
                   "the limits of the room's user namespace cannot be set");
}
