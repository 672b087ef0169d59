#include "wire/seq.h"
#include "base/own.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* More than MSG_FDS_MAX + memfd, so that a sender who adds descriptors is seen instead of cut. */
enum { CONTROL_FDS = 16 };

err_t seq_pair(int ret_fds[2]) {
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_fds) < 0)
        return err_sys(errno, "socket pair");
    return NULL;
}

/* The address of `path`, through the folder's descriptor when it is too long; *ret_dir keeps that open. */
static err_t address(const char *path, struct sockaddr_un *ret, int *ret_dir) {
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    *ret_dir = -1;
    if (strlen(path) < sizeof ret->sun_path) {
        snprintf(ret->sun_path, sizeof ret->sun_path, "%s", path);
        return NULL;
    }
    own_free char *copy = xstrdup(path), *copy2 = xstrdup(path);
    own_fd int dir = open(dirname(copy), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return err_sys(errno, "open the folder of %s", path);
    const char *name = basename(copy2);
    int n = snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/%s", dir, name);
    if (n < 0 || (size_t)n >= sizeof ret->sun_path)
        return err_new(EXIT_FAILED, "socket name too long: %s", path);
    *ret_dir = TAKE_FD(dir);
    return NULL;
}

err_t seq_listen(const char *path, mode_t mode, int *ret_fd) {
    struct sockaddr_un un;
    own_fd int dir = -1;
    TRY(address(path, &un, &dir));
    own_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(errno, "socket");
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        unlink(path);
    if (fchmod(fd, mode) < 0) /* the mode that bind() gives the name */
        return err_sys(errno, "mode of %s", path);
    if (bind(fd, (struct sockaddr *)&un, sizeof un) < 0)
        return err_sys(errno, "bind %s", path);
    if (chmod(path, mode) < 0) /* bind() took the umask off */
        return err_sys(errno, "mode of %s", path);
    if (listen(fd, 128) < 0)
        return err_sys(errno, "listen on %s", path);
    *ret_fd = TAKE_FD(fd);
    return NULL;
}

err_t seq_connect(const char *path, int *ret_fd) {
    struct sockaddr_un un;
    own_fd int dir = -1;
    TRY(address(path, &un, &dir));
    own_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_sys(errno, "socket");
    while (connect(fd, (struct sockaddr *)&un, sizeof un) < 0)
        if (errno != EINTR) {
            int why = errno;
            return err_as(err_sys(why, "connect to %s", path),
                          why == ENOENT || why == ECONNREFUSED ? EXIT_NOTFOUND : EXIT_FAILED);
        }
    *ret_fd = TAKE_FD(fd);
    return NULL;
}

err_t seq_peer(int fd, uid_t *ret_uid, pid_t *ret_pid) {
    struct ucred cred;
    socklen_t n = sizeof cred;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0 || n != sizeof cred)
        return err_sys(errno, "who is the peer");
    *ret_uid = cred.uid;
    if (ret_pid)
        *ret_pid = cred.pid;
    return NULL;
}

