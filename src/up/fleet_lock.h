/*
 * One warden a fleet: warden.lock is write-locked (fcntl(2)) by the living one and holds its pid. After an orderly end the
 * file is empty, after a crash the pid is still in it: so `up` knows whether to start another, also when the warden
 * was not its child.
 */
#ifndef UP_FLEET_LOCK_H
#define UP_FLEET_LOCK_H

#include "base/err.h"
#include "base/paths.h"

#include <stdbool.h>
#include <sys/types.h>

/* Takes the lock for the life of this process and writes the pid. EXIT_FAILED names the one that has it. */
err_t fleet_lock(void);

/* The pid that holds the lock, 0 when nobody does. Not for the holder itself: closing the file gives the lock away. */
err_t fleet_lock_holder(pid_t *ret_pid);

/* One `up` a fleet write-locks it from its first step on, before there is a warden. */
#define PATH_UP_LOCK DIR_RUN "/up.lock"

/* The pid of the fleet's `up`, 0 when there is none. Not for itself. */
err_t fleet_lock_up(pid_t *ret_pid);

/* True when the last warden ended in order, or there never was one. */
bool fleet_lock_ended(void);

/* The holder says that it ends in order. */
void fleet_lock_end(void);

#endif
