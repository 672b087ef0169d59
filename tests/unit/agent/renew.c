/*
 * The log-in renewed: the gateway in a process of its own, a token endpoint over TLS and an upstream that are doubles. Where the
 * gateway dies between having a new pair and keeping it is chosen by the linker (--wrap): nothing in it knows.
 */
#include "agent/gateway/gateway.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/own.h"
#include "../../loopback.h"
#include "../tls_host.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 20000, NOTES = 8, TEXT = 4096 };
enum answer { GOOD, INVALID_GRANT, TOO_MANY, OF_A_CDN, CDN_400, BROKEN, CUT, HALF, NO_JSON };

/* What the processes of a test share. */
struct shared {
    _Atomic enum answer next;
    _Atomic unsigned asked;         /* questions to the token endpoint */
    _Atomic unsigned pair;          /* the newest that it gave: access-N, refresh-N */
    _Atomic unsigned good;          /* the upstream takes this one's access token */
    _Atomic bool die;               /* instead of keeping the next pair */
    _Atomic bool hold;              /* the token endpoint takes its time */
    _Atomic bool send;              /* another credential is sent to the gateway */
    _Atomic unsigned changes, over; /* how often it said so; over: the log-in was, then */
    _Atomic unsigned notes;
    char note[NOTES][512];
    char last_refresh[128];
    char placeholder[PLACEHOLDER_MAX];
};

static struct shared *all;
static char dir[64], ca[128];
static int token_listener, api_listener, gate_listener;
static uint16_t token_port, api_port, gate_port;
static pid_t token_double, api_double, gate;

err_t __real_secret_keep(int home, const struct secret *s);
err_t __wrap_secret_keep(int home, const struct secret *s);
err_t __wrap_secret_keep(int home, const struct secret *s) {
    if (all->die)
        kill(getpid(), SIGKILL);
    return __real_secret_keep(home, s);
}

static void access_token(char *out, size_t size, unsigned n) {
    snprintf(out, size, "access-%u-0123456789abcdef", n);
}

/* ---- the token endpoint ---- */

/* The refresh token of the question. */
static void remember(const char *text) {
    const char *at = strstr(text, "\"refresh_token\":\"");
    snprintf(all->last_refresh, sizeof all->last_refresh, "%.*s", at ? (int)strcspn(at + 17, "\"") : 0,
             at ? at + 17 : "");
}

static void say(SSL *s, const char *status, const char *body, size_t most) {
    own_free char *text =
        xasprintf("HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s", status,
                  strlen(body), body);
    size_t n = strlen(text);
    SSL_write(s, text, (int)(n < most ? n : most));
}

static void answer(SSL *s, const char *question) {
    char access[64];
    enum answer next = all->next;
    remember(question);
    all->asked++;
    while (all->hold)
        poll(NULL, 0, 5);
    bool gives = next == GOOD || next == HALF;
    access_token(access, sizeof access, all->pair + gives);
    own_free char *good =
        xasprintf("{\"access_token\":\"%s\",\"refresh_token\":\"refresh-%u-0123456789\",\"expires_in\":3600}",
                  access, all->pair + gives);
    if (next == GOOD)
        all->good = ++all->pair;
    static const char *const errors[][2] = {
        [INVALID_GRANT] = {"400 Bad Request",
                           "{\"error\":\"invalid_grant\",\"error_description\":\"<b>x</b>\"}"},
        [TOO_MANY] = {"429 Too Many Requests", "{\"error\":{\"type\":\"rate_limit_error\"}}"},
        [OF_A_CDN] = {"403 Forbidden", "<html>Just a moment...</html>"},
        [CDN_400] = {"400 Bad Request", "<html>"},
        [BROKEN] = {"503 Service Unavailable", "<html>"},
        [NO_JSON] = {"200 OK", "<html>"}};
    if (gives)
        say(s, "200 OK", good, next == HALF ? 120 : SIZE_MAX);
    else if (next != CUT)
        say(s, errors[next][0], errors[next][1], SIZE_MAX);
}

static _Noreturn void be_token_endpoint(SSL_CTX *c) {
    for (;;) {
        int fd = accept(token_listener, NULL, NULL);
        SSL *s = SSL_new(c);
        SSL_set_fd(s, fd);
        char text[TEXT];
        size_t n = 0;
        if (SSL_accept(s) == 1)
            for (int k; n < sizeof text - 1 && (k = SSL_read(s, text + n, (int)(sizeof text - 1 - n))) > 0;) {
                n += (size_t)k;
                text[n] = 0;
                if (strchr(text, '}'))
                    break;
            }
        if (n && strstr(text, "POST /oauth/token ") && strstr(text, "\"grant_type\":\"refresh_token\""))
            answer(s, text);
        if (all->next != CUT)
            SSL_shutdown(s);
        SSL_free(s);
        close(fd);
    }
}

