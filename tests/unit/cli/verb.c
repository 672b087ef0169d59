/* The parser of a verb's words, and the table that it works from. */
#include "cli/verb.h"
#include "base/own.h"
#include "base/proc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static err_t parse(const char *verb, struct call *call, ...) {
    static char *words[16];
    va_list ap;
    va_start(ap, call);
    int n = 0;
    while ((words[n] = va_arg(ap, char *)))
        n++;
    va_end(ap);
    return call_parse(verb_find(verb), n, words, call);
}

static void words_and_options_in_any_order(void **state) {
    (void)state;
    struct call c;
    assert_null(parse("send", &c, "--wait", "demo", "--json", "text", NULL));
    assert_string_equal(c.args[0], "demo");
    assert_string_equal(c.args[1], "text");
    assert_string_equal(call_option(&c, "wait"), "");
    assert_string_equal(call_option(&c, "json"), "");
    assert_null(parse("send", &c, "demo", "--", "--wait", NULL));
    assert_string_equal(c.args[1], "--wait");
    assert_null(call_option(&c, "wait"));
    assert_null(parse("send", &c, "demo", "-", NULL));
    assert_string_equal(c.args[1], "-");
}

static void values(void **state) {
    (void)state;
    struct call c;
    assert_null(parse("exec", &c, "demo", "--timeout=5m", "--", "ls", "--timeout", NULL));
    assert_string_equal(call_option(&c, "timeout"), "5m");
    assert_int_equal(c.ncommand, 2);
    assert_string_equal(c.command[1], "--timeout");
    assert_null(parse("exec", &c, "--timeout", "--", "demo", "--", "ls", NULL));
    assert_string_equal(call_option(&c, "timeout"), "--");
    assert_null(parse("log", &c, "-f", "demo", NULL));
    assert_string_equal(call_option(&c, "follow"), "");
}

static void help_wants_no_other_word(void **state) {
    (void)state;
    struct call c;
    assert_null(parse("exec", &c, "--help", NULL));
    assert_true(c.help);
    assert_null(parse("exec", &c, "demo", "--", "ls", "--help", NULL));
    assert_false(c.help);
}

static void what_does_not_fit_is_one_sentence(void **state) {
    (void)state;
    static const struct {
        const char *verb, *words[4], *says;
    } rows[] = {
        {"ls", {"demo"}, "ls: one word too many: demo; see `agent-cage help ls`"},
        {"ls", {"--jason"}, "ls: no such option: --jason; see `agent-cage help ls`"},
        {"ls", {"--json=yes"}, "ls: takes no value: --json=yes; see `agent-cage help ls`"},
        {"ls", {"--json", "--json"}, "ls: given twice: --json; see `agent-cage help ls`"},
        {"ls", {"-x"}, "ls: no such option: -x; see `agent-cage help ls`"},
        {"start", {NULL}, "start: too few words: it is `agent-cage start NAME`"},
        {"exec", {"demo", "ls"}, "exec: `--` belongs before the command: ls; see `agent-cage help exec`"},
        {"exec", {"demo", "--"}, "exec: too few words: it is `agent-cage exec NAME [--timeout S] -- CMD …`"},
        {"exec",
         {"demo", "--timeout"},
         "exec: a value is missing behind --timeout; see `agent-cage help exec`"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct call c;
        own_err err_t e = parse(rows[i].verb, &c, rows[i].words[0], rows[i].words[1], rows[i].words[2],
                                rows[i].words[3], NULL);
        assert_non_null(e);
        assert_int_equal(e->status, EXIT_USAGE);
        assert_string_equal(err_text(e), rows[i].says);
    }
}

/* What other tools and the man pages rely on. */
static void the_table_is_whole(void **state) {
    (void)state;
    for (const struct verb *v = verbs; v->name; v++) {
        assert_non_null(v->run);
        assert_true(*v->help && *v->about);
        assert_null(strchr(v->help, '\n'));
        assert_ptr_equal(verb_find(v->name), v);
        for (const struct option_row *o = v->options; o->name; o++)
            assert_true(*o->help && strcmp(o->name, "help"));
    }
    own_free char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    completion_emit(f);
    fclose(f);
    assert_non_null(strstr(text, "values[--mode]='pod sealed bare'"));
    assert_null(verb_find("nonsense"));
}

/* What bash offers behind the words; `agent-cage ls` is a double's. */
static void offered(const char *words, const char *want) {
    own_free char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    completion_emit(f);
    fprintf(f,
            "agent-cage() { printf '%%s\\n' NAME ann ben; }\n"
            "COMP_WORDS=(agent-cage %s) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
            "_agent_cage\necho \"${COMPREPLY[*]}\"\n",
            words);
    fclose(f);
    own_buf struct buf out = {0};
    const char *const argv[] = {"bash", "-c", text, NULL};
    assert_null(proc_must(&(struct proc_spec){.argv = argv, .out = &out}));
    assert_string_equal(buf_text(&out), want);
}

static void bash_completes(void **state) {
    (void)state;
    offered("vers", "version\n");
    offered("stop ''", "--help ann ben\n");
    offered("outbox ''", "--help ls cat pack\n");
    offered("web log", "login logout\n");
    offered("inbox ''", "--help ls rm\n");
    offered("inbox ls a", "ann\n");
    offered("web login a", "\n");
    offered("send ann a", "\n");
    offered("telegram s", "setup status\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_options_in_any_order),
        cmocka_unit_test(values),
        cmocka_unit_test(help_wants_no_other_word),
        cmocka_unit_test(what_does_not_fit_is_one_sentence),
        cmocka_unit_test(the_table_is_whole),
        cmocka_unit_test(bash_completes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
