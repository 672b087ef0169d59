#include "base/fs.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/openat2.h>
#include <sys/random.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Owner and mode through the descriptor, and the proof. */
static err_t put_right(int fd, const char *path, uid_t uid, gid_t gid, mode_t mode) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_sys(errno, "look at %s", path);
    if ((st.st_uid != uid || st.st_gid != gid) && fchown(fd, uid, gid) < 0)
        return err_sys(errno, "give %s to uid %u", path, (unsigned)uid);
    if (fchmod(fd, mode) < 0) /* always: fchown() takes set-id bits off */
        return err_sys(errno, "set the mode of %s", path);
    if (fstat(fd, &st) < 0)
        return err_sys(errno, "look at %s", path);
    if (st.st_uid != uid || st.st_gid != gid || (st.st_mode & 07777) != mode)
        return err_new(EXIT_FAILED,
                       "%s is uid %u, gid %u, mode %04o in spite of all: the file system keeps no owners",
                       path, (unsigned)st.st_uid, (unsigned)st.st_gid, (unsigned)(st.st_mode & 07777));
    return NULL;
}

err_t fs_dir(const char *path, uid_t uid, gid_t gid, mode_t mode) {
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_sys(errno, "make the folder %s", path);
    own_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(errno, "%s must be a folder", path);
    return put_right(fd, path, uid, gid, mode);
}

err_t fs_dirs(const char *path) {
    own_free char *part = xstrdup(path);
    for (char *at = part; *at;) {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        char was = *at;
        *at = 0;
        struct stat st;
        if (mkdir(part, 0755) == 0)
            TRY(fs_dir(part, geteuid(), getegid(), 0755)); /* whatever the umask */
        else if (errno != EEXIST || stat(part, &st) < 0 || !S_ISDIR(st.st_mode))
            return err_sys(errno == EEXIST ? ENOTDIR : errno, "make the folder %s", part);
        *at = was;
    }
    return NULL;
}

/* A new file that is not yet in its place. */
struct fresh {
    int dir, fd;
    const char *path;
    char *name, temp[64];
};

static err_t fresh_open(struct fresh *f, const char *path) {
    *f = (struct fresh){.dir = -1, .fd = -1, .path = path};
    own_free char *copy = xstrdup(path), *copy2 = xstrdup(path);
    f->dir = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->dir < 0)
        return err_sys(errno, "open the folder of %s", path);
    f->name = xstrdup(basename(copy2));
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return err_sys(errno, "random bytes");
    snprintf(f->temp, sizeof f->temp, ".new-%016llx", (unsigned long long)number);
    f->fd = openat(f->dir, f->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return f->fd < 0 ? err_sys(errno, "make a file beside %s", path) : NULL;
}

static err_t fresh_publish(struct fresh *f, uid_t uid, gid_t gid, mode_t mode) {
    TRY(put_right(f->fd, f->path, uid, gid, mode));
    if (fsync(f->fd) < 0)
        return err_sys(errno, "write %s", f->path);
    if (renameat(f->dir, f->temp, f->dir, f->name) < 0)
        return err_sys(errno, "replace %s", f->path);
    f->temp[0] = 0;
    if (fsync(f->dir) < 0)
        return err_sys(errno, "write the folder of %s", f->path);
    return NULL;
}

static void fresh_free(struct fresh *f) {
    if (f->temp[0] && f->fd >= 0)
        unlinkat(f->dir, f->temp, 0);
    own_closep(&f->fd);
    own_closep(&f->dir);
    own_freep(&f->name);
}

static err_t write_all(int fd, const char *path, const char *p, size_t n) {
    while (n) {
        ssize_t put = write(fd, p, n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return err_sys(put < 0 ? errno : EIO, "write %s", path);
        p += put;
        n -= (size_t)put;
    }
    return NULL;
}

err_t fs_write(const char *path, const void *p, size_t n, uid_t uid, gid_t gid, mode_t mode) {
    struct fresh f __attribute__((cleanup(fresh_free)));
    TRY(fresh_open(&f, path));
    TRY(write_all(f.fd, path, p, n));
    return fresh_publish(&f, uid, gid, mode);
}

/* O_NONBLOCK: a FIFO in its place must not hold us. */
static err_t open_regular(const char *path, int *ret_fd) {
    own_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        int why = errno;
        return err_as(err_sys(why, "open %s", path), why == ENOENT ? EXIT_NOTFOUND : EXIT_FAILED);
    }
    if (!S_ISREG(st.st_mode))
        return err_new(EXIT_FAILED, "%s is not a regular file", path);
    *ret_fd = TAKE_FD(fd);
    return NULL;
}

