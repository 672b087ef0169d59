/*
 * A credential on its way from the web page to an agent: encrypted there to the agent's public key, opened in the agent's room
 * (agent/token_box.c), opaque to whoever passes it on.
 *
 *   public keys   P-256, uncompressed points (SEC 1, 2.3.3): TOKEN_KEY bytes
 *   bound         TOKEN_LABEL, NUL, the agent's name, NUL, the agent's key, the page's key
 *   secret        HKDF-SHA-256 (RFC 5869) of the ECDH shared secret, no salt, info: bound; 32 bytes
 *   box           id of the agent's key, the page's key, a random nonce, then AES-256-GCM of the credential: text and
 *                 tag, additional data: bound
 *
 * The id is the head of SHA-256 of the key, its fingerprint a longer head in groups of digits, for people to compare.
 */
#ifndef PROTO_TOKEN_KEY_H
#define PROTO_TOKEN_KEY_H

#include "proto/msg.h"

#define TOKEN_LABEL "agent-cage token 1"

enum {
    TOKEN_KEY = 65,
    TOKEN_ID = 8,
    TOKEN_NONCE = 12,
    TOKEN_TAG = 16,
    TOKEN_HEAD = TOKEN_ID + TOKEN_KEY + TOKEN_NONCE,
    TOKEN_BOX_MAX = TOKEN_HEAD + 16384 + TOKEN_TAG, /* messages.def */
    TOKEN_SHOWN = 25,
};

err_t token_key_id(struct bytes key, uint8_t ret[TOKEN_ID]);

/* "1f2e-…", 80 bits of it and a NUL; "" when OpenSSL fails. */
const char *token_key_shown(char ret[TOKEN_SHOWN], struct bytes key);

#endif
