/*
 * Bodies that pass a piece at a time, plain and over TLS, against a host in a process of its own: who does not take holds the
 * other side back, and what is cut is no answer.
 */
#include "base/own.h"
#include "http/body.h"
#include "http/client.h"
#include "../../loopback.h"
#include "../scratch.h"
#include "../tls_host.h"

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { BIG = 8 << 20, PIECE = 16384, STUCK_MS = 300, MUCH = 1 << 20 };

/* What host and test tell each other. */
static struct {
    volatile int stuck; /* nobody took the answer for STUCK_MS */
    volatile int go;    /* read the question's body */
} * shared;

static pid_t host;

/* ---- the host: one question on each connection ---- */

struct conn {
    int fd;
    SSL *ssl; /* NULL: plain */
};

/* Waits until it may go on; a writer that waits long says so. */
static void wait_for(struct conn *c, short what) {
    struct pollfd p = {c->fd, what, 0};
    if (!poll(&p, 1, STUCK_MS) && what == POLLOUT)
        shared->stuck = 1;
    poll(&p, 1, -1);
}

static ssize_t some(struct conn *c, bool in, void *p, size_t n) {
    for (;;) {
        ssize_t k = c->ssl ? (in ? SSL_read(c->ssl, p, (int)n) : SSL_write(c->ssl, p, (int)n))
                    : in   ? read(c->fd, p, n)
                           : write(c->fd, p, n);
        int why = c->ssl && k <= 0 ? SSL_get_error(c->ssl, (int)k) : 0;
        bool later =
            c->ssl ? why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE : k < 0 && errno == EAGAIN;
        if (!later)
            return k;
        wait_for(c, in ? POLLIN : POLLOUT);
    }
}

static void put(struct conn *c, const char *p, size_t n) {
    for (ssize_t k; n && (k = some(c, false, (void *)(uintptr_t)p, n)) > 0; p += k)
        n -= (size_t)k;
}

static void put_big(struct conn *c) {
    static char piece[PIECE];
    put(c, "HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n", 45);
    for (size_t n = 0; n < BIG; n += PIECE)
        put(c, piece, PIECE);
}

/* The content of a chunked body, up to its end. */
static size_t take_chunks(struct conn *c, const char *first, size_t n) {
    static char piece[PIECE];
    struct body b;
    size_t all = 0;
    body_begin(&b, FRAMING_CHUNKED, 0);
    memcpy(piece, first, n);
    while (!b.over) {
        for (size_t at = 0, used; at < n && !b.over; at += used) {
            struct bytes content;
            if (body_take(&b, piece + at, n - at, &used, &content))
                return 0;
            all += content.len;
        }
        ssize_t k = b.over ? 0 : some(c, true, piece, sizeof piece);
        if (k <= 0 && !b.over)
            return 0;
        n = (size_t)k;
    }
    return all;
}

