#include "proto/token_key.h"
#include "base/hex.h"

#include <openssl/evp.h>

enum { HASH = 32, GROUPS = 5 };

static bool hash_of(struct bytes key, uint8_t ret[HASH]) {
    return EVP_Digest(key.p, key.len, ret, NULL, EVP_sha256(), NULL) == 1;
}

err_t token_key_id(struct bytes key, uint8_t ret[TOKEN_ID]) {
    uint8_t hash[HASH];
    if (!hash_of(key, hash))
        return err_new(EXIT_FAILED, "SHA-256 of a key: OpenSSL failed");
    memcpy(ret, hash, TOKEN_ID);
    return NULL;
}

const char *token_key_shown(char ret[TOKEN_SHOWN], struct bytes key) {
    uint8_t hash[HASH];
    bool ok = hash_of(key, hash);
    *ret = 0;
    for (size_t i = 0; ok && i < GROUPS; i++) {
        hex_put(ret + 5 * i, hash + 2 * i, 2);
        ret[5 * i + 4] = i + 1 < GROUPS ? '-' : 0;
    }
    return ret;
}
