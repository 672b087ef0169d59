/* What comes to the executor from a hostile harness, which need not use the shim. */
#include "base/own.h"
#include "bed.h"
#include "wire/seq.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* What a hostile harness sends without the shim, and what it hears. */
static void ask_unshimmed(const struct msg *ask, struct msg *ret) {
    own_fd int link = -1;
    enum seq_got got;
    assert_int_equal(seteuid(BED_HARNESS), 0);
    err_t e = seq_connect("/cage/shim/shim.sock", &link);
    assert_int_equal(seteuid(0), 0);
    assert_null(e);
    assert_null(seq_send(link, ask));
    assert_null(seq_recv(link, ret, &got));
    assert_int_equal(got, SEQ_MESSAGE);
    assert_int_equal(ret->type, MSG_shim_end);
}

static void expect_refused(int fd, int at) {
    own_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct bytes words[] = {bytes_of("true")};
    struct msg ask = {.type = MSG_shim_run, .nfds = 3, .fds = {null, null, null}}, m;
    ask.fds[at] = fd;
    ask.shim_run.exe = words[0];
    ask.shim_run.cwd = bytes_of("/project");
    ask.shim_run.argv = (struct list){words, 1};
    ask_unshimmed(&ask, &m);
    assert_string_equal(m.shim_end.how.p, "failed");
    assert_int_equal(m.shim_end.status, EPERM);
    assert_non_null(strstr(m.shim_end.text.p, "of a kind that no command is given"));
    msg_free(&m);
    bed_settle(&bed, 0);
}

/* The account has the program that ran, which was called as it was asked to be, and the folder up to the NUL. */
static void test_account_is_not_lied_to(void **state) {
    (void)state;
    own_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct bytes words[] = {bytes_of("git"), bytes_of("-c"), bytes_of("[ $0 = git ] && exit 8")};
    struct msg ask = {.type = MSG_shim_run, .nfds = 3, .fds = {null, null, null}}, m;
    ask.shim_run.exe = bytes_of("/usr/bin/bash");
    ask.shim_run.cwd = (struct bytes){"/scratch\0/project", 17};
    ask.shim_run.argv = (struct list){words, COUNT(words)};
    bed_settle(&bed, 50);
    ask_unshimmed(&ask, &m);
    assert_int_equal(m.shim_end.status, 8);
    msg_free(&m);
    bed_keep_rows = true;
    bed_hear(&bed, MSG_ran_row, &m);
    bed_keep_rows = false;
    assert_string_equal(m.ran_row.argv.v[0].p, "/usr/bin/bash");
    assert_int_equal(m.ran_row.cwd.len, strlen("/scratch"));
    struct msg done = {.type = MSG_run_settle};
    done.run_settle.row = m.ran_row.row;
    assert_null(seq_send(bed.agent, &done));
    msg_free(&m);
}

static void test_given_descriptors(void **state) {
    (void)state;
    int file = open("/project/in", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(fchown(file, BED_HARNESS, BED_HARNESS), 0);
    close(file);
    int memory = memfd_create("x", MFD_CLOEXEC);
    own_free char *again = xasprintf("/proc/self/fd/%d", memory);
    int pair[2], named[] = {open("/project/in", O_RDONLY | O_CLOEXEC),
                            open("/project/in", O_RDWR | O_CLOEXEC),
                            open("/project", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                            open("/dev/zero", O_RDWR | O_CLOEXEC),
                            open("/dev/null", O_PATH | O_CLOEXEC),
                            memory,
                            open(again, O_WRONLY | O_CLOEXEC), /* as a file would pass */
                            socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                            posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
    static const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    size_t fds = bed_descriptors(&bed);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        assert_int_equal(socketpair(AF_UNIX, kinds[i] | SOCK_CLOEXEC, 0, pair), 0);
        for (int at = 0; at < 3; at++)
            expect_refused(pair[0], at);
        close(pair[0]);
        close(pair[1]);
    }
    for (size_t i = 0; i < COUNT(named); i++) {
        assert_true(named[i] >= 0);
        expect_refused(named[i], (int)(i % 3));
        close(named[i]);
    }
    bed_settle(&bed, 100);
    assert_int_equal(bed_descriptors(&bed), fds);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    bed_root(argv[1], argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_given_descriptors),
        cmocka_unit_test(test_account_is_not_lied_to),
    };
    return cmocka_run_group_tests(tests, bed_up_grouped, bed_remove);
}
