#include "sealed/aftermath.h"

#include "base/fs.h"
#include "base/own.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { LOOK_MS = 3 * 60 * 1000 };

/* Whoever makes names for two paths of one hash would have to know the look's key, which only root's file holds. */
static struct aftermath_mark mark_of(const unsigned char key[AFTERMATH_KEY], const struct collect_entry *e) {
    own_buf struct buf text = {0};
    unsigned char sum[SHA256_DIGEST_LENGTH];
    struct aftermath_mark m = {.inode = e->st.st_ino,
                               .changed_ns =
                                   e->st.st_ctim.tv_sec * INT64_C(1000000000) + e->st.st_ctim.tv_nsec,
                               .mode = e->st.st_mode};
    buf_add(&text, key, AFTERMATH_KEY);
    buf_adds(&text, e->path);
    SHA256((const unsigned char *)text.p, text.len, sum);
    memcpy(m.path, sum, sizeof m.path);
    return m;
}

static int by_path_hash(const void *a, const void *b) {
    const struct aftermath_mark *x = a, *y = b;
    return memcmp(x->path, y->path, sizeof x->path);
}

static void add(struct aftermath_mark **v, size_t *n, size_t *cap, struct aftermath_mark m) {
    if (*n == *cap)
        *v = xrealloc(*v, *cap = *cap ? *cap * 2 : 1024, sizeof **v);
    (*v)[(*n)++] = m;
}

static bool note(void *ctx, const struct collect_entry *e) {
    struct aftermath_before *b = ctx;
    add(&b->v, &b->n, &b->cap, mark_of(b->key, e));
    return true;
}

static struct aftermath_mark left_mark(const struct aftermath_before *b, const struct collect_entry *e) {
    struct aftermath_mark m = mark_of(b->key, e);
    m.changed_ns = (int64_t)e->st.st_dev;
    return m;
}

static bool note_left(void *ctx, const struct collect_entry *e) {
    struct aftermath_before *b = ctx;
    add(&b->left, &b->nleft, &b->left_cap, left_mark(b, e));
    return true;
}

static void in_order(struct aftermath_mark *v, size_t n) {
    if (n)
        qsort(v, n, sizeof *v, by_path_hash);
}

static const struct aftermath_mark *among(const struct aftermath_mark *v, size_t n,
                                          const struct aftermath_mark *m) {
    return n ? bsearch(m, v, n, sizeof *m, by_path_hash) : NULL;
}

/* What a look that was cut did not see counts as new afterwards. */
err_t aftermath_look(int project, struct aftermath_before *ret) {
    static const struct collect_how how = {.each = note, .skipped = note_left, .ms = LOOK_MS};
    struct aftermath_before b = {0};
    struct collect_sum sum;
    if (getrandom(b.key, sizeof b.key, 0) != sizeof b.key)
        return err_sys(errno, "a key for the look at the project");
    TRY(err_wrap(collect_walk_as(project, &how, &b, &sum), "the project"));
    in_order(b.v, b.n);
    in_order(b.left, b.nleft);
    *ret = b;
    return NULL;
}

void aftermath_free(struct aftermath_before *b) {
    free(b->v);
    free(b->left);
    *b = (struct aftermath_before){0};
}

/* The file: the marks as they are in memory, behind this; read by the same build, or refused. */
struct kept_head {
    char magic[8];
    uint64_t mark, n, nleft; /* mark: the size of one */
    unsigned char key[AFTERMATH_KEY];
};
static const struct kept_head kept_head = {.magic = "before2", .mark = sizeof(struct aftermath_mark)};

err_t aftermath_keep(const struct aftermath_before *b, const char *path) {
    own_buf struct buf out = {0};
    struct kept_head head = kept_head;
    head.n = b->n;
    head.nleft = b->nleft;
    memcpy(head.key, b->key, sizeof head.key);
    buf_add(&out, &head, sizeof head);
    buf_add(&out, b->v, b->n * sizeof *b->v);
    buf_add(&out, b->left, b->nleft * sizeof *b->left);
    return fs_write(path, out.p, out.len, 0, 0, 0600);
}

