/*
 * The rules, as a table. A packet takes the first row that fits; `refuse` answers TCP by reset and the rest by "admin
 * prohibited": at once and clear, where a drop or an ICMP answer to TCP would make programs wait. No output row looks at
 * connection state: what becomes refused later is refused in the middle of a connection too.
 */
#include "cage/nft.h"

#include "base/own.h"
#include "base/proc.h"
#include "cage/nft_read.h"
#include "cage/nft_sets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NFT_TIMEOUT_MS = 20000 };

#define NONE (1u << NET_NONE)
#define OPEN (1u << NET_OPEN)
#define SEALED (1u << NET_SEALED)
#define UPSTREAM (1u << NET_UPSTREAM)
#define EVERY (NONE | OPEN | SEALED | UPSTREAM)

/* In this order: a chain that is jumped to stands before the others in the text. */
const struct nft_chain nft_chains[] = {
    {"refuse", NULL, {NULL}},
    {"input",
     "input",
     {[NET_OPEN] = "drop", [NET_SEALED] = "drop", [NET_NONE] = "drop", [NET_UPSTREAM] = "drop"}},
    {"forward",
     "forward",
     {[NET_OPEN] = "drop", [NET_SEALED] = "drop", [NET_NONE] = "drop", [NET_UPSTREAM] = "drop"}},
    {"output",
     "output",
     {[NET_OPEN] = "accept", [NET_SEALED] = "accept", [NET_NONE] = "drop", [NET_UPSTREAM] = "drop"}},
};
const size_t nft_nchains = COUNT(nft_chains);

#define NEIGHBOURS "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255"

/* What the kernel sends by itself when an interface comes up, and no program can: not counted among what was tried. */
#define QUESTIONS                                                                                            \
    "icmpv6 type { nd-router-solicit, mld-listener-report, mld-listener-done, mld2-listener-report } ip6 "   \
    "daddr "                                                                                                 \
    "ff02::/16"

#define NFT_REACHED(width, family) "@reached" width " { meta l4proto . " family " daddr . th dport counter }"

