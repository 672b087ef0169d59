/* What could run later: each row of the table by a name, what is not a row, what did not change, and who looks. */
#include "sealed/aftermath.h"

#include "base/fs.h"
#include "base/own.h"
#include "../scratch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

static void folder(const char *path) {
    own_free char *part = xstrdup(path);
    for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(part, 0755);
        *slash = '/';
    }
}

static void put(const char *path, const char *text) {
    folder(path);
    own_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* A later time of change than that of anything before, however coarse the clock. */
static void tick(void) {
    usleep(20000);
}

static struct aftermath find(const struct aftermath_before *b) {
    struct aftermath a;
    own_err err_t e = aftermath_find(scratch, b, &a);
    if (e)
        fail_msg("%s", err_text(e));
    return a;
}

static const struct aftermath_finding *at(const struct aftermath *a, const char *path) {
    for (size_t i = 0; i < a->n; i++)
        if (!strcmp(a->v[i].path, path))
            return &a->v[i];
    return NULL;
}

static bool fits(const char *pattern, const char *path) {
    struct aftermath_path p = aftermath_split(path);
    bool is = aftermath_fits(pattern, &p);
    aftermath_path_free(&p);
    return is;
}

static void patterns(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *path;
        bool fits;
    } rows[] = {
        {"Makefile", "Makefile", true},
        {"Makefile", "deep/in/makefile", true},
        {"Makefile", "Makefile.x", false},
        {".git/config", "sub/.git/config", true},
        {".git/config", "x.git/config", false},
        {".git/hooks/", ".git/hooks/post-checkout", true},
        {".git/hooks/", "a/.git/hooks/b/c", true},
        {".git/hooks/", ".git/hooks", false},
        {"*.mk", "a/b.mk", true},
        {"*.mk", "a.mk/b", false},
        {".vscode/", ".vscode/tasks.json", true},
        {".vscode/", "x/.VSCode/y/z", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        if (fits(rows[i].pattern, rows[i].path) != rows[i].fits)
            fail_msg("%s and %s", rows[i].pattern, rows[i].path);
}

static const char *const planted[] = {".git/hooks/post-checkout",
                                      ".git/config",
                                      "Makefile",
                                      ".envrc",
                                      "package.json",
                                      ".vscode/tasks.json",
                                      "CLAUDE.md",
                                      "AGENTS.md",
                                      ".claude/settings.json",
                                      ".mcp.json",
                                      "sub/.gitattributes",
                                      ".github/workflows/ci.yml",
                                      "setup.py",
                                      "conftest.py",
                                      "node_modules/.bin/x",
                                      ".npmrc",
                                      ".idea/workspace.xml",
                                      "build.rs",
                                      ".devcontainer/devcontainer.json",
                                      "mise.toml",
                                      "x.desktop",
                                      "bare/hooks/post-receive",
                                      ".gitmodules",
                                      "sub/.git"};

static void an_untouched_project_gives_nothing(void **state) {
    (void)state;
    struct aftermath_before b;
    for (size_t i = 0; i < COUNT(planted); i++)
        put(planted[i], "x");
    assert_int_equal(mkfifo("fifo", 0644), 0);
    assert_null(aftermath_look(scratch, &b));
    struct aftermath a = find(&b);
    own_buf struct buf text = {0};
    aftermath_print(&a, "", 0, &text);
    assert_int_equal(a.n + a.changed + a.gone + a.skipped, 0);
    assert_string_equal(buf_text(&text), "");
    aftermath_close(&a);
    aftermath_free(&b);
}

static void what_is_planted_is_found(void **state) {
    (void)state;
    struct aftermath_before b;
    put("README", "x");
    put("main.c", "x");
    put("gone", "x");
    put(".git/hooks/pre-commit.sample", "x");
    assert_null(aftermath_look(scratch, &b));
    tick();
    for (size_t i = 0; i < COUNT(planted); i++)
        put(planted[i], "x");
    put("main.c", "changed");
    put("notes.txt", "new");
    put(".git/hooks/pre-push.sample", "x");
    assert_int_equal(unlink("gone"), 0);
    struct aftermath a = find(&b);
    for (size_t i = 0; i < COUNT(planted); i++)
        if (!at(&a, planted[i]))
            fail_msg("%s was not found", planted[i]);
    assert_int_equal(a.n, COUNT(planted));
    assert_int_equal(a.changed, COUNT(planted) + 3);
    assert_int_equal(a.gone, 1);
    aftermath_close(&a);
    aftermath_free(&b);
}

static void what_things_are(void **state) {
    (void)state;
    struct aftermath_before b;
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "sock"};
    own_fd int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    put("old", "x");
    assert_null(aftermath_look(scratch, &b));
    tick();
    assert_int_equal(symlink("/etc/passwd", "out"), 0);
    assert_int_equal(symlink("a/../../x", "up"), 0);
    assert_int_equal(symlink("sub/../old", "in"), 0);
    assert_int_equal(symlink("tools", ".vscode"), 0);
    assert_int_equal(mkfifo("fifo", 0644), 0);
    assert_int_equal(bind(s, (struct sockaddr *)&un, sizeof un), 0);
    put("setuid", "x");
    assert_int_equal(chmod("setuid", 04755), 0);
    assert_int_equal(chmod("old", 0755), 0);
    struct aftermath a = find(&b);
    static const char *const found[] = {"out", "up", "fifo", "sock", "setuid", "old", ".vscode"};
    for (size_t i = 0; i < COUNT(found); i++)
        if (!at(&a, found[i]))
            fail_msg("%s was not found", found[i]);
    assert_null(at(&a, "in"));
    assert_int_equal(a.n, COUNT(found));
    aftermath_close(&a);
    aftermath_free(&b);
}

/* A whole folder moved into the place of another: nothing in it was written, and everything in it is new there. */
static void a_moved_folder(void **state) {
    (void)state;
    struct aftermath_before b;
    put("stash/post-checkout", "x");
    put(".git/HEAD", "x");
    assert_null(aftermath_look(scratch, &b));
    tick();
    assert_int_equal(rename("stash", ".git/hooks"), 0);
    struct aftermath a = find(&b);
    assert_non_null(at(&a, ".git/hooks/post-checkout"));
    aftermath_close(&a);
    aftermath_free(&b);
}

/* The time of writing can be set back by anybody, that of the change cannot. */
static void time_set_back(void **state) {
    (void)state;
    struct aftermath_before b;
    struct stat st;
    put("Makefile", "all:");
    assert_int_equal(stat("Makefile", &st), 0);
    assert_null(aftermath_look(scratch, &b));
    tick();
    put("Makefile", "bad:");
    const struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, "Makefile", times, 0), 0);
    struct aftermath a = find(&b);
    assert_non_null(at(&a, "Makefile"));
    aftermath_close(&a);
    aftermath_free(&b);
}

