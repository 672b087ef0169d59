/*
 * What comes with a command of the harness room. That room may lie: its shim is one of its own processes. So it is here that
 * the three descriptors are looked at, and nothing passes through which another descriptor could be handed over (a socket), and
 * nothing that shows or runs what the other room has; and the account calls a program what it is, not what it was called.
 */
#ifndef EXECUTOR_GIVEN_H
#define EXECUTOR_GIVEN_H

#include "base/err.h"

#include <stdbool.h>

/* base/fd_kind.h has the kinds that pass. Else an error: the command is refused. */
err_t given_check(const int fds[3]);

/* Does a command's first word name the program that runs, `exe`? The same path, or, where both are no path or one into a folder
 * of the commands' PATH, the same last part; a login shell's "-" is passed over. */
bool given_names(const char *word, const char *exe);

#endif
