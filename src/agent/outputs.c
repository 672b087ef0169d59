#include "agent/outputs.h"
#include "base/own.h"
#include "base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct outputs {
    int dir, file; /* file: -1 when none is being written */
    uint64_t cap, kept, left_out;
    bool failed;
};

struct old {
    uint64_t id, size;
};

err_t outputs_open(int home, uint64_t cap, struct outputs **ret) {
    if (mkdirat(home, "outputs", 0700) < 0 && errno != EEXIST)
        return err_sys(errno, "make the folder outputs");
    int dir = openat(home, "outputs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return err_sys(errno, "open the folder outputs");
    struct outputs *o = xcalloc(1, sizeof *o);
    *o = (struct outputs){.dir = dir, .file = -1, .cap = cap};
    *ret = o;
    return NULL;
}

static int by_id(const void *a, const void *b) {
    uint64_t x = ((const struct old *)a)->id, y = ((const struct old *)b)->id;
    return x < y ? -1 : x > y;
}

/* The files there are, oldest first; the caller frees. */
static struct old *list(int folder, size_t *ret_n, uint64_t *ret_bytes) {
    struct old *v = NULL;
    size_t n = 0, cap = 0;
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    *ret_bytes = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct old old;
        struct stat st;
        err_t no = parse_u64(e->d_name, UINT64_MAX, &old.id);
        if (no || fstatat(folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            err_free(no);
            continue;
        }
        old.size = (uint64_t)st.st_size;
        *ret_bytes += old.size;
        if (n == cap)
            v = xrealloc(v, cap = cap ? 2 * cap : 64, sizeof *v);
        v[n++] = old;
    }
    if (d)
        closedir(d);
    if (n)
        qsort(v, n, sizeof *v, by_id);
    *ret_n = n;
    return v;
}

static void make_room(struct outputs *o) {
    size_t n;
    uint64_t bytes, most = o->cap * (OUTPUTS_TOTAL - 1); /* one more cap is about to be written */
    own_free struct old *v = list(o->dir, &n, &bytes);
    for (size_t i = 0; i < n && (bytes > most || n - i >= OUTPUTS_FILES); i++) {
        char name[OUTPUTS_NAME_MAX];
        snprintf(name, sizeof name, "%" PRIu64, v[i].id);
        if (unlinkat(o->dir, name, 0) == 0)
            bytes -= v[i].size;
    }
}

err_t outputs_begin(struct outputs *o, uint64_t id) {
    outputs_end(o);
    make_room(o);
    o->kept = o->left_out = 0;
    o->failed = false;
    char name[OUTPUTS_NAME_MAX];
    snprintf(name, sizeof name, "%" PRIu64, id);
    o->file = openat(o->dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    o->failed = o->file < 0;
    return o->failed ? err_sys(errno, "make outputs/%s", name) : NULL;
}

static err_t write_all(int fd, const char *p, size_t n, uint64_t *kept) {
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return err_sys(errno, "write the output's file");
        *kept += (uint64_t)k;
        p += k;
        n -= (size_t)k;
    }
    return NULL;
}

err_t outputs_add(struct outputs *o, const char *p, size_t n) {
    size_t fits = o->failed ? 0 : o->cap - o->kept < n ? (size_t)(o->cap - o->kept) : n;
    uint64_t before = o->kept;
    err_t e = fits ? write_all(o->file, p, fits, &o->kept) : NULL;
    o->left_out += n - (o->kept - before);
    if (e)
        o->failed = true;
    return e;
}

void outputs_end(struct outputs *o) {
    if (o->file < 0)
        return;
    if (o->left_out)
        dprintf(o->file, "\n[%" PRIu64 " bytes more are not kept]\n", o->left_out);
    own_closep(&o->file);
}

void outputs_name(char out[OUTPUTS_NAME_MAX], uint64_t id) {
    snprintf(out, OUTPUTS_NAME_MAX, "outputs/%" PRIu64, id);
}

void outputs_free(struct outputs *o) {
    if (!o)
        return;
    outputs_end(o);
    own_closep(&o->dir);
    free(o);
}