static void git_keys_are_named(void **state) {
    (void)state;
    struct aftermath_before b;
    assert_null(aftermath_look(scratch, &b));
    put(".git/config",
        "[user]\n\tname = x\n[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch /tmp/x\n"
        "[Core] HooksPath=x\n[filter \"lfs\"]\n smudge = x\n[alias]\n x = !sh\n[url \"a\"]\ninsteadOf = b\n");
    struct aftermath a = find(&b);
    const struct aftermath_finding *f = at(&a, ".git/config");
    assert_non_null(f);
    assert_string_equal(f->detail, "core.fsmonitor, core.HooksPath, filter.smudge, alias.x, url.insteadOf");
    aftermath_close(&a);
    aftermath_free(&b);
}

/* A session outlives the process that began it: kept and read again, the same is said. */
static void kept_and_recalled(void **state) {
    (void)state;
    struct aftermath_before b, again;
    own_free char *file = xasprintf("%s.before", scratch_dir);
    put("a/b.c", "x");
    put("Makefile", "x");
    assert_null(aftermath_look(scratch, &b));
    assert_null(aftermath_keep(&b, file));
    assert_null(aftermath_recall(file, &again));
    assert_int_equal(again.n, b.n);
    assert_memory_equal(again.v, b.v, b.n * sizeof *b.v);
    put(".envrc", "x");
    struct aftermath a = find(&again);
    assert_int_equal(a.n, 1);
    assert_string_equal(a.v[0].path, ".envrc");
    aftermath_close(&a);
    aftermath_free(&b);
    aftermath_free(&again);
    assert_int_equal(truncate(file, 40), 0);
    own_err err_t cut = aftermath_recall(file, &again);
    assert_non_null(cut);
    unlink(file);
}

