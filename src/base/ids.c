#include "base/ids.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/names.h"
#include "base/own.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILE_MAX = 4 << 20, LOCK_WAIT_MS = 15000 };
#define IDS_END UINT64_C(0xfff00000) /* above: trials (cli/doctor_engine.c), "nobody", "unchanged" */

static const char *etc_dir = "";

void ids_etc(const char *dir) {
    etc_dir = dir;
}

static char *etc_path(const char *file) {
    return xasprintf("%s/etc/%s", etc_dir, file);
}

static err_t open_passwd(FILE **ret) {
    own_free char *path = etc_path("passwd");
    *ret = fopen(path, "re");
    return *ret ? NULL : err_sys(errno, "open %s", path);
}

err_t ids_account(const char *name, uid_t *ret_uid, gid_t *ret_gid) {
    own_file FILE *f = NULL;
    TRY(open_passwd(&f));
    for (struct passwd *p; (p = fgetpwent(f));)
        if (!strcmp(p->pw_name, name)) {
            *ret_uid = p->pw_uid;
            *ret_gid = p->pw_gid;
            return NULL;
        }
    return err_new(EXIT_NOTFOUND, "there is no account %s", name);
}

char *ids_name(uid_t uid) {
    own_file FILE *f = NULL;
    own_err err_t e = open_passwd(&f);
    for (struct passwd *p; !e && (p = fgetpwent(f));)
        if (p->pw_uid == uid)
            return xstrdup(p->pw_name);
    return NULL;
}

char *ids_home(uid_t uid) {
    own_file FILE *f = NULL;
    own_err err_t e = open_passwd(&f);
    for (struct passwd *p; !e && (p = fgetpwent(f));)
        if (p->pw_uid == uid && p->pw_dir[0] == '/')
            return xstrdup(p->pw_dir);
    return NULL;
}

/* shadow's lock, as lckpwdf(3) takes it, without its SIGALRM: a write lock on the whole file, which goes with
 * fd. */
static err_t lock(int *ret_fd) {
    own_free char *path = etc_path(".pwd.lock");
    own_fd int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(errno, "open %s", path);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int64_t until = clock_mono_ns() + LOCK_WAIT_MS * INT64_C(1000000);
    while (fcntl(fd, F_SETLK, &whole) < 0) {
        if (errno != EACCES && errno != EAGAIN && errno != EINTR)
            return err_sys(errno, "lock %s", path);
        if (clock_mono_ns() > until)
            return err_new(EXIT_FAILED, "another program has held %s for %d s: try again", path,
                           LOCK_WAIT_MS / 1000);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    *ret_fd = TAKE_FD(fd);
    return NULL;
}

struct span {
    uint64_t start, count;
    bool ours;
};

struct spans {
    struct span *v;
    size_t n;
};

static void spans_free(struct spans *s) {
    own_freep(&s->v);
}
#define own_spans __attribute__((cleanup(spans_free)))

static void add(struct spans *s, uint64_t start, uint64_t count, bool ours) {
    s->v = xrealloc(s->v, s->n + 1, sizeof *s->v);
    s->v[s->n++] = (struct span){start, count, ours};
}

/* "name:start:count" (subuid(5)); false for anything else, which is left alone. */
static bool parse_line(const char *line, size_t n, const char *name, struct span *ret) {
    own_free char *copy = xstrndup(line, n);
    char *start = strchr(copy, ':'), *count = start ? strchr(start + 1, ':') : NULL;
    if (!count)
        return false;
    *start++ = *count++ = 0;
    own_err err_t a = parse_u64(start, UINT32_MAX, &ret->start);
    own_err err_t b = parse_u64(count, UINT64_C(1) << 32, &ret->count);
    ret->ours = !strcmp(copy, name);
    return !a && !b;
}

/* Adds the lines of /etc/subuid or subgid; a file that is not there has none. */
static err_t read_spans(const char *file, const char *name, struct spans *s) {
    own_free char *path = etc_path(file);
    own_buf struct buf text = {0};
    err_t e = fs_read(path, FILE_MAX, &text);
    if (e && e->status == EXIT_NOTFOUND) {
        err_free(e);
        return NULL;
    }
    TRY(e);
    for (const char *p = buf_text(&text); *p;) {
        size_t n = strcspn(p, "\n");
        struct span one;
        if (parse_line(p, n, name, &one))
            add(s, one.start, one.count, one.ours);
        p += n + (p[n] == '\n');
    }
    return NULL;
}

/* Everything that somebody else's or our own entry claims: both files, and the ids of existing accounts. */
static err_t read_all(const char *name, struct spans *s) {
    TRY(read_spans("subuid", name, s));
    TRY(read_spans("subgid", name, s));
    own_file FILE *f = NULL;
    TRY(open_passwd(&f));
    for (struct passwd *p; (p = fgetpwent(f));) {
        add(s, p->pw_uid, 1, false);
        add(s, p->pw_gid, 1, false);
    }
    return NULL;
}

static uint64_t round_up(uint64_t v) {
    return (v + UIDS_EACH - 1) / UIDS_EACH * UIDS_EACH;
}

/* The first block at or above `from` that touches nobody. */
static err_t first_free(const struct spans *s, uint64_t from, uint64_t *ret) {
    uint64_t at = round_up(from);
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < s->n; i++)
            if (s->v[i].start < at + IDS_BLOCK && at < s->v[i].start + s->v[i].count) {
                at = round_up(s->v[i].start + s->v[i].count);
                moved = true;
            }
    }
    if (at + IDS_BLOCK > IDS_END)
        return err_new(EXIT_FAILED, "no %d free ids are left above %llu in /etc/subuid and /etc/subgid",
                       IDS_BLOCK, (unsigned long long)from);
    *ret = at;
    return NULL;
}