/* ---- the model's API: it takes one access token ---- */

static _Noreturn void be_api(void) {
    for (;;) {
        int fd = accept(api_listener, NULL, NULL);
        char text[TEXT], access[64], line[128];
        size_t n = 0;
        for (ssize_t k; n < sizeof text - 1 && (k = read(fd, text + n, sizeof text - 1 - n)) > 0;) {
            n += (size_t)k;
            text[n] = 0;
            if (strstr(text, "\r\n\r\n"))
                break;
        }
        access_token(access, sizeof access, all->good);
        snprintf(line, sizeof line, "Bearer %s\r\n", access);
        const char *out =
            n && strstr(text, line)
                ? "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"
                : "HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno";
        (void)!write(fd, out, strlen(out));
        close(fd);
    }
}

/* ---- the gateway ---- */

static void on_note(void *ctx, const char *text) {
    (void)ctx;
    if (all->notes < NOTES)
        snprintf(all->note[all->notes++], sizeof all->note[0], "%s", text);
}

static struct gateway *gateway;

static void on_change(void *ctx) {
    (void)ctx;
    all->changes++;
    if (gateway && gateway_log_in_over(gateway))
        all->over++;
}

#define ANOTHER                                                                                              \
    "{\"claudeAiOauth\":{\"accessToken\":\"another-0123456789abcdef\",\"refreshToken\":\"another-refresh-"   \
    "0\","                                                                                                   \
    "\"expiresAt\":99999999999999,\"scopes\":[\"a\"]}}"

static void on_tick(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what, (void)arg;
    if (all->send && gateway_auth(gateway, "", ANOTHER, strlen(ANOTHER)))
        _exit(1);
    all->send = false;
}

static _Noreturn void be_gate(void) {
    struct event_base *base = event_base_new();
    own_free char *upstream = xasprintf("anthropic+http://127.0.0.1:%u", api_port),
                  *url = xasprintf("https://127.0.0.1:%u/oauth/token", token_port);
    struct gateway_setup setup = {.base = base,
                                  .upstream = upstream,
                                  .credential = "",
                                  .budget = "",
                                  .prices = "",
                                  .ca = ca,
                                  .token_url = url,
                                  .home = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                                  .note = on_note,
                                  .changed = on_change};
    struct gateway *g;
    if (gateway_new(&setup, &g))
        _exit(1);
    gateway = g;
    struct event *tick = event_new(base, -1, EV_PERSIST, on_tick, NULL);
    event_add(tick, &(struct timeval){0, 10000});
    snprintf(all->placeholder, sizeof all->placeholder, "%s", gateway_placeholder(g));
    gateway_listen(g, gate_listener);
    event_base_dispatch(base);
    _exit(0);
}

static void start_gate(void) {
    all->placeholder[0] = 0;
    gate_listener = loopback_listen(16, &gate_port);
    gate = fork();
    if (!gate)
        be_gate();
}

static void end_gate(void) {
    kill(gate, SIGKILL);
    waitpid(gate, NULL, 0);
    own_closep(&gate_listener);
    gate_listener = -1;
}

/* ---- a test ---- */

/* The pair 0, which ends in so many seconds, is what the agent was given. */
static void begin(int64_t ends_in_s) {
    own_free char *path = xasprintf("%s/credential", dir);
    own_free char *text =
        xasprintf("token\n{\"claudeAiOauth\":{\"accessToken\":\"access-0-0123456789abcdef\",\"refreshToken\":"
                  "\"refresh-0-0123456789\",\"expiresAt\":%lld,\"scopes\":[\"a\",\"b\"]}}",
                  (long long)(clock_wall_ms() + ends_in_s * 1000));
    err_t e = fs_write(path, text, strlen(text), 0, 0, 0600);
    assert_null(e);
    start_gate();
}

static void kept(char *out, size_t size) {
    own_free char *path = xasprintf("%s/credential", dir);
    own_buf struct buf b = {0};
    err_t e = fs_read(path, 65536, &b);
    assert_null(e);
    snprintf(out, size, "%s", buf_text(&b));
}

static bool keeps(const char *word) {
    char text[TEXT];
    kept(text, sizeof text);
    return strstr(text, word);
}

