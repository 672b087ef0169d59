/* A network namespace, the caller's own and new, in which every address is this machine. */
#ifndef BREAK_OPEN_NET_H
#define BREAK_OPEN_NET_H

#include <stdbool.h>

/* The loopback is up and all of IPv4 and IPv6 is local to it; the ports that the rows try are listened on, by
 * descriptors that stay open. Needs CAP_NET_ADMIN over the namespace. False: some of it is missing. */
bool open_net(void);

#endif
