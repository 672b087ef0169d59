#include "cage/bridge.h"

#include "base/fs.h"
#include "base/own.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROUTES_MAX = 1 << 20 };

/* The gateway of the room's default route, in network order; 0: it has none. */
static err_t gateway_of(pid_t pid, uint32_t *ret) {
    own_free char *path = xasprintf("/proc/%d/net/route", (int)pid);
    own_buf struct buf table = {0};
    TRY(fs_read(path, ROUTES_MAX, &table));
    *ret = 0;
    for (const char *line = buf_text(&table); (line = strchr(line, '\n'));) {
        unsigned to, gateway;
        line++;
        if (sscanf(line, "%*s %x %x", &to, &gateway) == 2 && !to && gateway)
            *ret = gateway;
    }
    return NULL;
}

/* The interface of ours that has this address; "" when none has. */
static err_t interface_of(uint32_t address, char ret[IF_NAMESIZE]) {
    struct ifaddrs *all;
    if (getifaddrs(&all))
        return err_sys(errno, "this host's addresses");
    *ret = 0;
    for (const struct ifaddrs *one = all; one; one = one->ifa_next)
        if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET &&
            ((const struct sockaddr_in *)(const void *)one->ifa_addr)->sin_addr.s_addr == address)
            snprintf(ret, IF_NAMESIZE, "%s", one->ifa_name);
    freeifaddrs(all);
    return NULL;
}

static err_t turn_on(const char *form, const char *interface) {
    own_free char *path = xasprintf(form, interface);
    own_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) /* a host without IPv6 */
        return NULL;
    return fd < 0 || write(fd, "1", 1) != 1 ? err_sys(errno, "write %s", path) : NULL;
}

err_t bridge_notify(pid_t pid) {
    uint32_t gateway;
    char interface[IF_NAMESIZE];
    TRY(gateway_of(pid, &gateway));
    if (!gateway)
        return NULL;
    TRY(interface_of(gateway, interface));
    if (!*interface)
        return NULL;
    TRY(turn_on("/proc/sys/net/ipv4/conf/%s/arp_notify", interface));
    return turn_on("/proc/sys/net/ipv6/conf/%s/ndisc_notify", interface);
}
