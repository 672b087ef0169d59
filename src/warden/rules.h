/*
 * The rules of sealed executors follow what is local to this host: a new public address, another LAN. The kernel tells of
 * changes (addresses.h); a worker for each such room then puts the sets right, and does nothing when nothing differs. So
 * does a look once a minute, and one when a room has come up, for what changed while it was made. A room whose rules
 * cannot be put right is ended, and made again behind rules that hold, or not at all.
 */
#ifndef WARDEN_RULES_H
#define WARDEN_RULES_H

#include "base/err.h"

struct warden;

err_t rules_init(struct warden *w);

/* Looks at all of them in a moment. */
void rules_due(struct warden *w);

#endif