/* Moves the body of b (head stays) into a memfd that nobody can change any more. */
static err_t into_memfd(struct buf *b, int *ret_fd) {
    own_fd int fd = memfd_create("message", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return err_sys(errno, "memfd");
    for (size_t at = MSG_HEAD; at < b->len;) {
        ssize_t n = write(fd, b->p + at, b->len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(errno, "write a memfd");
        at += (size_t)n;
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return err_sys(errno, "seal a memfd");
    b->len = MSG_HEAD;
    uint16_t flags = htole16(MSG_IN_MEMFD);
    memcpy(b->p + 2, &flags, sizeof flags);
    *ret_fd = TAKE_FD(fd);
    return NULL;
}

err_t packet_make(const struct msg *m, struct packet *ret) {
    own_packet struct packet p = {0};
    TRY(msg_encode(m, &p.bytes));
    const struct msg_row *row = &msg_rows[m->type];
    if (m->nfds < row->fds_min || m->nfds > row->fds_max)
        return err_new(EXIT_USAGE, "message %s: %zu descriptors", row->name, m->nfds);
    p.secret = msg_is_secret(m->type);
    p.weight = p.bytes.len + m->nfds * PACKET_FD_WEIGHT;
    if (p.bytes.len > MSG_INLINE_MAX) {
        if (p.bytes.len - MSG_HEAD > MSG_BODY_MAX)
            return err_new(EXIT_USAGE, "message %s: larger than %d bytes", row->name, MSG_BODY_MAX);
        TRY(into_memfd(&p.bytes, &p.fds[0]));
        p.nfds = 1;
    }
    for (size_t i = 0; i < m->nfds; i++) {
        int fd = fcntl(m->fds[i], F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
            return err_sys(errno, "duplicate a descriptor");
        p.fds[p.nfds++] = fd;
    }
    *ret = p;
    p = (struct packet){0};
    return NULL;
}

void packet_free(struct packet *p) {
    for (size_t i = 0; i < p->nfds; i++)
        own_closep(&p->fds[i]);
    p->nfds = 0;
    if (p->secret)
        explicit_bzero(p->bytes.p, p->bytes.cap);
    buf_free(&p->bytes);
}

err_t packet_send(int fd, const struct packet *p, bool *ret_sent) {
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE((MSG_FDS_MAX + 1) * sizeof(int))];
    } control = {0};
    struct iovec iov = {p->bytes.p, p->bytes.len};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    if (p->nfds) {
        h.msg_control = control.room;
        h.msg_controllen = CMSG_SPACE(p->nfds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(p->nfds * sizeof(int));
        memcpy(CMSG_DATA(c), p->fds, p->nfds * sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(fd, &h, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    *ret_sent = n >= 0;
    if (n < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ETOOMANYREFS)
        return err_sys(errno == ECONNRESET ? EPIPE : errno, "send");
    return NULL;
}

err_t seq_send(int fd, const struct msg *m) {
    own_packet struct packet p = {0};
    TRY(packet_make(m, &p));
    bool sent = false;
    TRY(packet_send(fd, &p, &sent));
    return sent ? NULL : err_new(EXIT_FAILED, "send: the peer does not read");
}

/* Takes every descriptor out of the control data. False: something other than descriptors was there. */
static bool collect(struct msghdr *h, int *fds, size_t *ret_n) {
    bool clean = true;
    *ret_n = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            clean = false;
            continue;
        }
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            if (*ret_n < CONTROL_FDS)
                fds[(*ret_n)++] = fd;
            else
                close(fd);
        }
    }
    return clean;
}

/* Reads a sealed body behind the head in b. */
static err_t from_memfd(int fd, struct buf *b) {
    int seals = fcntl(fd, F_GET_SEALS), want = F_SEAL_WRITE | F_SEAL_SHRINK;
    struct stat st;
    if (seals < 0 || (seals & want) != want || fstat(fd, &st) < 0)
        return err_new(EXIT_USAGE, "message: a body that is not sealed");
    if (st.st_size <= 0 || st.st_size > MSG_BODY_MAX)
        return err_new(EXIT_USAGE, "message: a body of %lld bytes", (long long)st.st_size);
    char chunk[65536];
    for (off_t at = 0; at < st.st_size;) {
        ssize_t n = pread(fd, chunk, sizeof chunk, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(errno, "read a memfd");
        buf_add(b, chunk, (size_t)n);
        at += n;
    }
    return NULL;
}

/* The record's parse, once bytes and descriptors are here; fds are closed by the caller when this fails. */
static err_t parse(struct buf *b, int *fds, size_t nfds, struct msg *ret) {
    uint16_t flags = 0;
    if (b->len >= MSG_HEAD)
        memcpy(&flags, b->p + 2, sizeof flags);
    size_t skip = 0;
    if (le16toh(flags) & MSG_IN_MEMFD) {
        if (!nfds || b->len != MSG_HEAD)
            return err_new(EXIT_USAGE, "message: its body is missing");
        TRY(from_memfd(fds[0], b));
        skip = 1;
    }
    unsigned ignored;
    own_msg struct msg m = {0};
    TRY(msg_decode(b->p, b->len, &m, &ignored));
    const struct msg_row *row = &msg_rows[m.type];
    if (nfds - skip < row->fds_min || nfds - skip > row->fds_max)
        return err_new(EXIT_USAGE, "message %s: %zu descriptors", row->name, nfds - skip);
    if (skip)
        own_closep(&fds[0]);
    for (size_t i = skip; i < nfds; i++)
        m.fds[m.nfds++] = fds[i];
    *ret = m;
    m = (struct msg){0};
    return NULL;
}

err_t seq_recv(int fd, struct msg *ret, enum seq_got *ret_got) {
    static char room[MSG_INLINE_MAX + MSG_HEAD];
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(CONTROL_FDS * sizeof(int))];
    } control;
    struct iovec iov = {room, sizeof room};
    struct msghdr h = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    ssize_t n;
    do
        n = recvmsg(fd, &h, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) {
        *ret_got = SEQ_AGAIN;
        return NULL;
    }
    if (n < 0 && errno != ECONNRESET)
        return err_sys(errno, "receive");
    int fds[CONTROL_FDS];
    size_t nfds = 0;
    bool clean = n < 0 || collect(&h, fds, &nfds);
    if (n <= 0 && !nfds) {
        *ret_got = SEQ_END;
        return NULL;
    }
    err_t e = NULL;
    own_buf struct buf b = {0};
    if (!clean || (h.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        e = err_new(EXIT_USAGE, "message: cut, or with control data that no message has");
    else {
        buf_add(&b, room, (size_t)n);
        e = parse(&b, fds, nfds, ret);
        if (!e && msg_is_secret(ret->type)) {
            explicit_bzero(room, (size_t)n);
            explicit_bzero(b.p, b.len);
        }
    }
    if (e) {
        for (size_t i = 0; i < nfds; i++)
            own_closep(&fds[i]);
        return e;
    }
    *ret_got = SEQ_MESSAGE;
    return NULL;
}
