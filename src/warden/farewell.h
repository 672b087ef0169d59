/*
 * A sealed agent's session as the warden sees it: begun by the worker that makes the first room (start_pod.c), ended here
 * once no room is left and none is to come. Then what the code left is said: in the agent's chat, in the log, in the
 * answer to the order that ended it, and on the screen of `down` (PATH_FAREWELLS).
 */
#ifndef WARDEN_FAREWELL_H
#define WARDEN_FAREWELL_H

#include <stdbool.h>

struct box;

enum { FAREWELL_MAX = 3000 }; /* fits, with an order's own words, into an answer */

/* sealed/session.h: its folder. The caller frees. */
char *farewell_session(const char *agent);

/* " · results come out in PATH" (escaped) for the report of a start; "" for what is not sealed. The caller frees. */
char *farewell_outbox(const struct box *b);

/* There is something to be said before the box has stopped. */
bool farewell_pending(const struct box *b);

/* Ends it if it is pending and not being ended already; box_changed() comes when it is over. All rooms must be absent. */
void farewell_begin(struct box *b);

/* Forgets the worker, before the box goes. */
void farewell_drop(struct box *b);

#endif
