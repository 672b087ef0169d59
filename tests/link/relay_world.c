#include "relay_world.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/lockin.h"
#include "base/own.h"
#include "wire/seq.h"
#include "../loopback.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { OTHER_UID = 64999 }; /* nobody's: an account of the relay's own */

static const char *binary(void) {
    const char *path = getenv("AGENT_CAGE");
    assert_non_null(path);
    return path;
}

static void spawn_relay(struct world *w) {
    w->relay = fork();
    if (w->relay)
        return;
    int fds[3] = {fcntl(w->listeners[0], F_DUPFD, 10), fcntl(w->listeners[1], F_DUPFD, 10),
                  fcntl(w->web, F_DUPFD, 10)};
    if (dup2(fds[0], 3) != 3 || dup2(fds[1], 4) != 4 || dup2(fds[2], 5) != 5)
        _exit(99);
    for (size_t i = 0; i < COUNT(fds); i++)
        close(fds[i]);
    if (lockin_become(OTHER_UID, OTHER_UID, NULL, 0))
        _exit(99);
    setenv("AGENT_CAGE_ROOT", w->root, 1);
    setenv("LSAN_OPTIONS", "detect_leaks=0",
           1); /* it would clone and ptrace, for which a locked-in part dies */
    execl(binary(), "agent-cage", "relay", "", (char *)NULL);
    _exit(99);
}

static void greet(struct world *w) {
    own_free char *path = xasprintf("%s/run/agent-cage/relay.ctl", w->root);
    assert_null(seq_connect(path, &w->control));
    own_msg struct msg m = {0};
    hear(w->control, MSG_part_hello, &m);
    assert_string_equal(m.part_hello.part.p, "relay");
}

/* As the warden makes it, on any port. */
static int listen_for_web(unsigned *ret_port) {
    uint16_t port;
    int fd = loopback_listen(1024, &port);
    assert_int_equal(fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK), 0);
    *ret_port = port;
    return fd;
}

void world_start(struct world *w) {
    *w = (struct world){.control = -1, .manager = -1};
    snprintf(w->root, sizeof w->root, "/tmp/relay-test-XXXXXX");
    assert_non_null(mkdtemp(w->root));
    static const char *const dirs[] = {"run",     "run/agent-cage",     "var",
                                       "var/lib", "var/lib/agent-cage", "var/lib/agent-cage/relay"};
    for (size_t i = 0; i < COUNT(dirs); i++) {
        own_free char *path = xasprintf("%s/%s", w->root, dirs[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    chmod(w->root, 0755);
    own_free char *state = xasprintf("%s/var/lib/agent-cage/relay", w->root);
    assert_int_equal(chown(state, OTHER_UID, OTHER_UID), 0);
    own_free char *control = xasprintf("%s/run/agent-cage/relay.ctl", w->root);
    own_free char *relay = xasprintf("%s/run/agent-cage/relay.sock", w->root);
    assert_null(seq_listen(control, 0600, &w->listeners[0]));
    assert_null(seq_listen(relay, 0600, &w->listeners[1]));
    w->web = listen_for_web(&w->port);
    spawn_relay(w);
    greet(w);
    world_manager(w);
}

void world_restart(struct world *w) {
    kill(w->relay, SIGKILL);
    waitpid(w->relay, NULL, 0);
    own_closep(&w->control);
    own_closep(&w->manager);
    spawn_relay(w);
    greet(w);
    world_manager(w);
}

void world_stop(struct world *w) {
    struct msg m = {.type = MSG_part_stop};
    say(w->control, &m);
    assert_int_equal(reap(w->relay), 0);
    own_closep(&w->control);
    own_closep(&w->manager);
    for (size_t i = 0; i < 2; i++)
        own_closep(&w->listeners[i]);
    own_closep(&w->web);
    own_err err_t e = fs_remove(w->root);
    assert_null(e);
}

void world_manager(struct world *w) {
    int pair[2];
    assert_null(seq_pair(pair));
    struct msg m = {.type = MSG_part_link, .fds = {pair[1]}, .nfds = 1};
    m.part_link.link = LINK_relay_manager;
    m.part_link.peer = bytes_of("");
    say(w->control, &m);
    close(pair[1]);
    own_closep(&w->manager);
    w->manager = pair[0];
}

int world_front(struct world *w) {
    own_free char *path = xasprintf("%s/run/agent-cage/relay.sock", w->root);
    int fd;
    assert_null(seq_connect(path, &fd));
    struct msg m = {.type = MSG_front_hello};
    m.front_hello.fingerprint = msg_fingerprint();
    m.front_hello.front = bytes_of("test");
    say(fd, &m);
    return fd;
}

void say(int fd, const struct msg *m) {
    err_t e = seq_send(fd, m);
    if (e)
        fail_msg("send %s: %s", msg_rows[m->type].name, err_text(e));
}

static bool readable(int fd, int ms) {
    struct pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, ms) > 0;
}

/* part_note and part_lost come when they like. */
static bool beside(enum msg_type type) {
    return msg_rows[type].link == LINK_warden_part && type != MSG_part_hello;
}

static void hear_some(int fd, const char *what, struct msg *ret) {
    if (!readable(fd, WAIT_MS))
        fail_msg("no %s came", what);
    enum seq_got got;
    err_t e = seq_recv(fd, ret, &got);
    if (e || got != SEQ_MESSAGE)
        fail_msg("no %s came: %s", what, e ? err_text(e) : "the peer hung up");
}

void hear_any(int fd, struct msg *ret) {
    hear_some(fd, "message", ret);
}

void hear(int fd, enum msg_type type, struct msg *ret) {
    for (;;) {
        hear_some(fd, msg_rows[type].name, ret);
        if (ret->type == type)
            return;
        if (!beside(ret->type))
            fail_msg("%s came instead of %s", msg_rows[ret->type].name, msg_rows[type].name);
        msg_free(ret);
    }
}

bool hangs_up(int fd) {
    while (readable(fd, WAIT_MS)) {
        own_msg struct msg m = {0};
        enum seq_got got;
        own_err err_t e = seq_recv(fd, &m, &got);
        if (e || got == SEQ_END)
            return true;
    }
    return false;
}

bool silent(int fd, int ms) {
    return !readable(fd, ms);
}

void end(int fd, uint64_t cookie, uint64_t status, uint64_t id, const char *text) {
    struct msg m = {.type = MSG_ret_end};
    m.ret_end.cookie = cookie;
    m.ret_end.status = status;
    m.ret_end.id = id;
    m.ret_end.text = bytes_of(text);
    say(fd, &m);
}

pid_t world_cli(struct world *w, const int fds[3], char *const argv[]) {
    pid_t pid = fork();
    if (pid)
        return pid;
    int high[3];
    for (int i = 0; i < 3; i++)
        high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 20);
    for (int i = 0; i < 3; i++)
        dup2(high[i], i);
    setenv("AGENT_CAGE_ROOT", w->root, 1);
    execv(binary(), argv);
    _exit(99);
}

int reap(pid_t pid) {
    int64_t until = clock_mono_ns() + (int64_t)WAIT_MS * 1000000;
    own_fd int process = pidfd_open(pid, 0);
    if (!readable(process, WAIT_MS) || clock_mono_ns() > until) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        fail_msg("process %d does not end", pid);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
