/* A conversation moves into a sealed cage: what goes in, what does not, what a hostile home tries, and a crash at each step. */
#include "warden/move_in.h"
#include "../scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define ID "0f0f-1234"
#define BASE 0x70000000u

static char root[64];
static struct conf_agent conf;

static char *at(const char *path) {
    return path_of(DIR_LIB "/agents/talk/%s", path);
}

static void ok(err_t e) {
    if (e)
        fail_msg("%s", err_text(e));
}

static void put(const char *path, const char *text) {
    own_free char *whole = at(path), *dir = xstrdup(whole);
    *strrchr(dir, '/') = 0;
    ok(fs_dirs(dir));
    ok(fs_write(whole, text, strlen(text), 4711, 4711, 0600));
}

static bool there(const char *path) {
    own_free char *whole = at(path);
    struct stat st;
    return !lstat(whole, &st);
}

static void text_is(const char *path, const char *want) {
    own_free char *whole = at(path);
    own_buf struct buf text = {0};
    ok(fs_read(whole, 4096, &text));
    assert_string_equal(buf_text(&text), want);
}

static int set_up(void **state) {
    (void)state;
    if (geteuid())
        return 0;
    snprintf(root, sizeof root, "/tmp/unit-move-XXXXXX");
    if (!mkdtemp(root) || chmod(root, 0755) || paths_set(root))
        return -1;
    own_free char *etc = path_of(DIR_ETC "/agents"), *lib = path_of(DIR_LIB "/agents/talk"),
                  *project = path_of("/project");
    ok(fs_dirs(etc));
    ok(fs_dirs(lib));
    ok(fs_dir(project, 4711, 4711, 0755));
    conf = (struct conf_agent){.name = xstrdup("talk"),
                               .harness = xstrdup("claude"),
                               .project = xstrdup(project),
                               .model = xstrdup(""),
                               .upstream = xstrdup("anthropic+https://api.anthropic.com"),
                               .credential = xstrdup("persist"),
                               .budget = xstrdup(""),
                               .memory = 1u << 30,
                               .pids = 64,
                               .uid_base = BASE};
    ok(conf_agent_write(&conf));
    put("harness/session-claude-2", ID " 3\n");
    put("harness/.claude/projects/-project/" ID ".jsonl", "the running one");
    put("harness/.claude/projects/-project/other.jsonl", "another");
    put("harness/.claude/settings.json", "{}");
    put("agent/sessions", "2 100 100 3 4 the one\n1 50 50 9 9 another\n");
    put("executor/mine", "x");
    put("scratch/mine", "x");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    if (geteuid())
        return 0;
    conf_agent_free(&conf);
    return fs_remove(root) ? -1 : 0;
}

static void is_sealed(bool want) {
    own_conf_agent struct conf_agent c = {0};
    ok(conf_agent_read("talk", &c));
    assert_int_equal(c.mode, want ? MODE_SEALED : MODE_POD);
    assert_int_equal(c.net, want ? NET_SEALED : NET_OPEN);
    assert_string_equal(c.credential, want ? "sealed-token" : "persist");
    assert_int_equal(c.pids, 64);
}

static void moved_whole(void) {
    struct stat st;
    own_free char *transcript = at("harness/.claude/projects/-project/" ID ".jsonl"), *away = at("unsealed");
    text_is("harness/.claude/projects/-project/" ID ".jsonl", "the running one");
    text_is("harness/session-claude-2", ID " 0\n");
    assert_int_equal(stat(transcript, &st), 0);
    assert_int_equal(st.st_uid, BASE + room_uid(ROOM_HARNESS));
    assert_false(there("harness/.claude/projects/-project/other.jsonl") ||
                 there("harness/.claude/settings.json"));
    assert_false(there("executor/mine") || there("scratch/mine") || there("sealing") || there("sealing.new"));
    assert_true(there("unsealed/harness/.claude/projects/-project/other.jsonl") &&
                there("unsealed/executor/mine"));
    assert_int_equal(stat(away, &st), 0);
    assert_true(st.st_uid == 0 && (st.st_mode & 07777) == 0700);
    text_is("agent/sessions", "2 100 100 3 4 the one\n");
    ok(move_in_finished("talk"));
    is_sealed(true);
}

static void one_transcript_and_no_other(void **state) {
    (void)state;
    AS_ROOT();
    char text[400];
    ok(move_in(&conf, text));
    assert_non_null(strstr(text, "and no other"));
    moved_whole();
}

