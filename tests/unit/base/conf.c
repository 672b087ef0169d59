/* Configuration: what is taken, what is refused with file and line, what is written and read back. */
#include "base/conf.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/paths.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[64];

static void good(err_t e) {
    if (e)
        fail_msg("%s", err_text(e));
}

static int set_up(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/unit-conf-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    good(paths_set(dir));
    own_free char *agents = path_of(DIR_ETC "/agents");
    good(fs_dirs(agents));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    good(fs_remove(dir));
    return 0;
}

static void put(const char *file, const char *text) {
    own_free char *path = path_of(DIR_ETC "/%s", file);
    good(fs_write(path, text, strlen(text), geteuid(), getegid(), 0644));
}

static void absent_file_is_defaults(void **state) {
    (void)state;
    own_conf_fleet struct conf_fleet c = {0};
    good(conf_fleet_read(&c));
    assert_string_equal(c.prefix, "");
    assert_string_equal(c.runtime, "");
    assert_string_equal(c.image_dir + strlen(dir), "/var/lib/agent-cage/images");
    assert_true(c.output_max == UINT64_C(64) << 20);
    assert_true(c.ask_ms == 600000 && c.idle_ms == 900000);
    assert_true(c.disk_reserve == UINT64_C(1) << 30);
}

static void fleet_is_read(void **state) {
    (void)state;
    put("agent-cage.conf", "# mine\n\nprefix = t1_\n  runtime=runc\nimage_dir = /srv/ima;ges # not a "
                           "comment\r\ndisk_reserve = 3k\n");
    own_conf_fleet struct conf_fleet c = {0};
    good(conf_fleet_read(&c));
    assert_string_equal(c.prefix, "t1_");
    assert_string_equal(c.runtime, "runc");
    assert_string_equal(c.image_dir, "/srv/ima;ges # not a comment");
    assert_true(c.disk_reserve == 3072);
}

static const struct {
    const char *text, *says;
} refused[] = {
    {"prefix = a\ncolour = red\n", ":2: there is no key 'colour'"},
    {"prefix = a\nprefix = a\n", ":2: prefix is said twice"},
    {"\n\nprefix\n", ":3: not a line of the form"},
    {"prefix = Root\n", ":1: prefix must be"},
    {"image_dir = relative\n", ":1: image_dir must be an absolute path"},
    {"image_dir = /a/../b\n", ":1: image_dir must be an absolute path"},
    {"image_dir =\n", ":1: image_dir is empty"},
    {"disk_reserve = lots\n", ":1: disk_reserve: 'lots' is not a size"},
    {"disk_reserve = 9000000t\n", ":1: disk_reserve"},
    {"[fleet]\nprefix = a\n", ":2: sections are not used"},
    {"runtime = a\033b\n", ":1: runtime holds a control character"},
    {"\033]0;x\007 = 1\n", "there is no key '\\x1b]0;x\\x07'"},
};

static void refuses_with_file_and_line(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        put("agent-cage.conf", refused[i].text);
        own_conf_fleet struct conf_fleet c = {0};
        own_err err_t e = conf_fleet_read(&c);
        if (!e || !strstr(err_text(e), refused[i].says) || !strstr(err_text(e), dir))
            fail_msg("'%s' said '%s'", refused[i].text, err_text(e));
        assert_null(c.prefix);
    }
    own_free char *big = xcalloc(1, 9000);
    memset(big, 'x', 8999);
    put("agent-cage.conf", big);
    own_conf_fleet struct conf_fleet c = {0};
    own_err err_t e = conf_fleet_read(&c);
    assert_non_null(strstr(err_text(e), ":1: longer than"));
}

static struct conf_agent some(void) {
    return (struct conf_agent){.name = xstrdup("demo"),
                               .mode = MODE_BARE,
                               .harness = xstrdup("shell"),
                               .project = xstrdup("/srv/ä b;c"),
                               .model = xstrdup(""),
                               .upstream = xstrdup("http://x:1/"),
                               .net = NET_NONE,
                               .memory = UINT64_C(4) << 30,
                               .cpus = 1500,
                               .pids = 2048,
                               .uid_base = 0x70010000,
                               .created_wall_ms = 1234567890123};
}

static void agent_round_trip(void **state) {
    (void)state;
    own_conf_agent struct conf_agent a = some(), b = {0};
    good(conf_agent_write(&a));
    good(conf_agent_read("demo", &b));
    assert_string_equal(b.name, "demo");
    assert_string_equal(b.project, a.project);
    assert_string_equal(b.upstream, a.upstream);
    assert_string_equal(b.model, "");
    assert_true(b.mode == a.mode && b.net == a.net && b.memory == a.memory && b.cpus == a.cpus &&
                b.pids == a.pids && b.uid_base == a.uid_base && b.created_wall_ms == a.created_wall_ms);
    good(conf_agent_remove("demo"));
    own_conf_agent struct conf_agent c = {0};
    own_err err_t e = conf_agent_read("demo", &c);
    assert_int_equal(e->status, EXIT_NOTFOUND);
    own_err err_t name = conf_agent_read("../demo", &c);
    assert_int_equal(name->status, EXIT_USAGE);
}

static void writes_only_what_it_would_read(void **state) {
    (void)state;
    static const char *const projects[] = {"", "relative", "/a\nmode = pod", " /a", "/a ", "/a/..", "/a\033"};
    for (size_t i = 0; i < COUNT(projects); i++) {
        own_conf_agent struct conf_agent a = some();
        free(a.project);
        a.project = xstrdup(projects[i]);
        own_err err_t e = conf_agent_write(&a);
        if (!e)
            fail_msg("'%s' was written", projects[i]);
    }
    own_conf_agent struct conf_agent odd = some();
    odd.uid_base = 1000;
    own_err err_t e = conf_agent_write(&odd);
    assert_non_null(e);
    own_free char *path = path_of(DIR_ETC "/agents/demo.conf");
    assert_int_equal(access(path, F_OK), -1);
    own_conf_agent struct conf_agent most = some();
    free(most.project);
    most.project = xcalloc(1, 4096);
    memset(most.project, 'p', 4095);
    most.project[0] = '/';
    good(conf_agent_write(&most));
    own_conf_agent struct conf_agent back = {0};
    good(conf_agent_read("demo", &back));
    assert_string_equal(back.project, most.project);
}

static void names_are_sorted_and_only_names(void **state) {
    (void)state;
    static const char *const files[] = {"agents/b.conf", "agents/a.conf", "agents/Big.conf", "agents/.conf",
                                        "agents/c.conf~"};
    for (size_t i = 0; i < COUNT(files); i++)
        put(files[i], "");
    own_names char **names = NULL;
    good(conf_agent_names(&names));
    assert_string_equal(names[0], "a");
    assert_string_equal(names[1], "b");
    assert_null(names[2]);
    good(fs_remove(dir));
    own_names char **none = NULL;
    good(conf_agent_names(&none));
    assert_null(none[0]);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(absent_file_is_defaults),        T(fleet_is_read),
        T(refuses_with_file_and_line),     T(agent_round_trip),
        T(writes_only_what_it_would_read), T(names_are_sorted_and_only_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
