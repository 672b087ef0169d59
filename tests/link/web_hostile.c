/* The web front as a daemon, and peers that mean no good, or take nothing. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/own.h"
#include "relay/web/guard.h"
#include "web_world.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { FLOOD = 1000 };

/* Events until the relay has something to say. */
static void flood(uint64_t stream, uint64_t *seq) {
    static char text[30001];
    memset(text, 'x', sizeof text - 1);
    struct msg e = {.type = MSG_ret_event};
    e.ret_event.cookie = stream;
    e.ret_event.agent = bytes_of("demo");
    e.ret_event.text = bytes_of(text);
    bool paused = false;
    for (int i = 0; i < 2000 && !paused; i++) {
        e.ret_event.seq = ++*seq;
        say(w.manager, &e);
        paused = !silent(w.manager, 1);
    }
    assert_true(paused);
}

/* It may go on now and then while the kernel still takes some of it, and is quiet once nothing goes out any more. */
static void a_browser_that_does_not_read_pauses_its_own_stream(void **state) {
    (void)state;
    own_fd int fd = knock();
    uint64_t seq = 1;
    put_call(fd, "GET /api/events?after=1&follow=1", "");
    for (int times = 0; !times || !silent(w.manager, 300); times++) {
        own_msg struct msg q = {0}, gone = {0};
        assert_true(times < 100);
        hear(w.manager, MSG_fleet_events, &q);
        flood(q.fleet_events.cookie, &seq);
        hear(w.manager, MSG_fleet_forget, &gone);
    }
    expect_service();
}

/* MC-01, MC-02, MC-03, MC-05: each refusal, and nothing reaches the manager. */
static void what_is_not_ours_is_refused(void **state) {
    (void)state;
    static const struct {
        unsigned status;
        const char *request; /* %u: the port, each time */
    } all[] = {
        {401, "GET /api/agents HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n"},
        {421, "GET /api/agents HTTP/1.1\r\nHost: evil.example:%u\r\n\r\n"},
        {421, "GET / HTTP/1.1\r\nHost: localhost:%u\r\n\r\n"},
        {400, "GET / HTTP/1.0\r\nHost: 127.0.0.1:%u\r\n\r\n"},
        {405, "TRACE / HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n"},
        {405, "OPTIONS /api/say HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nOrigin: http://evil.example\r\n\r\n"},
        {405, "GET /api/order?order=stop&agent=demo HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n"},
        {403,
         "POST /api/order?order=stop&agent=demo HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Length: 0\r\n\r\n"},
        {400, "POST /api/say HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Length: 4\r\nTransfer-Encoding: "
              "chunked\r\n\r\n0\r\n\r\n"},
        {400, "GET / HTTP/1.1\nHost: 127.0.0.1:%u\n\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost : 127.0.0.1:%u\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n folded\r\n\r\n"},
        {404, "GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n"},
        {404, "GET /web-sessions HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n"},
        {400, "\x16\x03\x01\x02\r\n\r\n"},
    };
    for (size_t i = 0; i < COUNT(all); i++) {
        own_fd int fd = knock();
        put(fd, all[i].request, w.port);
        unsigned status = status_of(get(fd, NULL));
        if (status != all[i].status)
            fail_msg("%s: %u instead of %u", all[i].request, status, all[i].status);
    }
    char wrong[65];
    snprintf(wrong, sizeof wrong, "%064d", 0);
    for (int i = 0; i < 3; i++) { /* one half alone, or a wrong one */
        own_fd int fd = knock();
        const char *k = i == 1 ? wrong : i == 2 ? "" : key;
        put_call_as(fd, i == 0 ? wrong : cookie, k, "GET /api/agents", "");
        assert_int_equal(status_of(get(fd, NULL)), 401);
    }
    assert_true(silent(w.manager, 50));
    expect_service();
}

/* Two requests in one: the second is judged for itself, never a body of the first. */
static void requests_do_not_hide_in_each_other(void **state) {
    (void)state;
    own_fd int fd = knock();
    own_msg struct msg q = {0};
    own_free char *second = xasprintf("\r\nGET /api/agents HTTP/1.1\r\n" OURS, w.port);
    put_call(fd, "GET /api/agents", second);
    hear(w.manager, MSG_fleet_list, &q);
    end(w.manager, q.fleet_list.cookie, 0, 0, "");
    const char *answer = get(fd, NULL);
    assert_int_equal(status_of(answer), 200);
    assert_non_null(strstr(answer, "HTTP/1.1 401 "));
    assert_true(silent(w.manager, 50));
}

