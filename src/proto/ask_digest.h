/*
 * What an answer to a harness's question is bound to: SHA-256 of what was shown, so of what a yes allows. A front may reckon
 * it again: the name, a NUL, the text, a NUL, then each choice and a NUL (none of them can hold one).
 */
#ifndef PROTO_ASK_DIGEST_H
#define PROTO_ASK_DIGEST_H

#include "proto/msg.h"

enum { ASK_DIGEST = 32 };

err_t ask_digest(struct bytes name, struct bytes text, struct list choices, uint8_t out[ASK_DIGEST]);

#endif
