/* The packet rules: text by value, the read-back of the real nft (no kernel state is touched: it is loaded in a network
 * namespace made here), and every single change of a rule seen by the comparison. */
#include "cage/nft.h"
#include "cage/nft_read.h"
#include "cage/nft_sets.h"

#include "base/own.h"
#include "base/proc.h"
#include "../good.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the three above */
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const cages[] = {"10.88.0.0/16", "fd00:88::/64", NULL};
static const char *const gates[] = {"10.88.0.1", NULL};
static const char *const local[] = {"203.0.113.7", "10.1.0.0/16", "2001:db8:1::/64", "2a01:4f8::/64", NULL};
static const uint16_t ports[] = {8443, 8444};
static const struct nft_place place = {
    .cages = cages, .gates = gates, .local = local, .ports = ports, .nports = 2};

static void ranges(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t width;
        unsigned char lo[16], hi[16];
    } rows[] = {
        {"10.0.0.0/8", 4, {10}, {10, 255, 255, 255}},
        {"10.1.2.3/8", 4, {10}, {10, 255, 255, 255}},
        {"1.2.3.4", 4, {1, 2, 3, 4}, {1, 2, 3, 4}},
        {"0.0.0.0/0", 4, {0}, {255, 255, 255, 255}},
        {"198.18.0.0/15", 4, {198, 18}, {198, 19, 255, 255}},
        {"::1", 16, {[15] = 1}, {[15] = 1}},
        {"fe80::/10",
         16,
         {0xfe, 0x80},
         {0xfe, 0xbf, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct nft_range r;
        size_t width;
        NO_ERROR(nft_range_of(rows[i].text, &r, &width));
        assert_int_equal(width, rows[i].width);
        assert_memory_equal(r.lo, rows[i].lo, 16);
        assert_memory_equal(r.hi, rows[i].hi, 16);
    }
    for (const char *const *bad = (const char *const[]){"", "10.0.0", "10.0.0.0/33", "10.0.0.0/", "::/129",
                                                        "1.2.3.4; accept", "x", "10.0.0.0/-1", NULL};
         *bad; bad++) {
        struct nft_range r;
        size_t width;
        AN_ERROR(nft_range_of(*bad, &r, &width));
    }
}

/* Which named set refuses an address, by the table alone. */
static bool refused(const struct nft_sets *s, const char *name, const char *address) {
    struct nft_range a;
    size_t width;
    NO_ERROR(nft_range_of(address, &a, &width));
    for (size_t i = 0; i < NFT_SETS; i++)
        for (size_t k = 0; !strcmp(s->set[i].name, name) && k < s->set[i].n; k++)
            if (memcmp(a.lo, s->set[i].r[k].lo, width) >= 0 && memcmp(a.hi, s->set[i].r[k].hi, width) <= 0)
                return true;
    return false;
}

static void sealed_refuses_what_is_local(void **state) {
    (void)state;
    own_nft_sets struct nft_sets s = {0};
    NO_ERROR(nft_sets_of(NET_SEALED, &place, &s));
    static const char *const four[] = {
        "0.0.0.0",     "10.88.0.1",   "10.255.255.255",  "100.64.0.1",     "127.0.0.53",     "10.0.2.2",
        "169.254.1.1", "169.254.1.2", "169.254.169.254", "172.31.255.255", "192.168.1.1",    "192.0.0.192",
        "198.19.0.1",  "203.0.113.7", "168.63.129.16",   "224.0.0.251",    "255.255.255.255"};
    static const char *const six[] = {"::",
                                      "::1",
                                      "::7f00:1",
                                      "::ffff:10.0.0.1",
                                      "::ffff:0:10.0.0.1",
                                      "64:ff9b::a9fe:a9fe",
                                      "64:ff9b:1::1",
                                      "100::1",
                                      "2001::1",
                                      "2002:a9fe:a9fe::1",
                                      "2001:db8:1::1",
                                      "3fff::1",
                                      "5f00::1",
                                      "fd00:ec2::254",
                                      "fe80::1",
                                      "fec0::1",
                                      "ff02::fb",
                                      "2a01:4f8::9"};
    static const char *const out4[] = {"1.1.1.1",       "9.9.9.9",  "8.8.8.8",   "203.0.113.8",
                                       "168.63.129.17", "11.0.0.1", "172.32.0.1"};
    static const char *const out6[] = {"2606:4700::1111", "2a01:4f8:0:1::1", "2620:fe::fe",
                                       "2001:4860:4860::8888"};
    for (size_t i = 0; i < COUNT(four); i++)
        assert_true(refused(&s, "local4", four[i]));
    for (size_t i = 0; i < COUNT(six); i++)
        if (!refused(&s, "local6", six[i]))
            fail_msg("%s is not refused", six[i]);
    for (size_t i = 0; i < COUNT(out4); i++)
        assert_false(refused(&s, "local4", out4[i]));
    for (size_t i = 0; i < COUNT(out6); i++)
        assert_false(refused(&s, "local6", out6[i]));
}

static void text_by_value(void **state) {
    (void)state;
    own_buf struct buf out = {0};
    NO_ERROR(nft_ruleset(NET_NONE, &(struct nft_place){0}, &out));
    assert_non_null(strstr(out.p, "type filter hook output priority filter; policy drop;\n"
                                  "    oifname \"lo\" counter accept comment \"own loopback\"\n"
                                  "    counter jump refuse comment \"nothing leaves\"\n"));
    assert_null(strstr(out.p, "elements"));
    buf_clear(&out);
    NO_ERROR(nft_ruleset(NET_OPEN, &place, &out));
    assert_non_null(strstr(out.p, "set cages4 {\n    type ipv4_addr; flags interval;\n    elements = {\n     "
                                  " 10.88.0.0-10.88.255.255\n"));
    assert_non_null(strstr(out.p, "8443-8444"));
    assert_null(strstr(out.p, "@local4"));
    AN_ERROR(nft_ruleset(
        NET_OPEN, &(struct nft_place){.cages = (const char *const[]){"10.0.0.0/8 } ; accept", NULL}}, &out));
}

/* Loads into a network namespace of its own, in a child; the exit status tells. */
static int apply_in_child(void (*body)(int netns)) {
    pid_t pid = fork();
    if (!pid) {
        if (unshare(CLONE_NEWNET))
            _exit(geteuid() ? 77 : 98); /* root can: what it cannot is a failure */
        body(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static char *list_ruleset(int netns) {
    struct buf out = {0};
    const char *const argv[] = {"nft", "-j", "list", "ruleset", NULL};
    err_t e = proc_must(&(struct proc_spec){.argv = argv, .netns = netns, .out = &out});
    if (e) {
        fprintf(stderr, "%s\n", err_text(e));
        _exit(3);
    }
    return buf_take(&out);
}

static void must(err_t e) {
    if (e) {
        fprintf(stderr, "%s\n", err_text(e));
        _exit(3);
    }
}

/* Is a difference seen? */
static bool told(err_t e) {
    bool is = e != NULL;
    err_free(e);
    return is;
}

static void load_all(int netns) {
    for (enum net net = 0; net < NET_COUNT; net++)
        must(nft_apply(netns, net, &place));
    must(nft_apply(netns, NET_OPEN, &(struct nft_place){0}));
    /* and it is told apart from every other policy, and from other addresses */
    must(nft_apply(netns, NET_OPEN, &place));
    own_free char *json = list_ruleset(netns);
    must(nft_same(NET_OPEN, &place, json));
    for (enum net net = 0; net < NET_COUNT; net++)
        if (net != NET_OPEN && !told(nft_same(net, &place, json)))
            _exit(4);
    if (!told(nft_same(NET_OPEN, &(struct nft_place){.cages = gates, .gates = gates}, json)))
        _exit(5);
}

/* Takes away each rule, set, chain of the listing in turn, and each counter; every one of these must be seen. */
static void mutate(int netns) {
    must(nft_apply(netns, NET_SEALED, &place));
    own_free char *json = list_ruleset(netns);
    json_t *root = json_loads(json, 0, NULL), *list = json_object_get(root, "nftables");
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_object_get(json_array_get(list, i), "metainfo"))
            continue;
        json_t *copy = json_deep_copy(root);
        json_array_remove(json_object_get(copy, "nftables"), i);
        char *text = json_dumps(copy, 0);
        if (!told(nft_same(NET_SEALED, &place, text))) {
            fprintf(stderr, "object %zu can be missing\n", i);
            _exit(4);
        }
        free(text);
        json_decref(copy);
    }
    json_decref(root);
}

/* ---- what packets do: in a namespace with loopback and a cable whose both ends are in it: nothing can leave ---- */

static void interfaces(int netns) {
    static const char *const commands[][12] = {
        {"ip", "link", "set", "lo", "up"},
        {"ip", "link", "add", "d0", "type", "veth", "peer", "name", "d1"},
        {"ip", "link", "set", "d1", "up"},
        {"ip", "addr", "add", "10.88.0.5/16", "dev", "d0"},
        {"ip", "addr", "add", "fd00:88::5/64", "dev", "d0", "nodad"},
        {"ip", "link", "set", "d0", "up"},
        {"ip", "route", "add", "default", "dev", "d0"},
        {"ip", "-6", "route", "add", "default", "dev", "d0"},
    };
    for (size_t i = 0; i < COUNT(commands); i++)
        must(proc_must(&(struct proc_spec){.argv = commands[i], .netns = netns}));
}

/* Who was turned to is remembered, as far as the bound goes, and no longer keeps a packet from going. */
static void remember(int netns) {
    enum { MANY = NFT_REACHED_MAX + 200 };
    own_nft_seen struct nft_seen seen = {0};
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(0x01010101)};
    const char *const blind[] = {"ip", "link", "set", "d0", "arp", "off", NULL}; /* nobody is asked for */
    interfaces(netns);
    must(proc_must(&(struct proc_spec){.argv = blind, .netns = netns}));
    must(nft_apply(netns, NET_SEALED, &place));
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (unsigned i = 0; i < MANY; i++) {
        to.sin_addr.s_addr = htonl(0x08000000 + i);
        to.sin_port = htons((uint16_t)(1000 + i % 7));
        if (sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof to) < 0)
            _exit(4);
    }
    must(nft_check(netns, NET_SEALED, &place)); /* what the sets hold is no difference */
    must(nft_seen(netns, NET_SEALED, &seen));
    if (seen.nreached != NFT_REACHED_MAX || strcmp(seen.reached[0].proto, "udp") ||
        strncmp(seen.reached[0].address, "8.0.", 4) || seen.reached[0].port / 10 != 100 ||
        !seen.reached[0].packets)
        _exit(5);
    for (size_t i = 0; i < seen.ncounts; i++)
        if (!strcmp(seen.counts[i].tag, "everything else") && seen.counts[i].packets < MANY)
            _exit(6);
}