const struct nft_rule nft_rules[] = {
    {EVERY, "input", "own loopback", "iifname \"lo\"", "accept"},
    {OPEN | SEALED | UPSTREAM, "input", "answers", "ct state established,related", "accept"},
    {OPEN | SEALED | UPSTREAM, "input", "neighbour discovery", NEIGHBOURS, "accept"},
    {EVERY, "input", "nothing else comes in", "", "drop"},

    {EVERY, "output", "own loopback", "oifname \"lo\"", "accept"},
    {OPEN | SEALED | UPSTREAM, "output", "neighbour discovery", NEIGHBOURS, "accept"},
    /* A filter of calls keeps IP_OPTIONS from a socket, and cannot see them beside a datagram (IP_RETOPTS). */
    {OPEN | SEALED | UPSTREAM, "output", "source routes", "ip option lsrr exists", "drop"},
    {OPEN | SEALED | UPSTREAM, "output", "strict source routes", "ip option ssrr exists", "drop"},
    {OPEN | SEALED | UPSTREAM, "output", "routing headers, v6", "exthdr rt exists", "drop"},
    {OPEN | UPSTREAM, "output", "agent-cage's ports", "ip daddr @gates4 th dport @ports", "jump refuse"},
    {OPEN | UPSTREAM, "output", "agent-cage's ports, v6", "ip6 daddr @gates6 th dport @ports", "jump refuse"},
    {OPEN, "output", "this host at the bridge", "ip daddr @gates4", "accept"},
    {OPEN, "output", "this host at the bridge, v6", "ip6 daddr @gates6", "accept"},
    /* An agent's model may be this host's, at the bridge; a name's addresses are not known before it is asked for. */
    {UPSTREAM, "output", "DNS at the bridge", "ip daddr @gates4 th dport @dns", "accept"},
    {UPSTREAM, "output", "DNS at the bridge, v6", "ip6 daddr @gates6 th dport @dns", "accept"},
    {UPSTREAM, "output", "its upstream at the bridge",
     "ip daddr @gates4 ip daddr @upstream4 tcp dport @upstream_ports", "accept"},
    {UPSTREAM, "output", "its upstream at the bridge, v6",
     "ip6 daddr @gates6 ip6 daddr @upstream6 tcp dport @upstream_ports", "accept"},
    {OPEN | SEALED | UPSTREAM, "output", "other cages", "ip daddr @cages4", "jump refuse"},
    {OPEN | SEALED | UPSTREAM, "output", "other cages, v6", "ip6 daddr @cages6", "jump refuse"},
    {SEALED, "output", "the kernel's own questions", QUESTIONS, "drop"},
    {SEALED, "output", "local", "ip daddr @local4", "jump refuse"},
    {SEALED, "output", "local, v6", "ip6 daddr @local6", "jump refuse"},
    /* A resolver elsewhere may know names that are the network's own. */
    {SEALED, "output", "DNS to others", "ip daddr != { 1.1.1.1, 9.9.9.9 } th dport 53", "jump refuse"},
    {SEALED, "output", "DNS to others, v6", "meta nfproto ipv6 th dport 53", "jump refuse"},
    /* The bridge's other end of these is another cage. */
    {OPEN, "output", "multicast and broadcast", "ip daddr { 224.0.0.0/4, 255.255.255.255 }", "jump refuse"},
    {OPEN, "output", "link-local and multicast, v6", "ip6 daddr { fe80::/10, ff00::/8 }", "jump refuse"},
    {UPSTREAM, "output", "DNS", "th dport @dns", "accept"},
    {UPSTREAM, "output", "its upstream", "ip daddr @upstream4 tcp dport @upstream_ports", "accept"},
    {UPSTREAM, "output", "its upstream, v6", "ip6 daddr @upstream6 tcp dport @upstream_ports", "accept"},
    {UPSTREAM, "output", "nothing else leaves", "", "jump refuse"},
    {NONE, "output", "nothing leaves", "", "jump refuse"},
    /* Remembered until the sets are full, and no verdict: what follows decides. */
    {SEALED, "output", "what it reached", "meta l4proto { tcp, udp } ct state new",
     "update " NFT_REACHED("4", "ip")},
    {SEALED, "output", "what it reached, v6", "meta l4proto { tcp, udp } ct state new",
     "update " NFT_REACHED("6", "ip6")},
    {OPEN | SEALED, "output", "everything else", "", "accept"}, /* for its counter: what went out */

    {EVERY, "refuse", "tcp", "meta l4proto tcp", "reject with tcp reset"},
    {EVERY, "refuse", "all but tcp", "", "reject with icmpx type admin-prohibited"},
};
const size_t nft_nrules = COUNT(nft_rules);

bool nft_rule_for(const struct nft_rule *r, enum net net) {
    return r->nets & 1u << net;
}

/* Bounded: what a cage makes the kernel remember is some hundred KiB. */
static const char *nft_reached_text(enum net net) {
    return net != NET_SEALED ? ""
                             : "  set reached4 {\n    type inet_proto . ipv4_addr . inet_service; size 1024; "
                               "flags dynamic;\n  }\n"
                               "  set reached6 {\n    type inet_proto . ipv6_addr . inet_service; size 1024; "
                               "flags dynamic;\n  }\n";
}

static void chain_text(enum net net, const struct nft_chain *c, struct buf *out) {
    buf_printf(out, "  chain %s {\n", c->name);
    if (c->hook)
        buf_printf(out, "    type filter hook %s priority filter; policy %s;\n", c->hook, c->policy[net]);
    for (size_t i = 0; i < nft_nrules; i++) {
        const struct nft_rule *r = &nft_rules[i];
        if (nft_rule_for(r, net) && !strcmp(r->chain, c->name))
            buf_printf(out, "    %s%scounter %s comment \"%s\"\n", r->match, *r->match ? " " : "", r->verdict,
                       r->tag);
    }
    buf_adds(out, "  }\n");
}

err_t nft_ruleset(enum net net, const struct nft_place *place, struct buf *out) {
    own_nft_sets struct nft_sets sets = {0};
    TRY(nft_sets_of(net, place, &sets));
    buf_adds(out, "flush ruleset\ntable inet agent_cage {\n");
    nft_sets_text(&sets, out);
    buf_adds(out, nft_reached_text(net));
    for (size_t i = 0; i < nft_nchains; i++)
        chain_text(net, &nft_chains[i], out);
    buf_adds(out, "}\n");
    return NULL;
}

