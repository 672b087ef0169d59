/* What passes from the harness's environment: the list, and nothing that only looks like it. */
#include "shim/environ.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static struct bytes v[ENVIRON_MAX];

static size_t pass(const char *line) {
    char *env[] = {(char *)(uintptr_t)line, NULL};
    return environ_allowed(env, v);
}

static void test_credentials_stay(void **state) {
    (void)state;
    static const char *const never[] = {
        "ANTHROPIC_API_KEY=x",
        "ANTHROPIC_AUTH_TOKEN=x",
        "ANTHROPIC_BASE_URL=x",
        "CLAUDE_CODE_OAUTH_TOKEN=x",
        "OPENAI_API_KEY=x",
        "CODEX_API_KEY=x",
        "GITHUB_TOKEN=x",
        "AWS_SECRET_ACCESS_KEY=x",
        "npm_config__auth=x",
        "GIT_ASKPASS=x",
        "GIT_SSH_COMMAND=x",
        "GIT_CONFIG_COUNT=1",
        "GIT_CONFIG_VALUE_0=x",
        "GIT_TRACE=/x",
        "GIT_EXEC_PATH=/x",
        "HTTPS_PROXY=http://u:p@h",
        "LD_PRELOAD=/x",
        "BASH_ENV=/x",
        "ENV=/x",
        "PATH=/x",
        "HOME=/x",
        "TMPDIR=/x",
        "NODE_OPTIONS=x",
        "PYTHONSTARTUP=x",
        "SSH_AUTH_SOCK=/x",
        "A_NAME_OF_TOMORROW_KEY=x",
        "BASH_FUNC_ls%%=() { :; }",
    };
    for (size_t i = 0; i < COUNT(never); i++)
        if (pass(never[i]))
            fail_msg("%s passed", never[i]);
}

static void test_listed_pass(void **state) {
    (void)state;
    static const char *const listed[] = {
        "TERM=xterm", "LC_ALL=C",        "LC_=", "TZ=Asia/Tokyo", "CLAUDECODE=1", "GIT_AUTHOR_NAME=a b",
        "NO_COLOR=",  "LANG=de_DE.UTF-8"};
    for (size_t i = 0; i < COUNT(listed); i++) {
        assert_int_equal(pass(listed[i]), 1);
        assert_string_equal(v[0].p, listed[i]);
    }
}

static void test_looks_like_it(void **state) {
    (void)state;
    static const char *const other[] = {"TERMX=1", "TER=1", "=TERM",   "TERM",
                                        "",        "LANG",  "XLANG=1", "GIT_AUTHO=1"};
    for (size_t i = 0; i < COUNT(other); i++)
        if (pass(other[i]))
            fail_msg("%s passed", other[i]);
}

static void test_bounds(void **state) {
    (void)state;
    own_buf struct buf line = {0};
    buf_adds(&line, "TERM=");
    while (line.len < 70000)
        buf_adds(&line, "xxxxxxxxxx");
    assert_int_equal(pass(buf_text(&line)), 0);
    char *many[ENVIRON_MAX + 10];
    for (size_t i = 0; i < COUNT(many) - 1; i++)
        many[i] = (char *)(uintptr_t) "LC_X=1";
    many[COUNT(many) - 1] = NULL;
    assert_int_equal(environ_allowed(many, v), ENVIRON_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_credentials_stay),
        cmocka_unit_test(test_listed_pass),
        cmocka_unit_test(test_looks_like_it),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
