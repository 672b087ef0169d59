/* `agent-cage seal NAME`: check → the rooms end → move_in.h → the rooms start, sealed. */
#ifndef WARDEN_SEAL_H
#define WARDEN_SEAL_H

#include "warden/box.h"

/* done as for an order: text is what the person is told. The agent takes no other order meanwhile. What is refused changes
 * nothing; what fails before the configuration says sealed leaves a pod, which goes on. */
void seal_begin(struct box *b, box_done *done, void *ctx);

#endif