static struct aftermath_mark *copied(const char *p, size_t n) {
    struct aftermath_mark *v = xcalloc(n + 1, sizeof *v);
    memcpy(v, p, n * sizeof *v);
    return v;
}

err_t aftermath_recall(const char *path, struct aftermath_before *ret) {
    own_buf struct buf all = {0};
    struct kept_head head;
    const size_t one = sizeof *ret->v;
    TRY(fs_read(path, sizeof head + 2 * COLLECT_ENTRIES_MAX * one, &all));
    if (all.len < sizeof head)
        return err_new(EXIT_FAILED, "%s is cut off", path);
    memcpy(&head, all.p, sizeof head);
    size_t both = (all.len - sizeof head) / one;
    if (memcmp(head.magic, kept_head.magic, sizeof head.magic) || head.mark != kept_head.mark ||
        head.n > both || head.nleft != both - head.n)
        return err_new(EXIT_FAILED, "%s was written by another version", path);
    *ret = (struct aftermath_before){.n = head.n, .cap = head.n, .nleft = head.nleft, .left_cap = head.nleft};
    memcpy(ret->key, head.key, sizeof ret->key);
    ret->v = copied(all.p + sizeof head, head.n);
    ret->left = copied(all.p + sizeof head + head.n * one, head.nleft);
    return NULL;
}

/* ---- after ---- */

enum was { WAS_SAME, WAS_OTHER, WAS_NOT };

static enum was compare(const struct aftermath_before *b, const struct collect_entry *e) {
    struct aftermath_mark m = mark_of(b->key, e);
    const struct aftermath_mark *at = among(b->v, b->n, &m);
    if (!at)
        return WAS_NOT;
    /* What is put into a folder changes the folder too; that is told by what was put there. */
    bool folder = S_ISDIR((mode_t)m.mode);
    bool same = at->inode == m.inode && at->mode == m.mode && (folder || at->changed_ns == m.changed_ns);
    return same ? WAS_SAME : WAS_OTHER;
}

struct search {
    int project;
    const struct aftermath_before *before;
    struct aftermath *found;
    uint64_t known; /* entries that were there before */
};

static bool judge(void *ctx, const struct collect_entry *e) {
    struct search *s = ctx;
    if (!s->before && S_ISCHR(e->st.st_mode) && !e->st.st_rdev)
        return true; /* an upper layer's mark of a deletion */
    enum was was = s->before ? compare(s->before, e) : WAS_NOT;
    s->known += was != WAS_NOT;
    if (was == WAS_SAME)
        return true;
    s->found->changed += !S_ISDIR(e->st.st_mode);
    char *detail = NULL;
    const char *reason = aftermath_reason(s->project, e, &detail);
    if (!reason)
        return true;
    findings_keep(s->found, e, reason, detail ? detail : xstrdup(""));
    return true;
}

/* One that was skipped before too is the same one only by path, inode and file system. */
static bool judge_left(void *ctx, const struct collect_entry *e) {
    struct search *s = ctx;
    struct aftermath_mark m = s->before ? left_mark(s->before, e) : (struct aftermath_mark){0};
    const struct aftermath_mark *at = s->before ? among(s->before->left, s->before->nleft, &m) : NULL;
    bool same = at && m.inode && at->inode == m.inode && at->changed_ns == m.changed_ns;
    s->found->skipped += !same;
    return true;
}

err_t aftermath_find(int project, const struct aftermath_before *before, struct aftermath *ret) {
    static const struct collect_how how = {.each = judge, .skipped = judge_left, .ms = LOOK_MS};
    struct aftermath a = {0};
    struct search s = {.project = project, .before = before, .found = &a};
    struct collect_sum sum;
    err_t e = collect_walk_as(project, &how, &s, &sum);
    if (e) {
        aftermath_close(&a);
        return err_wrap(e, "the project");
    }
    a.cut = sum.cut;
    a.gone = before && !sum.cut && before->n > s.known ? before->n - s.known : 0;
    findings_order(&a);
    *ret = a;
    return NULL;
}
