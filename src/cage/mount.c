#include "cage/mount.h"

#include "base/buf.h"
#include "base/escape.h"
#include "base/fs.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child in a new user namespace, waiting until its parent has its namespace's descriptor. */
static pid_t child_in_userns(int ready[2]) {
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid)
        return pid;
    char b;
    close(ready[1]);
    while (read(ready[0], &b, 1) < 0 && errno == EINTR)
        ; /* ends when the parent closes its end, or is gone */
    _exit(0);
}

static err_t write_map(pid_t pid, const char *file, const struct mount_ids *ids, size_t n) {
    own_buf struct buf text = {0};
    own_free char *path = xasprintf("/proc/%d/%s", pid, file);
    for (size_t i = 0; i < n; i++)
        buf_printf(&text, "%u %u %u\n", ids[i].disk, ids[i].seen, ids[i].count);
    own_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text.p, text.len) != (ssize_t)text.len) /* one write, user_namespaces(7) */
        return err_sys(errno, "%s: an id map is not taken", file);
    return NULL;
}

static err_t userns_of(pid_t pid, const struct mount_ids *uids, size_t nuids, const struct mount_ids *gids,
                       size_t ngids, int *ret) {
    TRY(write_map(pid, "uid_map", uids, nuids));
    TRY(write_map(pid, "gid_map", gids, ngids));
    own_free char *path = xasprintf("/proc/%d/ns/user", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(errno, "a user namespace cannot be opened");
    *ret = fd;
    return NULL;
}

err_t mount_userns(const struct mount_ids *uids, size_t nuids, const struct mount_ids *gids, size_t ngids,
                   int *ret) {
    int ready[2];
    if (pipe2(ready, O_CLOEXEC))
        return err_sys(errno, "no pipe");
    pid_t pid = child_in_userns(ready);
    err_t e = pid < 0
                  ? err_sys(errno, "no user namespace can be made; see /proc/sys/user/max_user_namespaces")
                  : userns_of(pid, uids, nuids, gids, ngids, ret);
    close(ready[0]);
    close(ready[1]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return e;
}

err_t mount_pin(const char *path, int *ret) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how), failed = errno;
    if (fd >= 0) {
        *ret = fd;
        return NULL;
    }
    char shown[300];
    escape_into(shown, sizeof shown, ESCAPE_LINE, path, strlen(path));
    if (failed == ELOOP)
        return err_new(EXIT_POLICY, "%s has a symbolic link on its way; give the real path (see realpath)",
                       shown);
    return err_as(err_sys(failed, "%s cannot be opened", shown),
                  failed == ENOENT || failed == ENOTDIR ? EXIT_NOTFOUND : EXIT_FAILED);
}

err_t mount_clone(int pin, const struct mount_how *how, int *ret) {
    unsigned recursive = how->recursive ? AT_RECURSIVE : 0;
    own_fd int fd =
        (int)syscall(SYS_open_tree, pin, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | recursive);
    if (fd < 0)
        return err_sys(errno, "a mount cannot be cloned");
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (how->ro ? MOUNT_ATTR_RDONLY : 0) |
                    (how->noexec ? MOUNT_ATTR_NOEXEC : 0) | (how->userns >= 0 ? MOUNT_ATTR_IDMAP : 0),
        .propagation = MS_PRIVATE,
        .userns_fd = how->userns >= 0 ? (uint64_t)how->userns : 0,
    };
    if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | recursive, &attr, sizeof attr))
        return how->userns >= 0 && (errno == EINVAL || errno == EPERM)
                   ? err_sys(
                         errno,
                         "this file system or kernel cannot show other owners (idmapped mounts: ext4, xfs, "
                         "btrfs, Linux 5.12 and later)")
                   : err_sys(errno, "a mount's flags cannot be set");
    *ret = TAKE_FD(fd);
    return NULL;
}

err_t mount_put(int tree, const char *place) {
    own_fd int at = -1;
    TRY(mount_pin(place, &at));
    struct stat st;
    if (fstat(at, &st))
        return err_sys(errno, "%s", place);
    if (st.st_uid)
        return err_new(EXIT_FAILED, "%s is not root's, nothing is mounted there", place);
    if (syscall(SYS_move_mount, tree, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH))
        return err_sys(errno, "nothing can be mounted on %s", place);
    /* The place may lie in a shared mount: what was put there must not spread, nor receive. */
    if (mount(NULL, place, NULL, MS_PRIVATE, NULL))
        return err_sys(errno, "%s cannot be made a private mount", place);
    return NULL;
}

err_t mount_off(const char *place) {
    while (!umount2(place, MNT_DETACH | UMOUNT_NOFOLLOW))
        ;
    return errno == EINVAL || errno == ENOENT || errno == ENOTDIR
               ? NULL
               : err_sys(errno, "%s cannot be unmounted", place);
}

/* /proc/self/mountinfo writes blank, tab, newline and backslash as three octal digits. */
static void unescape(char *s) {
    char *out = s;
    for (; *s; s++) {
        unsigned v;
        if (*s == '\\' && sscanf(s + 1, "%3o", &v) == 1) {
            *out++ = (char)v;
            s += 3;
        } else
            *out++ = *s;
    }
    *out = 0;
}

/* The mount point of a line, in place; NULL if the line is none. */
static char *mount_point(char *line) {
    char *word = NULL;
    for (int i = 0; i < 5; i++)
        if (!(word = strsep(&line, " ")))
            return NULL;
    unescape(word);
    return word;
}

err_t mount_off_below(const char *dir) {
    own_buf struct buf text = {0};
    TRY(fs_read("/proc/self/mountinfo", 64u << 20, &text));
    char **found = NULL;
    size_t n = 0, len = strlen(dir);
    char *at = text.p;
    for (char *line; (line = strsep(&at, "\n"));) {
        char *place = mount_point(line);
        if (!place || strncmp(place, dir, len) || (place[len] && place[len] != '/'))
            continue;
        found = xrealloc(found, n + 1, sizeof *found);
        found[n++] = place;
    }
    err_t e = NULL;
    while (n-- > 0 && !e) /* later ones lie deeper or on top */
        e = mount_off(found[n]);
    free(found);
    return e;
}