static void bad_text(int netns) {
    const char *const cages_bad[] = {"10.88.0.0/16x", NULL};
    if (!told(nft_apply(netns, NET_OPEN, &(struct nft_place){.cages = cages_bad})))
        _exit(4);
}

static socklen_t address_of(const char *text, uint16_t port, struct sockaddr_storage *ret) {
    struct sockaddr_in *four = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;
    *ret = (struct sockaddr_storage){0};
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        return sizeof *four;
    }
    if (inet_pton(AF_INET6, text, &six->sin6_addr) != 1)
        _exit(6);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    six->sin6_scope_id = !strncmp(text, "fe80", 4) || !strncmp(text, "ff", 2) ? if_nametoindex("d0") : 0;
    return sizeof *six;
}

/* The errno of a TCP connect that has 100 ms, where a refusal comes within the call; ETIMEDOUT: nobody answered (it went out, into the cable). */
static int tcp(const char *text, uint16_t port) {
    struct sockaddr_storage a;
    socklen_t n = address_of(text, port, &a);
    own_fd int fd = socket(a.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (!connect(fd, (struct sockaddr *)&a, n))
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    int e = ETIMEDOUT;
    socklen_t size = sizeof e;
    if (poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 100) == 1)
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &size);
    return e == EHOSTUNREACH ? ETIMEDOUT
                             : e; /* the cable's other end is nobody's, which is found out in time */
}

