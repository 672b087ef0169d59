/* The web front as a daemon, from the other end of its sockets: log-in, questions, streams. */
#include "base/own.h"
#include "relay/web/logins.h"
#include "web_world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void a_login_link_works_once(void **state) {
    (void)state;
    char c[65], k[65];
    own_free char *token = link_token();
    assert_int_equal(log_in(token, c, k), 200);
    assert_int_equal(log_in(token, c, k), 403);
    char wrong[65];
    snprintf(wrong, sizeof wrong, "%064d", 0);
    assert_int_equal(log_in(wrong, c, k), 403);
}

static void a_session_outlives_the_relay(void **state) {
    (void)state;
    expect_service();
    world_restart(&w);
    expect_service();
}

static void a_message_is_said_by_the_session(void **state) {
    (void)state;
    own_fd int fd = knock();
    post(fd, "POST /api/say?agent=demo&key=k1", "echo hi");
    own_msg struct msg q = {0};
    hear(w.manager, MSG_fleet_say, &q);
    assert_string_equal(q.fleet_say.text.p, "echo hi");
    assert_string_equal(q.fleet_say.key.p, "k1");
    assert_true(!strncmp(q.fleet_say.who.p, "web:", 4));
    end(w.manager, q.fleet_say.cookie, 0, 77, "");
    assert_non_null(strstr(get(fd, "event: end"), "\"id\":77"));
}

static void the_code_of_a_log_in_is_an_order(void **state) {
    (void)state;
    own_fd int fd = knock();
    char code[301];
    memset(code, 'c', 300);
    code[300] = 0;
    own_msg struct msg q = {0};
    post(fd, "POST /api/order?order=login&agent=demo", code);
    hear(w.manager, MSG_fleet_order, &q);
    assert_string_equal(q.fleet_order.order.p, "login");
    assert_string_equal(q.fleet_order.agent.p, "demo");
    assert_string_equal(q.fleet_order.arg.p, code);
    assert_true(!strncmp(q.fleet_order.who.p, "web:", 4));
    end(w.manager, q.fleet_order.cookie, 0, 0, "");
    assert_non_null(strstr(get(fd, "event: end"), "\"status\":0"));
}

/* The page refuses it too; this is for what is not the page. */
static void a_credential_goes_no_further(void **state) {
    (void)state;
#define PLANTED "sk-ant-oat01-plantedplantedplantedplantedplanted"
    static const struct {
        const char *line, *body;
    } all[] = {{"POST /api/order?order=login&agent=demo", PLANTED},
               {"POST /api/order?order=fresh&agent=demo", PLANTED},
               {"POST /api/say?agent=demo&key=k3", PLANTED},
               {"POST /api/order?order=login&agent=" PLANTED, ""}};
    for (size_t i = 0; i < COUNT(all); i++) {
        own_fd int fd = knock();
        post(fd, all[i].line, all[i].body);
        assert_non_null(strstr(get(fd, "\n\n"), "looks like a credential"));
    }
    assert_true(silent(w.manager, 50));
}

/* Whatever bytes they are. */
static void a_token_passes_as_it_is(void **state) {
    (void)state;
    static const char box[] = "\x01\xff\xfe\x80 opaque";
    own_fd int fd = knock();
    own_msg struct msg q = {0};
    post(fd, "POST /api/token?agent=demo", box);
    hear(w.manager, MSG_fleet_token, &q);
    assert_string_equal(q.fleet_token.agent.p, "demo");
    assert_int_equal(q.fleet_token.box.len, sizeof box - 1);
    assert_memory_equal(q.fleet_token.box.p, box, sizeof box - 1);
    end(w.manager, q.fleet_token.cookie, 126, 0, "it cannot be opened");
    assert_non_null(strstr(get(fd, "event: end"), "cannot be opened"));
}

