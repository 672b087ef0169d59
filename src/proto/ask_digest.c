#include "proto/ask_digest.h"

#include <openssl/evp.h>

err_t ask_digest(struct bytes name, struct bytes text, struct list choices, uint8_t out[ASK_DIGEST]) {
    own_buf struct buf shown = {0};
    for (size_t i = 0; i < choices.n + 2; i++) {
        struct bytes b = i == 0 ? name : i == 1 ? text : choices.v[i - 2];
        buf_add(&shown, b.p, b.len);
        buf_add(&shown, "", 1);
    }
    uint8_t hash[ASK_DIGEST];
    if (!EVP_Digest(shown.p, shown.len, hash, NULL, EVP_sha256(), NULL))
        return err_new(EXIT_FAILED, "SHA-256 of a question: OpenSSL failed");
    memcpy(out, hash, sizeof hash);
    return NULL;
}
