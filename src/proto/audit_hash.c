#include "proto/audit_hash.h"

#include <endian.h>
#include <openssl/evp.h>

static const char domain[] = "agent-cage audit row 1";

static void put(EVP_MD_CTX *ctx, bool *ok, const void *p, size_t n) {
    *ok = *ok && EVP_DigestUpdate(ctx, p, n) == 1;
}

static void put_number(EVP_MD_CTX *ctx, bool *ok, uint64_t n) {
    uint64_t le = htole64(n);
    put(ctx, ok, &le, sizeof le);
}

static void put_bytes(EVP_MD_CTX *ctx, bool *ok, struct bytes b) {
    put_number(ctx, ok, b.len);
    put(ctx, ok, b.p, b.len);
}

static void put_list(EVP_MD_CTX *ctx, bool *ok, struct list l) {
    put_number(ctx, ok, l.n);
    for (size_t i = 0; i < l.n; i++)
        put_bytes(ctx, ok, l.v[i]);
}

err_t audit_hash(const uint8_t before[AUDIT_HASH], const struct audit_row *row, uint8_t out[AUDIT_HASH]) {
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;
    put(ctx, &ok, domain, sizeof domain);
    put(ctx, &ok, before, AUDIT_HASH);
    put_number(ctx, &ok, row->seq);
    put_bytes(ctx, &ok, row->agent);
    put_bytes(ctx, &ok, row->who);
    put_list(ctx, &ok, row->argv);
    put_bytes(ctx, &ok, row->cwd);
    put_number(ctx, &ok, row->start_wall_ms);
    put_number(ctx, &ok, row->span_us);
    put_bytes(ctx, &ok, row->how);
    put_number(ctx, &ok, (uint64_t)row->status);
    put_bytes(ctx, &ok, row->output);
    uint8_t hash[AUDIT_HASH];
    ok = ok && EVP_DigestFinal_ex(ctx, hash, NULL) == 1;
    EVP_MD_CTX_free(ctx);
    if (!ok)
        return err_new(EXIT_FAILED, "SHA-256 of an audit row: OpenSSL failed");
    memcpy(out, hash, sizeof hash);
    return NULL;
}
