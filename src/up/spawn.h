/* The warden's process, as `up` starts it. */
#ifndef UP_SPAWN_H
#define UP_SPAWN_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

/* Starts the installed binary as the warden: its own session, no descriptor but 0, 1, 2, a fixed environment. */
err_t spawn_warden(pid_t *ret_pid);

/* This process runs another binary than the installed one. */
bool spawn_outdated(pid_t pid);

#endif