/* In a child, since a namespace belongs to a thread: 0 to every accept_ra of that network namespace. */
static int no_router_advertisements(int netns) {
    if (setns(netns, CLONE_NEWNET))
        return 1;
    DIR *d = opendir("/proc/sys/net/ipv6/conf");
    if (!d)
        return errno == ENOENT ? 0 : 1; /* no IPv6 */
    int bad = 0;
    for (struct dirent *each; (each = readdir(d));) {
        if (each->d_name[0] == '.')
            continue;
        char path[300];
        snprintf(path, sizeof path, "%s/accept_ra", each->d_name);
        own_fd int fd = openat(dirfd(d), path, O_WRONLY | O_CLOEXEC);
        bad |= fd < 0 || write(fd, "0", 1) != 1;
    }
    return bad;
}

static err_t close_to_routers(int netns) {
    pid_t pid = fork();
    if (!pid)
        _exit(no_router_advertisements(netns));
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(errno, "a child that sets accept_ra is lost");
    return pid < 0 || status ? err_new(EXIT_FAILED, "accept_ra cannot be set in a room's network") : NULL;
}

static err_t list_rules(int netns, struct buf *out) {
    const char *const argv[] = {"nft", "-j", "list", "ruleset", NULL};
    struct proc_spec list = {.argv = argv, .netns = netns, .out = out, .timeout_ms = NFT_TIMEOUT_MS};
    return err_wrap(proc_must(&list), "the network rules cannot be read back");
}

static err_t load(int netns, enum net net, const char *text) {
    const char *const argv[] = {"nft", "-f", "-", NULL};
    struct proc_spec p = {.argv = argv, .input = text, .netns = netns, .timeout_ms = NFT_TIMEOUT_MS};
    return err_wrap(proc_must(&p), "the network rules \"%s\" do not load", net_name(net));
}

err_t nft_check(int netns, enum net net, const struct nft_place *place) {
    own_buf struct buf listed = {0};
    TRY(list_rules(netns, &listed));
    return nft_same(net, place, buf_text(&listed));
}

err_t nft_apply(int netns, enum net net, const struct nft_place *place) {
    own_buf struct buf text = {0};
    TRY(nft_ruleset(net, place, &text));
    TRY(close_to_routers(netns));
    TRY(load(netns, net, buf_text(&text)));
    return nft_check(netns, net, place);
}

/* The same rules with other addresses: each set emptied and filled, all at once. */
static err_t update_sets(int netns, enum net net, const struct nft_place *place) {
    own_nft_sets struct nft_sets sets = {0};
    own_buf struct buf text = {0};
    TRY(nft_sets_of(net, place, &sets));
    for (size_t i = 0; i < NFT_SETS; i++)
        buf_printf(&text, "flush set inet agent_cage %s\n", sets.set[i].name);
    buf_adds(&text, "table inet agent_cage {\n");
    nft_sets_text(&sets, &text);
    buf_adds(&text, "}\n");
    TRY(load(netns, net, buf_text(&text)));
    return nft_check(netns, net, place);
}

err_t nft_update(int netns, enum net net, const struct nft_place *place) {
    own_err err_t differs = nft_check(netns, net, place);
    if (!differs)
        return NULL;
    own_err err_t more = update_sets(netns, net, place);
    return more ? nft_apply(netns, net, place) : NULL;
}

err_t nft_seen(int netns, enum net net, struct nft_seen *ret) {
    own_buf struct buf listed = {0};
    *ret = (struct nft_seen){.ncounts = 0};
    TRY(list_rules(netns, &listed));
    TRY(nft_read_counts(net, buf_text(&listed), ret->counts, &ret->ncounts));
    return nft_read_reached(buf_text(&listed), &ret->reached, &ret->nreached);
}

void nft_seen_free(struct nft_seen *s) {
    free(s->reached);
    *s = (struct nft_seen){.ncounts = 0};
}
