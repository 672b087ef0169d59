/*
 * The sealed-token: the one credential that sealed agents have. The warden alone keeps it (warden/sealed-token, root, 0600)
 * and gives it to the agent room of each sealed agent at its start; that room's gateway puts it in. It is in no room in which
 * hostile code runs, and in no folder of an agent's.
 */
#ifndef WARDEN_SEALED_TOKEN_H
#define WARDEN_SEALED_TOKEN_H

#include "base/conf.h"
#include "proto/msg.h"

struct ward;

enum { SEALED_TOKEN_COOKIE = 0 }; /* of part_secret: what nobody waits for */

/* In place of the one before. A word without blanks and control characters, 8 bytes at least; no file of a log-in (JSON). */
err_t sealed_token_save(struct bytes token);

/* The agent wants it and there is none. */
bool sealed_token_lacks(const struct conf_agent *c);

/* To the agent room of a sealed agent with a model, when it is up and there is one; to nobody else. */
void sealed_token_give(struct ward *d);

#endif
