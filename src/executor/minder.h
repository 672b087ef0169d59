/*
 * The small process above a command where there are no cgroups (tree.h, TREE_MINDER). It starts the command,
 * adopts its orphans, reports the command's end, and ends itself when nothing is left: so its own end means
 * that the tree is empty.
 */
#ifndef EXECUTOR_MINDER_H
#define EXECUTOR_MINDER_H

#include "executor/spawn.h"

/*
 * *ret_pid: the minder. *ret_main: the command. *ret_end: a pipe that yields the command's wait status (an
 * int) when it ends, or ends without one when the minder was killed. Errors as spawn(); errnum EPIPE: the
 * minder was ended first, and whether the command began is not known.
 */
err_t minder_start(const struct spawn *s, pid_t *ret_pid, pid_t *ret_main, int *ret_end);

#endif