err_t fs_read(const char *path, size_t max, struct buf *out) {
    own_fd int fd = -1;
    TRY(open_regular(path, &fd));
    char chunk[16384];
    for (size_t had = 0;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(errno, "read %s", path);
        if (n == 0)
            return NULL;
        if ((size_t)n > max - had)
            return err_new(EXIT_FAILED, "%s is larger than %zu bytes", path, max);
        had += (size_t)n;
        buf_add(out, chunk, (size_t)n);
    }
}

err_t fs_read_into(const char *path, char *room, size_t size, size_t *ret) {
    own_fd int fd = -1;
    TRY(open_regular(path, &fd));
    for (size_t n = 0; n < size;) {
        ssize_t k = read(fd, room + n, size - n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return err_sys(errno, "read %s", path);
        n += (size_t)k;
        if (!k) {
            *ret = n;
            return NULL;
        }
    }
    return err_new(EXIT_FAILED, "%s is larger than %zu bytes", path, size - 1);
}

err_t fs_lock(const char *path, int *ret_fd) {
    own_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(errno, "open %s", path);
    while (flock(fd, LOCK_EX))
        if (errno != EINTR)
            return err_sys(errno, "lock %s", path);
    *ret_fd = TAKE_FD(fd);
    return NULL;
}

err_t fs_read_line(const char *path, char **ret) {
    own_buf struct buf b = {0};
    TRY(fs_read(path, 1 << 16, &b));
    if (b.len && b.p[b.len - 1] == '\n')
        b.p[--b.len] = 0;
    if (b.len != strlen(buf_text(&b)) || strchr(buf_text(&b), '\n'))
        return err_new(EXIT_FAILED, "%s holds more than one line", path);
    *ret = buf_take(&b);
    return NULL;
}

static int sys_openat2(int dir, const char *path, int flags, mode_t mode, uint64_t resolve) {
    struct open_how how = {.flags = (uint64_t)flags, .resolve = resolve};
    how.mode = flags & (O_CREAT | __O_TMPFILE) ? mode : 0; /* openat2 refuses a mode that is not used */
    return (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
}

/* What openat2 does, for kernels before 5.6: a folder at a time. A rename while we walk cannot lead us out,
 * since each step starts at a descriptor and ".." is never taken. */
static int open_by_parts(int dir, const char *path, int flags, mode_t mode) {
    own_free char *copy = xstrdup(path);
    own_fd int at = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    for (char *p = copy + strspn(copy, "/"); at >= 0;) {
        size_t n = strcspn(p, "/");
        char *next = p + n + strspn(p + n, "/");
        bool last = !*next;
        p[n] = 0;
        if (!strcmp(p, "..")) {
            errno = EXDEV;
            return -1;
        }
        int fd = openat(at, n ? p : ".",
                        last ? flags | O_NOFOLLOW : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd < 0 || last)
            return fd;
        own_closep(&at);
        at = fd;
        p = next;
    }
    return -1;
}

err_t fs_open_beneath(int dir, const char *path, int flags, mode_t mode, int *ret_fd) {
    int fd;
    if (*path == '/')
        return err_new(EXIT_USAGE, "%s is not a relative path", path);
    do
        fd = sys_openat2(dir, path, flags | O_CLOEXEC, mode,
                         RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    while (fd < 0 && (errno == EAGAIN || errno == EINTR)); /* EAGAIN: a rename went on meanwhile */
    if (fd < 0 && (errno == ENOSYS || errno == EPERM)) /* EPERM: a seccomp profile that does not know it */
        fd = open_by_parts(dir, path, flags | O_CLOEXEC, mode);
    if (fd < 0)
        return err_sys(errno, "open %s", path);
    *ret_fd = fd;
    return NULL;
}

err_t fs_copy(const char *from, const char *to, uid_t uid, gid_t gid, mode_t mode) {
    own_fd int in = -1;
    TRY(open_regular(from, &in));
    struct fresh f __attribute__((cleanup(fresh_free)));
    TRY(fresh_open(&f, to));
    char chunk[65536];
    for (;;) {
        ssize_t n = read(in, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(errno, "read %s", from);
        if (n == 0)
            break;
        TRY(write_all(f.fd, to, chunk, (size_t)n));
    }
    return fresh_publish(&f, uid, gid, mode);
}

err_t fs_space(const char *path, uint64_t *ret_free, uint64_t *ret_size) {
    struct statvfs v;
    if (statvfs(path, &v) < 0)
        return err_sys(errno, "look at the file system of %s", path);
    *ret_free = (uint64_t)v.f_bavail * v.f_frsize;
    *ret_size = (uint64_t)v.f_blocks * v.f_frsize;
    return NULL;
}
