/* The gateway as a log-in's proxy: its hosts alone, bytes both ways, and all of it closed with the log-in. */
#include "agent/gateway/gateway.h"
#include "base/fs.h"
#include "base/own.h"
#include "../../loopback.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MANY = 1 << 20, PATIENCE_S = 20 };

static char dir[] = "/tmp/unit-tunnel-XXXXXX";
static int far_listener, gate_listener;
static uint16_t far_port, gate_port;
static pid_t gate;

static void patient(int fd) {
    struct timeval t = {PATIENCE_S, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

static int to_gate(void) {
    int fd = loopback_dial(gate_port);
    patient(fd);
    return fd;
}

static void no_note(void *ctx, const char *text) {
    (void)ctx, (void)text;
}

static void no_change(void *ctx) {
    (void)ctx;
}

static void on_over(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    gateway_tunnels(arg, NULL);
}

/* SIGUSR1: the log-in is over. */
static _Noreturn void be_gate(void) {
    static char host[32];
    static const char *hosts[] = {host, NULL};
    snprintf(host, sizeof host, "127.0.0.1:%u", far_port);
    struct event_base *base = event_base_new();
    struct gateway_setup setup = {.base = base,
                                  .upstream = "anthropic+http://127.0.0.1:9",
                                  .credential = "",
                                  .budget = "",
                                  .prices = "",
                                  .ca = "",
                                  .home = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                                  .note = no_note,
                                  .changed = no_change};
    struct gateway *g;
    if (gateway_new(&setup, &g))
        _exit(1);
    gateway_tunnels(g, hosts);
    gateway_listen(g, gate_listener);
    struct event *over = evsignal_new(base, SIGUSR1, on_over, g);
    event_add(over, NULL);
    event_base_dispatch(base);
    _exit(0);
}

static int set_up(void **state) {
    (void)state;
    assert_non_null(mkdtemp(dir));
    far_listener = loopback_listen(8, &far_port);
    gate_listener = loopback_listen(8, &gate_port);
    gate = fork();
    if (!gate)
        be_gate();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    kill(gate, SIGKILL);
    waitpid(gate, NULL, 0);
    close(far_listener);
    close(gate_listener);
    err_free(fs_remove(dir));
    return 0;
}

/* The status that a CONNECT is answered with; the connection stays. */
static int ask(int fd, const char *host, unsigned port) {
    char text[256];
    int n =
        snprintf(text, sizeof text, "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n\r\n", host, port, host, port);
    assert_int_equal(write(fd, text, (size_t)n), n);
    size_t got = 0;
    while (got < sizeof text - 1 && !(got >= 4 && !memcmp(text + got - 4, "\r\n\r\n", 4)))
        if (read(fd, text + got, 1) == 1)
            got++;
        else
            break;
    text[got] = 0;
    return got > 12 ? (int)strtol(text + 9, NULL, 10) : 0;
}

static void pass(int from, int to) {
    static char out[MANY], in[MANY];
    for (size_t i = 0; i < MANY; i++)
        out[i] = (char)(i * 7);
    pid_t writer = fork();
    if (!writer) {
        for (size_t at = 0; at < MANY;) {
            ssize_t n = write(from, out + at, MANY - at);
            if (n <= 0)
                _exit(1);
            at += (size_t)n;
        }
        _exit(0);
    }
    size_t got = 0;
    for (ssize_t n; got < MANY && (n = read(to, in + got, MANY - got)) > 0;)
        got += (size_t)n;
    waitpid(writer, NULL, 0);
    assert_int_equal(got, MANY);
    assert_memory_equal(in, out, MANY);
}

static void its_hosts_alone(void **state) {
    (void)state;
    static const struct {
        const char *host;
        unsigned port;
    } no[] = {{"example.org", 443}, {"127.0.0.1", 1}, {"127.0.0.2", 0}, {"localhost", 0}};
    for (size_t i = 0; i < COUNT(no); i++) {
        own_fd int fd = to_gate();
        assert_int_equal(ask(fd, no[i].host, no[i].port ? no[i].port : far_port), 404);
    }
}

static void both_ways_until_the_end(void **state) {
    (void)state;
    own_fd int near = to_gate();
    assert_int_equal(ask(near, "127.0.0.1", far_port), 200);
    own_fd int far = accept4(far_listener, NULL, NULL, SOCK_CLOEXEC);
    patient(far);
    pass(near, far);
    pass(far, near);
    char byte;
    own_closep(&far);
    assert_int_equal(read(near, &byte, 1), 0);
}

static void over_with_the_log_in(void **state) {
    (void)state;
    own_fd int near = to_gate();
    assert_int_equal(ask(near, "127.0.0.1", far_port), 200);
    own_fd int far = accept4(far_listener, NULL, NULL, SOCK_CLOEXEC);
    patient(far);
    kill(gate, SIGUSR1);
    char byte;
    assert_int_equal(read(near, &byte, 1), 0);
    assert_int_equal(read(far, &byte, 1), 0);
    own_fd int later = to_gate();
    assert_int_equal(ask(later, "127.0.0.1", far_port), 404);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(its_hosts_alone),
                                       cmocka_unit_test(both_ways_until_the_end),
                                       cmocka_unit_test(over_with_the_log_in)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
