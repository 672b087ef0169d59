/*
 * Changes that wait, shown and taken. The upper layer is read by the collector alone; what is written into the project is
 * written with its owner's rights, at descriptors below the project, never through a link.
 */
#include "sealed/kept.h"

#include "base/escape.h"
#include "base/fs.h"
#include "base/own.h"
#include "sealed/collector.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define FILE_CAP (UINT64_C(1) << 40)

static bool is_whiteout(const struct stat *st) {
    return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

static const char *kind_of(const struct stat *st) {
    switch (st->st_mode & S_IFMT) {
    case S_IFREG:
        return "file";
    case S_IFDIR:
        return "folder";
    case S_IFLNK:
        return "link";
    case S_IFIFO:
        return "FIFO";
    case S_IFSOCK:
        return "socket";
    default:
        return "device";
    }
}

static int open_in(int dir, const char *path, uint64_t flags) {
    struct open_how how = {.flags = flags | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
}

/* Of the project's own entry; false when there is none. */
static bool had(int project, const char *path, struct stat *ret) {
    own_fd int fd = open_in(project, path, O_PATH);
    return fd >= 0 && !fstat(fd, ret);
}

static void add_path(struct buf *out, const char *path) {
    escape_text(out, ESCAPE_LINE, path, strlen(path));
}

/* A folder that was made anew in the cage: what the project has in it is hidden. Only root reads the one attribute, an
 * ordinary user's overlay has the other. */
static bool is_opaque(const struct store *s, const char *path) {
    own_fd int fd = open_in(s->upper, path, O_RDONLY | O_DIRECTORY);
    char v[4] = "";
    return fd >= 0 &&
           (fgetxattr(fd, "trusted.overlay.opaque", v, sizeof v) > 0 ||
            fgetxattr(fd, "user.overlay.opaque", v, sizeof v) > 0) &&
           *v == 'y';
}

/* ---- diff ---- */

struct differ {
    const struct store *s;
    const struct project *p;
    struct buf *out;
};

static bool differ_one(void *ctx, const struct collect_entry *e) {
    struct differ *d = ctx;
    struct stat was;
    bool known = had(d->p->fd, e->path, &was);
    if (S_ISDIR(e->st.st_mode) && known && S_ISDIR(was.st_mode)) {
        if (!is_opaque(d->s, e->path))
            return true; /* what changed in it is told by itself */
        buf_adds(d->out, "deleted  all in   ");
        add_path(d->out, e->path);
        buf_adds(d->out, "\n");
        return true;
    }
    buf_printf(d->out, "%-8s %-7s ",
               is_whiteout(&e->st) ? "deleted"
               : known             ? "changed"
                                   : "new",
               is_whiteout(&e->st) ? known ? kind_of(&was) : "" : kind_of(&e->st));
    add_path(d->out, e->path);
    if (S_ISREG(e->st.st_mode))
        buf_printf(d->out, " (%" PRIu64 " bytes, mode %04o)", (uint64_t)e->st.st_size,
                   (unsigned)e->st.st_mode & 07777);
    if (S_ISLNK(e->st.st_mode)) {
        buf_adds(d->out, " -> ");
        add_path(d->out, e->target);
    }
    if (e->st.st_uid != d->p->uid && !is_whiteout(&e->st))
        buf_printf(d->out, " (belongs to uid %u)", (unsigned)e->st.st_uid);
    buf_adds(d->out, "\n");
    return true;
}

err_t store_diff(const struct store *s, const struct project *p, struct buf *out) {
    struct differ d = {s, p, out};
    struct collect_sum sum;
    if (s->upper < 0)
        return NULL;
    TRY(err_wrap(collect_walk(s->upper, differ_one, &d, &sum), "the changes that wait"));
    if (sum.skipped)
        buf_count(out, sum.skipped, "folder could not be looked at\n", "folders could not be looked at\n");
    return NULL;
}

/* ---- take ---- */

struct taking {
    const struct store *s;
    const struct project *p;
    const char *path;
    struct buf *said;
    uint64_t taken;
    err_t failed;
};

static err_t as_owner(const struct project *p) {
    if (geteuid() == 0 && p->uid && (setegid(p->gid) || seteuid(p->uid)))
        return err_sys(errno, "take the rights of uid %u", (unsigned)p->uid);
    return NULL;
}

static void as_root(void) {
    if (getuid() == 0 && (seteuid(0) || setegid(0)))
        abort();
}

static void stays(struct taking *t, const char *path, const char *why) {
    add_path(t->said, path);
    buf_printf(t->said, ": %s; it stays where it is\n", why);
}

/* The folder of `path` in the project. */
static int open_parent(const struct taking *t, const char *path, const char **ret_name) {
    const char *slash = strrchr(path, '/');
    *ret_name = slash ? slash + 1 : path;
    own_free char *folder = xstrndup(path, slash ? (size_t)(slash - path) : 0);
    return open_in(t->p->fd, *folder ? folder : ".", O_RDONLY | O_DIRECTORY);
}

/* The last part is removed where it stands: from inside its folder, so that nothing above it matters any more. */
static err_t remove_at(int parent, const char *name) {
    if (fchdir(parent))
        return err_sys(errno, "enter a folder of the project");
    err_t e = fs_remove(name);
    if (chdir("/"))
        abort();
    return e;
}

static err_t copy_bytes(int from, int to) {
    char chunk[65536];
    for (;;) {
        ssize_t n = read(from, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(errno, "read a change");
        if (n == 0)
            return fsync(to) ? err_sys(errno, "write into the project") : NULL;
        for (ssize_t at = 0, put; at < n; at += put)
            if ((put = write(to, chunk + at, (size_t)(n - at))) < 0)
                return err_sys(errno, "write into the project");
    }
}

static err_t put_file(int parent, const char *name, int from, mode_t mode) {
    static unsigned number;
    own_free char *temp = xasprintf(".agent-cage-take-%d-%u", (int)getpid(), number++);
    own_fd int to = openat(parent, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return err_sys(errno, "make a file in the project");
    err_t e = copy_bytes(from, to);
    if (!e && fchmod(to, mode & 0777)) /* never a set-id bit */
        e = err_sys(errno, "set a file's mode in the project");
    if (!e && renameat(parent, temp, parent, name))
        e = err_sys(errno, "put a file in its place in the project");
    if (e)
        unlinkat(parent, temp, 0);
    return e;
}

static bool leads_out(const char *target) {
    return *target == '/' || strstr(target, "..");
}

static err_t put_folder(const struct collect_entry *e, int parent, const char *name, bool anew) {
    struct stat was;
    bool known = !fstatat(parent, name, &was, AT_SYMLINK_NOFOLLOW);
    if (known && (!S_ISDIR(was.st_mode) || anew)) {
        TRY(remove_at(parent, name)); /* made anew in the cage */
        known = false;
    }
    if (!known && mkdirat(parent, name, e->st.st_mode & 0777))
        return err_sys(errno, "make a folder in the project");
    return NULL;
}

/* With the owner's rights. `from`: the file's bytes; anew: a folder whose old content is gone. */
static err_t put(struct taking *t, const struct collect_entry *e, int from, bool anew) {
    const char *name;
    own_fd int parent = open_parent(t, e->path, &name);
    if (parent < 0)
        return err_sys(errno, "the folder of a change in the project");
    if (S_ISDIR(e->st.st_mode))
        return put_folder(e, parent, name, anew);
    if (is_whiteout(&e->st))
        return remove_at(parent, name);
    if (S_ISREG(e->st.st_mode))
        return put_file(parent, name, from, e->st.st_mode);
    if (unlinkat(parent, name, 0) && errno != ENOENT)
        return err_sys(errno, "replace something in the project");
    return symlinkat(e->target, parent, name) ? err_sys(errno, "make a link in the project") : NULL;
}

static const char *refused(const struct collect_entry *e) {
    if (is_whiteout(&e->st) || S_ISREG(e->st.st_mode) || S_ISDIR(e->st.st_mode))
        return NULL;
    if (!S_ISLNK(e->st.st_mode))
        return "it is no file, folder or link";
    return leads_out(e->target) ? "it is a link that leads away" : NULL;
}

static void forget_change(const struct taking *t, const struct collect_entry *e) {
    const char *slash = strrchr(e->path, '/');
    own_free char *folder = xstrndup(e->path, slash ? (size_t)(slash - e->path) : 0);
    own_fd int parent = open_in(t->s->upper, *folder ? folder : ".", O_RDONLY | O_DIRECTORY);
    if (parent >= 0 && unlinkat(parent, e->name, 0))
        return; /* it shows as changed to the same; no harm */
}

/* Taken: else a later take would empty the folder once more. */
static void no_more_opaque(const struct store *s, const char *path) {
    own_fd int fd = open_in(s->upper, path, O_RDONLY | O_DIRECTORY);
    if (fd >= 0 && fremovexattr(fd, "trusted.overlay.opaque") && fremovexattr(fd, "user.overlay.opaque"))
        return;
}

static err_t take_one(struct taking *t, const struct collect_entry *e) {
    const char *why = refused(e);
    own_fd int from = -1;
    struct stat st;
    if (why) {
        stays(t, e->path, why);
        return NULL;
    }
    if (S_ISREG(e->st.st_mode)) {
        own_err err_t odd = collect_open(t->s->upper, e->path, FILE_CAP, &from, &st);
        if (odd) {
            buf_printf(t->said, "%s; it stays where it is\n", err_text(odd));
            return NULL;
        }
    }
    bool anew = S_ISDIR(e->st.st_mode) && is_opaque(t->s, e->path);
    TRY(as_owner(t->p));
    err_t failed = put(t, e, from, anew);
    as_root();
    if (failed) {
        char shown[200];
        escape_into(shown, sizeof shown, ESCAPE_LINE, e->path, strlen(e->path));
        return err_wrap(failed, "%s", shown);
    }
    t->taken += !S_ISDIR(e->st.st_mode);
    if (!S_ISDIR(e->st.st_mode))
        forget_change(t, e);
    else if (anew)
        no_more_opaque(t->s, e->path);
    return NULL;
}

/* Is `path` the wanted one, below it, or (a folder) above it? */
static bool wanted(const char *want, const struct collect_entry *e) {
    size_t n = strlen(want), m = strlen(e->path);
    if (!strcmp(want, "."))
        return true;
    if (m >= n)
        return !strncmp(e->path, want, n) && (!e->path[n] || e->path[n] == '/');
    return S_ISDIR(e->st.st_mode) && !strncmp(want, e->path, m) && want[m] == '/';
}

static bool take_wanted(void *ctx, const struct collect_entry *e) {
    struct taking *t = ctx;
    if (wanted(t->path, e))
        t->failed = take_one(t, e);
    return !t->failed;
}

static bool any_change(void *ctx, const struct collect_entry *e) {
    bool *found = ctx;
    *found |= !S_ISDIR(e->st.st_mode);
    return !*found;
}

err_t store_take(const struct store *s, const struct project *p, const char *path, struct buf *said,
                 uint64_t *ret_taken) {
    struct taking t = {.s = s, .p = p, .said = said};
    struct collect_sum sum;
    own_free char *clean = xstrdup(path);
    for (size_t n = strlen(clean); n > 1 && clean[n - 1] == '/'; n--)
        clean[n - 1] = 0;
    t.path = !strncmp(clean, "./", 2) ? clean + 2 : clean;
    TRY(collect_walk(s->upper, take_wanted, &t, &sum));
    if (t.failed)
        return t.failed;
    *ret_taken = t.taken;
    bool more = false;
    TRY(collect_walk(s->upper, any_change, &more, &sum));
    return more ? NULL : store_drop(s);
}
