/* Listeners and connections of tests on 127.0.0.1, on any port; what cannot be had ends the program. */
#ifndef TESTS_LOOPBACK_H
#define TESTS_LOOPBACK_H

#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>

static inline int loopback_listen(int backlog, uint16_t *ret_port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) || listen(fd, backlog) ||
        getsockname(fd, (struct sockaddr *)&at, &n))
        abort();
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static inline int loopback_dial(uint16_t port) {
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at))
        abort();
    return fd;
}

#endif