/* Rewrites one file: without this fleet's lines when `drop`, with `line` at its end when that is not "". */
static err_t rewrite(const char *file, const char *name, bool drop, const char *line) {
    own_free char *path = etc_path(file);
    own_buf struct buf was = {0}, now = {0};
    err_t e = fs_read(path, FILE_MAX, &was);
    if (e && e->status != EXIT_NOTFOUND)
        return e;
    err_free(e);
    for (const char *p = buf_text(&was); *p;) {
        size_t n = strcspn(p, "\n");
        struct span one;
        if (!drop || !parse_line(p, n, name, &one) || !one.ours) {
            buf_add(&now, p, n);
            buf_adds(&now, "\n");
        }
        p += n + (p[n] == '\n');
    }
    buf_adds(&now, line);
    if (now.len == was.len && !memcmp(buf_text(&now), buf_text(&was), was.len))
        return NULL;
    struct stat st = {.st_uid = geteuid(), .st_gid = getegid(), .st_mode = 0644};
    if (stat(path, &st) < 0 && errno != ENOENT)
        return err_sys(errno, "look at %s", path);
    return fs_write(path, buf_text(&now), now.len, st.st_uid, st.st_gid, st.st_mode & 07777);
}

/* Is this block in the file? A crash between the two files leaves it in one. */
static err_t ensure(const char *file, const char *name, const struct span *block) {
    own_spans struct spans have = {0};
    TRY(read_spans(file, name, &have));
    for (size_t i = 0; i < have.n; i++)
        if (have.v[i].ours && have.v[i].start == block->start && have.v[i].count == block->count)
            return NULL;
    own_free char *line =
        xasprintf("%s:%llu:%llu\n", name, (unsigned long long)block->start, (unsigned long long)block->count);
    return rewrite(file, name, false, line);
}

/* The block that the mark stands in (0: never set), else a new one above it. */
static err_t block_for(const char *name, uint64_t mark, struct span *ret) {
    own_spans struct spans all = {0};
    TRY(read_all(name, &all));
    bool found = false;
    for (size_t i = 0; i < all.n; i++) {
        const struct span *s = &all.v[i];
        uint64_t at = mark > s->start ? mark : s->start;
        if (s->ours && s->start >= IDS_FIRST && at + UIDS_EACH <= s->start + s->count &&
            (!found || s->start < ret->start)) {
            *ret = *s;
            found = true;
        }
    }
    if (!found) {
        TRY(first_free(&all, mark > IDS_FIRST ? mark : IDS_FIRST, &ret->start));
        ret->count = IDS_BLOCK;
    }
    TRY(ensure("subuid", name, ret));
    return ensure("subgid", name, ret);
}

static err_t read_mark(const char *path, uint64_t *ret) {
    own_free char *text = NULL;
    *ret = 0;
    err_t e = fs_read_line(path, &text);
    if (e && e->status == EXIT_NOTFOUND) {
        err_free(e);
        return NULL;
    }
    TRY(e);
    return err_wrap(parse_u64(text, IDS_END, ret), "%s", path);
}

err_t ids_next_range(const char *prefix, const char *dir, uint32_t *ret_base) {
    own_free char *path = xasprintf("%s/next-uid", dir), *name = xasprintf("%scage", prefix);
    own_fd int held = -1;
    uint64_t mark;
    struct span block = {0};
    TRY(lock(&held));
    TRY(read_mark(path, &mark));
    TRY(block_for(name, mark, &block));
    uint64_t base = mark > block.start ? mark : block.start;
    own_free char *next = xasprintf("%llu\n", (unsigned long long)base + UIDS_EACH);
    TRY(fs_write(path, next, strlen(next), geteuid(), getegid(), 0600));
    *ret_base = (uint32_t)base;
    return NULL;
}

err_t ids_drop(const char *prefix) {
    own_free char *name = xasprintf("%scage", prefix);
    own_fd int held = -1;
    TRY(lock(&held));
    TRY(rewrite("subuid", name, true, ""));
    return rewrite("subgid", name, true, "");
}

err_t ids_reserved(const char *prefix, uint64_t *ret_ids) {
    static const char *const files[] = {"subuid", "subgid"};
    own_free char *name = xasprintf("%scage", prefix);
    uint64_t sum[COUNT(files)] = {0};
    for (size_t f = 0; f < COUNT(files); f++) {
        own_spans struct spans s = {0};
        TRY(read_spans(files[f], name, &s));
        for (size_t i = 0; i < s.n; i++)
            sum[f] += s.v[i].ours ? s.v[i].count : 0;
    }
    if (sum[0] != sum[1])
        return err_new(EXIT_FAILED, "/etc/subuid and /etc/subgid differ about %s", name);
    *ret_ids = sum[0];
    return NULL;
}

bool ids_ours(const char *prefix, uid_t uid) {
    if (uid < IDS_FIRST)
        return false;
    own_free char *name = xasprintf("%scage", prefix);
    own_spans struct spans s = {0};
    own_err err_t e = read_spans("subuid", name, &s);
    for (size_t i = 0; i < s.n; i++)
        if (s.v[i].ours && uid >= s.v[i].start && uid - s.v[i].start < s.v[i].count)
            return true;
    return false;
}
