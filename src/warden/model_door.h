/*
 * Where a harness finds its model: a listener on MODEL_PORT of its own loopback, made from outside and handed to its agent.
 * The warden keeps a copy while the harness lives, so that nobody in that room can take the port while the agent is away.
 */
#ifndef WARDEN_MODEL_DOOR_H
#define WARDEN_MODEL_DOOR_H

#include "base/err.h"

#include <stdbool.h>

struct box;

/* True when this agent has a model behind it. */
bool model_door_wanted(const struct box *b);

/* Makes it, if it is not there yet, in the network of the harness that lives now, and gives it to the agent. */
err_t model_door_give(struct box *b);

/* The harness is going away. */
void model_door_close(struct box *b);

#endif
