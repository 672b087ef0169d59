/* Listening and connecting: modes, long paths, old sockets, who the peer is. */
#include "base/fs.h"
#include "base/own.h"
#include "wire/seq.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[300];

static int set_up(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/unit-seq-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    dir[sizeof "/tmp/unit-seq-XXXXXX" - 1] = 0;
    return fs_remove(dir) != NULL;
}

static void good(err_t e) {
    if (e)
        fail_msg("%s", err_text(e));
}

/* One message from a client of `path` to its listener. */
static void talk(const char *path, int listener) {
    own_fd int client = -1;
    good(seq_connect(path, &client));
    own_fd int server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(server >= 0);
    uid_t uid = 1;
    pid_t pid = 0;
    good(seq_peer(server, &uid, &pid));
    assert_int_equal(uid, getuid());
    assert_int_equal(pid, getpid());
    struct msg m = {.type = MSG_op_ping};
    m.op_ping.cookie = 42;
    good(seq_send(client, &m));
    own_msg struct msg got = {0};
    enum seq_got what;
    good(seq_recv(server, &got, &what));
    assert_int_equal(what, SEQ_MESSAGE);
    assert_int_equal(got.op_ping.cookie, 42);
    own_closep(&client);
    struct msg none = {0};
    good(seq_recv(server, &none, &what));
    assert_int_equal(what, SEQ_END);
}

static void listens_where_it_is_told(void **state) {
    (void)state;
    own_free char *path = xasprintf("%s/s", dir);
    own_fd int fd = -1;
    umask(0);
    good(seq_listen(path, 0600, &fd));
    umask(022);
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode, S_IFSOCK | 0600);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    talk(path, fd);
    own_fd int again = -1;
    good(seq_listen(path, 0666, &again)); /* takes the place of an old one */
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode, S_IFSOCK | 0666);
    talk(path, again);
}

static void long_paths(void **state) {
    (void)state;
    size_t n = strlen(dir);
    memset(dir + n, 'd', 180);
    dir[n] = '/';
    dir[n + 180] = 0;
    good(fs_dirs(dir));
    own_free char *path = xasprintf("%s/warden.sock", dir);
    own_fd int fd = -1;
    good(seq_listen(path, 0600, &fd));
    talk(path, fd);
}

static void removes_nothing_but_sockets(void **state) {
    (void)state;
    own_free char *path = xasprintf("%s/file", dir), *link = xasprintf("%s/link", dir);
    good(fs_write(path, "x", 1, geteuid(), getegid(), 0600));
    assert_int_equal(symlink("file", link), 0);
    own_fd int fd = -1;
    own_err err_t e = seq_listen(path, 0600, &fd), f = seq_listen(link, 0600, &fd);
    assert_true(e && f);
    assert_int_equal(access(path, F_OK), 0);
}

static void nobody_there(void **state) {
    (void)state;
    own_free char *path = xasprintf("%s/s", dir);
    own_fd int fd = -1;
    own_err err_t e = seq_connect(path, &fd);
    assert_int_equal(e->status, EXIT_NOTFOUND);
    good(seq_listen(path, 0600, &fd));
    own_closep(&fd);
    own_err err_t f = seq_connect(path, &fd); /* the socket is there, its listener gone */
    assert_int_equal(f->status, EXIT_NOTFOUND);
}

/* What its backlog held when the listener ended, the kernel resets: the same as any other peer that has gone. */
static void never_accepted(void **state) {
    (void)state;
    own_free char *path = xasprintf("%s/s", dir);
    own_fd int listener = -1, client = -1;
    good(seq_listen(path, 0600, &listener));
    good(seq_connect(path, &client));
    own_closep(&listener);
    struct msg m = {.type = MSG_op_ping};
    for (int i = 0; i < 2; i++) {
        own_err err_t e = seq_send(client, &m);
        assert_non_null(e);
        assert_int_equal(e->errnum, EPIPE);
    }
}

static void nothing_there_yet(void **state) {
    (void)state;
    int pair[2];
    good(seq_pair(pair));
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    struct msg m = {0};
    enum seq_got got;
    good(seq_recv(pair[0], &m, &got));
    assert_int_equal(got, SEQ_AGAIN);
    close(pair[0]);
    close(pair[1]);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(listens_where_it_is_told), T(long_paths),        T(removes_nothing_but_sockets), T(nobody_there),
        T(never_accepted),           T(nothing_there_yet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