/* A head of exactly n bytes, from a stranger. */
static unsigned status_of_head(size_t n) {
    own_fd int fd = knock();
    own_free char *head = xasprintf("GET / HTTP/1.1\r\n" OURS "X: ", w.port);
    put(fd, "%s%0*d\r\n\r\n", head, (int)(n - strlen(head) - 4), 0);
    return status_of(get(fd, NULL));
}

/* The body itself is never sent. */
static unsigned status_of_length(const char *line, const char *length) {
    own_fd int fd = knock();
    own_free char *more = xasprintf("Origin: http://127.0.0.1:%u\r\nContent-Type: "
                                    "application/x-agent-cage\r\nContent-Length: %s\r\n",
                                    w.port, length);
    put_call(fd, line, more);
    return status_of(get(fd, NULL));
}

static void too_much_is_cut_off(void **state) {
    (void)state;
    assert_int_equal(status_of_head(WEB_HEAD_MAX), 200);
    assert_int_equal(status_of_head(WEB_HEAD_MAX + 1), 431);
    own_fd int endless = knock();
    put(endless, "GET / HTTP/1.1\r\n" OURS, w.port);
    for (int i = 0; i < 100; i++)
        put(endless, "X-%d: %0200d\r\n", i, i);
    assert_int_equal(status_of(get(endless, NULL)), 431);
    static const char *const all[][2] = {{"POST /api/say?agent=demo&key=k2", "65537"},
                                         {"POST /api/say?agent=demo&key=k2", "2147483648"},
                                         {"POST /api/order?order=stop&agent=demo", "513"},
                                         {"POST /api/token?agent=demo", "16486"},
                                         {"POST /api/login", "65"},
                                         {"POST /api/logout", "1"},
                                         {"POST /api/answer?agent=demo&question=1&digest=00&choice=1", "1"}};
    for (size_t i = 0; i < COUNT(all); i++)
        assert_int_equal(status_of_length(all[i][0], all[i][1]), 413);
    assert_true(silent(w.manager, 50));
    expect_service();
}

static size_t memory_kb(void) {
    own_free char *path = xasprintf("/proc/%d/status", w.relay);
    own_buf struct buf text = {0};
    assert_null(fs_read(path, 65536, &text));
    const char *at = strstr(buf_text(&text), "VmRSS:");
    assert_non_null(at);
    return strtoul(at + 6, NULL, 10);
}

