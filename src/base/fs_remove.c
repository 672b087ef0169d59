/*
 * Removing a tree that a hostile program made. Two things must not happen: following a link out of it, and
 * needing a descriptor (or stack) for each level of a tree 100,000 deep.
 *
 * So the tree is made flat while it is removed. In the top folder every entry is unlinked; a folder there
 * that is not empty is opened (never through a link) and emptied in turn, where a non-empty folder in *it* is
 * moved up beside it, into the top folder, under a name of ours. At any moment two folders are open, and
 * everything still to do stands in the top folder. The kernel refuses to move or unlink what is a mount point
 * (EBUSY), so a mounted file system is never entered.
 */
#include "base/fs.h"
#include "base/escape.h"
#include "base/own.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct removal {
    const char *path;
    int top;
    uint64_t number; /* of the next name of ours */
};

static err_t failed(const struct removal *r, int why, const char *name) {
    char shown[128];
    escape_into(shown, sizeof shown, ESCAPE_LINE, name, strlen(name));
    return err_sys(why, "remove %s below %s%s", shown, r->path,
                   why == EBUSY ? " (something is mounted there)" : "");
}

/* Unlinks a file or an empty folder. *ret_full: it is a folder that holds something. */
static int unlink_any(int dir, const char *name, bool *ret_full) {
    *ret_full = false;
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM) /* EPERM is POSIX's word for a folder */
        return -1;
    int why = errno;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    *ret_full = errno == ENOTEMPTY || errno == EEXIST;
    if (errno == ENOTDIR)
        errno = why; /* a file that may not be unlinked (immutable) */
    return -1;
}

/* A folder of ours that we closed to ourselves (mode 000, read-only) is opened again; by descriptor, for it may have
 * become a link meanwhile. Root needs none of that. */
static void let_in(int dir, const char *name) {
    own_fd int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    own_free char *path = xasprintf("/proc/self/fd/%d", fd);
    if (fd >= 0 && geteuid() && chmod(path, 0700))
        return; /* what follows fails then, and says so */
}

static int move_up(struct removal *r, int from, const char *name) {
    char fresh[32];
    let_in(from, name); /* moving a folder writes its ".." */
    do {
        snprintf(fresh, sizeof fresh, ".remove-%llu", (unsigned long long)r->number++);
        if (renameat(from, name, r->top, fresh) == 0)
            return 0;
    } while (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR || errno == EISDIR);
    return -1;
}

static bool is_dot(const char *name) {
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* Opens a folder for reading without following a link or entering a mount. */
static DIR *open_list(int dir, const char *name) {
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_NO_XDEV};
    int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
    if (fd < 0 && (errno == ENOSYS || errno == EPERM)) {
        struct stat here, there;
        fd = openat(dir, name, (int)how.flags);
        if (fd >= 0 && (fstat(dir, &here) < 0 || fstat(fd, &there) < 0 || here.st_dev != there.st_dev)) {
            close(fd);
            fd = -1;
            errno = EXDEV;
        }
    }
    if (fd < 0 && errno == EXDEV)
        errno = EBUSY;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0)
        close(fd);
    return d;
}

static err_t empty_child(struct removal *r, const char *name) {
    let_in(r->top, name);
    DIR *d = open_list(r->top, name);
    if (!d)
        return failed(r, errno, name);
    err_t e = NULL;
    for (struct dirent *entry; !e && (entry = readdir(d));) {
        bool full;
        if (is_dot(entry->d_name) || unlink_any(dirfd(d), entry->d_name, &full) == 0)
            continue;
        if (!full || move_up(r, dirfd(d), entry->d_name) < 0)
            e = failed(r, errno, entry->d_name);
    }
    closedir(d);
    return e;
}

/* One walk over the top folder. *ret_seen: entries that were there. */
static err_t pass(struct removal *r, DIR *d, size_t *ret_seen) {
    *ret_seen = 0;
    rewinddir(d);
    for (struct dirent *entry; (entry = readdir(d));) {
        bool full;
        if (is_dot(entry->d_name))
            continue;
        ++*ret_seen;
        if (unlink_any(r->top, entry->d_name, &full) == 0)
            continue;
        if (!full)
            return failed(r, errno, entry->d_name);
        TRY(empty_child(r, entry->d_name));
        if (unlinkat(r->top, entry->d_name, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY && errno != ENOENT)
            return failed(r, errno, entry->d_name);
    }
    return NULL;
}

err_t fs_remove(const char *path) {
    own_free char *copy = xstrdup(path), *copy2 = xstrdup(path);
    const char *name = basename(copy2);
    struct removal r = {.path = path};
    own_fd int parent = open(dirname(copy), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return errno == ENOENT ? NULL : err_sys(errno, "open the folder of %s", path);
    bool full;
    if (unlink_any(parent, name, &full) == 0)
        return NULL;
    if (!full)
        return err_sys(errno, "remove %s", path);
    let_in(parent, name);
    DIR *d = open_list(parent, name);
    if (!d)
        return err_sys(errno, "remove %s", path);
    r.top = dirfd(d);
    size_t seen;
    err_t e;
    do
        e = pass(&r, d, &seen);
    while (!e && seen);
    closedir(d);
    if (!e && unlinkat(parent, name, AT_REMOVEDIR) < 0)
        e = err_sys(errno, "remove %s", path);
    return e;
}
