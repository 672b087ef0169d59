/* The web front's checks: which requests are ours, cookies, links and sessions, answers as JSON. */
#include "relay/web/guard.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/own.h"
#include "relay/web/json.h"
#include "relay/web/logins.h"
#include "scratch.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define OK_HOST "Host: 127.0.0.1:717\r\n"
#define OK_POST                                                                                              \
    OK_HOST "Origin: http://127.0.0.1:717\r\nContent-Type: application/x-agent-cage\r\nContent-Length: "     \
            "0\r\n"
#define A64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* The linker gives the code under test a clock that can be put forward. */
static int64_t later_ms;
int64_t __real_clock_mono_ns(void);
int64_t __wrap_clock_mono_ns(void);
int64_t __real_clock_wall_ms(void);
int64_t __wrap_clock_wall_ms(void);

int64_t __wrap_clock_mono_ns(void) {
    return __real_clock_mono_ns() + later_ms * 1000000;
}

int64_t __wrap_clock_wall_ms(void) {
    return __real_clock_wall_ms() + later_ms;
}

static struct head head;
static struct asked asked;

/* 400 also where the head itself is refused. */
static unsigned check(const struct guard *g, const char *line, const char *headers) {
    static char text[4096];
    snprintf(text, sizeof text, "%s HTTP/1.1\r\n%s\r\n", line, headers);
    own_err err_t e = head_request(text, strlen(text), &head);
    return e ? 400 : guard_check(g, &head, &asked);
}

struct expected {
    unsigned status;
    const char *line, *headers;
};

static void check_all(const struct guard *g, const struct expected *all, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned status = check(g, all[i].line, all[i].headers);
        if (status != all[i].status)
            fail_msg("%s / %s: %u instead of %u", all[i].line, all[i].headers, status, all[i].status);
    }
}

/* MC-02: rebinding shows as a Host that is a name. */
static void only_our_own_host_is_served(void **state) {
    (void)state;
    static const struct guard g = {""};
    static const struct expected all[] = {
        {0, "GET /", OK_HOST},
        {0, "GET /", "Host: 127.0.0.1:7117\r\n"}, /* through ssh -L */
        {421, "GET /", ""},
        {421, "GET /", "Host: 127.0.0.1\r\n"},
        {421, "GET /", "Host: evil.example:717\r\n"},
        {421, "GET /", "Host: 127.0.0.1.nip.example:717\r\n"},
        {421, "GET /", "Host: 127.0.0.1.:717\r\n"},
        {421, "GET /", "Host: 127.0.0.1:717.\r\n"},
        {421, "GET /", "Host: 127.0.0.1:0717\r\n"},
        {421, "GET /", "Host: 127.0.0.1:717@evil.example\r\n"},
        {421, "GET /", "Host: localhost:717\r\n"},
        {421, "GET /", "Host: [::1]:717\r\n"},
        {421, "GET /", "Host: 127.1:717\r\n"},
        {421, "GET /", "Host: 127.0.0.1:717:717\r\n"},
        {421, "GET /", "Host: 127.0.0.1:\r\n"},
        {421, "GET /", "Host: 127.0.0.1:717717\r\n"},
        {421, "GET /", OK_HOST OK_HOST},
        {404, "GET http://127.0.0.1:717/", OK_HOST},
        {421, "GET http://127.0.0.1:717/", "Host: evil.example\r\n"},
    };
    check_all(&g, all, COUNT(all));
}