#define WAIT_FOR(what)                                                                                       \
    do {                                                                                                     \
        int64_t until_ = clock_mono_ns() / 1000000 + PATIENCE_MS;                                            \
        while (!(what) && clock_mono_ns() / 1000000 < until_)                                                \
            poll(NULL, 0, 5);                                                                                \
        assert_true(what);                                                                                   \
    } while (0)

static bool noted(const char *word) {
    for (unsigned i = 0; i < all->notes; i++)
        if (strstr(all->note[i], word))
            return true;
    return false;
}

/* A request of the harness: its status; the head is in *out. */
static int ask(char *out, size_t size) {
    WAIT_FOR(all->placeholder[0]);
    own_fd int fd = loopback_dial(gate_port);
    dprintf(fd, "GET /v1/models HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer %s\r\n\r\n",
            all->placeholder);
    size_t n = 0;
    for (ssize_t k; n < size - 1 && (k = read(fd, out + n, size - 1 - n)) > 0;)
        n += (size_t)k;
    out[n] = 0;
    return n > 12 ? (int)strtol(out + 9, NULL, 10) : 0;
}

static int status(void) {
    char text[TEXT];
    return ask(text, sizeof text);
}

static int set_up(void **state) {
    (void)state;
    memset(all, 0, sizeof *all);
    snprintf(dir, sizeof dir, "/tmp/unit-renew-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(ca, sizeof ca, "%s/ca.pem", dir);
    SSL_CTX *c = tls_host(ca);
    token_listener = loopback_listen(16, &token_port);
    api_listener = loopback_listen(16, &api_port);
    if (!(token_double = fork()))
        be_token_endpoint(c);
    if (!(api_double = fork()))
        be_api();
    SSL_CTX_free(c);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    end_gate();
    kill(token_double, SIGKILL);
    kill(api_double, SIGKILL);
    waitpid(token_double, NULL, 0);
    waitpid(api_double, NULL, 0);
    close(token_listener);
    close(api_listener);
    err_free(fs_remove(dir));
    return 0;
}

static void before_it_ends(void **state) {
    (void)state;
    begin(120);
    WAIT_FOR(keeps("access-1-"));
    assert_true(keeps("refresh-1-"));
    assert_false(keeps("-0-"));
    assert_string_equal(all->last_refresh, "refresh-0-0123456789");
    WAIT_FOR(status() == 200);
    assert_int_equal(all->asked, 1);
    assert_int_equal(all->notes, 0);
}

static void long_before_it_is_left_alone(void **state) {
    (void)state;
    begin(7200);
    assert_int_equal(status(), 200);
    assert_int_equal(all->asked, 0);
}

/* The harness is told to ask again; many that are refused at once are one question. */
static void on_a_401(void **state) {
    (void)state;
    char text[TEXT];
    all->pair = all->good = 4;
    all->hold = true;
    begin(7200);
    WAIT_FOR(all->placeholder[0]);
    pid_t others[6];
    for (size_t i = 0; i < COUNT(others); i++)
        if (!(others[i] = fork()))
            _exit(status() == 503 ? 0 : 1);
    assert_int_equal(ask(text, sizeof text), 503);
    assert_non_null(strstr(text, "x-should-retry: true"));
    for (size_t i = 0; i < COUNT(others); i++) {
        int how;
        waitpid(others[i], &how, 0);
        assert_int_equal(how, 0);
    }
    all->hold = false;
    WAIT_FOR(status() == 200);
    assert_true(keeps("access-5-"));
    assert_int_equal(all->asked, 1);
    all->good = 99; /* the new one is refused too: then that is the answer, and nobody asks for ever */
    assert_int_equal(status(), 401);
    assert_int_equal(all->asked, 1);
}

static void refused_for_good(void **state) {
    (void)state;
    all->next = INVALID_GRANT;
    all->good = 7;
    begin(-10);
    WAIT_FOR(noted("does not renew this log-in any more (400 invalid_grant): send /auth"));
    assert_int_equal(status(), 401);
    assert_true(keeps("refresh-0-"));
    assert_int_equal(all->asked, 1);
    assert_int_equal(all->notes, 1);
}

/* The vendor refused before the access token's end: it serves until then, and then the strip changes. */
static void its_end_is_told(void **state) {
    (void)state;
    all->next = INVALID_GRANT;
    begin(6);
    WAIT_FOR(noted("send /auth"));
    assert_int_equal(status(), 200);
    assert_int_equal(all->over, 0);
    WAIT_FOR(all->over);
    assert_int_equal(all->asked, 1);
}

/* The operator sends another credential while the endpoint is asked: its answer is of the one before. */
static void another_one_meanwhile(void **state) {
    (void)state;
    all->hold = true;
    begin(-10);
    WAIT_FOR(all->asked);
    all->send = true;
    WAIT_FOR(!all->send);
    all->hold = false;
    WAIT_FOR(all->pair == 1); /* the answer is out */
    assert_int_equal(all->notes, 0);
    all->next = BROKEN;
    assert_int_equal(status(), 503); /* with the other one, which nobody takes, so it is renewed */
    WAIT_FOR(!strcmp(all->last_refresh, "another-refresh-0"));
    assert_true(keeps("another-refresh-0"));
    assert_false(keeps("access-1-"));
}

static void tried_again(void **state) {
    (void)state;
    static const enum answer answers[] = {TOO_MANY, BROKEN, CUT}; /* each wait is twice as long */
    all->next = answers[0];
    begin(-10);
    for (size_t i = 0; i + 1 < COUNT(answers); i++) {
        WAIT_FOR(all->asked == i + 1);
        all->next = answers[i + 1];
    }
    WAIT_FOR(all->asked == COUNT(answers));
    assert_int_equal(status(), 503);
    assert_true(keeps("refresh-0-"));
    all->next = GOOD;
    WAIT_FOR(keeps("access-1-"));
    WAIT_FOR(status() == 200);
    WAIT_FOR(noted("the log-in was renewed"));
    assert_true(
        noted("could not be renewed yet, and is tried again: its vendor answered 429 rate_limit_error"));
    assert_int_equal(all->notes, 2);
}

/* 4xx of what stands before the vendor, or without its word: the log-in is not over. */
static void a_cdn_does_not_end_it(void **state) {
    (void)state;
    all->next = OF_A_CDN;
    begin(-10);
    WAIT_FOR(noted("is tried again: its vendor answered 403"));
    all->next = CDN_400;
    WAIT_FOR(all->asked >= 2);
    assert_int_equal(status(), 503);
    all->next = GOOD;
    WAIT_FOR(keeps("access-1-"));
    WAIT_FOR(status() == 200);
    assert_false(noted("any more"));
}

static void half_an_answer_is_none(void **state) {
    (void)state;
    all->next = HALF;
    begin(-10);
    WAIT_FOR(noted("ended in the middle of the answer"));
    assert_true(keeps("refresh-0-"));
    all->next = GOOD;
    WAIT_FOR(keeps("access-1-"));
}

static void no_json_is_none(void **state) {
    (void)state;
    all->next = NO_JSON;
    begin(-10);
    WAIT_FOR(noted("holds no token"));
    assert_true(keeps("refresh-0-"));
}

/* The vendor gave a new pair, the agent died before it was kept: the old one is there, whole, and is tried. */
static void killed_before_it_is_kept(void **state) {
    (void)state;
    all->die = true;
    begin(-10);
    int how;
    assert_int_equal(waitpid(gate, &how, 0), gate);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    assert_int_equal(all->pair, 1);
    assert_true(keeps("refresh-0-"));
    assert_false(keeps("-1-"));
    own_closep(&gate_listener);
    all->die = false;
    all->next = INVALID_GRANT; /* it gives each refresh token once */
    start_gate();
    WAIT_FOR(noted("send /auth"));
    assert_string_equal(all->last_refresh, "refresh-0-0123456789");
    end_gate();
    all->next = GOOD; /* it is patient with one that is said twice */
    start_gate();
    WAIT_FOR(keeps("access-2-"));
    WAIT_FOR(status() == 200);
}

/* A folder stands where the new file would be written: said, and used all the same. */
static void cannot_be_kept(void **state) {
    (void)state;
    own_free char *path = xasprintf("%s/credential.new", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    begin(-10);
    WAIT_FOR(noted("cannot be kept and lasts until the agent ends"));
    WAIT_FOR(status() == 200);
    assert_true(keeps("refresh-0-"));
}

int main(void) {
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    gate_listener = -1;
    signal(SIGPIPE, SIG_IGN);
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(before_it_ends),
        TEST(long_before_it_is_left_alone),
        TEST(on_a_401),
        TEST(refused_for_good),
        TEST(its_end_is_told),
        TEST(another_one_meanwhile),
        TEST(tried_again),
        TEST(a_cdn_does_not_end_it),
        TEST(half_an_answer_is_none),
        TEST(no_json_is_none),
        TEST(killed_before_it_is_kept),
        TEST(cannot_be_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
