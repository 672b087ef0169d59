#include "break/network.h"

#include "base/fs.h"
#include "base/own.h"
#include "base/proc.h"
#include "cage/words.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KNOCK_MS = 200, PROGRAM_MS = 20000, ROUTE_TRIES = 500, ROUTE_MS = 10, PS_TRIES = 5 };

static err_t run_there(pid_t pid, const char *const *command, struct buf *out) {
    static const char *const user[] = {"podman", "unshare", NULL};
    own_words struct words words = {0};
    for (const char *const *each = user; geteuid() && *each; each++)
        words_add(&words, *each);
    words_add(&words, "nsenter");
    words_addf(&words, "--target=%d", pid);
    words_add(&words, "--net");
    for (; *command; command++)
        words_add(&words, *command);
    return proc_must(&(struct proc_spec){.argv = words_argv(&words), .out = out, .timeout_ms = PROGRAM_MS});
}

/* A user's PATH lacks /usr/sbin. */
err_t network_rules(pid_t pid, struct buf *out) {
    static const char *const command[] = {"/usr/sbin/nft", "-j", "list", "ruleset", NULL};
    return run_there(pid, command, out);
}

err_t network_ports(struct buf *out) {
    static const char *const argv[] = {"podman", "ps", "--format={{.Pid}} {{.Ports}}", NULL};
    const struct proc_spec ps = {.argv = argv, .out = out, .timeout_ms = PROGRAM_MS};
    err_t e = proc_must(&ps);
    for (int i = 1; e && i < PS_TRIES; i++) { /* another room that ends meanwhile makes it fail */
        err_free(e);
        buf_clear(out);
        e = proc_must(&ps);
    }
    return e;
}

/* ---- IPv6 ---- */

static err_t read_net(pid_t pid, const char *file, struct buf *out) {
    own_free char *path = xasprintf("/proc/%d/net/%s", pid, file);
    return fs_read(path, 1 << 20, out);
}

/* The interface that leads out: the first that is not the loopback; "" where there is none. */
static err_t way_out(pid_t pid, char ret[32]) {
    own_buf struct buf text = {0};
    TRY(read_net(pid, "dev", &text));
    *ret = 0;
    for (char *rest = text.p, *line; !*ret && rest && (line = strsep(&rest, "\n"));)
        if (sscanf(line, " %31[^: ]:", ret) != 1 || !strcmp(ret, "lo") || !strchr(line, ':'))
            *ret = 0;
    return NULL;
}

/* Destination 32 digits, length 2: a default route by something else than lo. */
static bool has_six(pid_t pid) {
    own_buf struct buf text = {0};
    own_err err_t e = read_net(pid, "ipv6_route", &text);
    bool found = false;
    for (char *rest = e ? NULL : text.p, *line; rest && (line = strsep(&rest, "\n"));) {
        size_t n = strlen(line);
        found |=
            n > 35 && strspn(line, "0") >= 32 && !strncmp(line + 32, " 00 ", 4) && strcmp(line + n - 2, "lo");
    }
    return found;
}

/* The kernel makes an address's own route by itself, a moment later: meanwhile no answer finds its way back, not even a refusal. */
static err_t await_own_route(pid_t pid, const char *digits) {
    for (int i = 0; i < ROUTE_TRIES; i++, poll(NULL, 0, ROUTE_MS)) {
        own_buf struct buf text = {0};
        TRY(read_net(pid, "ipv6_route", &text));
        if (strstr(buf_text(&text), digits))
            return NULL;
    }
    return err_new(EXIT_FAILED, "the cage's IPv6 address does not come into force");
}

err_t network_give_six(pid_t pid) {
    char device[32];
    if (has_six(pid))
        return NULL;
    TRY(way_out(pid, device));
    const char *const address[] = {"ip",  "-6",   "addr",  "replace", "fd00:a9e::2/64",
                                   "dev", device, "nodad", NULL};
    const char *const route[] = {"ip", "-6", "route", "replace", "default", "dev", device, NULL};
    if (!*device)
        return err_new(EXIT_FAILED, "the cage has no network");
    TRY(run_there(pid, address, NULL));
    TRY(run_there(pid, route, NULL));
    return await_own_route(pid, "fd000a9e000000000000000000000002 80 ");
}

/* ---- knocking ---- */

/* "     |-- 10.88.0.5", and in the next line "/32 host LOCAL". */
static bool address_of(pid_t pid, struct sockaddr_in *ret) {
    own_buf struct buf text = {0};
    own_err err_t e = read_net(pid, "fib_trie", &text);
    char last[INET_ADDRSTRLEN] = "";
    for (char *rest = e ? NULL : text.p, *line; rest && (line = strsep(&rest, "\n"));) {
        char *leaf = strstr(line, "|-- ");
        if (leaf)
            snprintf(last, sizeof last, "%.15s", leaf + 4);
        else if (strstr(line, "/32 host LOCAL") && strncmp(last, "127.", 4) &&
                 inet_pton(AF_INET, last, &ret->sin_addr) == 1)
            return true;
    }
    return false;
}

/* State 0A at this port, whatever the address. */
static bool listens(pid_t pid, unsigned port) {
    own_buf struct buf text = {0};
    own_err err_t e = read_net(pid, "tcp", &text);
    own_free char *there = xasprintf(":%04X 00000000:0000 0A ", port);
    return !e && strstr(buf_text(&text), there);
}

/* TCP segments that any socket inside has heard: the tenth figure of the second line "Tcp:". */
static unsigned long heard(pid_t pid) {
    own_buf struct buf text = {0};
    own_err err_t e = read_net(pid, "snmp", &text);
    const char *names = e ? NULL : strstr(buf_text(&text), "\nTcp: "),
               *at = names ? strstr(names + 1, "\nTcp: ") : NULL;
    unsigned long n = 0;
    if (at)
        sscanf(at, "\nTcp: %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu", &n);
    return n;
}

static int answer_to(const struct sockaddr_in *a) {
    own_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (!connect(fd, (const struct sockaddr *)a, sizeof *a))
        return 0;
    int e = errno;
    socklen_t size = sizeof e;
    if (e != EINPROGRESS)
        return e;
    if (poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, KNOCK_MS) != 1)
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &size) ? errno : e;
}

int network_knock(pid_t pid, unsigned port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    /* an ordinary user's cage has addresses of its own making, which out here may be somebody's */
    if (geteuid() || !address_of(pid, &a) || !listens(pid, port))
        return -1;
    unsigned long before = heard(pid);
    int answer = answer_to(&a);
    return heard(pid) > before ? 0 : answer;
}