/* The first name and ".git/hooks" had one hash when it had no key (FNV-1a), and so had all that lies below them. */
static void a_name_made_to_collide(void **state) {
    (void)state;
    static const char made[] = "docs/1801-\x1e"
                               "9u\x17\xe7"
                               "B0\x1d##\x07,<\xfa"
                               "k\"\x03=Od}\xc0\x16"
                               "7";
    struct aftermath_before b;
    own_free char *hook = xasprintf("%s/post-commit", made);
    put(hook, "#!/bin/sh\n");
    put(".git/config", "");
    assert_null(aftermath_look(scratch, &b));
    assert_int_equal(rename(made, ".git/hooks"), 0);
    struct aftermath a = find(&b);
    assert_non_null(at(&a, ".git/hooks/post-commit"));
    aftermath_close(&a);
    aftermath_free(&b);
}

static void each_look_has_its_key(void **state) {
    (void)state;
    struct aftermath_before b, again;
    put("a", "x");
    put("b", "x");
    assert_null(aftermath_look(scratch, &b));
    assert_null(aftermath_look(scratch, &again));
    assert_int_equal(b.n, 2);
    assert_memory_not_equal(b.v[0].path, b.v[1].path, sizeof b.v->path);
    assert_memory_not_equal(b.key, again.key, sizeof b.key);
    for (size_t i = 0; i < b.n; i++)
        for (size_t k = 0; k < again.n; k++)
            assert_memory_not_equal(b.v[i].path, again.v[k].path, sizeof b.v->path);
    aftermath_free(&b);
    aftermath_free(&again);
}

static void deep(const char *top) {
    assert_int_equal(mkdir(top, 0755), 0);
    assert_int_equal(chdir(top), 0);
    for (int i = 0; i < COLLECT_DEPTH_MAX + 1; i++) {
        assert_int_equal(mkdir("d", 0755), 0);
        assert_int_equal(chdir("d"), 0);
    }
    assert_int_equal(chdir(scratch_dir), 0);
}

/* What was not looked into before either is left out when it is the same, and no other in its stead. */
static void skipped_is_the_same_or_said(void **state) {
    (void)state;
    struct aftermath_before b;
    deep("a");
    deep("b");
    assert_null(aftermath_look(scratch, &b));
    assert_int_equal(b.nleft, 2);
    struct aftermath a = find(&b);
    assert_int_equal(a.skipped, 0);
    aftermath_close(&a);
    assert_int_equal(rename("b", "c"), 0);
    a = find(&b);
    assert_int_equal(a.skipped, 1);
    assert_false(a.cut);
    aftermath_close(&a);
    aftermath_free(&b);
}

/* However much is planted, what is kept of it is bounded, and the rest is counted. */
static void findings_are_bounded(void **state) {
    (void)state;
    struct aftermath_before b;
    own_buf struct buf text = {0};
    assert_null(aftermath_look(scratch, &b));
    for (int i = 0; i < AFTERMATH_KEPT + 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d.mk", i);
        assert_int_equal(mknod(name, S_IFREG | 0600, 0), 0);
    }
    struct aftermath a = find(&b);
    assert_int_equal(a.n, AFTERMATH_KEPT);
    assert_int_equal(a.more, 5);
    aftermath_print(&a, "", 20, &text);
    assert_non_null(strstr(buf_text(&text), "and 502 more: a build runs what it says\n"));
    aftermath_close(&a);
    aftermath_free(&b);
}

/* Chaff does not displace what matters: the worst kinds stand first, and what falls out is told by its reason. */
static void the_worst_is_kept(void **state) {
    (void)state;
    struct aftermath_before b;
    own_buf struct buf text = {0};
    assert_null(aftermath_look(scratch, &b));
    for (int i = 0; i < 4 * AFTERMATH_KEPT; i++) {
        char name[32];
        snprintf(name, sizeof name, i % 2 ? "%d.mk" : "%d.run", i);
        assert_int_equal(mknod(name, S_IFREG | 0700, 0), 0);
    }
    for (int i = 0; i < 20; i++) {
        own_free char *name = xasprintf("z%d/.envrc", i);
        put(name, "x");
    }
    struct aftermath a = find(&b);
    assert_int_equal(a.n, 20 + 2 * AFTERMATH_KEPT);
    assert_int_equal(a.more, 2 * AFTERMATH_KEPT);
    for (size_t i = 0; i < a.n; i++)
        assert_int_equal(aftermath_rank(a.v[i].reason), i < 20 ? 1 : i < 20 + AFTERMATH_KEPT ? 2 : 3);
    aftermath_print(&a, "", 20, &text);
    assert_ptr_equal(strstr(buf_text(&text), "z0/.envrc: "), buf_text(&text));
    assert_non_null(strstr(buf_text(&text), "and 17 more: a shell or a tool"));
    assert_non_null(strstr(buf_text(&text), "and 997 more: a build runs"));
    assert_non_null(strstr(buf_text(&text), "and 997 more: a program, new or changed"));
    aftermath_close(&a);
    aftermath_free(&b);
}

