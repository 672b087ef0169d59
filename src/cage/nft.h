/*
 * The packet rules of a room's network namespace, set from outside before anything of the room runs. One
 * table of rules (nft.c) with the policies that each is for; the text for `nft -f -` and the expectation that
 * the read-back is compared with both come from it. Every rule counts.
 *
 *   none     own lo; nothing else leaves, nothing comes in
 *   open     everything but other cages and agent-cage's own ports; nothing comes in but answers
 *   upstream an agent room's: one port of one address, or of any address but cages' when the upstream is a name, and then
 *            DNS; nothing else
 *   sealed   the internet and nothing local (DESIGN section 4): open, and the refusals first
 */
#ifndef CAGE_NFT_H
#define CAGE_NFT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/names.h"

#include <stddef.h>
#include <stdint.h>

/* What the rules must know of this host. Strings are addresses or prefixes ("10.88.0.0/16", "fd00::1");
 * borrowed. */
struct nft_place {
    const char *const *cages; /* prefixes that other cages stand in; NULL-ended or NULL */
    const char *const *gates; /* addresses in them that are this host's: not cages */
    const char *const *local; /* sealed: every address of the host and its on-link prefixes */
    const uint16_t *ports;    /* open, upstream: TCP and UDP ports of agent-cage itself, refused on `gates` */
    size_t nports;
    const char *const *upstream; /* upstream: the addresses that it may have; NULL-ended or NULL */
    uint16_t upstream_port;
    bool dns; /* upstream: it is a name, which is asked for */
};

/* The ruleset. EXIT_FAILED for an address that is none. */
err_t nft_ruleset(enum net net, const struct nft_place *place, struct buf *out);

/* Loads it into the network namespace `netns` (and sets accept_ra 0 on every interface there), reads it back,
 * compares. Anything but equal is an error, and the room must not start. */
err_t nft_apply(int netns, enum net net, const struct nft_place *place);

/* Reads the rules of a namespace and compares; nothing is changed. */
err_t nft_check(int netns, enum net net, const struct nft_place *place);

/* As nft_apply, for rules that are in force already: one transaction, so that no packet passes between, and the counters
 * go on when only addresses differ. */
err_t nft_update(int netns, enum net net, const struct nft_place *place);

/* What a rule has seen. */
struct nft_count {
    const char *chain, *tag; /* static */
    uint64_t packets, bytes;
};
enum { NFT_COUNTS_MAX = 32 };

/* Somebody that a sealed room turned to and was let: new connections, and datagrams without an answer yet. */
struct nft_reached {
    char proto[8], address[46]; /* INET6_ADDRSTRLEN */
    unsigned port;
    uint64_t packets;
};
enum { NFT_REACHED_MAX = 1024 }; /* of each family; the rules remember no more */

struct nft_seen {
    struct nft_count counts[NFT_COUNTS_MAX]; /* this policy's rules, in the order of the table */
    size_t ncounts;
    struct nft_reached *reached; /* owned; the most used first */
    size_t nreached;
};

/* What the rules of a namespace have counted. */
err_t nft_seen(int netns, enum net net, struct nft_seen *ret);
void nft_seen_free(struct nft_seen *s);
#define own_nft_seen __attribute__((cleanup(nft_seen_free)))

/* Compares a ruleset, as `nft -j list ruleset` prints it, with what nft_ruleset() would make. */
err_t nft_same(enum net net, const struct nft_place *place, const char *json);

#endif
