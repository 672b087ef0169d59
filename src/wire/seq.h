/*
 * One message = one SOCK_SEQPACKET record, with its descriptors. The only place in the tree that receives
 * descriptors. No event loop: the shim and the command line use these directly, links.h builds on them.
 */
#ifndef WIRE_SEQ_H
#define WIRE_SEQ_H

#include "proto/msg.h"

#include <stdbool.h>
#include <sys/types.h>

/* A connected pair, close-on-exec. */
err_t seq_pair(int ret_fds[2]);

/*
 * A listener bound at `path` (an old socket there is removed first), mode as given from its first moment on;
 * close-on-exec. Paths over 107 bytes are bound through /proc/self/fd of their folder, so they work too.
 */
err_t seq_listen(const char *path, mode_t mode, int *ret_fd);

/* Connects to a listener, same rule for long paths. EXIT_NOTFOUND when nobody listens. */
err_t seq_connect(const char *path, int *ret_fd);

/* The peer's uid as the kernel has it (SO_PEERCRED). Under a uid map every unmapped peer is 65534: never an
 * identity there. */
err_t seq_peer(int fd, uid_t *ret_uid, pid_t *ret_pid);

/* An encoded message made ready to go: kept bytes and the descriptors that go with it (owned). */
struct packet {
    struct buf bytes;
    int fds[MSG_FDS_MAX + 1]; /* [0] is the memfd when the body travels in one */
    size_t nfds;
    bool secret; /* a credential is in the bytes (never in a memfd): cleared before they are freed */
    size_t
        weight; /* bytes of memory that it holds, in the memfd or not, and PACKET_FD_WEIGHT for each of its message's fds */
};
enum { PACKET_FD_WEIGHT = 64 << 10 }; /* descriptors run out long before memory does */

/* Encodes m; m->fds are duplicated (the caller keeps its own). */
err_t packet_make(const struct msg *m, struct packet *ret);
void packet_free(struct packet *p);
#define own_packet __attribute__((cleanup(packet_free)))

/* *ret_sent false: the socket is full (EAGAIN), try again when it is writable. EINTR is retried. No SIGPIPE. errnum EPIPE:
 * nobody is there any more, also where the kernel says ECONNRESET (the peer left something unread, or never accepted). */
err_t packet_send(int fd, const struct packet *p, bool *ret_sent);

/* Blocking send of one message. */
err_t seq_send(int fd, const struct msg *m);

enum seq_got { SEQ_MESSAGE, SEQ_AGAIN, SEQ_END };

/*
 * Receives one message. Exactly the number of descriptors that the table allows must come (plus the memfd of
 * a large one), else they are closed and it is an error, as are MSG_TRUNC, MSG_CTRUNC, another control
 * message, a memfd that is not sealed against writing and shrinking. SEQ_END: the peer is gone. SEQ_AGAIN:
 * nothing there (non-blocking sockets).
 */
err_t seq_recv(int fd, struct msg *ret, enum seq_got *ret_got);

#endif
