/* What this program is called in hints: by its name where a shell finds that, else by the path it was called by. */
#include "cli/self.h"
#include "base/own.h"
#include "../scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static void hinted(const char *text, const char *want) {
    own_buf struct buf out = {0};
    self_hints(&out, text);
    assert_string_equal(buf_text(&out), want);
}

static void without_a_word_for_it(void **state) {
    (void)state;
    setenv("PATH", "/nonexistent::/proc", 1);
    self_called("build/agent-cage");
    assert_string_equal(self_name(), "build/agent-cage");
    hinted("run `agent-cage up`, `sudo agent-cage auth x`",
           "run `build/agent-cage up`, `sudo build/agent-cage auth x`");
    hinted("`sudo agent-cage a` `agent-cage b`", "`sudo build/agent-cage a` `build/agent-cage b`");
    hinted("agent-cage: `agent-cages ` `agent-cage` /etc/agent-cage /`agent-cage",
           "agent-cage: `agent-cages ` `agent-cage` /etc/agent-cage /`agent-cage");
    hinted("", "");
}

static void a_path_that_is_more_than_a_word(void **state) {
    (void)state;
    static const char *const odd[] = {"./\033[2J/agent-cage", "a b/agent-cage",   "./$(x)/agent-cage",
                                      "./`x`/agent-cage",     "./x;y/agent-cage", "./\n/agent-cage",
                                      "\xc2\x9b/agent-cage"};
    setenv("PATH", "/nonexistent", 1);
    for (size_t i = 0; i < COUNT(odd); i++) {
        self_called(odd[i]);
        assert_string_equal(self_name(), "agent-cage");
    }
}

/* Text of others is disarmed; what is already is not once more. */
static void printed(void **state) {
    (void)state;
    static const char hostile[] = "`agent-cage ls`\n\033[2J", disarmed[] = "`agent-cage ls` \\x1b";
    own_free char *text = NULL;
    size_t n;
    setenv("PATH", "/nonexistent", 1);
    self_called("build/agent-cage");
    FILE *f = open_memstream(&text, &n);
    self_print(f, hostile);
    self_print_plain(f, disarmed);
    fclose(f);
    assert_string_equal(text, "`build/agent-cage ls`\n\\x1b[2J`build/agent-cage ls` \\x1b");
}

static void with_one(void **state) {
    (void)state;
    own_free char *file = xasprintf("%s/agent-cage", scratch_dir),
                  *path = xasprintf("/nonexistent:%s", scratch_dir);
    own_file FILE *f = fopen(file, "w");
    assert_non_null(f);
    setenv("PATH", path, 1);
    self_called("build/agent-cage");
    assert_string_equal(self_name(), "build/agent-cage"); /* no program */
    assert_int_equal(chmod(file, 0755), 0);
    self_called("build/agent-cage");
    hinted("run `agent-cage up`", "run `agent-cage up`");
    setenv("PATH", "/nonexistent", 1);
    self_called("agent-cage");
    hinted("run `agent-cage up`", "run `agent-cage up`");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_word_for_it),
        cmocka_unit_test(a_path_that_is_more_than_a_word),
        cmocka_unit_test(printed),
        cmocka_unit_test_setup_teardown(with_one, scratch_up, scratch_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
