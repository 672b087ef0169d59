/* Events as a terminal gets them, byte for byte; nothing of a stranger's text acts on the terminal. */
#include "cli/render.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct msg_relay_event sample(const char *kind, const char *text) {
    return (struct msg_relay_event){.agent = bytes_of("demo"),
                                    .id = 7,
                                    .kind = bytes_of(kind),
                                    .who = bytes_of("terminal:0"),
                                    .span_ms = 1512000,
                                    .text = bytes_of(text)};
}

static void expect(const struct render *r, const struct msg_relay_event *e, const char *text) {
    own_buf struct buf out = {0};
    render_event(r, e, &out);
    assert_string_equal(buf_text(&out), text);
}

static void each_kind(void **state) {
    (void)state;
    static const struct {
        const char *kind, *text, *shown;
    } rows[] = {
        {"queued", "ls\n-l", "terminal:0 #7 ▸ ls\\n-l\n"},
        {"started", "", "#7 started\n"},
        {"output", "a\n\tb", "a\n\tb\n"},
        {"report", "done\n", "done\n◷ 25m12s · exit 0\n"},
        {"report", "", "◷ 25m12s · exit 0\n"},
        {"note", "pod demo started", "◆ pod demo started\n"},
        {"note", "it is over\n  outbox empty\n\x1b[2J", "◆ it is over\n  outbox empty\n\\x1b[2J\n"},
        {"unknown", "the agent died",
         "▪ #7 unknown: it may have run; it is not run again by itself. the agent died\n"},
        {"refused", "too long", "▪ #7 refused: too long\n"},
        {"of a later version", "x", ""},
    };
    struct render r = {0};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct msg_relay_event e = sample(rows[i].kind, rows[i].text);
        expect(&r, &e, rows[i].shown);
    }
}

static void tags_and_colours_are_ours(void **state) {
    (void)state;
    struct render r = {.colour = true, .tags = true};
    struct msg_relay_event e = sample("report", "one\ntwo\n");
    e.status = 2;
    expect(&r, &e,
           "\033[1;36m[demo]\033[0m one\n\033[1;36m[demo]\033[0m two\n"
           "\033[1;36m[demo]\033[0m \033[31m◷ 25m12s · exit 2\033[0m\n");
}

static const char hostile[] = "\033[2J\033]52;c;eA==\a\033]0;t\033\\\x9b"
                              "31m\xe2\x80\xae\xe2\x81\xa6\rover\b\x7f\xc2\x9b\xe2\x80\x8b\xff";
static const char harmless[] = "\\x1b[2J\\x1b]52;c;eA==\\x07\\x1b]0;t\\x1b\\\\x9b"
                               "31m\\u{202e}\\u{2066}\\rover\\x08\\x7f\\u{9b}\\u{200b}\\xff";

static void every_kind_disarms(void **state) {
    (void)state;
    static const char *const kinds[] = {"queued", "output", "report", "note", "unknown", "refused"};
    struct render r = {.tags = true};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct msg_relay_event e = sample(kinds[i], hostile);
        e.who = e.agent = bytes_of("\033[31mname");
        own_buf struct buf out = {0};
        render_event(&r, &e, &out);
        assert_non_null(strstr(buf_text(&out), harmless));
        assert_non_null(strstr(buf_text(&out), "[\\x1b[31mname]"));
        for (const char *p = buf_text(&out); *p; p++)
            assert_true((unsigned char)*p >= 0x20 || *p == '\n');
    }
}

static void long_text_is_head_and_tail(void **state) {
    (void)state;
    own_buf struct buf text = {0}, out = {0};
    for (int i = 0; i < 1000; i++)
        buf_printf(&text, "line %03d\n", i);
    render_text(&out, text.p, text.len, 90);
    assert_string_equal(buf_text(&out), "line 000\nline 001\nline 002\nline 003\nline 004\n"
                                        "… 8910 bytes left out …\n"
                                        "line 995\nline 996\nline 997\nline 998\nline 999\n");
}

static void a_cut_splits_no_character(void **state) {
    (void)state;
    own_buf struct buf text = {0};
    for (int i = 0; i < 100; i++)
        buf_adds(&text, "é€😀");
    for (size_t most = 1; most < 40; most++) {
        own_buf struct buf out = {0};
        render_text(&out, text.p, text.len, most);
        assert_null(strstr(buf_text(&out), "\\x"));
        assert_non_null(strstr(buf_text(&out), "bytes left out"));
    }
}

static void what_ends_a_message(void **state) {
    (void)state;
    static const struct {
        const char *kind;
        bool final;
    } rows[] = {{"queued", false}, {"started", false}, {"output", false}, {"note", false},
                {"report", true},  {"unknown", true},  {"refused", true}, {"reporter", false}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct msg_relay_event e = sample(rows[i].kind, "");
        assert_int_equal(render_final(&e), rows[i].final);
    }
}

static void no_colour_where_none_is_wanted(void **state) {
    (void)state;
    setenv("NO_COLOR", "1", 1);
    assert_false(render_colours(1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind),
        cmocka_unit_test(tags_and_colours_are_ours),
        cmocka_unit_test(every_kind_disarms),
        cmocka_unit_test(long_text_is_head_and_tail),
        cmocka_unit_test(a_cut_splits_no_character),
        cmocka_unit_test(what_ends_a_message),
        cmocka_unit_test(no_colour_where_none_is_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
