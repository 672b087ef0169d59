/*
 * Three dumps of rtnetlink(7): addresses, and the routes of both families in every table. A dump that the kernel marks as
 * interrupted by a change is taken again.
 */
#include "cage/addresses.h"

#include "base/own.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DUMP_TRIES = 10, DUMP_BYTES = 1 << 16, ATTRIBUTES = RTA_MAX + 1 };

static bool known_family(int family) {
    return family == AF_INET || family == AF_INET6;
}

/* The address in an attribute, with its prefix when that is shorter than the address; an attribute that is none is
 * passed over. */
static void add_address(struct words *out, int family, const struct rtattr *a, unsigned bits) {
    unsigned width = family == AF_INET ? 4 : 16;
    char text[INET6_ADDRSTRLEN];
    if (!a || RTA_PAYLOAD(a) < width)
        return;
    inet_ntop(family, RTA_DATA(a), text, sizeof text);
    if (bits < width * 8)
        words_addf(out, "%s/%u", text, bits);
    else
        words_add(out, text);
}

static void attributes(struct rtattr *a, size_t n, const struct rtattr **ret) {
    for (; RTA_OK(a, n); a = RTA_NEXT(a, n))
        if (a->rta_type < ATTRIBUTES)
            ret[a->rta_type] = a;
}

static void on_address(const struct nlmsghdr *h, struct words *out) {
    struct ifaddrmsg *m = NLMSG_DATA(h);
    const struct rtattr *a[ATTRIBUTES] = {0};
    if (h->nlmsg_type != RTM_NEWADDR || !known_family(m->ifa_family))
        return;
    attributes(IFA_RTA(m), IFA_PAYLOAD(h), a);
    add_address(out, m->ifa_family, a[IFA_LOCAL], 128);
    add_address(out, m->ifa_family, a[IFA_ADDRESS], 128); /* a cable's other end, where there is one */
    add_address(out, m->ifa_family, a[IFA_ADDRESS], m->ifa_prefixlen);
    add_address(out, m->ifa_family, a[IFA_BROADCAST], 128);
}

/* "via" of another family: its number, then the address. */
static void add_via(struct words *out, const struct rtattr *a) {
    if (!a || RTA_PAYLOAD(a) < sizeof(struct rtvia))
        return;
    struct rtvia *via = RTA_DATA(a);
    struct {
        struct rtattr head;
        unsigned char address[16];
    } copy = {{.rta_type = RTA_GATEWAY}, {0}};
    size_t n = RTA_PAYLOAD(a) - sizeof *via;
    n = n > sizeof copy.address ? sizeof copy.address : n;
    memcpy(copy.address, via->rtvia_addr, n);
    copy.head.rta_len = (unsigned short)RTA_LENGTH(n);
    if (known_family(via->rtvia_family))
        add_address(out, via->rtvia_family, &copy.head, 128);
}

/* The routers of a route with several. False: at least one way of it has none. */
static bool add_multipath(struct words *out, int family, const struct rtattr *a) {
    struct rtnexthop *hop = RTA_DATA(a);
    bool all = true;
    for (size_t n = RTA_PAYLOAD(a); n >= sizeof *hop && hop->rtnh_len >= sizeof *hop && hop->rtnh_len <= n;) {
        const struct rtattr *each[ATTRIBUTES] = {0};
        attributes(RTNH_DATA(hop), hop->rtnh_len - sizeof *hop, each);
        add_address(out, family, each[RTA_GATEWAY], 128);
        add_via(out, each[RTA_VIA]);
        all &= each[RTA_GATEWAY] || each[RTA_VIA];
        size_t step = RTNH_ALIGN(hop->rtnh_len);
        if (step > n)
            break;
        n -= step;
        hop = RTNH_NEXT(hop);
    }
    return all;
}

static void on_route(const struct nlmsghdr *h, struct words *out) {
    struct rtmsg *m = NLMSG_DATA(h);
    const struct rtattr *a[ATTRIBUTES] = {0};
    if (h->nlmsg_type != RTM_NEWROUTE || !known_family(m->rtm_family) || m->rtm_flags & RTM_F_CLONED ||
        m->rtm_type == RTN_THROW || m->rtm_type == RTN_MULTICAST)
        return;
    attributes(RTM_RTA(m), RTM_PAYLOAD(h), a);
    add_address(out, m->rtm_family, a[RTA_GATEWAY], 128);
    add_via(out, a[RTA_VIA]);
    bool routed = a[RTA_GATEWAY] || a[RTA_VIA];
    if (a[RTA_MULTIPATH])
        routed |= add_multipath(out, m->rtm_family, a[RTA_MULTIPATH]);
    if (!routed && m->rtm_dst_len >= (m->rtm_family == AF_INET ? 8 : 16))
        add_address(out, m->rtm_family, a[RTA_DST], m->rtm_dst_len);
}

