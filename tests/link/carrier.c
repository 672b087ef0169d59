/*
 * A peer that does not keep to the carrier's rules: records that are cut, empty or too long, descriptors too
 * few, too many or smuggled, memory that can still change. Each is an error, nothing of it is handed on, and
 * no descriptor stays.
 */
#include "base/own.h"
#include "wire/seq.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int count_fds(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Sends bytes with descriptors, past our own sending code. */
static void send_raw(int fd, const void *p, size_t n, const int *fds, size_t nfds) {
    struct iovec iov = {(void *)(uintptr_t)p, n};
    union {
        char bytes[CMSG_SPACE(253 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    if (nfds) {
        h.msg_control = control.bytes;
        h.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
    }
    assert_int_equal(sendmsg(fd, &h, MSG_NOSIGNAL), (ssize_t)n);
}

static void run_start(struct buf *b) {
    static const struct bytes argv[] = {{"true", 4}};
    struct msg m = {.type = MSG_run_start};
    m.run_start.argv = (struct list){argv, 1};
    assert_null(msg_encode(&m, b));
}

static void refused(const void *p, size_t n, const int *fds, size_t nfds) {
    int before = count_fds(), pair[2];
    assert_null(seq_pair(pair));
    send_raw(pair[0], p, n, fds, nfds);
    struct msg m = {0};
    enum seq_got got = SEQ_MESSAGE;
    own_err err_t e = seq_recv(pair[1], &m, &got);
    assert_non_null(e);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(count_fds(), before);
}

static void descriptors_exact(void **state) {
    (void)state;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), fds[64];
    for (size_t i = 0; i < COUNT(fds); i++)
        fds[i] = null;
    own_buf struct buf b = {0};
    run_start(&b);
    for (size_t n = 0; n <= COUNT(fds); n++)
        if (n != 3)
            refused(b.p, b.len, fds, n);
    close(null);
}

/* IP-03: as many as the kernel passes (SCM_MAX_FD), again and again, with a good message and with one that may have none. */
static void descriptors_smuggled(void **state) {
    (void)state;
    enum { TRIES = 10000, MOST = 253 };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), fds[MOST], pair[2], before;
    own_buf struct buf start = {0}, done = {0};
    for (size_t i = 0; i < MOST; i++)
        fds[i] = null;
    run_start(&start);
    assert_null(msg_encode(&(struct msg){.type = MSG_turn_stop}, &done));
    assert_null(seq_pair(pair));
    before = count_fds();
    for (size_t i = 0; i < TRIES; i++) {
        const struct buf *b = i % 2 ? &start : &done;
        size_t n = 1 + i % MOST;
        struct msg m = {0};
        enum seq_got got;
        if (b == &start && n == 3) /* what it must have */
            continue;
        send_raw(pair[0], b->p, b->len, fds, n);
        own_err err_t e = seq_recv(pair[1], &m, &got);
        assert_non_null(e);
    }
    assert_int_equal(count_fds(), before);
    close(pair[0]);
    close(pair[1]);
    close(null);
}

static void descriptors_close_on_exec(void **state) {
    (void)state;
    int null = open("/dev/null", O_RDWR), fds[] = {null, null, null}, pair[2];
    own_buf struct buf b = {0};
    run_start(&b);
    assert_null(seq_pair(pair));
    send_raw(pair[0], b.p, b.len, fds, 3);
    own_msg struct msg m = {0};
    enum seq_got got;
    assert_null(seq_recv(pair[1], &m, &got));
    assert_int_equal(got, SEQ_MESSAGE);
    assert_int_equal(m.nfds, 3);
    for (size_t i = 0; i < m.nfds; i++)
        assert_true(fcntl(m.fds[i], F_GETFD) & FD_CLOEXEC);
    close(null);
    close(pair[0]);
    close(pair[1]);
}

static void lengths(void **state) {
    (void)state;
    own_buf struct buf b = {0};
    run_start(&b);
    for (size_t n = 1; n < b.len; n++)
        refused(b.p, n, NULL, 0);
    static const uint32_t claims[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff};
    for (size_t i = 0; i < COUNT(claims); i++) {
        memcpy(b.p + 4, &claims[i], 4);
        refused(b.p, b.len, NULL, 0);
    }
    /* Longer than anything inline: the receiver must see that it was cut. */
    own_free char *big = xcalloc(1, MSG_INLINE_MAX + 4096);
    memcpy(big, b.p, MSG_HEAD);
    refused(big, MSG_INLINE_MAX + 4096, NULL, 0);
}

/* The body in a memfd: it must be sealed, regular memory, and of the claimed length. */
static void memfd_rules(void **state) {
    (void)state;
    static const struct bytes argv[] = {{"true", 4}};
    struct msg m = {.type = MSG_run_start};
    m.run_start.argv = (struct list){argv, 1};
    own_buf struct buf whole = {0};
    assert_null(msg_encode(&m, &whole));
    unsigned char head[MSG_HEAD];
    memcpy(head, whole.p, MSG_HEAD);
    head[2] |= MSG_IN_MEMFD;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    static const int seals[] = {0, F_SEAL_WRITE, F_SEAL_SHRINK, F_SEAL_GROW};
    for (size_t i = 0; i < COUNT(seals); i++) {
        int memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(write(memory, whole.p, whole.len), (ssize_t)whole.len);
        assert_int_equal(fcntl(memory, F_ADD_SEALS, seals[i]), 0);
        int fds[] = {memory, null, null, null};
        refused(head, sizeof head, fds, 4);
        close(memory);
    }
    int plain[] = {null, null, null, null};
    refused(head, sizeof head, plain, 4);
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    int piped[] = {pipes[0], null, null, null};
    refused(head, sizeof head, piped, 4);
    close(pipes[0]);
    close(pipes[1]);
    close(null);
}

/* An empty record is not the end of the connection, and not a message. */
static void empty_record(void **state) {
    (void)state;
    int pair[2];
    assert_null(seq_pair(pair));
    assert_int_equal(send(pair[0], "", 0, MSG_NOSIGNAL), 0);
    struct msg m = {0};
    enum seq_got got = SEQ_MESSAGE;
    own_err err_t e = seq_recv(pair[1], &m, &got);
    assert_true(e || got == SEQ_END);
    close(pair[0]);
    close(pair[1]);
}

/* 2 MiB of arguments, the longest line of a message's bound, pass through whole. */
static void long_argv(void **state) {
    (void)state;
    enum { ITEM = 128 * 1024, ITEMS = 16 };
    own_free char *text = xmalloc(ITEM);
    for (size_t i = 0; i < ITEM; i++)
        text[i] = (char)(1 + (i * 7) % 255);
    struct bytes argv[ITEMS];
    for (size_t i = 0; i < ITEMS; i++)
        argv[i] = (struct bytes){text, ITEM - i};
    struct msg m = {.type = MSG_run_start};
    m.run_start.argv = (struct list){argv, ITEMS};
    m.nfds = 3;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), pair[2];
    for (size_t i = 0; i < 3; i++)
        m.fds[i] = null;
    assert_null(seq_pair(pair));
    assert_null(seq_send(pair[0], &m));
    own_msg struct msg back = {0};
    enum seq_got got;
    assert_null(seq_recv(pair[1], &back, &got));
    assert_int_equal(back.run_start.argv.n, ITEMS);
    for (size_t i = 0; i < ITEMS; i++) {
        assert_int_equal(back.run_start.argv.v[i].len, ITEM - i);
        assert_memory_equal(back.run_start.argv.v[i].p, text, ITEM - i);
    }
    close(null);
    close(pair[0]);
    close(pair[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_exact),
        cmocka_unit_test(descriptors_smuggled),
        cmocka_unit_test(descriptors_close_on_exec),
        cmocka_unit_test(lengths),
        cmocka_unit_test(memfd_rules),
        cmocka_unit_test(empty_record),
        cmocka_unit_test(long_argv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
