/* The Telegram front's pure parts: pieces of long text, and updates out of JSON that anybody may have caused. */
#include "base/own.h"
#include "relay/telegram/bot.h"
#include "relay/telegram/pieces.h"
#include "relay/telegram/update.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct bytes b(const char *s) {
    return bytes_of(s);
}

static void units_are_those_of_utf16(void **state) {
    (void)state;
    assert_int_equal(pieces_units(b("")), 0);
    assert_int_equal(pieces_units(b("abc")), 3);
    assert_int_equal(pieces_units(b("äöü€")), 4);
    assert_int_equal(pieces_units(b("😀")), 2);
    assert_int_equal(pieces_units(b("a😀b")), 4);
}

static void hostile_text_is_tamed(void **state) {
    (void)state;
    own_buf struct buf out = {0}, blank = {0};
    pieces_tame(&out, b("\x1b[31m TG://user?id=1 \xe2\x80\xae \xe2\x80\x8b <b>"));
    assert_null(strstr(buf_text(&out), "\x1b"));
    assert_null(strstr(buf_text(&out), "TG://"));
    assert_null(strstr(buf_text(&out), "\xe2\x80\xae"));
    assert_null(strstr(buf_text(&out), "\xe2\x80\x8b"));
    assert_non_null(strstr(buf_text(&out), "<b>"));
    pieces_tame(&blank, b(" \n\t"));
    assert_string_equal(buf_text(&blank), "(nothing)");
}

/* All pieces, each within its bound; joined without what fences added. */
static void cut(const char *text, size_t units, struct buf *all, unsigned *ret_n) {
    struct bytes rest = b(text);
    char fence[PIECES_FENCE_MAX] = "";
    own_buf struct buf piece = {0};
    for (*ret_n = 0; pieces_next(&rest, units, fence, &piece); ++*ret_n) {
        assert_true(pieces_units((struct bytes){piece.p, piece.len}) <= units);
        buf_add(all, piece.p, piece.len);
        buf_clear(&piece);
    }
}

static void pieces_lose_nothing(void **state) {
    (void)state;
    static const char *const units[] = {"word ", "line\n", "para\n\n", "😀", "x", "ä"};
    for (size_t u = 0; u < COUNT(units); u++) {
        own_buf struct buf text = {0}, all = {0};
        unsigned n;
        for (int i = 0; i < 3000; i++)
            buf_adds(&text, units[u]);
        cut(buf_text(&text), 200, &all, &n);
        assert_string_equal(buf_text(&all), buf_text(&text));
        assert_true(n > 10);
    }
}

static void pieces_end_where_lines_end(void **state) {
    (void)state;
    struct bytes rest = b(
        "one line\nanother line\nthe third one that is longer than the rest of the room, by far and away\n");
    char fence[PIECES_FENCE_MAX] = "";
    own_buf struct buf piece = {0};
    assert_true(pieces_next(&rest, 64, fence, &piece));
    assert_string_equal(buf_text(&piece), "one line\nanother line\n");
}

static void fences_are_closed_and_opened_again(void **state) {
    (void)state;
    own_buf struct buf text = {0}, piece = {0};
    buf_adds(&text, "before\n```c\n");
    for (int i = 0; i < 60; i++)
        buf_adds(&text, "int x;\n");
    buf_adds(&text, "```\nafter\n");
    struct bytes rest = {text.p, text.len};
    char fence[PIECES_FENCE_MAX] = "";
    for (int i = 0; pieces_next(&rest, 200, fence, &piece); i++) {
        unsigned marks = 0;
        for (const char *p = buf_text(&piece); (p = strstr(p, "```")); p += 3)
            marks++;
        assert_int_equal(marks % 2, 0);
        assert_true(i == 0 || rest.len == 0 || !strncmp(buf_text(&piece), "```c\n", 5));
        buf_clear(&piece);
    }
}

/* ---- updates ---- */