static void without_a_conversation(void **state) {
    (void)state;
    AS_ROOT();
    char text[400];
    own_free char *session = at("harness/session-claude-2");
    ok(fs_remove(session));
    ok(move_in(&conf, text));
    assert_non_null(strstr(text, "no conversation yet"));
    assert_false(there("harness/.claude") || there("harness/session-claude-2"));
    is_sealed(true);
}

/* The home was a harness's: what it left to lead the move elsewhere is refused, and nothing has changed. */
static void hostile_homes(void **state) {
    (void)state;
    AS_ROOT();
    char text[400];
    own_free char *session = at("harness/session-claude-2"),
                  *one = at("harness/.claude/projects/-project/" ID ".jsonl"), *secret = path_of("/secret"),
                  *projects = at("harness/.claude/projects/-project"), *elsewhere = path_of("/elsewhere"),
                  *theirs = path_of("/elsewhere/" ID ".jsonl");
    ok(fs_write(secret, "root's", 6, 0, 0, 0600));
    ok(fs_dirs(elsewhere));
    ok(fs_write(theirs, "root's", 6, 0, 0, 0600));
    for (int trick = 0; trick < 6; trick++) {
        put("harness/session-claude-2", trick == 0   ? "../../other 1\n"
                                        : trick == 1 ? "-rf 1\n/\n"
                                        : trick == 2 ? "a/../other\n"
                                                     : ID " 1\n");
        if (trick > 2)
            ok(fs_remove(trick == 5 ? projects : one));
        if (trick == 3)
            assert_int_equal(symlink(secret, one), 0);
        if (trick == 4)
            assert_int_equal(link(secret, one), 0);
        if (trick == 5)
            assert_int_equal(symlink(elsewhere, projects), 0);
        own_err err_t e = move_in(&conf, text);
        assert_non_null(e);
        assert_false(there("sealing") || there("sealing.new") || there("unsealed"));
        is_sealed(false);
    }
    ok(fs_remove(session));
    assert_int_equal(symlink(secret, session), 0);
    own_err err_t e = move_in(&conf, text);
    assert_non_null(e);
    put("agent/sessions", "../../x\n");
    own_err err_t list = move_in(&conf, text);
    assert_non_null(list);
    is_sealed(false);
}

static void what_may_not_be_sealed(void **state) {
    (void)state;
    AS_ROOT();
    char text[400];
    own_free char *keys = path_of("/project/.ssh"), *project = path_of("/project");
    ok(fs_dir(keys, 4711, 4711, 0700));
    own_err err_t holds = move_in(&conf, text);
    assert_int_equal(holds->status, EXIT_POLICY);
    ok(fs_remove(keys));
    ok(fs_dir(project, 0, 0, 0755));
    own_err err_t roots = move_in_check(&conf);
    assert_int_equal(roots->status, EXIT_POLICY);
    ok(fs_dir(project, 4711, 4711, 0755));
    conf.mode = MODE_BARE;
    own_err err_t bare = move_in_check(&conf);
    assert_int_equal(bare->status, EXIT_POLICY);
    conf.mode = MODE_POD;
    free(conf.harness);
    conf.harness = xstrdup("codex");
    own_err err_t codex = move_in_check(&conf);
    assert_int_equal(codex->status, EXIT_POLICY);
    is_sealed(false);
}

/* After the commit: however many of the three were swapped when it crashed, the rest is; before that no room may start. */
static void a_crash_after_the_commit(void **state) {
    (void)state;
    AS_ROOT();
    char text[400];
    ok(move_in(&conf, text));
    static const char *const homes[] = {"harness", "executor", "scratch"};
    for (size_t swapped = 0; swapped < COUNT(homes); swapped++) {
        own_free char *sealing = at("sealing");
        ok(fs_dir(sealing, 0, 0, 0700));
        for (size_t i = swapped; i < COUNT(homes); i++) { /* as it was before this one's turn */
            own_free char *fresh = xasprintf("%s/%s", sealing, homes[i]), *place = at(homes[i]),
                          *unsealed = xasprintf("unsealed/%s", homes[i]), *old = at(unsealed);
            assert_int_equal(rename(place, fresh), 0);
            if (i > swapped || swapped % 2) /* else the old one was moved away already */
                assert_int_equal(rename(old, place), 0);
        }
        own_err err_t waits = move_in_finished("talk");
        assert_non_null(waits);
        put("agent/sessions", "2 100 100 3 4 the one\n1 50 50 9 9 another\n");
        ok(move_in_finish(&conf));
        moved_whole();
    }
    ok(move_in_finish(&conf)); /* nothing to do */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_transcript_and_no_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_conversation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_homes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_may_not_be_sealed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_crash_after_the_commit, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("warden/move_in", tests, NULL, NULL);
}
