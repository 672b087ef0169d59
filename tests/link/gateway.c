/* The real agent as the harness's gateway, between this side's HTTP and a double of the model's API. */
#include "base/own.h"
#include "../loopback.h"
#include "http_double.h"
#include "peer.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct peer p;
static struct http_double api;
static int manager = -1, harness = -1, listener = -1;
static uint16_t port;
static char upstream[64], placeholder[300];

#define CREDENTIAL "sk-ant-oat01-the-real-one-0123456789"

/* ---- the agent ---- */

static void hear_world(void) {
    own_msg struct msg m = {0};
    expect(harness, MSG_turn_world, &m);
    snprintf(placeholder, sizeof placeholder, "%s", m.turn_world.placeholder.p);
}

static void start(void) {
    peer_start(&p);
    manager = peer_link(&p, LINK_manager_agent);
    harness = peer_link(&p, LINK_agent_harness);
    struct msg m = {.type = MSG_part_link, .fds = {listener}, .nfds = 1};
    m.part_link.link = LINK_harness_model;
    m.part_link.peer = bytes_of("");
    say(p.control, &m);
    peer_go(&p, 1 << 20);
    hear_world();
}

static void restart(void) {
    peer_kill(&p);
    own_closep(&manager);
    own_closep(&harness);
    start();
}

static void log_in(const char *credential) {
    struct msg m = {.type = MSG_part_secret};
    m.part_secret.cookie = 5;
    m.part_secret.kind = bytes_of("");
    m.part_secret.credential = bytes_of(credential);
    say(p.control, &m);
    own_msg struct msg r = {0};
    expect(p.control, MSG_part_secret_end, &r);
    assert_int_equal(r.part_secret_end.cookie, 5);
    assert_int_equal(r.part_secret_end.status, 0);
    hear_world();
}

static int set_up(void **state) {
    (void)state;
    http_double_start(&api);
    snprintf(upstream, sizeof upstream, "anthropic+http://127.0.0.1:%u", api.port);
    peer_begin(&p, "agent");
    p.upstream = upstream;
    listener = loopback_listen(64, &port);
    start();
    log_in(CREDENTIAL);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    own_closep(&manager);
    own_closep(&harness);
    own_closep(&listener);
    peer_end(&p);
    http_double_stop(&api);
    return 0;
}

/* ---- HTTP ---- */

static int dial(void) {
    return loopback_dial(port);
}

static void put(int fd, const char *text) {
    size_t n = strlen(text);
    assert_int_equal(send(fd, text, n, MSG_NOSIGNAL), n);
}

__attribute__((format(printf, 3, 4))) static void ask(int fd, const char *how, const char *headers, ...) {
    va_list ap;
    own_free char *more = NULL;
    va_start(ap, headers);
    assert_true(vasprintf(&more, headers, ap) >= 0);
    va_end(ap);
    own_free char *text =
        xasprintf("POST /v1/messages?do=%s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n%s\r\n{}", how, more);
    put(fd, text);
}

#define BEARER "Authorization: Bearer %s\r\n"

/* Reads until `until` has come, or the end; the time since the call in *ret_ms (may be NULL). */
static bool get(int fd, const char *until, struct buf *out) {
    char chunk[65536];
    int64_t end = now_ms() + DEADLINE_MS;
    while (!out->len || !until || !memmem(out->p, out->len, until, strlen(until))) {
        struct pollfd q = {fd, POLLIN, 0};
        if (poll(&q, 1, (int)(end - now_ms())) <= 0)
            fail_msg("'%s' did not come within %d ms, but '%.2000s'", until ? until : "the end", DEADLINE_MS,
                     buf_text(out));
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n <= 0)
            return false;
        buf_add(out, chunk, (size_t)n);
    }
    return true;
}

static void want(int fd, const char *until, const char *part) {
    own_buf struct buf b = {0};
    get(fd, until, &b);
    if (!strstr(buf_text(&b), part))
        fail_msg("'%s' is not in '%.2000s'", part, buf_text(&b));
}