/* MC-03, MC-05 */
static void only_our_own_page_may_ask(void **state) {
    (void)state;
    static const struct guard g = {""};
    static const struct expected all[] = {
        {0, "POST /api/say", OK_POST},
        {403, "POST /api/say", OK_HOST "Content-Type: application/x-agent-cage\r\nContent-Length: 0\r\n"},
        {403, "POST /api/say", OK_HOST "Origin: null\r\nContent-Length: 0\r\n"},
        {403, "POST /api/say", OK_HOST "Origin: http://evil.example\r\nContent-Length: 0\r\n"},
        {403, "POST /api/say", OK_HOST "Origin: http://127.0.0.1:8000\r\nContent-Length: 0\r\n"},
        {403, "POST /api/say", OK_HOST "Origin: https://127.0.0.1:717\r\nContent-Length: 0\r\n"},
        {403, "POST /api/say", OK_HOST "Origin: http://127.0.0.1:717.evil.example\r\nContent-Length: 0\r\n"},
        {400, "POST /api/say", OK_POST "Origin: http://127.0.0.1:717\r\n"},
        {403, "GET /api/agents", OK_HOST "Origin: http://evil.example\r\n"},
        {403, "GET /api/agents", OK_HOST "Sec-Fetch-Site: cross-site\r\n"},
        {403, "GET /api/agents", OK_HOST "Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: navigate\r\n"},
        {403, "GET /api/agents", OK_HOST "Sec-Fetch-Site: none\r\n"},
        {0, "GET /api/agents", OK_HOST "Sec-Fetch-Site: same-origin\r\n"},
        {0, "GET /", OK_HOST "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"},
        {403, "GET /main.js", OK_HOST "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n"},
        {415, "POST /api/say",
         OK_HOST "Origin: http://127.0.0.1:717\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n"},
        {415, "POST /api/say", OK_HOST "Origin: http://127.0.0.1:717\r\nContent-Length: 0\r\n"},
        {405, "OPTIONS /api/say", OK_HOST "Origin: http://evil.example\r\n"},
        {405, "TRACE /", OK_HOST},
        {405, "HEAD /", OK_HOST},
        {405, "CONNECT /", OK_HOST},
        {405, "get /", OK_HOST},
    };
    check_all(&g, all, COUNT(all));
}

/* MC-11, PT-14 */
static void bodies_have_a_length_and_paths_no_tricks(void **state) {
    (void)state;
    static const struct guard g = {""};
    static const struct expected all[] = {
        {400, "POST /api/say", OK_POST "Transfer-Encoding: chunked\r\n"},
        {411, "POST /api/say", OK_HOST "Origin: http://127.0.0.1:717\r\nTransfer-Encoding: chunked\r\n"},
        {411, "POST /api/say", OK_HOST "Origin: http://127.0.0.1:717\r\n"},
        {400, "POST /api/say", OK_POST "Content-Length: 0\r\n"},
        {400, "GET /", OK_HOST "Content-Length: 1\r\n"},
        {400, "GET /", OK_HOST "Expect: 100-continue\r\n"},
        {400, "GET /", OK_HOST "Connection: upgrade\r\nUpgrade: h2c\r\n"},
        {400, "GET /", OK_HOST "X: a\rb\r\n"},
        {400, "GET / x", OK_HOST},
        {404, "GET /%2e%2e/etc", OK_HOST},
        {404, "GET /..%2f", OK_HOST},
        {404, "GET /a\\b", OK_HOST},
        {404, "GET *", OK_HOST},
        {404, "GET /?a=%00", OK_HOST},
        {404, "GET /?a=%ff", OK_HOST},
        {404, "GET /?a=%4", OK_HOST},
        {404, "GET /?a=1&a=2", OK_HOST},
        {404, "GET /?a", OK_HOST},
    };
    check_all(&g, all, COUNT(all));
    assert_int_equal(check(&g, "GET /api/events?agent=demo&after=%31%30", OK_HOST), 0);
    assert_string_equal(asked_value(&asked, "after"), "10");
    assert_string_equal(asked_value(&asked, "before"), "");
}

static void a_proxy_with_tls_is_one_more_origin(void **state) {
    (void)state;
    struct guard g = {""};
    static const char *const bad[] = {
        "cage.example.org", "ftp://x",      "https://",     "https://Cage.example", "https://x/path",
        "https://a b",      "http://x",     "https://:",    "https://:443",         "https://a:b:c",
        "https://a:b",      "https://a:",   "https://a:0",  "https://a:65536",      "https://a:080",
        "https://a:1:2",    "https://.",    "https://a..b", "https://a.",           "https://.a",
        "https://-a",       "https://a-.b", "https://a/",   "https://a@b",          "https://https://",
        "https://[::1]",    "https://a?b",  "https://a\n"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        own_err err_t e = guard_set(&g, bad[i]);
        assert_non_null(e);
    }
    assert_null(guard_set(&g, ""));
    assert_null(guard_set(&g, "https://a-b.c1:8443"));
    assert_null(guard_set(&g, "https://cage.example.org"));
    static const struct expected all[] = {
        {0, "GET /", "Host: cage.example.org\r\n"},
        {403, "GET /", "Host: cage.example.org\r\nOrigin: http://cage.example.org\r\n"},
        {403, "GET /", "Host: cage.example.org\r\nOrigin: http://127.0.0.1:717\r\n"},
        {421, "GET /", "Host: cage.example.org:443\r\n"},
        {0, "GET /", OK_HOST},
    };
    check_all(&g, all, COUNT(all));
    assert_int_equal(check(&g, "GET /", "Host: cage.example.org\r\nCookie: __Host-agent_cage=" A64 "\r\n"),
                     0);
    assert_true(asked.secure);
    assert_int_equal(asked.cookie.len, 64);
}