static int udp(const char *text, uint16_t port) {
    struct sockaddr_storage a;
    socklen_t n = address_of(text, port, &a);
    own_fd int fd = socket(a.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return sendto(fd, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&a, n) < 0 ? errno : 0;
}

/* A datagram to one address by way of another, as whoever sends may say beside it (ip(7), IP_RETOPTS): the filter of calls
 * cannot look there, and on the wire it goes to the first of the two. */
static int udp_by_way_of(const char *first, const char *last) {
    struct sockaddr_storage to, by;
    unsigned char way[8] = {IPOPT_LSRR, 7, IPOPT_MINOFF};
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof way)];
    } control = {0};
    struct iovec text = {(char[]){"x"}, 1};
    struct msghdr h = {.msg_name = &to,
                       .msg_namelen = address_of(last, 9, &to),
                       .msg_iov = &text,
                       .msg_iovlen = 1,
                       .msg_control = control.room,
                       .msg_controllen = sizeof control.room};
    address_of(first, 9, &by);
    memcpy(way + 3, &((struct sockaddr_in *)&by)->sin_addr, 4);
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    *c =
        (struct cmsghdr){.cmsg_level = IPPROTO_IP, .cmsg_type = IP_RETOPTS, .cmsg_len = CMSG_LEN(sizeof way)};
    memcpy(CMSG_DATA(c), way, sizeof way);
    own_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return sendmsg(fd, &h, MSG_DONTWAIT) < 0 ? errno : 0;
}