/* Decoys that are loaded without being asked for as well, and stand higher up, hide nothing of what git itself runs. */
static void decoys_hide_no_hook(void **state) {
    (void)state;
    static const struct {
        const char *before, *after;
    } decoys[] = {{"CLAUDE", ".md"},     {"!", ".pth"},        {".env.", ""},
                  {"hooks/post-", ""},   {".husky/", ""},      {".git/hooks/", ""},
                  {"!", "/.git/config"}, {"!", "/.gitconfig"}, {"!", "/.gitattributes"}};
    static const char *const real[] = {".git/hooks/post-checkout", ".git/config", ".git/info/attributes"};
    struct aftermath_before b;
    own_buf struct buf text = {0}, all = {0};
    enum { EACH = 1200 };
    assert_null(aftermath_look(scratch, &b));
    for (size_t i = 0; i < COUNT(decoys); i++)
        for (int j = 0; j < EACH; j++) {
            char name[64];
            snprintf(name, sizeof name, "%s%d%s", decoys[i].before, j, decoys[i].after);
            folder(name);
            assert_int_equal(mknod(name, S_IFREG | 0600, 0), 0);
        }
    put(".GIT/CONFIG", "x"); /* what passes for git's on some other file system stands behind git's */
    put(real[0], "x");
    put(real[1], "[core]\n\thooksPath = x\n");
    put(real[2], "x");
    assert_int_equal(chmod(real[0], 04755), 0); /* nor does it hide among programs that have such a bit */
    struct aftermath a = find(&b);
    aftermath_print(&a, "", 20, &text);
    for (size_t i = 0; i < COUNT(real); i++) {
        own_free char *begins = xasprintf("%s: ", real[i]);
        if (!at(&a, real[i]) || !strstr(buf_text(&text), begins))
            fail_msg("%s is hidden:\n%s", real[i], buf_text(&text));
    }
    assert_non_null(strstr(buf_text(&text), " more: a coding agent obeys it\n"));
    assert_non_null(strstr(buf_text(&text), " more: a shell or a tool loads it on entering the folder\n"));
    assert_int_equal(a.n + a.more, COUNT(decoys) * EACH + 4 + EACH); /* with the repositories inside */
    aftermath_print(&a, "", 0, &all);
    size_t lines = 0;
    for (const char *l = buf_text(&all); (l = strchr(l, '\n')); l++)
        lines++;
    assert_true(lines > a.n); /* all that is kept, and what is not by its reason */
    aftermath_close(&a);
    aftermath_free(&b);
}

static void names_are_escaped(void **state) {
    (void)state;
    struct aftermath_before b;
    own_buf struct buf text = {0};
    assert_null(aftermath_look(scratch, &b));
    put("a\033[31m\nb.mk", "x");
    struct aftermath a = find(&b);
    aftermath_print(&a, "  ", 0, &text);
    assert_null(strchr(buf_text(&text), '\033'));
    assert_ptr_equal(strchr(buf_text(&text), '\n'), buf_text(&text) + text.len - 1);
    aftermath_close(&a);
    aftermath_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns),
        cmocka_unit_test_setup_teardown(an_untouched_project_gives_nothing, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(what_is_planted_is_found, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(what_things_are, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(a_moved_folder, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(time_set_back, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(git_keys_are_named, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(kept_and_recalled, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(a_name_made_to_collide, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(each_look_has_its_key, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(skipped_is_the_same_or_said, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(findings_are_bounded, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(the_worst_is_kept, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(decoys_hide_no_hook, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(names_are_escaped, scratch_up, scratch_down),
    };
    return cmocka_run_group_tests_name("sealed/aftermath", tests, NULL, NULL);
}
