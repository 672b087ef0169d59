#include "cage/nft_sets.h"

#include "base/own.h"
#include "base/parse.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/*
 * What is not the internet (DESIGN section 4): RFC 6890's registry of special addresses and what came after it, and a
 * cloud's metadata address that lies in public space. The host's own addresses and prefixes are added when the rules are made.
 */
static const char *const not_the_internet[] = {"0.0.0.0/8", /* this network; 0.0.0.0 is the host itself */
                                               "10.0.0.0/8",
                                               "172.16.0.0/12",
                                               "192.168.0.0/16", /* private */
                                               "100.64.0.0/10",  /* carriers, meshes */
                                               "127.0.0.0/8",    /* loopback by another way than lo */
                                               "169.254.0.0/16", /* link-local, metadata */
                                               "192.0.0.0/24",
                                               "192.0.2.0/24",
                                               "198.51.100.0/24", /* protocols, documentation */
                                               "192.88.99.0/24",  /* 6to4 relays */
                                               "198.18.0.0/15",   /* benchmarks */
                                               "168.63.129.16", /* a cloud's metadata, at a public address */
                                               "224.0.0.0/4",
                                               "240.0.0.0/4", /* multicast; reserved, broadcast */
                                               "::/96",
                                               "::ffff:0:0/96",
                                               "::ffff:0:0:0/96", /* unspecified, own, v4 in v6 clothes */
                                               "64:ff9b::/96",
                                               "64:ff9b:1::/48", /* NAT64: v4 behind it */
                                               "100::/64",       /* discard */
                                               "2001::/32",
                                               "2002::/16", /* Teredo, 6to4: v4 behind them */
                                               "2001:db8::/32",
                                               "3fff::/20", /* documentation */
                                               "5f00::/16", /* segment routing */
                                               "fc00::/7",
                                               "fe80::/10",
                                               "fec0::/10", /* unique local, link-local, site-local */
                                               "ff00::/8",  /* multicast */
                                               NULL};

err_t nft_range_of(const char *text, struct nft_range *ret, size_t *ret_width) {
    char address[INET6_ADDRSTRLEN];
    const char *slash = strchr(text, '/');
    size_t n = slash ? (size_t)(slash - text) : strlen(text);
    uint64_t bits;
    *ret = (struct nft_range){0};
    if (n >= sizeof address)
        return err_new(EXIT_FAILED, "\"%.60s\" is no address", text);
    memcpy(address, text, n);
    address[n] = 0;
    size_t width = strchr(address, ':') ? 16 : 4;
    if (inet_pton(width == 4 ? AF_INET : AF_INET6, address, ret->lo) != 1)
        return err_new(EXIT_FAILED, "\"%.60s\" is no address", text);
    bits = width * 8;
    if (slash)
        TRY(err_wrap(parse_u64(slash + 1, width * 8, &bits), "the prefix %.60s", text));
    memcpy(ret->hi, ret->lo, width);
    for (size_t i = bits; i < width * 8; i++) {
        unsigned char bit = (unsigned char)(0x80 >> i % 8);
        ret->lo[i / 8] &= (unsigned char)~bit;
        ret->hi[i / 8] |= bit;
    }
    *ret_width = width;
    return NULL;
}

void nft_set_add(struct nft_set *s, const struct nft_range *r) {
    s->r = xrealloc(s->r, s->n + 1, sizeof *s->r);
    s->r[s->n++] = *r;
}

static int by_start(const void *a, const void *b) {
    return memcmp(((const struct nft_range *)a)->lo, ((const struct nft_range *)b)->lo,
                  sizeof((struct nft_range *)0)->lo);
}

/* The number behind hi, in next; false when hi is the last there is. */
static bool next_of(const unsigned char *hi, size_t width, unsigned char *next) {
    memcpy(next, hi, 16);
    for (size_t i = width; i-- > 0;)
        if (++next[i])
            return true;
    return false;
}

void nft_set_tidy(struct nft_set *s) {
    size_t kept = 0;
    if (s->n)
        qsort(s->r, s->n, sizeof *s->r, by_start);
    for (size_t i = 0; i < s->n; i++) {
        unsigned char next[16];
        bool joins =
            kept && (!next_of(s->r[kept - 1].hi, s->width, next) || memcmp(s->r[i].lo, next, s->width) <= 0);
        if (!joins)
            s->r[kept++] = s->r[i];
        else if (memcmp(s->r[i].hi, s->r[kept - 1].hi, s->width) > 0)
            memcpy(s->r[kept - 1].hi, s->r[i].hi, sizeof s->r[i].hi);
    }
    s->n = kept;
}

