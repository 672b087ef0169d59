/* The table of packet rules as data (nft.c), for the text and for the comparison (nft_read.c). */
#ifndef CAGE_NFT_READ_H
#define CAGE_NFT_READ_H

#include "base/names.h"
#include "cage/nft.h"

#include <stdbool.h>
#include <stddef.h>

struct nft_chain {
    const char *name;
    const char *hook; /* NULL for a chain that is only jumped to */
    const char *policy[NET_COUNT];
};

struct nft_rule {
    unsigned nets; /* bits 1 << enum net */
    const char *chain, *tag /* its comment, unique in its chain */, *match, *verdict;
};

extern const struct nft_chain nft_chains[];
extern const size_t nft_nchains;
extern const struct nft_rule nft_rules[];
extern const size_t nft_nrules;

/* nft_seen() from a listing: its counters, in the order of the table; its destinations, *ret owned. */
err_t nft_read_counts(enum net net, const char *json, struct nft_count ret[NFT_COUNTS_MAX], size_t *ret_n);
err_t nft_read_reached(const char *json, struct nft_reached **ret, size_t *ret_n);

/* For qsort(3), of struct nft_reached: the most used first. */
int nft_by_packets(const void *a, const void *b);

bool nft_rule_for(const struct nft_rule *r, enum net net);

#endif
