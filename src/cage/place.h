/* What packet rules must know of this host (nft.h), put together and owned. */
#ifndef CAGE_PLACE_H
#define CAGE_PLACE_H

#include "base/names.h"
#include "cage/host.h"
#include "cage/nft.h"
#include "cage/words.h"

struct place {
    struct words cages, gates, local, upstream;
    uint16_t own_port;
    struct nft_place nft; /* borrows the five; valid until place_free() */
};

/*
 * The bridge's prefixes and gateways from `h`; for NET_SEALED also everything local (addresses.h) and the network's own
 * NAT64 prefixes (nat64.h). A sealed cage's place is read again whenever addresses_changed(), and cage_refresh() puts it
 * in force.
 */
err_t place_read(const struct host *h, enum net net, struct place *ret);
/* For NET_UPSTREAM: one port of this address, or of any (NULL: it is a name, and DNS is asked). */
void place_upstream(struct place *p, const char *address, uint16_t port);
/* A port of agent-cage itself on this host, which no cage may turn to; 0: none. `p` must not move afterwards. */
void place_own_port(struct place *p, uint16_t port);
void place_free(struct place *p);
#define own_place __attribute__((cleanup(place_free)))

#endif
