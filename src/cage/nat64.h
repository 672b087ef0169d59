/*
 * A network's own NAT64 prefixes: IPv6 addresses behind which a router puts the whole of IPv4, the local part too, so
 * that 64:ff9b::/96 is not all there is to refuse.
 */
#ifndef CAGE_NAT64_H
#define CAGE_NAT64_H

#include "base/err.h"
#include "cage/words.h"

#include <stddef.h>

/*
 * Adds what RFC 7050's question finds: the AAAA of ipv4only.arpa, asked of the host's own resolver (/etc/resolv.conf, at
 * most two seconds). Nobody is asked when the host has no global IPv6 address (`local`, from addresses_read()): a
 * prefix could not be used then. No answer, or no such name, adds nothing.
 */
void nat64_discover(const struct words *local, struct words *add);

/* The prefixes in a DNS answer of n bytes (RFC 6052: /32 /40 /48 /56 /64 /96). Bytes that are no answer add nothing. */
void nat64_prefixes(const unsigned char *answer, size_t n, struct words *add);

#endif
