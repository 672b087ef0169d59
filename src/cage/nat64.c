/*
 * RFC 7050: a resolver behind NAT64 answers the AAAA of ipv4only.arpa, a name that has two IPv4 addresses and no IPv6
 * one, with these two put into its prefix. RFC 6052 says where in an address they stand, for each length of a prefix;
 * byte 8 is always skipped, and zero.
 */
#include "cage/nat64.h"

#include "base/own.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <resolv.h>
#include <string.h>

static const unsigned char known[][4] = {{192, 0, 0, 170}, {192, 0, 0, 171}}; /* RFC 7050 section 2.2 */
static const unsigned lengths[] = {96, 64, 56, 48, 40, 32};

/* Does the address hold a known IPv4 address behind a prefix of this length? */
static bool holds(const unsigned char *address, unsigned bits) {
    unsigned char four[4];
    for (unsigned i = 0, at = bits / 8; i < 4; i++, at++) {
        if (at == 8 && bits != 96)
            at++;
        four[i] = address[at];
    }
    for (size_t i = 0; i < COUNT(known); i++)
        if (!memcmp(four, known[i], 4))
            return true;
    return false;
}

static void add_prefix(const unsigned char *address, unsigned bits, struct words *add) {
    unsigned char prefix[16] = {0};
    char text[INET6_ADDRSTRLEN];
    memcpy(prefix, address, bits / 8);
    inet_ntop(AF_INET6, prefix, text, sizeof text);
    own_free char *word = xasprintf("%s/%u", text, bits);
    if (!words_has(add, word))
        words_add(add, word);
}

void nat64_prefixes(const unsigned char *answer, size_t n, struct words *add) {
    ns_msg message;
    if (n > NS_MAXMSG || ns_initparse(answer, (int)n, &message) < 0)
        return;
    for (int i = 0; i < ns_msg_count(message, ns_s_an); i++) {
        ns_rr rr;
        if (ns_parserr(&message, ns_s_an, i, &rr) < 0)
            return;
        if (ns_rr_type(rr) != ns_t_aaaa || ns_rr_class(rr) != ns_c_in || ns_rr_rdlen(rr) != 16)
            continue;
        for (size_t k = 0; k < COUNT(lengths); k++)
            if (holds(ns_rr_rdata(rr), lengths[k])) {
                add_prefix(ns_rr_rdata(rr), lengths[k], add);
                break;
            }
    }
}

/* 2000::/3 is all of IPv6 that routers carry. */
static bool has_global_six(const struct words *local) {
    for (size_t i = 0; i < local->n; i++) {
        unsigned char a[16];
        if (inet_pton(AF_INET6, local->w[i], a) == 1 && (a[0] & 0xe0) == 0x20)
            return true;
    }
    return false;
}

void nat64_discover(const struct words *local, struct words *add) {
    struct __res_state resolver = {0};
    unsigned char answer[4096];
    if (!has_global_six(local) || res_ninit(&resolver))
        return;
    resolver.retrans = 1;
    resolver.retry = 2;
    resolver.nscount = resolver.nscount > 1 ? 1 : resolver.nscount;
    int n = res_nquery(&resolver, "ipv4only.arpa", ns_c_in, ns_t_aaaa, answer, sizeof answer);
    if (n > 0)
        nat64_prefixes(answer, (size_t)n < sizeof answer ? (size_t)n : sizeof answer, add);
    res_nclose(&resolver);
}
