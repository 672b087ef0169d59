/*
 * Attempts by packets. TCP: the errno of a connect that has most of a second, ETIMEDOUT when nobody answers, and "late" for a
 * refusal that took longer than a tenth of one. UDP: the errno of the send, the only unambiguous refusal.
 */
#include "break/try.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/parse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECT_MS = 700, FAR_MS = 5000, LATE_MS = 100 };

/* The interface that leads out; the loopback where there is no other. */
static unsigned way_out(void) {
    struct if_nameindex *all = if_nameindex();
    unsigned found = 0;
    for (struct if_nameindex *i = all; i && i->if_index; i++)
        if (!found || strcmp(i->if_name, "lo"))
            found = i->if_index;
    if (all)
        if_freenameindex(all);
    return found;
}

static socklen_t address_of(const char *text, int port, struct sockaddr_storage *ret) {
    struct sockaddr_in *four = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;
    *ret = (struct sockaddr_storage){0};
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)port);
        return sizeof *four;
    }
    if (inet_pton(AF_INET6, text, &six->sin6_addr) != 1)
        return 0;
    six->sin6_family = AF_INET6;
    six->sin6_port = htons((uint16_t)port);
    if (IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) || IN6_IS_ADDR_MULTICAST(&six->sin6_addr) ||
        IN6_IS_ADDR_SITELOCAL(&six->sin6_addr))
        six->sin6_scope_id = way_out();
    return sizeof *six;
}

static int connect_to(const struct sockaddr_storage *a, socklen_t n, int within_ms) {
    own_fd int fd = socket(a->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    if (!connect(fd, (const struct sockaddr *)a, n))
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    int e = ETIMEDOUT;
    socklen_t size = sizeof e;
    if (poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, within_ms) == 1)
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &size);
    return e;
}

static long tcp(const struct sockaddr_storage *a, socklen_t n, int within_ms) {
    if (!n)
        return try_fail(EINVAL);
    int64_t start = clock_mono_ns() / 1000000;
    int e = connect_to(a, n, within_ms);
    if (e == ECONNREFUSED && clock_mono_ns() / 1000000 - start >= LATE_MS)
        e = ETIME;
    return e ? try_fail(e) : 0;
}

long try_tcp(const char *address, int port) {
    struct sockaddr_storage a;
    socklen_t n = address_of(address, port, &a);
    return tcp(&a, n, CONNECT_MS);
}

long try_tcp_far(const char *address, int port) {
    struct sockaddr_storage a;
    socklen_t n = address_of(address, port, &a);
    return tcp(&a, n, FAR_MS);
}

long try_tcp_text(const char *text) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(80)};
    struct sockaddr_storage a = {0};
    if (!inet_aton(text, &in.sin_addr))
        return try_fail(EINVAL);
    memcpy(&a, &in, sizeof in);
    return tcp(&a, sizeof in, CONNECT_MS);
}

long try_udp(const char *address, int port) {
    struct sockaddr_storage a;
    socklen_t n = address_of(address, port, &a);
    own_fd int fd = n ? socket(a.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &(int){1}, sizeof(int)))
        return try_fail(n ? errno : EINVAL);
    return sendto(fd, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&a, n);
}

/* "address/port", several: those to which something got through, or was not refused at once. */
long see_listeners(const struct facts *f, char *answer) {
    const char *each;
    size_t i = 0;
    for (; (each = fact(f, "listener", i)); i++) {
        const char *slash = strchr(each, '/');
        uint64_t port = 0;
        own_err err_t bad = parse_u64(slash ? slash + 1 : "", 65535, &port);
        own_free char *address = xstrndup(each, slash ? (size_t)(slash - each) : 0);
        bool no_six = strchr(address, ':') && try_udp(address, (int)port) < 0 && errno == ENETUNREACH;
        if (!no_six && (!try_tcp(address, (int)port) || errno != ECONNREFUSED))
            answer_add(answer, "tcp:%s", address);
        if (!no_six && (try_udp(address, (int)port) >= 0 || errno != EPERM))
            answer_add(answer, "udp:%s", address);
    }
    if (!i)
        answer_add(answer, "no address");
    return answer_done(answer);
}

long try_broadcasts(const struct facts *f) {
    const char *to = "255.255.255.255";
    for (size_t i = 0; to; to = fact(f, "broadcast", i++))
        if (try_udp(to, 9) >= 0)
            return 0;
        else if (errno != EPERM)
            return -1;
    return try_fail(EPERM);
}

/* Asks for one more address on an interface, as root of a network may. */
long try_add_address(void) {
    own_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    struct {
        struct nlmsghdr h;
        struct ifaddrmsg m;
        struct rtattr a;
        struct in_addr address;
    } ask = {.h = {.nlmsg_len = sizeof ask,
                   .nlmsg_type = RTM_NEWADDR,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE},
             .m = {.ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = way_out()},
             .a = {.rta_len = sizeof ask.a + sizeof ask.address, .rta_type = IFA_LOCAL},
             .address.s_addr = htonl(0x0a636363)};
    struct {
        struct nlmsghdr h;
        struct nlmsgerr e;
    } said = {0};
    if (fd < 0 || send(fd, &ask, sizeof ask, 0) < 0 || recv(fd, &said, sizeof said, 0) < 0)
        return -1;
    return said.e.error ? try_fail(-said.e.error) : 0;
}

/* The words of a file without comments, in one line. */
static long words_of(const char *path, char *answer) {
    own_buf struct buf text = {0};
    own_err err_t e = fs_read(path, 1 << 16, &text);
    if (e)
        return try_fail(e->errnum ? e->errnum : ENOENT);
    char *lines = text.p;
    for (char *line; lines && (line = strsep(&lines, "\n"));) {
        line[strcspn(line, "#;")] = 0;
        for (char *word; (word = strsep(&line, " \t"));)
            if (*word)
                answer_add(answer, "%s", word);
    }
    return answer_done(answer);
}

long see_resolver(char *answer) {
    return words_of("/etc/resolv.conf", answer);
}

/* Names beyond the loopback's. */
long see_hosts(char *answer) {
    char all[ANSWER_MAX] = "";
    if (words_of("/etc/hosts", all))
        return -1;
    char *rest = all;
    for (char *word; (word = strsep(&rest, " "));)
        if (*word && strcmp(word, "none") && strcmp(word, "127.0.0.1") && strcmp(word, "::1") &&
            strncmp(word, "localhost", 9) && strncmp(word, "ip6-", 4))
            answer_add(answer, "%s", word);
    return answer_done(answer);
}