static bool asked(const char *part) {
    own_buf struct buf b = {0};
    http_double_log(&api, &b);
    return strstr(buf_text(&b), part) != NULL;
}

/* The last figures that the manager was told. */
static struct msg_desk_usage figures(void) {
    own_msg struct msg m = {0};
    struct msg_desk_usage last = {0};
    bool gone;
    while (hear(manager, 200, &m, &gone)) {
        if (m.type == MSG_desk_usage)
            last = m.desk_usage;
        msg_free(&m);
    }
    return last;
}

/* ---- the tests ---- */

static void the_credential_goes_in_for_the_placeholder(void **state) {
    (void)state;
    own_fd int fd = dial();
    ask(fd, "hello", BEARER, placeholder);
    want(fd, "hello", "200 OK");
    assert_true(asked("authorization: Bearer " CREDENTIAL "\r\n"));
    assert_true(asked("host: 127.0.0.1"));
    assert_false(asked(placeholder));
    ask(fd, "hello", "Authorization: Bearer my-own\r\nX-Other: %s\r\nConnection: x-gone\r\nX-Gone: 1\r\n",
        placeholder);
    want(fd, "hello", "200 OK");
    assert_true(asked("Authorization: Bearer my-own\r\n"));
    assert_true(asked("X-Other: placeholder-"));
    assert_false(asked("X-Gone"));
    ask(fd, "hello", "x-api-key: %s\r\n", placeholder); /* not this login's header */
    want(fd, "hello", "200 OK");
    own_buf struct buf log = {0};
    http_double_log(&api, &log);
    assert_ptr_equal(strstr(strstr(buf_text(&log), CREDENTIAL) + 1, CREDENTIAL), NULL);
}

