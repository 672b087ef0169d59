/*
 * What each protocol makes of its program's lines: transcripts after what the pinned versions say, cut at every byte, with
 * members that nobody knows and kinds of event that do not exist. What the harness would say goes to a buffer instead.
 */
#include "harness/vendor.h"
#include "harness/json_line.h"
#include "harness/lines.h"
#include "base/escape.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static struct buf said;

void __wrap_say_event(struct from_agent *up, const char *kind, const char *call, const char *name,
                      int64_t status, const char *text, size_t len);
void __wrap_say_event(struct from_agent *up, const char *kind, const char *call, const char *name,
                      int64_t status, const char *text, size_t len) {
    (void)up;
    buf_printf(&said, "%s(%s,%s,%lld,%.*s) ", kind, call, name, (long long)status,
               strcmp(kind, "usage") ? (int)len : 0, text);
}

void __wrap_say_end(struct from_agent *up, const char *outcome, int64_t status, const char *text);
void __wrap_say_end(struct from_agent *up, const char *outcome, int64_t status, const char *text) {
    (void)up;
    buf_printf(&said, "END(%s,%lld,%s)", outcome, (long long)status, text);
}

/* A turn that is under way, without a program: what would be written to it is nobody's. */
struct scene {
    struct event_base *base;
    struct world world;
    struct floor floor;
    struct vendor *v;
    char dir[40];
};

static char none[] = "", model[] = "m1";
static char *const no_env[] = {NULL};

static void open_scene(struct scene *s, const struct protocol *p) {
    static char argument[] = "true";
    *s = (struct scene){.base = event_base_new(), .dir = "/dev/shm/unit-harness-XXXXXX"};
    assert_non_null(mkdtemp(s->dir));
    s->world = (struct world){1, none, none, none, none, model};
    s->floor =
        (struct floor){.base = s->base, .project = s->dir, .home = s->dir, .scratch = s->dir, .env = no_env};
    s->floor.arg = p->program ? none : argument;
    s->floor.world = &s->world;
    void *h;
    assert_null(vendor_open(p, &s->floor, &h));
    s->v = h;
    s->v->own = xcalloc(1, p->own_size + 1);
    s->v->text = xstrdup("hi");
    s->v->state = VENDOR_BUSY;
    buf_clear(&said);
}

static void close_scene(struct scene *s) {
    err_free(session_forget(&s->v->session));
    vendor_close(s->v);
    event_base_free(s->base);
    rmdir(s->dir);
}

static void on_line(void *ctx, char *p, size_t n) {
    struct vendor *v = ctx;
    own_json json_t *j = json_line(p, n);
    if (j)
        v->protocol->line(v, j);
}

static void on_cut(void *ctx, uint64_t n) {
    (void)ctx, (void)n;
    fail_msg("nothing is that long");
}

static const struct lines_ops ops = {.line = on_line, .cut = on_cut};

static void feed(struct vendor *v, const char *lines, size_t at) {
    struct lines l = {0};
    lines_add(&l, LINE_MAX_BYTES, lines, at, &ops, v);
    lines_add(&l, LINE_MAX_BYTES, lines + at, strlen(lines) - at, &ops, v);
    lines_end(&l, &ops, v);
    lines_free(&l);
}

