/* Credentials that run out: the vendors' files, ours, and what is none; answers of token endpoints. */
#include "agent/gateway/oauth.h"
#include "base/own.h"
#include "../good.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* {"a":1} . {"exp":1767225600} . c2ln */
#define JWT "eyJhIjoxfQ.eyJleHAiOjE3NjcyMjU2MDB9.c2ln"

static const char claude[] =
    "{\"claudeAiOauth\":{\"accessToken\":\"sk-ant-oat01-a\",\"refreshToken\":\"sk-ant-ort01-r\","
    "\"expiresAt\":1767225600123,\"scopes\":[\"user:inference\",\"user:profile\"],\"subscriptionType\":"
    "\"max\"}}";
static const char codex[] =
    "{\"OPENAI_API_KEY\":null,\"tokens\":{\"id_token\":\"" JWT "\",\"access_token\":\"" JWT
    "\",\"refresh_token\":\"rt-1\",\"account_id\":\"acc\"},\"last_refresh\":\"2026-01-01T00:00:00Z\"}";

static void the_vendors_files(void **state) {
    (void)state;
    own_oauth struct oauth a = {0}, b = {0}, key = {0};
    NO_ERROR(oauth_read(ANTHROPIC, claude, sizeof claude - 1, &a));
    assert_string_equal(a.access, "sk-ant-oat01-a");
    assert_string_equal(a.refresh, "sk-ant-ort01-r");
    assert_string_equal(a.scopes, "user:inference user:profile");
    assert_true(a.expires_ms == INT64_C(1767225600123));
    NO_ERROR(oauth_read(OPENAI, codex, sizeof codex - 1, &b));
    assert_string_equal(b.access, JWT);
    assert_string_equal(b.account, "acc");
    assert_true(b.expires_ms == INT64_C(1767225600000));
    static const char with_key[] = "{\"OPENAI_API_KEY\":\"sk-proj-1\"}";
    NO_ERROR(oauth_read(OPENAI, with_key, sizeof with_key - 1, &key));
    assert_true(key.is_key);
    assert_string_equal(key.access, "sk-proj-1");
}

static void kept_and_read_again(void **state) {
    (void)state;
    own_oauth struct oauth a = {0}, b = {0};
    NO_ERROR(oauth_read(OPENAI, codex, sizeof codex - 1, &a));
    own_text char *text = oauth_text(&a);
    NO_ERROR(oauth_read(OPENAI, text, strlen(text), &b));
    assert_int_equal(b.form, a.form);
    assert_string_equal(b.access, a.access);
    assert_string_equal(b.refresh, a.refresh);
    assert_string_equal(b.account, a.account);
    assert_string_equal(b.scopes, a.scopes);
    assert_true(b.expires_ms == a.expires_ms);
}

static void what_is_none(void **state) {
    (void)state;
    static const struct {
        enum vendor vendor;
        const char *text;
    } rows[] = {
        {ANTHROPIC, "{"},
        {ANTHROPIC, "{}"},
        {ANTHROPIC, "{\"claudeAiOauth\":{}}"},
        {ANTHROPIC, "{\"claudeAiOauth\":{\"accessToken\":\"a\"}}"},
        {ANTHROPIC, "{\"claudeAiOauth\":{\"accessToken\":1,\"refreshToken\":[]}}"},
        {ANTHROPIC, codex},
        {OPENAI, claude},
        {OPENAI, "{\"tokens\":{\"access_token\":\"a\",\"access_token\":\"b\",\"refresh_token\":\"r\"}}"},
        {OPENAI, "{\"OPENAI_API_KEY\":null}"},
        {OPENAI, "{\"form\":\"other\",\"access\":\"a\",\"refresh\":\"r\"}"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct oauth o;
        own_err err_t e = oauth_read(rows[i].vendor, rows[i].text, strlen(rows[i].text), &o);
        if (!e)
            fail_msg("row %zu was read", i);
        assert_int_equal(e->status, EXIT_USAGE);
    }
}

static void answers(void **state) {
    (void)state;
    own_oauth struct oauth old = {0}, a = {0}, b = {0};
    NO_ERROR(oauth_read(OPENAI, codex, sizeof codex - 1, &old));
    own_text char *question = oauth_question(&old);
    assert_non_null(strstr(question, "\"grant_type\":\"refresh_token\""));
    assert_non_null(strstr(question, "\"refresh_token\":\"rt-1\""));
    static const char turned[] = "{\"access_token\":\"new\",\"refresh_token\":\"rt-2\",\"expires_in\":60}";
    NO_ERROR(oauth_renewed(&old, turned, sizeof turned - 1, 1000, &a));
    assert_string_equal(a.refresh, "rt-2");
    assert_true(a.expires_ms == 61000);
    static const char same[] = "{\"access_token\":\"" JWT "\"}";
    NO_ERROR(oauth_renewed(&old, same, sizeof same - 1, 1000, &b));
    assert_string_equal(b.refresh, "rt-1");
    assert_true(b.expires_ms == INT64_C(1767225600000));
    static const char *const bad[] = {"", "[]", "{}", "{\"access_token\":\"a b\"}",
                                      "{\"access_token\":\"a\\r\\nx: y\"}"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct oauth o;
        own_err err_t e = oauth_renewed(&old, bad[i], strlen(bad[i]), 0, &o);
        assert_non_null(e);
    }
}

static void words_of_errors(void **state) {
    (void)state;
    static const char *const rows[][2] = {{"{\"error\":\"invalid_grant\"}", "invalid_grant"},
                                          {"{\"error\":{\"code\":\"token_expired\"}}", "token_expired"},
                                          {"{\"error\":{\"type\":\"a_b\"}}", "a_b"},
                                          {"{\"error\":\"<script>\"}", ""},
                                          {"<html>", ""}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char word[32];
        oauth_error(rows[i][0], strlen(rows[i][0]), word, sizeof word);
        assert_string_equal(word, rows[i][1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_vendors_files),
                                       cmocka_unit_test(kept_and_read_again), cmocka_unit_test(what_is_none),
                                       cmocka_unit_test(answers), cmocka_unit_test(words_of_errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
