#include "break/listeners.h"

#include "base/own.h"
#include "cage/addresses.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* An address of the list as one to listen on; 0 when it is none. */
static socklen_t address_of(const char *text, struct sockaddr_storage *ret) {
    struct sockaddr_in *four = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;
    *ret = (struct sockaddr_storage){0};
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        return text[0] == '1' && !strncmp(text, "127.", 4) ? 0 : sizeof *four;
    }
    if (inet_pton(AF_INET6, text, &six->sin6_addr) != 1 || IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) ||
        IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) || IN6_IS_ADDR_MULTICAST(&six->sin6_addr))
        return 0;
    six->sin6_family = AF_INET6;
    return sizeof *six;
}

/* The kernel lets TCP listen there, where nobody can connect to it; UDP asks for SO_BROADCAST first. */
static bool is_broadcast(const char *text) {
    struct sockaddr_storage a;
    socklen_t n = address_of(text, &a);
    ((struct sockaddr_in *)&a)->sin_port = htons(9);
    own_fd int fd = n ? socket(a.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    return fd >= 0 && connect(fd, (struct sockaddr *)&a, n) && errno == EACCES;
}

/* -1 for what cannot be listened on: a router's address. */
static int listen_on(const char *text, unsigned *ret_port) {
    struct sockaddr_storage a;
    socklen_t n = address_of(text, &a);
    if (!n)
        return -1;
    own_fd int fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) || listen(fd, 64) ||
        getsockname(fd, (struct sockaddr *)&a, &n))
        return -1;
    *ret_port = ntohs(((struct sockaddr_in *)&a)->sin_port); /* at the same place in both families */
    return TAKE_FD(fd);
}

err_t listeners_open(struct listeners *ret, struct words *facts) {
    own_words struct words local = {0};
    TRY(addresses_read(&local));
    *ret = (struct listeners){.n = 0};
    for (size_t i = 0, broadcasts = 0; i < local.n && ret->n < LISTENERS_MAX; i++) {
        unsigned port;
        if (is_broadcast(local.w[i])) {
            if (broadcasts++ < BROADCASTS_MAX)
                words_addf(facts, "broadcast=%s", local.w[i]);
            continue;
        }
        int fd = listen_on(local.w[i], &port);
        if (fd < 0)
            continue;
        ret->fd[ret->n++] = fd;
        words_addf(facts, "listener=%s/%u", local.w[i], port);
    }
    return NULL;
}

size_t listeners_count(struct listeners *l) {
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        for (int fd; (fd = accept4(l->fd[i], NULL, NULL, SOCK_CLOEXEC)) >= 0; n++)
            close(fd);
    return n;
}

void listeners_close(struct listeners *l) {
    for (size_t i = 0; i < l->n; i++)
        close(l->fd[i]);
    l->n = 0;
}