static struct update parse(const char *json, bool good) {
    json_t *j = json_loads(json, JSON_ALLOW_NUL, NULL);
    struct update u = {.id = -1};
    assert_non_null(j);
    assert_int_equal(update_parse(j, &u), good);
    u.text = u.data = u.press = (struct bytes){0};
    json_decref(j);
    return u;
}

#define UPDATE(what, more)                                                                                   \
    "{\"update_id\":7,\"" what "\":{\"message_id\":3,\"chat\":{\"id\":5,\"type\":\"private\"},\"from\":{"    \
    "\"id\":5}" more "}}"
#define MESSAGE(more) UPDATE("message", more)
#define EDITED(more) UPDATE("edited_message", more)

static void what_is_a_command_and_what_is_not(void **state) {
    (void)state;
    static const struct {
        const char *json;
        enum update_kind kind;
    } rows[] = {
        {MESSAGE(",\"text\":\"hi\""), UPDATE_TEXT},
        {MESSAGE(",\"text\":\"hi\",\"forward_origin\":{}"), UPDATE_SECOND},
        {MESSAGE(",\"text\":\"hi\",\"forward_date\":1"), UPDATE_SECOND},
        {MESSAGE(",\"text\":\"hi\",\"via_bot\":{}"), UPDATE_SECOND},
        {MESSAGE(",\"text\":\"hi\",\"sender_chat\":{}"), UPDATE_SECOND},
        {MESSAGE(",\"text\":\"\""), UPDATE_OTHER},
        {MESSAGE(",\"text\":7"), UPDATE_OTHER},
        {MESSAGE(",\"text\":\"a\\u0000b\""), UPDATE_OTHER},
        {MESSAGE(",\"document\":{}"), UPDATE_OUTSIDE},
        {MESSAGE(",\"voice\":{\"file_id\":\"F\"}"), UPDATE_FILE},
        {MESSAGE(",\"voice\":{\"file_id\":\"F\"},\"forward_date\":1"), UPDATE_SECOND},
        {MESSAGE(",\"text\":7,\"caption\":\"hi\""), UPDATE_OTHER},
        {MESSAGE(",\"sticker\":{\"file_id\":\"F\"}"), UPDATE_OUTSIDE},
        {MESSAGE(",\"paid_media\":{},\"caption\":\"/stop\""), UPDATE_OUTSIDE},
        {MESSAGE(",\"of_some_later_year\":{},\"caption\":\"/stop\""), UPDATE_OUTSIDE},
        {MESSAGE(",\"pinned_message\":{}"), UPDATE_OTHER},
        {MESSAGE(",\"document\":{\"file_id\":7}"), UPDATE_OUTSIDE},
        {MESSAGE(",\"document\":{\"file_id\":\"F\"}"), UPDATE_FILE},
        {MESSAGE(",\"document\":{\"file_id\":\"F\"},\"caption\":\"/stop\""), UPDATE_FILE},
        {MESSAGE(",\"document\":{\"file_id\":\"F\"},\"forward_origin\":{}"), UPDATE_SECOND},
        {MESSAGE(",\"photo\":[{\"file_id\":\"F\",\"width\":1,\"height\":1}],\"via_bot\":{}"), UPDATE_SECOND},
        {MESSAGE(",\"photo\":[]"), UPDATE_OUTSIDE},
        {MESSAGE(",\"photo\":[7,{\"file_id\":\"F\"}]"), UPDATE_OUTSIDE},
        {"{\"update_id\":7,\"edited_message\":{\"message_id\":3,\"text\":\"x\"}}", UPDATE_OTHER},
        {EDITED(",\"text\":\"/stop\""), UPDATE_EDITED},
        {EDITED(",\"document\":{\"file_id\":\"F\"},\"caption\":\"/stop\""), UPDATE_EDITED},
        {EDITED(",\"text\":\"x\",\"via_bot\":{}"), UPDATE_EDITED},
        {EDITED(",\"migrate_to_chat_id\":-9"), UPDATE_EDITED},
        {"{\"update_id\":7,\"message\":{\"message_id\":3,\"chat\":{\"id\":5,\"type\":\"private\"},\"from\":{"
         "\"id\":6},\"text\":\"x\"}}",
         UPDATE_OTHER},
        {"{\"update_id\":7,\"message\":{\"message_id\":3,\"chat\":{\"id\":\"5\",\"type\":\"private\"},"
         "\"from\":{\"id\":5},\"text\":\"x\"}}",
         UPDATE_OTHER},
        {"{\"update_id\":7,\"message\":{\"message_id\":3,\"chat\":{\"id\":-5,\"type\":\"channel\"},\"from\":{"
         "\"id\":5},\"text\":\"x\"}}",
         UPDATE_OTHER},
        {"{\"update_id\":7,\"message\":{\"chat\":{\"id\":-5},\"migrate_to_chat_id\":-9}}", UPDATE_MIGRATED},
        {"{\"update_id\":7,\"callback_query\":{\"id\":\"1\",\"from\":{\"id\":5},\"data\":\"k\",\"inline_"
         "message_id\":\"x\"}}",
         UPDATE_OTHER},
        {"{\"update_id\":7,\"callback_query\":{\"id\":\"1\",\"from\":{\"id\":5},\"data\":\"k\"}}",
         UPDATE_OTHER},
        {"{\"update_id\":7,\"callback_query\":{\"id\":\"1\",\"from\":{\"id\":5},\"data\":\"k\",\"message\":{"
         "\"message_id\":1,\"chat\":{\"id\":5,"
         "\"type\":\"private\"}}}}",
         UPDATE_PRESS},
        {"{\"update_id\":7,\"my_chat_member\":{\"chat\":{\"id\":-5},\"from\":{\"id\":5},\"new_chat_member\":{"
         "\"status\":\"member\"}}}",
         UPDATE_JOINED},
        {"{\"update_id\":7,\"my_chat_member\":{\"chat\":{\"id\":-5},\"from\":{\"id\":5},\"new_chat_member\":{"
         "\"status\":\"kicked\"}}}",
         UPDATE_LEFT},
        {"{\"update_id\":7,\"poll\":{}}", UPDATE_OTHER},
        {"{\"update_id\":7,\"message\":[]}", UPDATE_OTHER},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(parse(rows[i].json, true).kind, rows[i].kind);
}

static void which_file_it_is(void **state) {
    (void)state;
    static const struct {
        const char *json, *id, *name, *caption;
        uint64_t size;
    } rows[] = {
        {MESSAGE(
             ",\"document\":{\"file_id\":\"F\",\"file_name\":\"../x\",\"file_size\":9},\"caption\":\"look\""),
         "F", "../x", "look", 9},
        {MESSAGE(",\"document\":{\"file_id\":\"F\",\"file_size\":-1}"), "F", "file", "", 0},
        {MESSAGE(",\"document\":{\"file_id\":\"F\",\"file_name\":\"\"}"), "F", "", "", 0},
        {MESSAGE(",\"photo\":[{\"file_id\":\"A\",\"width\":9,\"height\":9},{\"file_id\":\"B\",\"width\":99,"
                 "\"height\":9},"
                 "{\"file_id\":\"C\",\"width\":9223372036854775807,\"height\":9}]"),
         "B", "photo.jpg", "", 0},
        {MESSAGE(",\"voice\":{\"file_id\":\"F\",\"file_size\":9},\"caption\":\"hear\""), "F", "voice.ogg",
         "hear", 9},
        {MESSAGE(",\"video\":{\"file_id\":\"F\",\"file_name\":\"a.mov\"}"), "F", "a.mov", "", 0},
        {MESSAGE(",\"video_note\":{\"file_id\":\"F\"}"), "F", "video.mp4", "", 0},
        {MESSAGE(",\"audio\":{\"file_id\":\"F\",\"file_name\":\"a.mp3\"}"), "F", "a.mp3", "", 0},
        {MESSAGE(
             ",\"animation\":{\"file_id\":\"A\"},\"document\":{\"file_id\":\"F\",\"file_name\":\"a.gif\"}"),
         "F", "a.gif", "", 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        json_t *j = json_loads(rows[i].json, JSON_ALLOW_NUL, NULL);
        struct update u;
        assert_true(update_parse(j, &u));
        assert_int_equal(u.kind, UPDATE_FILE);
        assert_string_equal(u.file_id.p, rows[i].id);
        assert_string_equal(u.name.p, rows[i].name);
        assert_string_equal(u.text.p, rows[i].caption);
        assert_int_equal(u.size, rows[i].size);
        json_decref(j);
    }
}

/* What is searched for credentials is there whatever the message is. */
static void words_of_every_kind(void **state) {
    (void)state;
    static const char *const rows[] = {MESSAGE(",\"text\":\"words\""),
                                       MESSAGE(",\"voice\":{\"file_id\":\"F\"},\"caption\":\"words\""),
                                       MESSAGE(",\"video\":{},\"caption\":\"words\""),
                                       MESSAGE(",\"sticker\":{},\"caption\":\"words\""),
                                       MESSAGE(",\"of_some_later_year\":{},\"caption\":\"words\""),
                                       MESSAGE(",\"photo\":[],\"forward_date\":1,\"caption\":\"words\""),
                                       EDITED(",\"text\":\"words\""),
                                       EDITED(",\"video\":{\"file_id\":\"F\"},\"caption\":\"words\"")};
    for (size_t i = 0; i < COUNT(rows); i++) {
        json_t *j = json_loads(rows[i], 0, NULL);
        struct update u;
        assert_true(update_parse(j, &u));
        assert_int_not_equal(u.kind, UPDATE_OTHER);
        assert_string_equal(u.text.p, "words");
        json_decref(j);
    }
}

static void where_a_file_is(void **state) {
    (void)state;
    static const char *const bad[] = {"",          "/etc/passwd", "../x", "a/../x", "a b",
                                      "a\r\nX: y", "a?b",         "a#b",  "a%2e"};
    assert_true(bot_path_ok(b("documents/file_12.tar.gz")));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(bot_path_ok(b(bad[i])));
    assert_false(bot_path_ok((struct bytes){"a\0b", 3}));
}

static void an_update_without_a_number_is_none(void **state) {
    (void)state;
    static const char *const rows[] = {"{}",
                                       "[]",
                                       "{\"update_id\":\"7\"}",
                                       "{\"update_id\":-1}",
                                       "{\"update_id\":1.5}",
                                       "{\"update_id\":9223372036854775807}"};
    for (size_t i = 0; i < COUNT(rows); i++)
        parse(rows[i], false);
}

static void what_is_a_token(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "123",
                                      "123:",
                                      "abc:AAAAAAAAAAAAAAAAAAAAAAAA",
                                      "123456789:AAAA/../AAAAAAAAAAAAAAA",
                                      "123456789:AAAAAAAAAA AAAAAAAAAAAAA",
                                      "123456789:AAAAAAAAAAAAAAAAAA\r\nX: y"};
    assert_null(bot_token_check("123456789:AAbbCC_dd-ee0123456789", 32));
    for (size_t i = 0; i < COUNT(bad); i++) {
        own_err err_t e = bot_token_check(bad[i], strlen(bad[i]));
        assert_non_null(e);
        assert_true(strlen(bad[i]) < 20 || !strstr(err_text(e), bad[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_are_those_of_utf16),
        cmocka_unit_test(hostile_text_is_tamed),
        cmocka_unit_test(pieces_lose_nothing),
        cmocka_unit_test(pieces_end_where_lines_end),
        cmocka_unit_test(fences_are_closed_and_opened_again),
        cmocka_unit_test(what_is_a_command_and_what_is_not),
        cmocka_unit_test(which_file_it_is),
        cmocka_unit_test(words_of_every_kind),
        cmocka_unit_test(where_a_file_is),
        cmocka_unit_test(an_update_without_a_number_is_none),
        cmocka_unit_test(what_is_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
