/*
 * What the operator asks on the host: new, rm, auth, budget, ping, over /run/agent-cage/warden.sock. Root alone: the socket's
 * mode, and the kernel's word on the peer. Long steps are told as they come (op_progress); op_end is the answer,
 * with the status for the command line. op_ping is answered once the relay and the manager are up.
 */
#ifndef WARDEN_FROM_OPERATOR_H
#define WARDEN_FROM_OPERATOR_H

#include "base/err.h"

#include <stdint.h>

struct box;
struct warden;

err_t from_operator_open(struct warden *w);
void from_operator_close(struct warden *w);

/* Relay or manager changed: who waits for them is answered. */
void from_operator_settle(struct warden *w);

/* The agent's room of this box took a credential, or refused it; about another's it has no word. */
void from_operator_auth_end(const struct box *b, uint64_t cookie, uint64_t status, const char *text);

/* An agent's room died: who waits for its answer is answered. */
void from_operator_agent_died(struct warden *w, const char *name);

#endif