static void answer(struct conn *c, const char *asked, const char *rest, size_t n) {
    static const struct {
        const char *path, *says;
    } fixed[] = {{"/gone ", "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone"},
                 {"/half ", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"},
                 {"/parts ", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n"},
                 {"/early ", "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nlate"}};
    for (size_t i = 0; i < COUNT(fixed); i++)
        if (strstr(asked, fixed[i].path))
            put(c, fixed[i].says, strlen(fixed[i].says));
    if (strstr(asked, "/big "))
        put_big(c);
    if (strstr(asked, "/take ")) {
        while (!shared->go)
            poll(NULL, 0, 5);
        own_free char *count = xasprintf("%zu", take_chunks(c, rest, n));
        own_free char *text =
            xasprintf("HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(count), count);
        put(c, text, strlen(text));
    }
}

static void serve(struct conn *c) {
    char text[PIECE];
    size_t n = 0;
    const char *end = NULL;
    for (ssize_t k; !end && (k = some(c, true, text + n, sizeof text - 1 - n)) > 0;) {
        n += (size_t)k;
        text[n] = 0;
        end = strstr(text, "\r\n\r\n");
    }
    if (!end)
        return;
    answer(c, text, end + 4, n - (size_t)(end + 4 - text));
    if (c->ssl)
        SSL_shutdown(c->ssl);
    shutdown(c->fd, SHUT_WR);
    while (some(c, true, text, sizeof text) > 0) /* so that no reset overtakes the answer */
        continue;
}

static _Noreturn void be_host(int listener, SSL_CTX *context) {
    for (;;) {
        struct conn c = {.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)};
        if (context) {
            c.ssl = SSL_new(context);
            SSL_set_fd(c.ssl, c.fd);
            SSL_set_accept_state(c.ssl);
        }
        serve(&c);
        SSL_free(c.ssl);
        close(c.fd);
    }
}

static uint16_t start_host(bool tls) {
    uint16_t port;
    int fd = loopback_listen(8, &port);
    SSL_CTX *context = tls ? tls_host("ca") : NULL;
    host = fork();
    if (!host) {
        signal(SIGPIPE, SIG_IGN);
        be_host(fd, context);
    }
    SSL_CTX_free(context);
    close(fd);
    return port;
}

/* ---- who asks ---- */

static struct asking {
    struct event_base *base;
    struct dialer *dialer;
    struct upstream to;
    struct http_client *http;
    struct http_flow flow;
    bool over, hold;
    enum http_end end;
    unsigned status, begun;
    char body[64], why[128];
    uint64_t length;
    size_t passed, sent;
} q;

static const char *on_begin(void *ctx, uint64_t length) {
    (void)ctx;
    q.begun++;
    q.length = length;
    return NULL;
}

static const char *on_unwanted(void *ctx, uint64_t length) {
    (void)ctx, (void)length;
    return "not wanted";
}

static void on_piece(void *ctx, struct bytes piece) {
    (void)ctx;
    q.passed += piece.len;
    if (q.hold)
        http_client_hold(q.http, true);
}

static void send_more(void *ctx) {
    static const char piece[PIECE];
    (void)ctx;
    while (q.sent < BIG && !http_client_full(q.http)) {
        http_client_put(q.http, (struct bytes){piece, PIECE});
        q.sent += PIECE;
    }
    if (q.sent == BIG) {
        http_client_put_end(q.http);
        q.sent++;
    }
}

static void on_end(void *ctx, const struct http_answer *a) {
    (void)ctx;
    q.over = true;
    q.end = a->end;
    q.status = a->status;
    snprintf(q.body, sizeof q.body, "%.*s", (int)a->body.len, a->body.p);
    snprintf(q.why, sizeof q.why, "%s", a->why);
}

static void fetch(const char *path) {
    q.flow = (struct http_flow){.begin = q.flow.begin ? q.flow.begin : on_begin, .piece = on_piece};
    http_client_fetch(q.http, path, 1000, 60, &q.flow, on_end, NULL);
}

/* Until something came, or for a moment. */
static void turn(void) {
    event_base_loopexit(q.base, &(struct timeval){0, 20000});
    event_base_loop(q.base, EVLOOP_ONCE);
}

static void until_over(void) {
    while (!q.over)
        turn();
}

static int up(bool tls) {
    if (scratch_up(NULL))
        return -1;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    q = (struct asking){.base = event_base_new()};
    own_free char *url = xasprintf("http%s://127.0.0.1:%u", tls ? "s" : "", start_host(tls));
    own_err err_t e = upstream_of(url, &q.to);
    q.dialer = dialer_new(q.base, "ca");
    q.http = http_client_new(q.base, q.dialer, &q.to);
    return e ? -1 : 0;
}

static int plain_up(void **state) {
    (void)state;
    return up(false);
}

static int tls_up(void **state) {
    (void)state;
    return up(true);
}

static int down(void **state) {
    kill(host, SIGKILL);
    waitpid(host, NULL, 0);
    http_client_free(q.http);
    dialer_free(q.dialer);
    event_base_free(q.base);
    munmap(shared, sizeof *shared);
    return scratch_down(state);
}

/* ---- */

static void an_answer_is_held_back(void **state) {
    (void)state;
    q.hold = true;
    fetch("/big");
    while (!shared->stuck && !q.over)
        turn();
    assert_true(shared->stuck);
    assert_int_equal(q.begun, 1);
    assert_true(q.length == BIG);
    assert_true(q.passed && q.passed < MUCH);
    assert_false(q.over);
    q.hold = false;
    http_client_hold(q.http, false);
    until_over();
    assert_int_equal(q.end, HTTP_ANSWERED);
    assert_int_equal(q.status, 200);
    assert_int_equal(q.passed, BIG);
    assert_string_equal(q.body, "");
}

static void a_question_is_held_back(void **state) {
    (void)state;
    q.flow = (struct http_flow){.room = send_more};
    http_client_post(q.http, "/take", "text/plain", 1000, 60, &q.flow, on_end, NULL);
    send_more(NULL);
    assert_true(http_client_full(q.http));
    assert_true(q.sent <= HTTP_PUT_MAX + PIECE);
    shared->go = 1;
    until_over();
    assert_int_equal(q.end, HTTP_ANSWERED);
    assert_string_equal(q.body, "8388608");
}

static void what_is_no_200_does_not_flow(void **state) {
    (void)state;
    fetch("/gone");
    until_over();
    assert_int_equal(q.end, HTTP_ANSWERED);
    assert_int_equal(q.status, 404);
    assert_string_equal(q.body, "gone");
    assert_int_equal(q.begun, 0);
    assert_int_equal(q.passed, 0);
}

static void half_a_body_is_no_answer(void **state) {
    (void)state;
    fetch("/half");
    until_over();
    assert_int_equal(q.end, HTTP_CUT);
    assert_int_equal(q.passed, 4);
}

static void a_length_may_be_unknown(void **state) {
    (void)state;
    fetch("/parts");
    until_over();
    assert_int_equal(q.end, HTTP_ANSWERED);
    assert_true(q.length == UINT64_MAX);
    assert_int_equal(q.passed, 3);
}

static void a_body_may_be_unwanted(void **state) {
    (void)state;
    q.flow.begin = on_unwanted;
    fetch("/big");
    until_over();
    assert_int_equal(q.end, HTTP_CUT);
    assert_string_equal(q.why, "not wanted");
    assert_int_equal(q.passed, 0);
    assert_false(http_client_busy(q.http));
}

/* The connection goes with it: a body that ended nowhere is in it. */
static void an_answer_may_come_before_the_end_of_the_question(void **state) {
    (void)state;
    q.flow = (struct http_flow){.room = send_more};
    http_client_post(q.http, "/early", "text/plain", 1000, 60, &q.flow, on_end, NULL);
    http_client_put(q.http, (struct bytes){"x", 1});
    q.sent = BIG + 1; /* no more */
    until_over();
    assert_int_equal(q.end, HTTP_ANSWERED);
    assert_int_equal(q.status, 429);
    assert_string_equal(q.body, "late");
    q.over = false;
    q.flow = (struct http_flow){0};
    fetch("/parts");
    until_over();
    assert_int_equal(q.end, HTTP_ANSWERED);
    assert_int_equal(q.passed, 3);
}

#define BOTH(f)                                                                                              \
    cmocka_unit_test_setup_teardown(f, plain_up, down), cmocka_unit_test_setup_teardown(f, tls_up, down)

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(an_answer_is_held_back),
        BOTH(a_question_is_held_back),
        BOTH(what_is_no_200_does_not_flow),
        BOTH(half_a_body_is_no_answer),
        BOTH(a_length_may_be_unknown),
        BOTH(a_body_may_be_unwanted),
        BOTH(an_answer_may_come_before_the_end_of_the_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