#define REPLAY "{\"type\":\"user\",\"isReplay\":true,\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\n"
static const struct row {
    const struct protocol *protocol;
    const char *lines, *said, *session;
} rows[] = {
    {&claude_protocol,
     "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"de6c\",\"new_member\":{\"a\":[]}}\n" REPLAY
     "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\"},{"
     "\"type\":\"text\",\"text\":\"hello\"},"
     "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"Bash\",\"input\":{\"command\":\"ls\"}},"
     "{\"type\":\"tool_use\",\"id\":\"t2\",\"name\":\"Todo\",\"input\":{\"x\":[1]}}]},\"parent_tool_use_id\":"
     "null}\n"
     "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t2\","
     "\"content\":[{\"type\":\"text\","
     "\"text\":\"bad\"}],\"is_error\":true},{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"content\":"
     "\"a\\nb\"}]}}\n"
     "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"hello\",\"usage\":{"
     "\"input_tokens\":20,"
     "\"output_tokens\":10,\"cache_read_input_tokens\":5},\"modelUsage\":{\"m2\":{}}}\n",
     "text(,,0,hello\n) tool_start(t1,Bash,1,ls) tool_start(t2,Todo,0,{\"x\":[1]}) tool_end(t2,Todo,1,bad) "
     "tool_end(t1,Bash,0,a\nb) usage(,m2,35,) END(done,0,)",
     "de6c"},
    {&claude_protocol, /* of its own: the turn goes on */
     "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"usage\":{}}\n" REPLAY
     "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"result\":\"API Error:\\n529\"}\n",
     "usage(,,0,) usage(,,0,) END(done,1,API Error: 529)", ""},
    {&claude_protocol, /* a sub-agent's words are not the answer, its tools count; an open tool ends with the turn */
     REPLAY "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"mine\"},{"
            "\"type\":\"tool_use\",\"id\":\"t\","
            "\"name\":\"Read\",\"input\":{\"file_path\":\"/x\"}}]},\"parent_tool_use_id\":\"t0\"}\n"
            "{\"type\":\"result\",\"subtype\":\"error_during_execution\",\"is_error\":true}\n",
     "tool_start(t,Read,0,/x) usage(,,0,) tool_end(t,Read,1,) END(done,1,error_during_execution)", ""},
    {&claude_protocol,
     "{\"type\":\"telepathy\"}\n{\"nothing\":1}\n{\"type\":\"rate_limit_event\"}\n[]\nbanner\n",
     "note(,,0,Claude Code said something of a kind that is not known here: telepathy) "
     "note(,,0,Claude Code said something of a kind that is not known here: ) ",
     ""},
    {&codex_protocol,
     "{\"type\":\"thread.started\",\"thread_id\":\"01a2\"}\n{\"type\":\"turn.started\"}\n"
     "{\"type\":\"item.completed\",\"item\":{\"id\":\"i0\",\"type\":\"error\",\"message\":\"careful\"}}\n"
     "{\"type\":\"item.started\",\"item\":{\"id\":\"i1\",\"type\":\"command_execution\",\"command\":\"ls\","
     "\"exit_code\":null}}\n"
     "{\"type\":\"item.completed\",\"item\":{\"id\":\"i1\",\"type\":\"command_execution\",\"command\":\"ls\","
     "\"exit_code\":2,"
     "\"aggregated_output\":\"no\\n\",\"status\":\"failed\"}}\n"
     "{\"type\":\"item.completed\",\"item\":{\"id\":\"i2\",\"type\":\"file_change\",\"changes\":[{\"path\":"
     "\"/project/a\",\"kind\":\"add\"}],"
     "\"status\":\"completed\"}}\n"
     "{\"type\":\"item.completed\",\"item\":{\"id\":\"i3\",\"type\":\"agent_message\",\"text\":\"done\"}}\n"
     "{\"type\":\"item.completed\",\"item\":{\"id\":\"i4\",\"type\":\"telepathy\"}}\n"
     "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":100,\"cached_input_tokens\":40,\"output_"
     "tokens\":7}}\n",
     "note(,,0,careful) tool_start(i1,shell,1,ls) tool_end(i1,shell,2,no\n) "
     "tool_start(i2,apply_patch,0,/project/a) "
     "tool_end(i2,apply_patch,0,) text(,,0,done\n) usage(,m1,107,) ",
     "01a2"},
    {&codex_protocol, "{\"type\":\"turn.failed\",\"error\":{\"message\":\"no\"}}\n{\"type\":\"odd\"}\n",
     "note(,,0,Codex said something of a kind that is not known here: odd) ", ""},
};

static void cut_at_every_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t at = 0; at <= strlen(rows[i].lines); at++) {
            struct scene s;
            open_scene(&s, rows[i].protocol);
            feed(s.v, rows[i].lines, at);
            assert_string_equal(buf_text(&said), rows[i].said);
            assert_string_equal(s.v->session.id, rows[i].session);
            close_scene(&s);
        }
    buf_free(&said);
}

