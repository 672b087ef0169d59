/* The state strip, byte for byte. */
#include "proto/strip.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { NOW = 1700000000 };

static struct msg_relay_status sample(void) {
    struct msg_relay_status s = {
        .agent = bytes_of("cage-pod"),
        .mode = bytes_of("pod"),
        .state = bytes_of("running"),
        .login = bytes_of("no login needed"),
        .up_ms = (122 * 60 + 52) * 60000ull,
        .processes = 10,
        .last_command_wall_ms = (uint64_t)NOW * 1000 - 9 * 86400000ull,
        .host_memory_total = 12562710528, /* 11.7 GiB */
        .host_memory_free = 6979321856,   /* 6.5 GiB */
        .host_cpu_now = 33,
        .host_cpu_5min = 28,
        .host_cores = 6,
    };
    return s;
}

static void expect(const struct msg_relay_status *s, const char *text) {
    own_buf struct buf out = {0};
    strip_agent(&out, s, (int64_t)NOW * 1000);
    assert_string_equal(buf_text(&out), text);
}

static void a_running_agent(void **state) {
    (void)state;
    struct msg_relay_status s = sample();
    expect(&s, "[cage-pod] cage-pod — running · up 122h 52m\n"
               "▪ no login needed\n"
               "◦ 0 active sessions · 10 processes\n"
               "◆ last command ran as the executor 9d ago\n");
}

static void the_host(void **state) {
    (void)state;
    struct msg_relay_status s = sample();
    own_buf struct buf out = {0};
    strip_host(&out, &s);
    assert_string_equal(buf_text(&out),
                        "— host —\n"
                        "▫ RAM: 6.5G free of 11.7G (44% used) · CPU 33% now, 28% 5min (6 cores)\n");
    buf_clear(&out);
    struct msg_relay_status nothing = {.host_cores = 1};
    strip_host(&out, &nothing);
    assert_string_equal(buf_text(&out),
                        "— host —\n▫ RAM: 0B free of 0B (0% used) · CPU 0% now, 0% 5min (1 core)\n");
}

static void a_busy_bare_agent_with_survivors(void **state) {
    (void)state;
    struct msg_relay_status s = sample();
    s.mode = bytes_of("bare");
    s.sessions = 1;
    s.processes = 1;
    s.queued = 2;
    s.memory_used = 300 << 20;
    s.memory_max = 4ull << 30;
    s.memory_kills = 2;
    s.full = bytes_of("/tmp, /dev/shm");
    s.survivors = 2;
    s.survivor_text = bytes_of("sleep 1000\nnode server.js");
    s.last_command_wall_ms = 0;
    expect(&s, "[cage-pod] cage-pod — running · up 122h 52m\n"
               "▪ no login needed\n"
               "▪ bare: commands run as an ordinary account of this machine, without a sandbox and with its "
               "whole network\n"
               "◦ 1 active session · 1 process · 300M of 4.0G memory · 2 processes were killed for lack of "
               "memory · full: /tmp, /dev/shm · 2 messages wait\n"
               "◦ still running after its command: 2 processes (ends with /stop or `stop`)\n"
               "    sleep 1000\n"
               "    node server.js\n"
               "◆ no command ran yet\n");
}

static void why_it_fails(void **state) {
    (void)state;
    struct msg_relay_status s = sample();
    s.state = bytes_of("frozen");
    s.why = bytes_of("the disk is nearly full");
    s.up_ms = 0;
    s.login = bytes_of("");
    expect(&s, "[cage-pod] cage-pod — frozen: the disk is nearly full\n"
               "◦ 0 active sessions · 10 processes\n"
               "◆ last command ran as the executor 9d ago\n");
}

static void a_sealed_agent_says_what_that_means(void **state) {
    (void)state;
    struct msg_relay_status s = sample();
    own_buf struct buf pod = {0}, sealed = {0};
    strip_agent(&pod, &s, 0);
    assert_null(strstr(buf_text(&pod), "sealed"));
    s.mode = bytes_of("sealed");
    strip_agent(&sealed, &s, 0);
    assert_non_null(
        strstr(buf_text(&sealed),
               "\n▪ sealed: commands reach the internet and nothing local; what they leave in the "
               "project is untrusted\n"));
}

/* A stranger's process may have any name. */
static void hostile_names(void **state) {
    (void)state;
    struct msg_relay_status s = sample();
    s.why = bytes_of("\033[31mred\r\n\xe2\x80\xae");
    s.survivors = 1;
    s.survivor_text = bytes_of("\033]52;c;eA==\a\t\xc2\x9b");
    own_buf struct buf out = {0};
    strip_agent(&out, &s, 0);
    assert_null(strpbrk(buf_text(&out), "\033\a\r\t"));
    assert_non_null(strstr(buf_text(&out), "running: \\x1b[31mred\\r\\n\\u{202e}"));
    assert_non_null(strstr(buf_text(&out), "    \\x1b]52;c;eA==\\x07\\t\\u{9b}\n"));
}

static void many_survivors_are_bounded(void **state) {
    (void)state;
    struct msg_relay_status s = sample();
    s.survivors = 1000;
    s.survivor_text = bytes_of("1\n2\n3\n4\n5\n6\n7\n");
    own_buf struct buf out = {0};
    strip_agent(&out, &s, 0);
    assert_non_null(strstr(buf_text(&out), "1000 processes"));
    assert_non_null(strstr(buf_text(&out), "    5\n"));
    assert_null(strstr(buf_text(&out), "    6\n"));
}

static void sizes(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {{0, "0B"},
                {1023, "1023B"},
                {1024, "1.0K"},
                {6979321856, "6.5G"},
                {(uint64_t)200 << 30, "200G"},
                {UINT64_MAX, "16.0E"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[STRIP_SIZE_MAX];
        strip_size(text, rows[i].bytes);
        assert_string_equal(text, rows[i].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_running_agent),
        cmocka_unit_test(the_host),
        cmocka_unit_test(a_busy_bare_agent_with_survivors),
        cmocka_unit_test(why_it_fails),
        cmocka_unit_test(a_sealed_agent_says_what_that_means),
        cmocka_unit_test(hostile_names),
        cmocka_unit_test(many_survivors_are_bounded),
        cmocka_unit_test(sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
