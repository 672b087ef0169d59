/*
 * What the kernel counts for the user who made a user namespace, and not only for the ids in it: inotify instances and watches
 * (user.max_inotify_* of namespaces(7)). The maker of every room is root, or the person, so one room that takes all of them would
 * leave none for the other rooms and the host. A room's own namespace gets a part of what there is; where the filter refuses user
 * namespaces (every room but a pod's executor), the namespace's own limit says 0 too.
 */
#ifndef CAGE_SHARE_H
#define CAGE_SHARE_H

#include "cage/spec.h"

#include <sys/types.h>

enum { SHARE_PARTS = 8 };

/* Sets the limits of the room's user namespace, before anything of it runs. `pid`: its first process. */
err_t share_limit(const struct cage_spec *s, pid_t pid);

#endif
