/* What is taken for a sealed-token, and how it is kept. */
#include "warden/sealed_token.h"
#include "../scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { QUOTE_LEAST = 5 };

static void saved(void **state) {
    (void)state;
    AS_ROOT();
    char harness[] = "claude", upstream[] = "anthropic+https://api.anthropic.com", none[] = "";
    struct conf_agent sealed = {.mode = MODE_SEALED, .harness = harness, .upstream = upstream},
                      pod = {.mode = MODE_POD, .harness = harness, .upstream = upstream},
                      shell = {.mode = MODE_SEALED, .upstream = none};
    assert_true(sealed_token_lacks(&sealed));
    assert_false(sealed_token_lacks(&pod));
    assert_false(sealed_token_lacks(&shell));
    for (const char *const *bad =
             (const char *const[]){"", " \n", "brief", "two words", "a\ttab-in-it", "caf\xc3\xa9-token",
                                   "x\x7f-delete", "{\"claudeAiOauth\":{\"accessToken\":\"a\"}}", NULL};
         *bad; bad++) {
        own_err err_t e = sealed_token_save(bytes_of(*bad));
        assert_non_null(e);
        assert_int_equal(e->status, EXIT_USAGE);
        if (strlen(*bad) >= QUOTE_LEAST) /* what was almost a token is said nowhere */
            assert_null(strstr(err_text(e), *bad));
    }
    assert_true(sealed_token_lacks(&sealed));
    assert_null(sealed_token_save(bytes_of("  sk-ant-oat01-first\n")));
    assert_null(sealed_token_save(bytes_of("sk-ant-oat01-second\n")));
    assert_false(sealed_token_lacks(&sealed));
    own_free char *path = path_of(DIR_LIB "/warden/sealed-token"), *line = NULL;
    struct stat st;
    assert_null(fs_read_line(path, &line));
    assert_string_equal(line, "sk-ant-oat01-second");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(saved, scratch_fleet_up, scratch_fleet_down)};
    return cmocka_run_group_tests_name("warden/sealed_token", tests, NULL, NULL);
}