static void a_cookie_is_found_once_or_not_at_all(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t len;
    } all[] = {
        {"agent_cage=" A64, 64},
        {"a=b; agent_cage=" A64 "; c=d", 64},
        {"agent_cage=" A64 "; agent_cage=" A64, 0},
        {"xagent_cage=" A64, 0},
        {"agent_cage=" A64 "0", 0},
        {"agent_cage=\"" A64 "\"", 0},
        {"agent_cage=", 0},
        {"agent_cage", 0},
        {"; ; =;", 0},
        {"", 0},
    };
    for (size_t i = 0; i < COUNT(all); i++)
        assert_int_equal(cookie_find(bytes_of(all[i].header), WEB_COOKIE).len, all[i].len);
}

static void a_link_works_once_and_a_session_needs_both_halves(void **state) {
    (void)state;
    own_free char *path = xasprintf("%s/sessions", scratch_dir);
    struct logins *s;
    char token[65], cookie[65], key[65], other[65], other_key[65];
    assert_null(logins_open(path, &s));
    assert_null(logins_link(s, token));
    {
        own_err err_t e = logins_login(s, bytes_of(A64), cookie, key);
        assert_int_equal(e->status, EXIT_POLICY);
    }
    assert_null(logins_login(s, bytes_of(token), cookie, key));
    {
        own_err err_t e = logins_login(s, bytes_of(token), other, other_key);
        assert_int_equal(e->status, EXIT_POLICY);
    }
    assert_null(logins_link(s, token));
    assert_null(logins_login(s, bytes_of(token), other, other_key));
    assert_int_equal(logins_find(s, bytes_of(cookie), bytes_of(key)), 1);
    assert_int_equal(logins_find(s, bytes_of(other), bytes_of(other_key)), 2);
    assert_int_equal(logins_find(s, bytes_of(cookie), bytes_of(other_key)), 0);
    assert_int_equal(logins_find(s, bytes_of(cookie), bytes_of("")), 0);
    assert_int_equal(logins_find(s, bytes_of(key), bytes_of(cookie)), 0);
    assert_int_equal(logins_find(s, bytes_of(""), bytes_of("")), 0);
    logins_free(s);
    own_buf struct buf kept = {0};
    assert_null(fs_read(path, 65536, &kept));
    assert_null(strstr(buf_text(&kept), cookie)); /* hashes alone */
    assert_null(strstr(buf_text(&kept), key));
    assert_null(logins_open(path, &s)); /* the next relay */
    assert_int_equal(logins_find(s, bytes_of(cookie), bytes_of(key)), 1);
    assert_null(logins_end(s, 1));
    assert_int_equal(logins_find(s, bytes_of(cookie), bytes_of(key)), 0);
    assert_int_equal(logins_count(s), 1);
    assert_null(logins_end(s, 0));
    assert_int_equal(logins_count(s), 0);
    logins_free(s);
}

static void the_oldest_session_and_link_make_room(void **state) {
    (void)state;
    own_free char *path = xasprintf("%s/sessions", scratch_dir);
    struct logins *s;
    char first[65], token[65], cookie[65], key[65];
    assert_null(logins_open(path, &s));
    assert_null(logins_link(s, first));
    for (int i = 0; i < LINKS_MAX; i++)
        assert_null(logins_link(s, token));
    own_err err_t e = logins_login(s, bytes_of(first), cookie, key);
    assert_non_null(e);
    for (int i = 0; i < SESSIONS_MAX + 3; i++) {
        assert_null(logins_link(s, token));
        assert_null(logins_login(s, bytes_of(token), cookie, key));
    }
    assert_int_equal(logins_count(s), SESSIONS_MAX);
    assert_int_equal(logins_find(s, bytes_of(cookie), bytes_of(key)), SESSIONS_MAX + 3);
    logins_free(s);
}