bool nft_set_equal(const struct nft_set *a, const struct nft_set *b) {
    return a->width == b->width && a->n == b->n && (!a->n || !memcmp(a->r, b->r, a->n * sizeof *a->r));
}

enum { DNS_PORT = 53 };

static err_t add_texts(struct nft_set *four, struct nft_set *six, const char *const *texts) {
    for (; texts && *texts; texts++) {
        struct nft_range r;
        size_t width;
        TRY(nft_range_of(*texts, &r, &width));
        nft_set_add(width == 4 ? four : six, &r);
    }
    return NULL;
}

static void add_port(struct nft_set *s, uint16_t port) {
    unsigned char p[2] = {(unsigned char)(port >> 8), (unsigned char)port};
    nft_set_add(s, &(struct nft_range){{p[0], p[1]}, {p[0], p[1]}});
}

err_t nft_sets_of(enum net net, const struct nft_place *place, struct nft_sets *ret) {
    enum { CAGES4, CAGES6, GATES4, GATES6, LOCAL4, LOCAL6, PORTS, UPSTREAM4, UPSTREAM6, UPSTREAM_PORTS, DNS };
    *ret = (struct nft_sets){{{"cages4", "ipv4_addr", 4, NULL, 0},
                              {"cages6", "ipv6_addr", 16, NULL, 0},
                              {"gates4", "ipv4_addr", 4, NULL, 0},
                              {"gates6", "ipv6_addr", 16, NULL, 0},
                              {"local4", "ipv4_addr", 4, NULL, 0},
                              {"local6", "ipv6_addr", 16, NULL, 0},
                              {"ports", "inet_service", 2, NULL, 0},
                              {"upstream4", "ipv4_addr", 4, NULL, 0},
                              {"upstream6", "ipv6_addr", 16, NULL, 0},
                              {"upstream_ports", "inet_service", 2, NULL, 0},
                              {"dns", "inet_service", 2, NULL, 0}}};
    struct nft_set *s = ret->set;
    if (net == NET_NONE)
        return NULL;
    TRY(add_texts(&s[CAGES4], &s[CAGES6], place->cages));
    TRY(add_texts(&s[GATES4], &s[GATES6], place->gates));
    if (net == NET_SEALED) {
        TRY(add_texts(&s[LOCAL4], &s[LOCAL6], not_the_internet));
        TRY(add_texts(&s[LOCAL4], &s[LOCAL6], place->local));
    }
    if (net == NET_UPSTREAM) {
        TRY(add_texts(&s[UPSTREAM4], &s[UPSTREAM6], place->upstream));
        add_port(&s[UPSTREAM_PORTS], place->upstream_port);
        if (place->dns)
            add_port(&s[DNS], DNS_PORT);
    }
    for (size_t i = 0; i < place->nports; i++)
        add_port(&s[PORTS], place->ports[i]);
    for (size_t i = 0; i < NFT_SETS; i++)
        nft_set_tidy(&s[i]);
    return NULL;
}

static void range_text(const struct nft_set *s, const struct nft_range *r, struct buf *out) {
    char lo[INET6_ADDRSTRLEN], hi[INET6_ADDRSTRLEN];
    if (s->width == 2) {
        buf_printf(out, "%u-%u", r->lo[0] << 8 | r->lo[1], r->hi[0] << 8 | r->hi[1]);
        return;
    }
    int family = s->width == 4 ? AF_INET : AF_INET6;
    inet_ntop(family, r->lo, lo, sizeof lo);
    inet_ntop(family, r->hi, hi, sizeof hi);
    if (!strcmp(lo, hi))
        buf_adds(out, lo);
    else
        buf_printf(out, "%s-%s", lo, hi);
}

void nft_sets_text(const struct nft_sets *sets, struct buf *out) {
    for (size_t i = 0; i < NFT_SETS; i++) {
        const struct nft_set *s = &sets->set[i];
        buf_printf(out, "  set %s {\n    type %s; flags interval;\n", s->name, s->type);
        for (size_t k = 0; k < s->n; k++) {
            buf_adds(out, k ? ",\n      " : "    elements = {\n      ");
            range_text(s, &s->r[k], out);
        }
        buf_adds(out, s->n ? "\n    }\n  }\n" : "  }\n");
    }
}

void nft_sets_free(struct nft_sets *sets) {
    for (size_t i = 0; i < NFT_SETS; i++)
        free(sets->set[i].r);
    *sets = (struct nft_sets){0};
}
