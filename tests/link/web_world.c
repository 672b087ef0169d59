#include "web_world.h"
#include "base/own.h"
#include "../loopback.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <cmocka.h>

enum { ANSWER_MAX = 1 << 20 };

struct world w;
char cookie[65], key[65];

int knock(void) {
    return loopback_dial((uint16_t)w.port);
}

void put(int fd, const char *fmt, ...) {
    char text[16384];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    assert_in_range(n, 1, sizeof text - 1);
    (void)!send(fd, text, (size_t)n, MSG_NOSIGNAL);
}

const char *get(int fd, const char *until) {
    static char text[ANSWER_MAX];
    const char *wanted = until ? until : "the end";
    text[0] = 0;
    for (size_t n = 0; !until || !strstr(text, until);) {
        struct pollfd p = {fd, POLLIN, 0};
        if (poll(&p, 1, WAIT_MS) <= 0 || n == sizeof text - 1)
            fail_msg("%s did not come after: %s", wanted, text);
        ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);
        if (got < 0 || (!got && until))
            fail_msg("%s instead of %s after: %s", got ? "an error" : "the end", wanted, text);
        if (!got)
            break;
        n += (size_t)got;
        text[n] = 0;
    }
    return text;
}

unsigned status_of(const char *answer) {
    return strncmp(answer, "HTTP/1.1 ", 9) ? 0 : (unsigned)strtoul(answer + 9, NULL, 10);
}

void put_call_as(int fd, const char *c, const char *k, const char *line, const char *more) {
    put(fd, "%s HTTP/1.1\r\n" OURS "Cookie: agent_cage=%s\r\nCage-Key: %s\r\n%s\r\n", line, w.port, c, k,
        more);
}

void put_call(int fd, const char *line, const char *more) {
    put_call_as(fd, cookie, key, line, more);
}

void word(const char *text, struct msg *ret_end) {
    own_fd int front = world_front(&w);
    struct msg m = {.type = MSG_front_word};
    m.front_word.cookie = 5;
    m.front_word.front = bytes_of("web");
    m.front_word.word = bytes_of(text);
    say(front, &m);
    hear(front, MSG_relay_end, ret_end);
    assert_int_equal(ret_end->relay_end.status, 0);
}

char *link_token(void) {
    own_msg struct msg end = {0};
    word("login", &end);
    const char *at = strstr(end.relay_end.text.p, "#login=");
    assert_non_null(at);
    return xstrndup(at + 7, 64);
}

unsigned log_in(const char *token, char *ret_cookie, char *ret_key) {
    own_fd int fd = knock();
    put(fd,
        "POST /api/login HTTP/1.1\r\n" OURS
        "Origin: http://127.0.0.1:%u\r\nContent-Type: application/x-agent-cage\r\n"
        "Content-Length: 64\r\n\r\n%s",
        w.port, w.port, token);
    const char *answer = get(fd, NULL), *at = strstr(answer, "agent_cage="),
               *body = strstr(answer, "\r\n\r\n");
    if (at && body) {
        assert_non_null(strstr(answer, "; HttpOnly; SameSite=Strict"));
        snprintf(ret_cookie, 65, "%s", at + 11);
        snprintf(ret_key, 65, "%s", body + 4);
    }
    return status_of(answer);
}

int web_setup(void **state) {
    (void)state;
    world_start(&w);
    own_free char *token = link_token();
    assert_int_equal(log_in(token, cookie, key), 200);
    return 0;
}

int web_teardown(void **state) {
    (void)state;
    world_stop(&w);
    return 0;
}

void expect_service(void) {
    own_fd int fd = knock();
    own_msg struct msg q = {0};
    put_call(fd, "GET /api/agents", "");
    hear(w.manager, MSG_fleet_list, &q);
    struct msg a = {.type = MSG_ret_agent};
    a.ret_agent.cookie = q.fleet_list.cookie;
    a.ret_agent.agent = bytes_of("demo");
    say(w.manager, &a);
    end(w.manager, q.fleet_list.cookie, 0, 0, "");
    const char *answer = get(fd, "event: end");
    assert_int_equal(status_of(answer), 200);
    assert_non_null(strstr(answer, "event: agent\ndata: {\"agent\":\"demo\""));
    assert_null(strstr(answer, "Access-Control"));
}

void post(int fd, const char *line, const char *body) {
    own_free char *more =
        xasprintf("Origin: http://127.0.0.1:%u\r\nContent-Type: application/x-agent-cage\r\n"
                  "Content-Length: %zu\r\n",
                  w.port, strlen(body));
    put_call(fd, line, more);
    (void)!send(fd, body, strlen(body), MSG_NOSIGNAL);
}