static void sessions_are_listed(void **state) {
    (void)state;
    own_fd int fd = knock();
    own_msg struct msg q = {0};
    put_call(fd, "GET /api/sessions?agent=demo", "");
    hear(w.manager, MSG_fleet_sessions, &q);
    assert_string_equal(q.fleet_sessions.agent.p, "demo");
    struct msg a = {.type = MSG_ret_session};
    a.ret_session.cookie = q.fleet_sessions.cookie;
    a.ret_session.number = 3;
    a.ret_session.name = bytes_of("the \"plan\"");
    a.ret_session.current = 1;
    say(w.manager, &a);
    end(w.manager, q.fleet_sessions.cookie, 0, 0, "");
    assert_non_null(
        strstr(get(fd, "event: end"), "event: session\ndata: {\"number\":3,\"name\":\"the \\\"plan\\\"\","));
}

static void a_stream_goes_on_from_where_it_was(void **state) {
    (void)state;
    own_fd int fd = knock();
    own_msg struct msg q = {0}, gone = {0};
    put_call(fd, "GET /api/events?after=41&follow=1", "");
    hear(w.manager, MSG_fleet_events, &q);
    assert_int_equal(q.fleet_events.after, 41);
    assert_int_equal(q.fleet_events.follow, 1);
    struct msg e = {.type = MSG_ret_event};
    e.ret_event.cookie = q.fleet_events.cookie;
    e.ret_event.seq = 42;
    e.ret_event.agent = bytes_of("demo");
    e.ret_event.text = bytes_of("a\nb");
    say(w.manager, &e);
    const char *answer = get(fd, "\\u000ab");
    assert_non_null(strstr(answer, "id: 42\nevent: event\ndata: {\"seq\":42,"));
    own_closep(&fd);
    hear(w.manager, MSG_fleet_forget, &gone);
    assert_int_equal(gone.fleet_forget.cookie, q.fleet_events.cookie);
}

/* A stream of the session; the question that the manager has for it in *ret_cookie. */
static int follow(const char *c, const char *k, uint64_t *ret_cookie) {
    int fd = knock();
    own_msg struct msg q = {0};
    put_call_as(fd, c, k, "GET /api/events?after=1&follow=1", "");
    hear(w.manager, MSG_fleet_events, &q);
    *ret_cookie = q.fleet_events.cookie;
    return fd;
}

static void expect_closed(int stream, uint64_t question) {
    own_msg struct msg gone = {0};
    get(stream, NULL);
    hear(w.manager, MSG_fleet_forget, &gone);
    assert_int_equal(gone.fleet_forget.cookie, question);
}

static void expect_event(int stream, uint64_t question) {
    struct msg e = {.type = MSG_ret_event};
    e.ret_event.cookie = question;
    e.ret_event.seq = 2;
    e.ret_event.agent = bytes_of("demo");
    e.ret_event.text = bytes_of("still here");
    say(w.manager, &e);
    assert_non_null(strstr(get(stream, "still here"), "still here"));
}

/* The page's own log-out: every stream of that session, and none of another. */
static void logging_out_in_the_page_ends_its_streams(void **state) {
    (void)state;
    char other[65], other_key[65];
    own_free char *token = link_token(), *again = link_token();
    assert_int_equal(log_in(token, other, other_key), 200);
    uint64_t asked, asked_by_other;
    own_fd int stream = follow(cookie, key, &asked), lives = follow(other, other_key, &asked_by_other),
               out = knock();
    post(out, "POST /api/logout", "");
    assert_int_equal(status_of(get(out, NULL)), 200);
    expect_closed(stream, asked);
    expect_event(lives, asked_by_other);
    own_fd int refused = knock();
    put_call(refused, "GET /api/agents", "");
    assert_int_equal(status_of(get(refused, NULL)), 401);
    assert_int_equal(log_in(again, cookie, key), 200);
    own_msg struct msg gone = {0};
    own_closep(&lives);
    hear(w.manager, MSG_fleet_forget, &gone);
}

/* So many log in that the place is another's. */
static void losing_its_place_ends_its_streams(void **state) {
    (void)state;
    uint64_t asked;
    own_fd int stream = follow(cookie, key, &asked);
    char c[65], k[65];
    for (int i = 0; i < SESSIONS_MAX; i++) {
        own_free char *token = link_token();
        assert_int_equal(log_in(token, c, k), 200);
    }
    expect_closed(stream, asked);
    memcpy(cookie, c, sizeof c);
    memcpy(key, k, sizeof k);
    expect_service();
}

