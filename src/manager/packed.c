#include "manager/packed.h"
#include "base/own.h"

#include <openssl/evp.h>

static void pack(struct buf *out, struct list argv, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        buf_add(out, argv.v[i].p, argv.v[i].len);
        buf_add(out, "", 1);
    }
}

static void pack_rest(struct buf *out, struct list argv, size_t from) {
    own_buf struct buf rest = {0};
    pack(&rest, argv, from, argv.n);
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    EVP_Digest(rest.p, rest.len, hash, &n, EVP_sha256(), NULL);
    buf_printf(out, "(left out: %zu arguments, %zu bytes, sha256 ", argv.n - from, rest.len);
    for (unsigned i = 0; i < n; i++)
        buf_printf(out, "%02x", hash[i]);
    buf_add(out, ")", 2);
}

void packed_bounded(struct buf *out, struct list argv) {
    size_t kept = 0, bytes = 0;
    while (kept < argv.n && bytes + argv.v[kept].len + 1 <= AUDIT_ARGV_MAX)
        bytes += argv.v[kept++].len + 1;
    pack(out, argv, 0, kept);
    if (kept < argv.n)
        pack_rest(out, argv, kept);
}

struct list packed_items(struct bytes packed, struct bytes **ret_items) {
    size_t n = 0, i = 0;
    for (size_t at = 0; at < packed.len; at++)
        n += !packed.p[at];
    struct bytes *items = xmalloc((n + 1) * sizeof *items);
    for (size_t at = 0; i < n; i++) {
        items[i] = bytes_of(packed.p + at);
        at += items[i].len + 1;
    }
    *ret_items = items;
    return (struct list){items, n};
}