static err_t ask(int fd, int type, int family) {
    struct {
        struct nlmsghdr h;
        struct rtmsg m; /* starts with the family, as struct ifaddrmsg does */
    } request = {{.nlmsg_len = sizeof request,
                  .nlmsg_type = (unsigned short)type,
                  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
                 {.rtm_family = (unsigned char)family}};
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    if (sendto(fd, &request, sizeof request, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0)
        return err_sys(errno, "the kernel cannot be asked for this host's addresses");
    return NULL;
}

typedef void (*on_message)(const struct nlmsghdr *, struct words *);

/* One batch of a dump. *ret_done: it was the last. *ret_torn: something changed meanwhile. */
static err_t batch(int fd, void *room, on_message on, struct words *out, bool *ret_done, bool *ret_torn) {
    ssize_t got = recv(fd, room, DUMP_BYTES, MSG_TRUNC);
    if (got < 0 && errno == EINTR)
        return NULL;
    if (got < 0 || got > DUMP_BYTES)
        return err_sys(got < 0 ? errno : EMSGSIZE, "this host's addresses cannot be read");
    size_t n = (size_t)got;
    for (struct nlmsghdr *h = room; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
        *ret_torn |= (h->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
        if (h->nlmsg_type == NLMSG_ERROR)
            return err_sys(-((struct nlmsgerr *)NLMSG_DATA(h))->error,
                           "this host's addresses cannot be read");
        if (h->nlmsg_type == NLMSG_DONE) {
            *ret_done = true;
            return NULL;
        }
        on(h, out);
    }
    return NULL;
}

static err_t dump(int fd, int type, int family, on_message on, struct words *out, bool *ret_torn) {
    own_free void *room = xmalloc(DUMP_BYTES);
    bool done = false;
    TRY(ask(fd, type, family));
    while (!done)
        TRY(batch(fd, room, on, out, &done, ret_torn));
    return NULL;
}

static err_t dump_all(struct words *out, bool *ret_torn) {
    own_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return err_sys(errno, "no socket to ask the kernel for this host's addresses");
    TRY(dump(fd, RTM_GETADDR, AF_UNSPEC, on_address, out, ret_torn));
    TRY(dump(fd, RTM_GETROUTE, AF_INET, on_route, out, ret_torn));
    return dump(fd, RTM_GETROUTE, AF_INET6, on_route, out, ret_torn);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Puts a list in order, each word once. */
static void tidy(struct words *l) {
    size_t kept = 0;
    if (!l->n)
        return;
    qsort(l->w, l->n, sizeof *l->w, by_text);
    for (size_t i = 0; i < l->n; i++) {
        if (kept && !strcmp(l->w[i], l->w[kept - 1]))
            free(l->w[i]);
        else
            l->w[kept++] = l->w[i];
    }
    l->w[kept] = NULL;
    l->n = kept;
}

err_t addresses_read(struct words *ret) {
    for (int i = 0; i < DUMP_TRIES; i++) {
        own_words struct words found = {0};
        bool torn = false;
        TRY(dump_all(&found, &torn));
        if (torn)
            continue;
        tidy(&found);
        *ret = found;
        found = (struct words){0};
        return NULL;
    }
    return err_new(EXIT_FAILED, "this host's addresses change faster than they can be read");
}

err_t addresses_watch(int *ret_fd) {
    own_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    struct sockaddr_nl groups = {.nl_family = AF_NETLINK,
                                 .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE |
                                              RTMGRP_IPV6_ROUTE};
    if (fd < 0 || bind(fd, (struct sockaddr *)&groups, sizeof groups) < 0)
        return err_sys(errno, "this host's addresses cannot be followed");
    *ret_fd = TAKE_FD(fd);
    return NULL;
}

bool addresses_changed(int fd) {
    char message[4096];
    bool changed = false;
    for (;;) {
        ssize_t got = recv(fd, message, sizeof message, MSG_TRUNC);
        if (got < 0 && errno == EAGAIN)
            return changed;
        if (got < 0 && errno == EINTR)
            continue;
        changed = true;
        if (got <= 0 && errno != ENOBUFS)
            return true;
    }
}