/* Sends what the peer takes now. */
static size_t push(int fd, const char *p, size_t n) {
    ssize_t sent = send(fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    assert_true(sent >= 0 || errno == EAGAIN);
    return sent > 0 ? (size_t)sent : 0;
}

/* Requests behind each other, whose answers nobody reads: 17 MB of them. The relay keeps few, and once they are read, all come. */
static void who_asks_and_does_not_read_costs_no_memory(void **state) {
    (void)state;
    enum { ASKS = 1000 };
#ifdef __SANITIZE_ADDRESS__
    enum { GROWTH_KB = 10240 }; /* freed memory is kept for a while, and there is a shadow of all */
#else
    enum { GROWTH_KB = 4096 };
#endif
    own_buf struct buf asks = {0};
    for (int i = 0; i < ASKS; i++)
        buf_printf(&asks, "GET /room.js HTTP/1.1\r\n" OURS "\r\n", w.port);
    buf_printf(&asks, "GET /room.js HTTP/1.1\r\nHost: x\r\n\r\n");
    own_fd int fd = knock();
    own_msg struct msg q = {0};
    put_call(fd, "GET /api/agents", ""); /* logged in: the connection stays */
    hear(w.manager, MSG_fleet_list, &q);
    end(w.manager, q.fleet_list.cookie, 0, 0, "");
    get(fd, "\r\n0\r\n\r\n");
    size_t before = memory_kb(), sent = 0;
    for (size_t last = SIZE_MAX; sent != last;) { /* until it takes no more, though it had its turn */
        last = sent;
        sent += push(fd, asks.p + sent, asks.len - sent);
        for (int i = 0; i < 20; i++)
            expect_service();
    }
    size_t now = memory_kb();
    if (now > before + GROWTH_KB)
        fail_msg("from %zu to %zu kB", before, now);
    size_t answers = 0;
    for (char tail[16] = "", text[65536];;) {
        sent += push(fd, asks.p + sent, asks.len - sent);
        struct pollfd p = {fd, POLLIN, 0};
        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
        size_t kept = strlen(tail);
        memcpy(text, tail, kept);
        ssize_t got = recv(fd, text + kept, sizeof text - 1 - kept, 0);
        assert_true(got >= 0);
        if (!got)
            break;
        text[kept + (size_t)got] = 0;
        const char *at = text;
        for (const char *next; (next = strstr(at, "HTTP/1.1 200 OK")); at = next + 15)
            answers++;
        size_t rest = strlen(at);
        snprintf(tail, sizeof tail, "%s", rest < 14 ? at : at + rest - 14);
    }
    assert_int_equal(answers, ASKS);
}

/* PT-05: a byte now and then gains no time. */
static void a_head_that_trickles_is_cut_off(void **state) {
    (void)state;
    own_fd int fd = knock();
    static const char head[] =
        "GET / HTTP/1.1\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy";
    int64_t start = clock_mono_ns();
    struct pollfd p = {fd, POLLIN, 0};
    for (size_t i = 0; i < sizeof head - 1 && !poll(&p, 1, 250); i++)
        put(fd, "%c", head[i]);
    int64_t took_ms = (clock_mono_ns() - start) / 1000000;
    assert_true(p.revents); /* it was closed while it still trickled */
    assert_true(took_ms >= 4000);
    expect_service();
}

/* PT-06: a thousand strangers hold nothing that the owner needs. */
static void a_thousand_connections_keep_nobody_out(void **state) {
    (void)state;
    own_fd int owner = knock();
    own_msg struct msg q = {0};
    put_call(owner, "GET /api/events?after=1&follow=1", "");
    hear(w.manager, MSG_fleet_events, &q);
    static int fds[FLOOD];
    for (int i = 0; i < FLOOD; i++) {
        fds[i] = knock();
        if (i % 100 == 50)
            expect_service();
    }
    expect_service();
    struct msg e = {.type = MSG_ret_event};
    e.ret_event.cookie = q.fleet_events.cookie;
    e.ret_event.seq = 2;
    e.ret_event.agent = bytes_of("demo");
    e.ret_event.text = bytes_of("still here");
    say(w.manager, &e);
    assert_non_null(strstr(get(owner, "still here"), "still here"));
    for (int i = 0; i < FLOOD; i++)
        close(fds[i]);
    own_msg struct msg gone = {0};
    own_closep(&owner);
    hear(w.manager, MSG_fleet_forget, &gone);
}

/*
 * The manager reads nothing: whoever asks then is held, also one who was never here and one whose connection was another's;
 * when it reads again, all are asked for.
 */
static void who_comes_during_a_hold_waits_and_is_asked_for(void **state) {
    (void)state;
    enum { BODY = 60000, SAYS = 100 };
    char c[65], k[65];
    own_free char *token = link_token(), *body = xcalloc(1, BODY + 1);
    assert_int_equal(log_in(token, c, k), 200);
    int asks[2] = {knock(), knock()};
    own_msg struct msg q = {0};
    put_call(asks[0], "GET /api/agents", "");
    hear(w.manager, MSG_fleet_list, &q);
    end(w.manager, q.fleet_list.cookie, 0, 0, "");
    get(asks[0], "\r\n0\r\n\r\n");
    memset(body, 'x', BODY);
    int says[SAYS], n = 0;
    for (int held = 0; held < 3; n++) { /* each that is not held has the head of its answer */
        assert_true(n < SAYS);
        says[n] = knock();
        post(says[n], "POST /api/say?agent=demo&key=flood", body);
        held = silent(says[n], 500) ? held + 1 : 0;
    }
    for (int i = 0; i < 2; i++) {
        put_call_as(asks[i], c, k, "GET /api/agents", "");
        assert_true(silent(asks[i], 300));
    }
    for (int says_left = n, lists_left = 2; says_left + lists_left;) {
        own_msg struct msg m = {0};
        hear_any(w.manager, &m);
        end(w.manager, m.fleet_list.cookie, 0, 0, "");
        if (m.type == MSG_fleet_list)
            lists_left--;
        else if (m.type == MSG_fleet_say)
            says_left--;
        else
            fail_msg("%s came", msg_rows[m.type].name);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(status_of(get(asks[i], "event: end")), 200);
        close(asks[i]);
    }
    while (n)
        close(says[--n]);
    expect_service();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_browser_that_does_not_read_pauses_its_own_stream),
        cmocka_unit_test(what_is_not_ours_is_refused),
        cmocka_unit_test(requests_do_not_hide_in_each_other),
        cmocka_unit_test(too_much_is_cut_off),
        cmocka_unit_test(who_asks_and_does_not_read_costs_no_memory),
        cmocka_unit_test(a_head_that_trickles_is_cut_off),
        cmocka_unit_test(a_thousand_connections_keep_nobody_out),
        cmocka_unit_test(who_comes_during_a_hold_waits_and_is_asked_for),
    };
    return cmocka_run_group_tests(tests, web_setup, web_teardown);
}