/* Any one byte of a transcript lost or turned: something is said, nothing breaks. */
static void any_byte_changed(void **state) {
    (void)state;
    int err = dup(2), null = open("/dev/null", O_WRONLY);
    dup2(null, 2); /* each odd line outside of a turn is one in the log */
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct scene s;
        open_scene(&s, rows[i].protocol);
        for (size_t at = 0; at < strlen(rows[i].lines); at++) {
            own_free char *copy = xstrdup(rows[i].lines);
            copy[at] = (char)(copy[at] ^ 1);
            s.v->state = VENDOR_BUSY;
            feed(s.v, copy, strlen(copy));
        }
        close_scene(&s);
    }
    dup2(err, 2);
    close(err);
    close(null);
    buf_free(&said);
}

static void figures_of_a_resumed_thread_are_of_the_turn(void **state) {
    (void)state;
    struct scene s;
    open_scene(&s, &codex_protocol);
    static const char *const turns[][2] = {{"100", "usage(,m1,107,) "}, {"250", "usage(,m1,150,) "}};
    for (size_t i = 0; i < COUNT(turns); i++) {
        buf_clear(&said);
        own_free char *lines = xasprintf(
            "{\"type\":\"thread.started\",\"thread_id\":\"01a2\"}\n{\"type\":\"turn.completed\",\"usage\":"
            "{\"input_tokens\":%s,\"output_tokens\":7}}\n",
            turns[i][0]);
        feed(s.v, lines, 3);
        assert_string_equal(buf_text(&said), turns[i][1]);
    }
    close_scene(&s);
    buf_free(&said);
}

/* A tool's long result is cut, but never inside a character: a link takes no text that is no UTF-8. */
static void a_long_result_is_cut_between_characters(void **state) {
    (void)state;
    struct scene s;
    open_scene(&s, &claude_protocol);
    for (int more = 0; more < 3; more++) {
        char many[TOOL_TEXT_MAX + 1] = "";
        memset(many, 'x', (size_t)(TOOL_TEXT_MAX - 2 + more));
        own_free char *lines =
            xasprintf("{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"tool_use\",\"id\":\"t%"
                      "d\",\"name\":\"Bash\",\"input\":{}}]}}\n"
                      "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_"
                      "id\":\"t%d\",\"content\":\"%s\xc3\xa9 end\"}]}}\n",
                      more, more, many);
        buf_clear(&said);
        feed(s.v, lines, 3);
        assert_non_null(strstr(buf_text(&said), "tool_end("));
        assert_true(utf8_valid(buf_text(&said), said.len));
    }
    close_scene(&s);
    buf_free(&said);
}

static void ids_that_are_no_arguments(void **state) {
    (void)state;
    static const char *const bad[] = {"", "-rf", "a b", "a/b", "a\nb", "\xc3\xa9", "--last"};
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(session_id_ok(bad[i]));
    char longest[SESSION_ID_MAX + 2];
    memset(longest, 'a', sizeof longest - 1);
    longest[SESSION_ID_MAX + 1] = 0;
    assert_false(session_id_ok(longest));
    longest[SESSION_ID_MAX] = 0;
    assert_true(session_id_ok(longest));
    assert_true(session_id_ok("de6ce650-af32-4eec-ad12-dd8b5e0b0dd0"));
}

static void a_session_is_kept_and_read_back(void **state) {
    (void)state;
    char dir[] = "/dev/shm/unit-session-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct session s, again;
    session_open(&s, dir, "w", 3);
    assert_string_equal(s.id, "");
    assert_null(session_keep(&s, "abc", 42));
    err_t bad = session_keep(&s, "-x", 1);
    assert_non_null(bad);
    err_free(bad);
    session_open(&again, dir, "w", 3);
    assert_string_equal(again.id, "abc");
    assert_int_equal(again.number, 42);
    assert_null(session_forget(&again));
    session_close(&again);
    session_open(&again, dir, "w", 3);
    assert_string_equal(again.id, "");
    session_close(&again);
    session_close(&s);
    assert_int_equal(rmdir(dir), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(any_byte_changed),
        cmocka_unit_test(figures_of_a_resumed_thread_are_of_the_turn),
        cmocka_unit_test(a_long_result_is_cut_between_characters),
        cmocka_unit_test(ids_that_are_no_arguments),
        cmocka_unit_test(a_session_is_kept_and_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