static void expect(const char *what, const char *address, int got, int want) {
    if (got == want)
        return;
    fprintf(stderr, "%s %s: %s, not %s\n", what, address, strerrorname_np(got), strerrorname_np(want));
    _exit(7);
}

static void both(const char *const *addresses, uint16_t port, int want_tcp, int want_udp) {
    for (; *addresses; addresses++) {
        expect("tcp", *addresses, tcp(*addresses, port), want_tcp);
        expect("udp", *addresses, udp(*addresses, port), want_udp);
    }
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

/* An agent's room: one port of its model's address, or by name any address but a cage's, and DNS; nothing else. */
static void upstream(int netns) {
    const char *const *all =
        LIST("10.88.3.4", "fd00:88::9", "192.168.1.1", "fd12::1", "1.1.1.1", "2606:4700::1111", "10.88.0.1");
    struct nft_place one = place, any = place;
    one.upstream = LIST("10.88.0.1");
    one.upstream_port = any.upstream_port = 443;
    any.upstream = LIST("0.0.0.0/0", "::/0");
    any.dns = true;
    must(nft_apply(netns, NET_UPSTREAM, &one));
    both(all, 80, ECONNREFUSED, EPERM);
    both(all, 53, ECONNREFUSED, EPERM);
    both(LIST("192.168.1.1", "1.1.1.1", "2606:4700::1111", "10.88.3.4"), 443, ECONNREFUSED, EPERM);
    both(LIST("10.88.0.1"), 443, ETIMEDOUT, EPERM);
    must(nft_apply(netns, NET_UPSTREAM, &any));
    both(all, 80, ECONNREFUSED, EPERM);
    both(LIST("10.88.3.4", "fd00:88::9"), 443, ECONNREFUSED, EPERM);
    both(LIST("10.88.3.4", "fd00:88::9"), 53, ECONNREFUSED, EPERM);
    both(LIST("10.88.0.1", "192.168.1.1", "1.1.1.1", "2606:4700::1111"), 443, ETIMEDOUT, EPERM);
    both(LIST("10.88.0.1", "192.168.1.1", "1.1.1.1", "2606:4700::1111"), 53, ETIMEDOUT, 0);
}

static void packets(int netns) {
    interfaces(netns);
    const char *const *cage = LIST("10.88.3.4", "fd00:88::9", "fe80::9");
    const char *const *lan = LIST("192.168.1.1", "fd12::1"), *const *internet =
                                                                 LIST("1.1.1.1", "2606:4700::1111");
    const char *const *gate = LIST("10.88.0.1");
    /* control arm: without rules all of them go out */
    both(cage, 9, ETIMEDOUT, 0);
    expect("udp by way of 1.1.1.1", *lan, udp_by_way_of("1.1.1.1", *lan), 0);
    must(nft_apply(netns, NET_OPEN, &place));
    expect("udp by way of 1.1.1.1", *cage, udp_by_way_of("1.1.1.1", *cage), EPERM);
    both(cage, 9, ECONNREFUSED, EPERM);
    both(lan, 9, ETIMEDOUT, 0);
    both(internet, 9, ETIMEDOUT, 0);
    both(gate, 9, ETIMEDOUT, 0);
    both(gate, 8443, ECONNREFUSED, EPERM); /* agent-cage's own port */
    expect("udp", "224.0.0.251", udp("224.0.0.251", 5353), EPERM);
    expect("udp", "ff02::fb", udp("ff02::fb", 5353), EPERM);
    expect("tcp, nobody listens", "127.0.0.1", tcp("127.0.0.1", 9), ECONNREFUSED);
    expect("udp", "127.0.0.1", udp("127.0.0.1", 9), 0);
    must(nft_apply(netns, NET_SEALED, &place));
    both(cage, 9, ECONNREFUSED, EPERM);
    both(lan, 9, ECONNREFUSED, EPERM);
    both(gate, 9, ECONNREFUSED, EPERM);
    expect("udp by way of 1.1.1.1", *lan, udp_by_way_of("1.1.1.1", *lan), EPERM);
    both(LIST("169.254.169.254", "168.63.129.16", "100.64.0.1", "203.0.113.7", "::ffff:10.88.0.1",
              "64:ff9b::a00:1", "2002:a9fe:a9fe::1", "2a01:4f8::9"),
         80, ECONNREFUSED, EPERM);
    both(internet, 9, ETIMEDOUT, 0);
    upstream(netns);
    must(nft_apply(netns, NET_NONE, &place));
    both(internet, 9, ECONNREFUSED, EPERM);
    expect("udp", "127.0.0.1", udp("127.0.0.1", 9), 0);
}

static void judged(int status) {
    if (status == 77)
        skip(); /* not root: no network namespace */
    assert_int_equal(status, 0);
}

static void loads_and_reads_back(void **state) {
    (void)state;
    judged(apply_in_child(load_all));
}

static void every_missing_part_is_seen(void **state) {
    (void)state;
    judged(apply_in_child(mutate));
}

static void destinations_are_remembered(void **state) {
    (void)state;
    judged(apply_in_child(remember));
}

static void what_is_no_address_is_an_error(void **state) {
    (void)state;
    judged(apply_in_child(bad_text));
}

static void packets_do_what_the_rules_say(void **state) {
    (void)state;
    judged(apply_in_child(packets));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges),
        cmocka_unit_test(sealed_refuses_what_is_local),
        cmocka_unit_test(text_by_value),
        cmocka_unit_test(loads_and_reads_back),
        cmocka_unit_test(every_missing_part_is_seen),
        cmocka_unit_test(what_is_no_address_is_an_error),
        cmocka_unit_test(destinations_are_remembered),
        cmocka_unit_test(packets_do_what_the_rules_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
