/* The named sets of the packet rules: address ranges and ports, from what the host says and from the fixed lists. */
#ifndef CAGE_NFT_SETS_H
#define CAGE_NFT_SETS_H

#include "base/buf.h"
#include "base/err.h"
#include "cage/nft.h"

#include <stdbool.h>

/* Addresses lo to hi, both included; 4 or 16 bytes, network order. */
struct nft_range {
    unsigned char lo[16], hi[16];
};

/* Ranges in order; none touches the next. */
struct nft_set {
    const char *name, *type; /* "ipv4_addr" "ipv6_addr" "inet_service" */
    size_t width;            /* 4, 16; 2 for ports */
    struct nft_range *r;
    size_t n;
};

enum { NFT_SETS = 11 };
struct nft_sets {
    struct nft_set set[NFT_SETS];
};

/* The sets that this policy's rules need. A text that is no address or prefix is an error. */
err_t nft_sets_of(enum net net, const struct nft_place *place, struct nft_sets *ret);
void nft_sets_text(const struct nft_sets *s, struct buf *out);
void nft_sets_free(struct nft_sets *s);
#define own_nft_sets __attribute__((cleanup(nft_sets_free)))

/* "10.0.0.0/8", "::1", as a range of the width that it has. */
err_t nft_range_of(const char *text, struct nft_range *ret, size_t *ret_width);
void nft_set_add(struct nft_set *s, const struct nft_range *r);
void nft_set_tidy(struct nft_set *s); /* sorts and joins; needed after the last nft_set_add */
bool nft_set_equal(const struct nft_set *a, const struct nft_set *b);

#endif
