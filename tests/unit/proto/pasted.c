/* What is taken for a credential, and what is not. */
#include "proto/pasted.h"
#include "base/own.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define LONG "0123456789abcdefghijABCDEFGHIJ_-0123456789"

static const struct {
    const char *text;
    bool is;
} rows[] = {
    {"sk-ant-oat01-" LONG, true},
    {"  sk-ant-api03-" LONG "\n", true},
    {"here: sk-proj-" LONG ", thanks", true},
    {"\"sk-" LONG "\"", true},
    {"eyJhbGciOiJSUzI1NiJ9." LONG LONG ".c2lnbmF0dXJl", true},
    {"{\"claudeAiOauth\":{\"accessToken\":\"" LONG "\"}}", true},
    {"{\"tokens\": {\"refresh_token\": \"rt_" LONG "\"}}", true},
    {"token=ghp_0123456789abcdefghijABCDEFGHIJ012345", true},
    {"gho_0123456789abcdef", true},
    {"github_pat_0123456789", true},
    {"slack: xoxb-0123456789-abcdefgh", true},
    {"xoxp-0123456789-abcdefgh", true},
    {"AKIAIOSFODNN7EXAMPLE", true},
    {"glpat-0123456789abcdefghij", true},
    {"987654321:AAabcdefghijklmnopqrstuvwxyz01234567", true},
    {"https://api.telegram.org/bot987654321:AAabcdefghijklmnopqrstuvwxyz01234567/getMe", true},
    {"", false},
    {"ghp_0123456789abcde", false},
    {"987654321:AAabcdefghijklmnopqrs", false},
    {"1234567:AAabcdefghijklmnopqrstuvwxyz01234567", false},
    {"AKIA is how they begin", false},
    {"sk-", false},
    {"keys begin with sk-ant- and are long", false},
    {"task-" LONG, false}, /* in the middle of a word */
    {"eyJhbGciOiJSUzI1NiJ9", false},
    {"eyJhbGciOiJSUzI1NiJ9." LONG, false},
    {"rename \"refresh_token\" in the parser", false},
    {"abcd1234#efgh5678", false}, /* a one-time code */
    {LONG "#" LONG, false},
};

static void every_row(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        if (pasted_credential(rows[i].text, strlen(rows[i].text)) != rows[i].is)
            fail_msg("row %zu: %s", i, rows[i].text);
}

/* Cut anywhere, nothing behind the end is looked at. */
static void any_length(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t n = 0; n <= strlen(rows[i].text); n++) {
            own_free char *copy = xmalloc(n + 1);
            memcpy(copy, rows[i].text, n);
            pasted_credential(copy, n);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row), cmocka_unit_test(any_length)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