/* A browser's body of this length; the rest is sent by the test. */
static void post_file(int fd, const char *line, size_t length) {
    own_free char *more = xasprintf(
        "Origin: http://127.0.0.1:%u\r\nContent-Type: application/x-agent-cage\r\nContent-Length: %zu\r\n",
        w.port, length);
    put_call(fd, line, more);
}

/* What is in the pipe next, or 0: it ended. */
static size_t drain(int fd) {
    static char piece[65536];
    struct pollfd p = {fd, POLLIN, 0};
    assert_int_equal(poll(&p, 1, 10000), 1);
    ssize_t n = read(fd, piece, sizeof piece);
    assert_true(n >= 0);
    return (size_t)n;
}

static void a_file_goes_through_and_is_held_back(void **state) {
    (void)state;
    enum { SIZE = 8 << 20 };
    own_fd int fd = knock();
    post_file(fd, "POST /api/put?agent=demo&name=a%20b.bin", SIZE);
    own_msg struct msg q = {0};
    hear(w.manager, MSG_fleet_put, &q);
    assert_string_equal(q.fleet_put.name.p, "a b.bin");
    assert_int_equal(q.fleet_put.size, SIZE);
    assert_true(!strncmp(q.fleet_put.who.p, "web:", 4));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    own_free char *zeros = xcalloc(1, SIZE);
    size_t sent = 0;
    for (int quiet = 0; quiet < 20;) { /* nobody reads the pipe: what the relay takes is bounded */
        ssize_t n = send(fd, zeros, SIZE - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        quiet = n > 0 ? 0 : quiet + 1;
        if (n <= 0)
            poll(NULL, 0, 10);
    }
    assert_true(sent < SIZE);
    size_t came = 0;
    while (came < SIZE) {
        ssize_t n = sent < SIZE ? send(fd, zeros, SIZE - sent, MSG_NOSIGNAL) : 0;
        sent += n > 0 ? (size_t)n : 0;
        size_t had = drain(q.fds[0]);
        assert_true(had > 0);
        came += had;
    }
    assert_int_equal(came, SIZE);
    assert_int_equal(drain(q.fds[0]), 0); /* then it ends */
    fcntl(fd, F_SETFL, 0);
    end(w.manager, q.fleet_put.cookie, 0, 0, "/inbox/a b.bin");
    assert_non_null(strstr(get(fd, "event: end"), "/inbox/a b.bin"));
    put_call(fd, "GET /api/agents", ""); /* the connection goes on */
    own_msg struct msg next = {0};
    hear(w.manager, MSG_fleet_list, &next);
    end(w.manager, next.fleet_list.cookie, 0, 0, "");
    get(fd, "event: end");
}

static void a_refused_file_is_answered_behind_its_body(void **state) {
    (void)state;
    static const char *const lines[] = {"POST /api/put?agent=demo&name=..%2Fx",
                                        "POST /api/put?agent=demo&name=.x", "POST /api/put?agent=demo",
                                        "POST /api/put?agent=demo&name=a%1Bb"};
    for (size_t i = 0; i < COUNT(lines); i++) {
        own_fd int fd = knock();
        post_file(fd, lines[i], 100000);
        own_free char *body = xcalloc(1, 100000);
        assert_int_equal(send(fd, body, 100000, MSG_NOSIGNAL), 100000);
        assert_non_null(strstr(get(fd, "event: end\ndata: {\"status\":126"), "200 OK"));
    }
    own_fd int large = knock(), stranger = knock(), gone = knock();
    post_file(large, "POST /api/put?agent=demo&name=x", (UINT64_C(2) << 30) + 1);
    assert_int_equal(status_of(get(large, NULL)), 413);
    char none[65];
    snprintf(none, sizeof none, "%064d", 0);
    put_call_as(stranger, cookie, none, "GET /api/get?agent=demo&name=x", "");
    assert_int_equal(status_of(get(stranger, NULL)), 401);
    assert_true(silent(w.manager, 50));
    post_file(gone, "POST /api/put?agent=demo&name=half", 1000); /* who leaves in the middle: the pipe ends */
    own_msg struct msg q = {0};
    hear(w.manager, MSG_fleet_put, &q);
    own_closep(&gone);
    assert_int_equal(drain(q.fds[0]), 0);
    own_msg struct msg left = {0};
    hear(w.manager, MSG_fleet_forget, &left);
}

static void a_file_comes_as_an_attachment_or_fails(void **state) {
    (void)state;
    own_fd int fd = knock();
    put_call(fd, "GET /api/get?agent=demo&name=%3Cb%3E.html", "");
    own_msg struct msg q = {0}, cut = {0}, no = {0};
    hear(w.manager, MSG_fleet_get, &q);
    assert_string_equal(q.fleet_get.name.p, "<b>.html");
    assert_int_equal(write(q.fds[0], "<script>", 8), 8);
    own_closep(&q.fds[0]);
    end(w.manager, q.fleet_get.cookie, 0, 0, "");
    const char *answer = get(fd, "8\r\n<script>\r\n0\r\n\r\n");
    assert_int_equal(status_of(answer), 200);
    assert_non_null(strstr(answer, "Content-Type: application/octet-stream\r\n"));
    assert_non_null(
        strstr(answer, "Content-Disposition: attachment; filename*=UTF-8''%3C%62%3E%2E%68%74%6D%6C\r\n"));
    assert_non_null(strstr(answer, "X-Content-Type-Options: nosniff\r\n"));
    put_call(fd, "GET /api/get?agent=demo&name=x", ""); /* refused before its first byte */
    hear(w.manager, MSG_fleet_get, &no);
    own_closep(&no.fds[0]);
    end(w.manager, no.fleet_get.cookie, 126, 0, "'x' is a link: it is not followed");
    answer = get(fd, NULL);
    assert_int_equal(status_of(answer), 409);
    assert_non_null(strstr(answer, "is a link"));
    own_fd int half = knock();
    put_call(half, "GET /api/get?agent=demo&name=y", ""); /* and behind some */
    hear(w.manager, MSG_fleet_get, &cut);
    assert_int_equal(write(cut.fds[0], "half", 4), 4);
    own_closep(&cut.fds[0]);
    get(half, "half");
    end(w.manager, cut.fleet_get.cookie, 125, 0, "the file became shorter");
    assert_null(strstr(get(half, NULL), "0\r\n\r\n"));
}

static void logging_out_ends_every_browser(void **state) {
    (void)state;
    uint64_t asked;
    own_fd int stream = follow(cookie, key, &asked);
    own_msg struct msg done = {0};
    word("logout", &done);
    expect_closed(stream, asked);
    own_fd int again = knock();
    put_call(again, "GET /api/agents", "");
    assert_int_equal(status_of(get(again, NULL)), 401);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_login_link_works_once),
        cmocka_unit_test(a_session_outlives_the_relay),
        cmocka_unit_test(a_message_is_said_by_the_session),
        cmocka_unit_test(the_code_of_a_log_in_is_an_order),
        cmocka_unit_test(a_credential_goes_no_further),
        cmocka_unit_test(a_token_passes_as_it_is),
        cmocka_unit_test(sessions_are_listed),
        cmocka_unit_test(a_stream_goes_on_from_where_it_was),
        cmocka_unit_test(logging_out_in_the_page_ends_its_streams),
        cmocka_unit_test(a_file_goes_through_and_is_held_back),
        cmocka_unit_test(a_refused_file_is_answered_behind_its_body),
        cmocka_unit_test(a_file_comes_as_an_attachment_or_fails),
        cmocka_unit_test(losing_its_place_ends_its_streams),
        cmocka_unit_test(logging_out_ends_every_browser),
    };
    return cmocka_run_group_tests(tests, web_setup, web_teardown);
}
