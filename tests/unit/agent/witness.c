/* Commands as the pinned vendors' programs wrap them, and lies. */
#include "agent/witness.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct witness *w;
static uint64_t next_row = 1;

static void tell(const char *call, const char *text, int64_t status) {
    struct msg_turn_event start = {
        .kind = bytes_of("tool_start"), .call = bytes_of(call), .status = 1, .text = bytes_of(text)};
    struct msg_turn_event end = {
        .kind = bytes_of("tool_end"), .call = bytes_of(call), .status = status, .text = bytes_of("")};
    witness_tool(w, &start);
    witness_tool(w, &end);
}

static void run(const char *how, const char *text) {
    struct bytes argv[] = {bytes_of("/bin/bash"), bytes_of(how), bytes_of(text)};
    struct list l = {argv, 3};
    witness_ran(w, next_row, &l);
    witness_ran(w, next_row++, &l); /* told again on a new link */
}

static void expect(const char *sentence) {
    own_buf struct buf out = {0};
    witness_judge(w, &out);
    assert_string_equal(buf_text(&out), sentence);
    witness_begin(w);
}

static void with(const char *harness) {
    witness_free(w);
    w = witness_new(harness);
}

static void honest_programs(void **state) {
    (void)state;
    with("claude");
    run("-c", "env");
    run("-c", "ps aux | grep -E \"code|cursor|windsurf\" | grep -v grep");
    run("-l", "SNAPSHOT_FILE=/home/cage/.claude/shell-snapshots/snapshot-bash-1.sh\n # ls make test");
    tell("a", "ls", 0);
    tell("b", "make tools; echo 'it'\\''s'", 0);
    tell("c", "head -c 9 /dev/zero | tr \"\\0\" x", 0);
    run("-c", "source s.sh && eval 'make tools; echo '\"'\"'it'\"'\"'\\'\"'\"''\"'\"'s'\"'\"'' < /dev/null "
              "&& pwd -P >| /scratch/x");
    run("-c", "source s.sh && eval 'ls' < /dev/null && pwd -P >| /scratch/y");
    run("-c", "source s.sh && eval 'head -c 9 /dev/zero < /dev/null | tr \"\\0\" x' && pwd -P >| /scratch/z");
    expect("");
    with("codex");
    run("-lc", "if [ -z \"${BASH_ENV-}\" ] && [ -n \"${HOME-}\" ] && [ -r \"$HOME/.bashrc\" ]; then\n  . "
               "\"$HOME/.bashrc\"\nfi");
    run("-c", "set -e; . \"/home/cage/.codex/shell_snapshots/1.tmp-2\"");
    tell("a", "/bin/bash -lc 'sleep 1; echo \"x\"'", 0);
    tell("b", "/bin/bash -lc ls", 0);
    run("-c", "__CODEX=1\nexec '/bin/bash' -c 'sleep 1; echo \"x\"'");
    run("-lc", "ls");
    expect("");
    with("shell");
    run("-c", "rm -rf /");
    expect("");
}

static void lies(void **state) {
    (void)state;
    with("acp:gemini");
    tell("a", "make test", 0);
    expect("the two witnesses differ: the harness tells of 1 command that the executor never ran: make test");
    tell("a", "make test", 1); /* it failed: it need not have run */
    expect("");
    tell("a", "make test", 0);
    tell("b", "make test", 0); /* one run is not two */
    run("-c", "make test");
    expect("the two witnesses differ: the harness tells of 1 command that the executor never ran: make test");
    run("-c", "curl x\033[2J");
    run("-c", "b");
    run("-c", "c");
    run("-c", "d");
    expect("the two witnesses differ: the executor ran 4 commands that the harness does not tell of: curl "
           "x\\x1b[2J; b; c");
    for (int i = 0; i < 6; i++)
        run("-c", "env");
    expect(
        "the two witnesses differ: the executor ran 2 commands that the harness does not tell of: env; env");
}

static void ran(const char *program, const char *text) {
    struct bytes argv[] = {bytes_of(program), bytes_of("-c"), bytes_of(text)};
    witness_ran(w, next_row++, &(struct list){argv, text ? 3 : 1});
}

