/*
 * The control arms: the same attempts without a cage, in throw-away namespaces, so that nothing of the host is touched.
 * Both have a network in which every address is this machine and is listened on, where a refusal cannot come from.
 *
 *   plain   an ordinary account, the host's files, processes and shared memory as such an account sees them
 *   full    root of a user namespace: own mounts, processes, IPC; its root is an empty tree in memory
 */
#ifndef BREAK_CONTROL_H
#define BREAK_CONTROL_H

#include "base/err.h"
#include "cage/words.h"

#include <sys/types.h>

enum arm { ARM_PLAIN, ARM_FULL, ARM_COUNT };

/*
 * Starts the probe with these facts; *ret_out: its lines come there (the caller's), end of file when it is over. `dir`: an
 * empty folder, which plain may write to. The child must be waited for.
 */
err_t control_start(enum arm arm, const char *dir, const struct words *facts, pid_t *ret_pid, int *ret_out);

#endif