static void what_is_not_the_api_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *request, *answer;
    } rows[] = {
        {"HEAD / HTTP/1.1\r\n\r\n", "404"},
        {"GET /v1/../admin HTTP/1.1\r\n\r\n", "404"},
        {"GET /v1/%2e%2e/admin HTTP/1.1\r\n\r\n", "404"},
        {"GET //v1/models HTTP/1.1\r\n\r\n", "404"},
        {"GET http://elsewhere/v1/models HTTP/1.1\r\n\r\n", "404"},
        {"DELETE /v1/models HTTP/1.1\r\n\r\n", "404"},
        {"POST /v1/messages/batches HTTP/1.1\r\n\r\n", "404"},
        {"GET /v1/files HTTP/1.1\r\n\r\n", "404"},
        {"CONNECT a:443 HTTP/1.1\r\n\r\n", "404"},
        {"GET /v1/models HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "426"},
        {"GET /v1/responses HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "426"},
        {"GET /v1/models HTTP/1.1\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n", "400"},
        {"GET /v1/models HTTP/1.0\r\n\r\n", "400"},
        {"GET /v1/models HTTP/1.1\nHost: a\r\n\r\n", "400"},
        {"POST /v1/messages HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
        {"POST /v1/messages HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", "400"},
        {"POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", "400"},
        {"GET /v1/models HTTP/1.1\r\nA : b\r\n\r\n", "400"},
        {"GET /v1/models HTTP/1.1\r\nA: b\r\n c\r\n\r\n", "400"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        own_fd int fd = dial();
        put(fd, rows[i].request);
        want(fd, "\r\n\r\n", rows[i].answer);
    }
    own_buf struct buf log = {0};
    http_double_log(&api, &log);
    assert_int_equal(log.len, 0); /* nothing of it went up */
}

static void a_stream_passes_as_it_comes_and_is_counted(void **state) {
    (void)state;
    own_fd int fd = dial();
    own_buf struct buf b = {0};
    ask(fd, "sse", BEARER, placeholder);
    assert_true(get(fd, "message_start", &b));
    assert_null(strstr(buf_text(&b), "message_stop")); /* it comes 50 ms later */
    assert_true(get(fd, "message_stop", &b));
    struct msg_desk_usage u = figures();
    assert_int_equal(u.tokens_input, 80);
    assert_int_equal(u.tokens_cache_read, 20);
    assert_int_equal(u.tokens_output, 7);
    assert_int_equal(u.tokens_session, 107);
    assert_int_equal(u.model_requests, 1);
    ask(fd, "json", BEARER, placeholder);
    want(fd, "}}", "200 OK");
    u = figures();
    assert_int_equal(u.tokens_input, 160);
    assert_int_equal(u.model_requests, 2);
}

static void large_answers_pass_whole_in_bounded_memory(void **state) {
    (void)state;
    static const char *const ways[] = {"big", "length"};
    for (size_t i = 0; i < COUNT(ways); i++) {
        own_fd int fd = dial();
        own_buf struct buf b = {0};
        ask(fd, ways[i], BEARER "Connection: close\r\n", placeholder);
        usleep(300000); /* nobody reads: what does not fit waits at the double */
        while (b.len < HTTP_DOUBLE_BIG && get(fd, NULL, &b))
            ;
        size_t n = 0;
        for (size_t k = 0; k < b.len; k++)
            n += b.p[k] == 'Z';
        assert_int_equal(n, HTTP_DOUBLE_BIG);
    }
#ifdef __SANITIZE_ADDRESS__
    enum { PEAK_KB = 48 << 10 }; /* freed memory is kept for a while, and there is a shadow of all */
#else
    enum { PEAK_KB = 24 << 10 };
#endif
    assert_in_range(peer_peak_kb(&p), 1, PEAK_KB);
}

static void failures_of_the_upstream_are_told(void **state) {
    (void)state;
    static const char *const passed[] = {"401", "429", "529"};
    own_fd int fd = dial();
    for (size_t i = 0; i < COUNT(passed); i++) {
        ask(fd, passed[i], BEARER, placeholder);
        want(fd, "{\"type\":\"error\"}", passed[i]);
    }
    ask(fd, "mute", BEARER, placeholder);
    want(fd, "}}", "\"api_error\"");
    ask(fd, "hello", BEARER, placeholder); /* the same connection goes on */
    want(fd, "hello", "200 OK");
    ask(fd, "cut", BEARER, placeholder);
    own_buf struct buf b = {0};
    assert_false(get(fd, "\r\n0\r\n\r\n", &b)); /* the end is missing, and seen to be */
    assert_non_null(strstr(buf_text(&b), "message_start"));
    own_fd int other = dial();
    ask(other, "close", BEARER, placeholder);
    want(other, "\r\n0\r\n\r\n", "to the end");
    http_double_stop(&api);
    own_fd int late = dial();
    ask(late, "hello", BEARER, placeholder);
    want(late, "}}", "502 Bad Gateway");
    http_double_start(&api);
}

static void a_credential_that_comes_back_is_starred_out(void **state) {
    (void)state;
    own_fd int fd = dial();
    own_buf struct buf b = {0};
    ask(fd, "echo", BEARER, placeholder);
    assert_true(get(fd, "\r\n0\r\n\r\n", &b));
    assert_null(strstr(buf_text(&b), "real-one"));
    assert_null(strstr(buf_text(&b), "sk-ant"));
    assert_non_null(strstr(buf_text(&b), "you sent"));
    ask(fd, "hecho", BEARER, placeholder);
    want(fd, "}}", "502 Bad Gateway");
}

static void a_budget_holds_through_a_kill(void **state) {
    (void)state;
    peer_kill(&p);
    own_closep(&manager);
    own_closep(&harness);
    p.budget = "150/day";
    start();
    own_fd int fd = dial();
    ask(fd, "sse", BEARER, placeholder);
    want(fd, "\r\n0\r\n\r\n", "message_stop");
    ask(fd, "stall", BEARER, placeholder);
    want(fd, "message_start", "200 OK");
    restart(); /* in the middle of an answer */
    own_fd int again = dial();
    ask(again, "hello", BEARER, placeholder);
    want(again, "}}", "rate_limit_error");
    own_msg struct msg m = {0};
    expect(manager, MSG_desk_note, &m);
    assert_non_null(strstr(m.desk_note.text.p, "150/day"));
    struct msg more = {.type = MSG_part_budget};
    more.part_budget.budget = bytes_of("1k/day");
    say(p.control, &more);
    expect(manager, MSG_desk_usage, &m);
    assert_int_equal(m.desk_usage.budget_limit, 1000);
    assert_int_equal(m.desk_usage.budget_used, 107 + 101);
    ask(again, "hello", BEARER, placeholder);
    want(again, "hello", "200 OK");
}

static void without_a_credential_nothing_goes_up(void **state) {
    (void)state;
    peer_kill(&p);
    own_closep(&manager);
    own_closep(&harness);
    p.credential = "memory";
    start();
    own_msg struct msg m = {0};
    expect(manager, MSG_desk_state, &m);
    assert_string_equal(m.desk_state.login.p, "NOT LOGGED IN — send /auth");
    own_fd int fd = dial();
    ask(fd, "hello", BEARER, placeholder);
    want(fd, "}}", "authentication_error");
    struct msg d = {.type = MSG_desk_deliver};
    d.desk_deliver = (struct msg_desk_deliver){.id = 9, .who = bytes_of("anna"), .text = bytes_of("hi")};
    say(manager, &d);
    int executor = peer_link(&p, LINK_agent_executor);
    expect(manager, MSG_desk_finished, &m);
    assert_string_equal(m.desk_finished.outcome.p, "refused");
    log_in(CREDENTIAL);
    ask(fd, "hello", BEARER, placeholder);
    want(fd, "hello", "200 OK");
    close(executor);
    restart();
    expect(manager, MSG_desk_note, &m);
    assert_non_null(strstr(m.desk_note.text.p, "send /auth again"));
}

static void only_who_may_be_logged_in_has_a_key_for_tokens(void **state) {
    (void)state;
    static const struct {
        const char *credential, *no;
        size_t key;
    } rows[] = {{"memory", "not in use any more", 65},
                {"none", "credential = none", 0},
                {"sealed-token", "a sealed agent never has a credential of yours", 0}};
    char box[200] = {0};
    for (size_t i = 0; i < COUNT(rows); i++) {
        peer_kill(&p);
        own_closep(&manager);
        own_closep(&harness);
        p.credential = rows[i].credential;
        start();
        own_msg struct msg m = {0}, end = {0};
        expect(manager, MSG_desk_state, &m);
        assert_int_equal(m.desk_state.token_key.len, rows[i].key);
        struct msg token = {.type = MSG_desk_token};
        token.desk_token = (struct msg_desk_token){.cookie = 8, .box = {box, sizeof box}};
        say(manager, &token);
        expect(manager, MSG_desk_order_end, &end);
        assert_int_equal(end.desk_order_end.cookie, 8);
        assert_int_equal(end.desk_order_end.status, EXIT_POLICY);
        assert_non_null(strstr(end.desk_order_end.text.p, rows[i].no));
    }
}

#define ROW(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(int argc, char **argv) {
    (void)argc;
    peer_binary = argv[1];
    const struct CMUnitTest tests[] = {
        ROW(the_credential_goes_in_for_the_placeholder),
        ROW(what_is_not_the_api_is_refused),
        ROW(a_stream_passes_as_it_comes_and_is_counted),
        ROW(large_answers_pass_whole_in_bounded_memory),
        ROW(failures_of_the_upstream_are_told),
        ROW(a_credential_that_comes_back_is_starred_out),
        ROW(a_budget_holds_through_a_kill),
        ROW(without_a_credential_nothing_goes_up),
        ROW(only_who_may_be_logged_in_has_a_key_for_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