/* A shim is called as a shell or as git; what is called otherwise came past it, and so did what only looks like one of them. */
static void what_no_shim_asks_for_is_said(void **state) {
    (void)state;
    static const char *const odd[] = {"/usr/bin/python3", "/project/bash", "sh/x", ""};
    static const char *const shells[] = {"bash", "-bash", "/bin/dash", "/usr/bin/zsh"};
    with("claude");
    for (size_t i = 0; i < COUNT(odd); i++) {
        own_free char *want =
            xasprintf("the two witnesses differ: the harness tells of 1 command that the executor "
                      "never ran: make test; the executor ran 1 command that the harness does not "
                      "tell of: %s",
                      odd[i]);
        tell("a", "make test", 0);
        ran(odd[i], "make test");
        expect(want);
    }
    for (size_t i = 0; i < COUNT(shells); i++) {
        tell("a", "make test", 0);
        ran(shells[i], "make test");
        ran("git", NULL);
        ran("/usr/lib/git-core/git", NULL);
        expect("");
    }
}

/* A shell runs the word behind its options; one behind that, which looks known or told, is but what that word gets. */
static void words_behind_the_text_do_not_stand_for_it(void **state) {
    (void)state;
    static const char *const behind[] = {"env", "make test"};
    with("claude");
    for (size_t i = 0; i < COUNT(behind); i++) {
        struct bytes argv[] = {bytes_of("bash"), bytes_of("-c"), bytes_of("-l"), bytes_of("curl x"),
                               bytes_of(behind[i])};
        witness_ran(w, next_row++, &(struct list){argv, COUNT(argv)});
        own_free char *want = xasprintf("the two witnesses differ: the executor ran 1 command that the "
                                        "harness does not tell of: curl x %s",
                                        behind[i]);
        expect(want);
    }
}

static void many(int rows) {
    for (int i = 0; i < rows; i++) {
        char text[32];
        snprintf(text, sizeof text, "make %d.", i);
        tell("a", text, 0);
        run("-c", text);
    }
}

static void more_than_is_kept_is_said(void **state) {
    (void)state;
    static char text[65536];
    memset(text, 'x', sizeof text - 1);
    with("acp:x");
    for (int i = 0; i < 400; i++)
        run("-c", text);
    expect("the two witnesses were not compared: the commands of this turn are more than is kept");
    many(WITNESS_ROWS);
    expect("");
    many(WITNESS_ROWS + 1);
    expect("the two witnesses were not compared: the commands of this turn are more than is kept");
    memset(text, 'x', sizeof text - 1); /* few enough to be kept, and yet gibibytes to look through */
    for (int i = 0; i < 100; i++)
        run("-c", text);
    for (int i = 0; i < WITNESS_ROWS; i++)
        tell("a", "xxz", 0);
    expect("the two witnesses were not compared: the commands of this turn are more than is compared");
    witness_free(TAKE(w));
}

/* Codex puts thousands of bytes of its own before each command: 200 of those are compared all the same. */
static void a_long_text_before_each_command(void **state) {
    (void)state;
    static char before[16384];
    memset(before, 'x', sizeof before - 1);
    with("codex");
    for (int lie = 0; lie < 2; lie++) {
        for (int i = 0; i < 200; i++) {
            own_free char *told = xasprintf("/bin/bash -lc 'echo n%d'", i % 20);
            own_free char *ran = xasprintf("%s; exec /bin/bash -c 'echo n%d'", before, i % 20);
            tell("a", told, 0);
            if (!lie || i != 7)
                run("-c", ran);
        }
        expect(lie ? "the two witnesses differ: the harness tells of 1 command that the executor never ran: "
                     "/bin/bash -lc 'echo n7'"
                   : "");
    }
    witness_free(TAKE(w));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(honest_programs),
                                       cmocka_unit_test(lies),
                                       cmocka_unit_test(what_no_shim_asks_for_is_said),
                                       cmocka_unit_test(words_behind_the_text_do_not_stand_for_it),
                                       cmocka_unit_test(more_than_is_kept_is_said),
                                       cmocka_unit_test(a_long_text_before_each_command)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
