#include "sealed/collector.h"

#include "base/clock.h"
#include "base/escape.h"
#include "base/own.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LEASE_TRIES = 20, LEASE_PAUSE_MS = 50 };

static bool is_link(int dir, const char *name) {
    struct stat st;
    return !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode);
}

/* One step down, onto no other file system. */
static int open_part(int dir, const char *name, int flags) {
    struct stat here, there;
    int fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOTDIR && is_link(dir, name))
        errno = ELOOP;
    if (fd < 0 || (!fstat(dir, &here) && !fstat(fd, &there) && here.st_dev == there.st_dev))
        return fd;
    close(fd);
    errno = EXDEV;
    return -1;
}

/* What openat2(2) does, for kernels before 5.6: a folder at a time, each step from a descriptor, ".." never. */
static int open_by_parts(int dir, const char *path, int flags) {
    own_free char *copy = xstrdup(path);
    own_fd int at = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    if (*path == '/') {
        errno = EXDEV;
        return -1;
    }
    for (char *p = copy, *next; at >= 0; p = next) {
        next = p + strcspn(p, "/");
        bool last = !*next;
        if (!last)
            *next++ = 0;
        if (!strcmp(p, "..")) {
            errno = EXDEV;
            return -1;
        }
        int fd = open_part(at, *p ? p : ".", last ? flags : O_PATH | O_DIRECTORY);
        if (last || fd < 0)
            return fd;
        close(at);
        at = fd;
    }
    return -1;
}

static int open_beneath(int dir, const char *path, uint64_t flags) {
    struct open_how how = {.flags = flags | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
                                      RESOLVE_NO_XDEV};
    int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
    return fd < 0 && errno == ENOSYS ? open_by_parts(dir, path, (int)how.flags) : fd;
}

/* EAGAIN: somebody holds a lease, or something was renamed meanwhile. Both end by trying again, or not at all. */
static int open_patiently(int dir, const char *path, uint64_t flags) {
    const struct timespec pause = {0, LEASE_PAUSE_MS * 1000000L};
    int fd;
    for (int i = 0;
         (fd = open_beneath(dir, path, flags)) < 0 && (errno == EAGAIN || errno == EINTR) && i < LEASE_TRIES;
         i++)
        nanosleep(&pause, NULL);
    return fd;
}

static err_t refuse(const char *path, const char *why) {
    char shown[300];
    escape_into(shown, sizeof shown, ESCAPE_LINE, path, strlen(path));
    return err_new(EXIT_POLICY, "%s %s", shown, why);
}

static err_t not_opened(const char *path, int why) {
    static const struct {
        int errnum;
        const char *said;
    } rows[] = {{ELOOP, "is a link, or there is one on the way; it is not followed"},
                {EXDEV, "leads out of the folder, or onto another file system"},
                {ENXIO, "is a socket, or a device that nothing stands behind"},
                {EAGAIN, "is held by a lease; try again"},
                {EISDIR, "is a folder"}};
    char shown[300];
    for (size_t i = 0; i < COUNT(rows); i++)
        if (rows[i].errnum == why)
            return refuse(path, rows[i].said);
    escape_into(shown, sizeof shown, ESCAPE_LINE, path, strlen(path));
    err_t e = err_sys(why, "%s cannot be opened", shown);
    return err_as(e, why == ENOENT || why == ENOTDIR ? EXIT_NOTFOUND : EXIT_FAILED);
}

