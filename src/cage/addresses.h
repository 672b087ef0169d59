/*
 * What is local to this host: what a sealed cage must not reach although it is no special range. Read from the kernel
 * (rtnetlink), as an ordinary user too, in the network namespace of the caller.
 */
#ifndef CAGE_ADDRESSES_H
#define CAGE_ADDRESSES_H

#include "base/err.h"
#include "cage/words.h"

#include <stdbool.h>

/*
 * Every address of this host, every prefix that is reached without a router (addresses' own, on-link routes of every
 * routing table, a mesh's among them, prefixes that are held but not used), and the routers themselves, in order and
 * each once: "203.0.113.7", "2001:db8:1::/64". A route to half or all of the internet (a prefix shorter than /8, IPv6
 * /16) is a way out, nothing local. ret is not written on failure.
 */
err_t addresses_read(struct words *ret);

/*
 * A socket (non-blocking, close-on-exec, the caller's) that becomes readable when an address or a route changes.
 * To be opened before addresses_read(), so that no change falls between the two.
 */
err_t addresses_watch(int *ret_fd);

/* Empties that socket. False: there was nothing. An overrun counts as a change. */
bool addresses_changed(int fd);

#endif
