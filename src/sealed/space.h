/*
 * A person's file system has no quota. What a one-shot run can write on it therefore ends with the run, when less is left than the
 * reserve of agent-cage.conf (disk_reserve), or only one in a hundred of its files can still be made. (An agent's room is frozen by
 * the warden, which can thaw it again.)
 */
#ifndef SEALED_SPACE_H
#define SEALED_SPACE_H

#include "sealed/run.h"

enum { SPACE_LOOK_MS = 250 }; /* how often to look */

/* EXIT_FAILED when there is too little where the project, its changes or the outbox are. */
err_t space_enough(const struct sealed_run *r);

#endif