static void links_and_sessions_end_by_themselves(void **state) {
    (void)state;
    own_free char *path = xasprintf("%s/sessions", scratch_dir);
    struct logins *s;
    char token[65], cookie[65], key[65];
    assert_null(logins_open(path, &s));
    assert_null(logins_link(s, token));
    later_ms = LINK_MS + 1;
    own_err err_t old = logins_login(s, bytes_of(token), cookie, key);
    assert_non_null(old);
    assert_null(logins_link(s, token));
    assert_null(logins_login(s, bytes_of(token), cookie, key));
    later_ms += SESSION_MS - 1000;
    assert_int_equal(logins_find(s, bytes_of(cookie), bytes_of(key)), 1); /* used: it begins anew */
    later_ms += SESSION_MS - 1000;
    assert_int_equal(logins_find(s, bytes_of(cookie), bytes_of(key)), 1);
    assert_true(logins_lives(s, 1));
    assert_false(logins_lives(s, 0));
    later_ms += SESSION_MS + 1;
    assert_false(logins_lives(s, 1));
    assert_int_equal(logins_find(s, bytes_of(cookie), bytes_of(key)), 0);
    assert_int_equal(logins_count(s), 0);
    later_ms = 0;
    assert_null(logins_link(s, token));
    assert_null(logins_end(s, 0)); /* who logs all out means the links too */
    own_err err_t ended = logins_login(s, bytes_of(token), cookie, key);
    assert_non_null(ended);
    logins_free(s);
}

static void a_broken_file_lets_nobody_in(void **state) {
    (void)state;
    static const char *const bad[] = {"", "x", "1\n1 2 abc def\n", "1\n1 2 " A64 " short\n"};
    own_free char *path = xasprintf("%s/sessions", scratch_dir);
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct logins *s = NULL;
        assert_null(fs_write(path, bad[i], strlen(bad[i]), geteuid(), getegid(), 0600));
        own_err err_t e = logins_open(path, &s);
        assert_non_null(e);
        assert_null(s);
    }
}

static void answers_are_json_whatever_is_in_them(void **state) {
    (void)state;
    struct msg m = {.type = MSG_relay_event};
    struct bytes choices[] = {bytes_of("yes"), bytes_of("\"no\"")};
    m.relay_event = (struct msg_relay_event){.cookie = 9,
                                             .seq = 7,
                                             .agent = bytes_of("demo"),
                                             .kind = bytes_of("report"),
                                             .who = bytes_of(""),
                                             .status = -3,
                                             .text = bytes_of("</script>\"\\\n\t\x1b[31m\x7f \xe2\x80\xae"),
                                             .call = bytes_of(""),
                                             .name = bytes_of(""),
                                             .digest = {"\x01\xff", 2},
                                             .choices = {choices, 2}};
    own_buf struct buf out = {0};
    json_of_msg(&out, &m);
    json_t *j = json_loads(buf_text(&out), 0, NULL);
    assert_non_null(j);
    assert_null(json_object_get(j, "cookie"));
    assert_int_equal(json_integer_value(json_object_get(j, "seq")), 7);
    assert_int_equal(json_integer_value(json_object_get(j, "status")), -3);
    assert_string_equal(json_string_value(json_object_get(j, "text")), m.relay_event.text.p);
    assert_string_equal(json_string_value(json_object_get(j, "digest")), "01ff");
    assert_string_equal(json_string_value(json_array_get(json_object_get(j, "choices"), 1)), "\"no\"");
    assert_null(strchr(buf_text(&out), '\n')); /* one line of an event stream */
    json_decref(j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_our_own_host_is_served),
        cmocka_unit_test(only_our_own_page_may_ask),
        cmocka_unit_test(bodies_have_a_length_and_paths_no_tricks),
        cmocka_unit_test(a_proxy_with_tls_is_one_more_origin),
        cmocka_unit_test(a_cookie_is_found_once_or_not_at_all),
        cmocka_unit_test_setup_teardown(a_link_works_once_and_a_session_needs_both_halves, scratch_up,
                                        scratch_down),
        cmocka_unit_test_setup_teardown(the_oldest_session_and_link_make_room, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(links_and_sessions_end_by_themselves, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(a_broken_file_lets_nobody_in, scratch_up, scratch_down),
        cmocka_unit_test(answers_are_json_whatever_is_in_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