err_t collect_open(int dir, const char *path, uint64_t cap, int *ret_fd, struct stat *ret_st) {
    own_fd int fd = open_patiently(dir, path, O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return not_opened(path, errno);
    if (!S_ISREG(st.st_mode))
        return refuse(path, "is not a regular file");
    if (st.st_nlink != 1)
        return refuse(path, "has another name somewhere (a hard link)");
    if ((uint64_t)st.st_size > cap)
        return refuse(path, "is too large");
    *ret_fd = TAKE_FD(fd);
    *ret_st = st;
    return NULL;
}

err_t collect_read(int dir, const char *path, uint64_t cap, struct buf *out) {
    own_fd int fd = -1;
    struct stat st;
    char chunk[16384];
    TRY(collect_open(dir, path, cap, &fd, &st));
    for (uint64_t had = 0; had < cap;) {
        size_t want = cap - had < sizeof chunk ? (size_t)(cap - had) : sizeof chunk;
        ssize_t n = read(fd, chunk, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return not_opened(path, errno);
        if (n == 0)
            return NULL;
        buf_add(out, chunk, (size_t)n);
        had += (uint64_t)n;
    }
    return NULL;
}

/* ---- the walk ---- */

struct walk {
    const struct collect_how *how;
    void *ctx;
    int64_t until; /* of clock_mono_ns(); 0: no end */
    struct collect_sum sum;
    struct buf path;
    bool over;
};

static bool is_dot(const char *name) {
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

static void skip(struct walk *w, const struct collect_entry *e) {
    w->sum.skipped++;
    if (w->how->skipped && !w->how->skipped(w->ctx, e))
        w->over = true;
}

static bool walk_folder(struct walk *w, int fd, size_t depth);

static void enter(struct walk *w, int dir, const struct collect_entry *e) {
    int fd = e->depth < COLLECT_DEPTH_MAX ? open_patiently(dir, e->name, O_RDONLY | O_DIRECTORY) : -1;
    if (fd >= 0 && walk_folder(w, fd, e->depth + 1))
        return;
    struct collect_entry again = *e; /* the path may lie elsewhere by now */
    again.path = buf_text(&w->path);
    skip(w, &again);
}

static bool enough(struct walk *w) {
    if (w->sum.entries < COLLECT_ENTRIES_MAX && (!w->until || clock_mono_ns() < w->until))
        return false;
    w->sum.skipped++;
    return w->sum.cut = w->over = true;
}

static void visit(struct walk *w, int dir, const char *name, size_t depth) {
    char target[4096] = "";
    struct collect_entry e = {.name = name, .path = buf_text(&w->path), .depth = depth, .target = target};
    if (enough(w))
        return;
    bool known = !fstatat(dir, name, &e.st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT);
    if (!known && errno == ENOENT)
        return; /* gone since */
    w->sum.entries++;
    if (!known || w->path.len >= PATH_MAX) {
        skip(w, &e);
        return;
    }
    if (S_ISLNK(e.st.st_mode)) {
        ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = 0;
    }
    if (!w->how->each(w->ctx, &e))
        w->over = true;
    else if (S_ISDIR(e.st.st_mode))
        enter(w, dir, &e);
}

/* Takes fd. False: not all of it was read. */
static bool walk_folder(struct walk *w, int fd, size_t depth) {
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return false;
    }
    size_t at = w->path.len;
    struct dirent *entry;
    while (errno = 0, !w->over && (entry = readdir(d))) {
        if (is_dot(entry->d_name))
            continue;
        if (at)
            buf_adds(&w->path, "/");
        buf_adds(&w->path, entry->d_name);
        visit(w, dirfd(d), entry->d_name, depth);
        w->path.len = at;
        w->path.p[at] = 0;
    }
    bool whole = w->over || !errno || errno == ENOENT; /* ENOENT: the folder was removed */
    closedir(d);
    return whole;
}

err_t collect_walk_as(int dir, const struct collect_how *how, void *ctx, struct collect_sum *ret) {
    struct walk w = {.how = how, .ctx = ctx};
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(errno, "the folder cannot be walked");
    if (how->ms)
        w.until = clock_mono_ns() + how->ms * 1000000;
    bool whole = walk_folder(&w, fd, 0);
    if (!whole) {
        w.sum.cut = true;
        w.sum.skipped++;
    }
    buf_free(&w.path);
    *ret = w.sum;
    return NULL;
}

err_t collect_walk(int dir, collect_fn *each, void *ctx, struct collect_sum *ret) {
    const struct collect_how how = {.each = each};
    return collect_walk_as(dir, &how, ctx, ret);
}
