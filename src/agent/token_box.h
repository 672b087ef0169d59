/*
 * What the web page encrypted to this agent (proto/token_key.h), and the key pair for it. The private key is in locked pages of this
 * room and nowhere else; a pair is made at each start, and another as soon as a box of it was opened: no box is opened twice, and what
 * was recorded on the way stays closed from then on. A box that cannot be opened changes nothing.
 */
#ifndef AGENT_TOKEN_BOX_H
#define AGENT_TOKEN_BOX_H

#include "agent/agent.h"
#include "proto/token_key.h"

struct token_box;

/* agent: its name, at most 32 bytes. */
err_t token_box_new(const char *agent, struct token_box **ret);
void token_box_free(struct token_box *t);

/* The public key: what is to be shown. Lives until the next box was opened. */
struct bytes token_box_key(const struct token_box *t);

/*
 * Opens it into room, at least TOKEN_BOX_MAX bytes, which the caller clears; the pair is another one then. EXIT_USAGE: it is none;
 * EXIT_POLICY: for a key that is not in use, or not for this agent, or changed.
 */
err_t token_box_open(struct token_box *t, struct bytes box, char *room, size_t *ret);

/* With this private key (as OSSL_PKEY_PARAM_PRIV_KEY has it: 32 bytes, of this machine's order) and its public one. */
err_t token_box_with(const char *agent, const uint8_t private[32], struct bytes public,
                     struct token_box **ret);

/* The order of the chat: refused by the agent's own rules for credentials, opened, then as if `agent-cage auth` had brought it. */
err_t token_box_take(struct agent *a, struct bytes box, const char **ret_text);

#endif
