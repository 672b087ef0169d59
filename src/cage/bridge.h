/*
 * The engine's bridge has the lowest hardware address of its ports, so that address changes when a room comes or goes. The
 * other rooms would go on sending to the old one until they ask again, which takes them a minute and more: their connections
 * hang meanwhile. A host that notifies (arp_notify and ndisc_notify of ip-sysctl) tells them of the change at once.
 */
#ifndef CAGE_BRIDGE_H
#define CAGE_BRIDGE_H

#include "base/err.h"

#include <sys/types.h>

/* Has the bridge that a room goes out by notify its neighbours; a room without a way out needs none. pid: the room's first process.
 * Run in the network namespace of the bridge. */
err_t bridge_notify(pid_t pid);

#endif
