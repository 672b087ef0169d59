/* Shims of the harness room: each connection is one command. */
#ifndef EXECUTOR_FROM_SHIM_H
#define EXECUTOR_FROM_SHIM_H

#include "base/err.h"
#include "executor/executor.h"

enum { SHIMS_MAX = 256 }; /* connections at a time; the next ones wait in the listener's queue */

/*
 * Begins to accept on `listener`. peer: the harness's uid as this room's kernel names it in SO_PEERCRED (the
 * warden says it). In a pod that is 55000, which only the harness room of this agent has, since both are in
 * one uid map; everybody from outside that map shows as 65534 and is refused.
 */
err_t shims_listen(struct executor *x, int listener, uid_t peer);

/* The account has room again. */
void shims_go_on(struct executor *x);

/* The room ends: no new connection is taken. */
void shims_stop(struct executor *x);

#endif
