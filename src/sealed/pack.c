#include "sealed/pack.h"

#include "base/escape.h"
#include "base/own.h"
#include "cage/words.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 512, NAME_MAX_BYTES = 100, PART_MAX = 60 };
#define FILE_CAP (UINT64_C(8) << 30) /* what the size field of ustar holds */

struct packer {
    int box, to;
    struct buf *said;
    struct words names; /* used ones, in small letters: some file systems tell no case */
    err_t failed;
};

static bool harmless(unsigned char c) {
    return isalnum(c) || strchr("._-+=@,()[] ", c);
}

/* One part of a path. Bytes that are not plain become "_"; what a name must not begin or end with too. */
static void add_part(struct buf *out, const char *part, size_t n) {
    size_t keep = n < PART_MAX ? n : PART_MAX;
    for (size_t i = 0; i < keep; i++) {
        unsigned char c = (unsigned char)part[i];
        bool edge = (i == 0 && strchr("-. ", c)) || (i + 1 == keep && strchr(". ", c));
        char plain = (char)(harmless(c) && c && !edge ? c : '_');
        buf_add(out, &plain, 1);
    }
}

char *pack_name(const char *path, bool *ret_changed) {
    struct buf out = {0};
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        if (n) {
            if (out.len)
                buf_adds(&out, "/");
            add_part(&out, p, n);
        }
        p += n;
        p += *p == '/';
    }
    if (out.len >= NAME_MAX_BYTES) { /* the end tells more than the beginning; the folders go */
        buf_drop(&out, out.len - (NAME_MAX_BYTES - 10));
        for (size_t i = 0; i < out.len; i++)
            if (out.p[i] == '/')
                out.p[i] = '_';
        out.p[0] = '_';
    }
    *ret_changed = strcmp(buf_text(&out), path) != 0;
    return buf_take(&out);
}

static char *lower(const char *s) {
    char *out = xstrdup(s);
    for (char *p = out; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return out;
}

/* A name that no other has, whatever the case of letters. */
static char *unique(struct packer *k, char *name, bool *ret_changed) {
    for (unsigned i = 1;; i++) {
        char *with = i > 1 ? xasprintf("%s_%u", name, i) : xstrdup(name);
        own_free char *small = lower(with);
        if (!words_has(&k->names, small)) {
            words_add(&k->names, small);
            *ret_changed |= i > 1;
            return with;
        }
        free(with);
    }
}

static err_t put(int to, const void *p, size_t n) {
    for (const char *at = p; n;) {
        ssize_t done = write(to, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return err_sys(done < 0 ? errno : EIO, "write the tar file");
        at += done;
        n -= (size_t)done;
    }
    return NULL;
}

/* ustar: fixed owner, mode and time. */
static err_t put_head(int to, const char *name, uint64_t size) {
    char h[BLOCK] = {0};
    unsigned sum = 0;
    snprintf(h, NAME_MAX_BYTES, "%s", name);
    snprintf(h + 100, 8, "%07o", 0644u);
    snprintf(h + 108, 8, "%07o", 0u);
    snprintf(h + 116, 8, "%07o", 0u);
    snprintf(h + 124, 12, "%011llo", (unsigned long long)size);
    snprintf(h + 136, 12, "%011o", 0u);
    memset(h + 148, ' ', 8);
    h[156] = '0';
    memcpy(h + 257, "ustar", 6);
    memcpy(h + 263, "00", 2);
    for (size_t i = 0; i < BLOCK; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 7, "%06o", sum);
    return put(to, h, BLOCK);
}

/* Exactly `size` bytes, whatever became of the file since: zeros for what is gone. */
static err_t put_body(int from, int to, uint64_t size) {
    char chunk[65536];
    for (uint64_t left = size; left;) {
        size_t want = left < sizeof chunk ? (size_t)left : sizeof chunk;
        ssize_t n = read(from, chunk, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            memset(chunk, 0, (size_t)(n = (ssize_t)want));
        TRY(put(to, chunk, (size_t)n));
        left -= (uint64_t)n;
    }
    memset(chunk, 0, BLOCK);
    return put(to, chunk, (BLOCK - size % BLOCK) % BLOCK);
}

static void left_out(struct packer *k, const struct err *why) {
    buf_printf(k->said, "left out: %s\n", err_text(why));
}

static err_t pack_one(struct packer *k, const struct collect_entry *e) {
    own_fd int from = -1;
    struct stat st;
    bool changed;
    own_err err_t odd = collect_open(k->box, e->path, FILE_CAP - 1, &from, &st);
    if (odd) {
        left_out(k, odd);
        return NULL;
    }
    own_free char *plain = pack_name(e->path, &changed), *name = unique(k, plain, &changed);
    if (changed) {
        escape_text(k->said, ESCAPE_LINE, e->path, strlen(e->path));
        buf_printf(k->said, " is packed as %s\n", name);
    }
    TRY(put_head(k->to, name, (uint64_t)st.st_size));
    return put_body(from, k->to, (uint64_t)st.st_size);
}

static bool pack_entry(void *ctx, const struct collect_entry *e) {
    struct packer *k = ctx;
    if (!S_ISDIR(e->st.st_mode))
        k->failed = pack_one(k, e);
    return !k->failed;
}

err_t pack_tar(int box, int to, struct buf *said) {
    static const char end[2 * BLOCK];
    struct packer k = {.box = box, .to = to, .said = said};
    struct collect_sum sum;
    err_t e = collect_walk(box, pack_entry, &k, &sum);
    words_free(&k.names);
    e = e ? e : k.failed;
    if (!e && sum.skipped) {
        buf_adds(said, "left out: ");
        buf_count(said, sum.skipped, "folder, too deep, one too many or not readable\n",
                  "folders, too deep, too many or not readable\n");
    }
    return e ? e : put(to, end, sizeof end);
}
