/* The link from the agent: its own commands, and the account of all. */
#ifndef EXECUTOR_FROM_AGENT_H
#define EXECUTOR_FROM_AGENT_H

#include "executor/executor.h"

enum { AGENT_RUNS_MAX = 64 };

/* A new end of the link (taken over); what an older one had asked for is ended. */
void agent_linked(struct executor *x, int fd);
void agent_unlinked(struct executor *x);

/* part_go has come: what the agent says is heard from now on. */
void agent_go(struct executor *x);

#endif
