/*
 * The three descriptors that come with a command of the harness room. That room may lie: its shim is one of its
 * own processes. So it is here that they are looked at, and nothing passes through which another descriptor could
 * be handed over (a socket), and nothing that shows or runs what the other room has.
 */
#ifndef EXECUTOR_GIVEN_H
#define EXECUTOR_GIVEN_H

#include "base/err.h"

/* base/fd_kind.h has the kinds that pass. Else an error: the command is refused. */
err_t given_check(const int fds[3]);

#endif
