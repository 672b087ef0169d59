/* What may be asked for a new agent: each fault has its status and one sentence; defaults are filled in. */
#include "warden/agents.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

struct row {
    const char *agent, *mode, *harness, *project, *net, *memory, *cpus, *pids;
    int status;
};

static const struct row rows[] = {
    {.agent = "demo"},
    {.agent = "demo",
     .mode = "pod",
     .harness = "shell",
     .project = "/srv/x",
     .net = "none",
     .memory = "512m",
     .cpus = "0.5",
     .pids = "64"},
    {.agent = "a-1", .mode = "bare"},
    {.agent = "", .status = EXIT_USAGE},
    {.agent = "Demo", .status = EXIT_USAGE},
    {.agent = "1demo", .status = EXIT_USAGE},
    {.agent = "../demo", .status = EXIT_USAGE},
    {.agent = "demo\n", .status = EXIT_USAGE},
    {.agent = "aaaaaaaaaaaaaaaaaaaaa", .status = EXIT_USAGE},
    {.agent = "demo", .mode = "vm", .status = EXIT_USAGE},
    {.agent = "demo", .mode = "sealed"},
    {.agent = "demo", .mode = "sealed", .harness = "claude", .net = "sealed"},
    {.agent = "demo", .mode = "sealed", .net = "none"},
    {.agent = "demo", .mode = "sealed", .net = "open", .status = EXIT_POLICY},
    {.agent = "demo", .mode = "sealed", .net = "upstream", .status = EXIT_USAGE},
    {.agent = "demo", .mode = "sealed", .harness = "codex", .status = EXIT_POLICY},
    {.agent = "demo", .mode = "sealed", .harness = "acp:x", .status = EXIT_POLICY},
    {.agent = "demo", .harness = "sh", .status = EXIT_USAGE},
    {.agent = "demo", .harness = "shell\n", .status = EXIT_USAGE},
    {.agent = "demo", .project = "src", .status = EXIT_USAGE},
    {.agent = "demo", .project = "/srv/a\nb", .status = EXIT_USAGE},
    {.agent = "demo", .net = "sealed", .status = EXIT_USAGE},
    {.agent = "demo", .net = "lan", .status = EXIT_USAGE},
    {.agent = "demo", .memory = "much", .status = EXIT_USAGE},
    {.agent = "demo", .memory = "1m", .status = EXIT_USAGE},
    {.agent = "demo", .cpus = "0", .status = EXIT_USAGE},
    {.agent = "demo", .cpus = "4096", .status = EXIT_USAGE},
    {.agent = "demo", .pids = "-1", .status = EXIT_USAGE},
    {.agent = "demo", .pids = "1", .status = EXIT_USAGE},
    {.agent = "demo", .mode = "bare", .net = "none", .status = EXIT_POLICY},
    {.agent = "demo", .mode = "bare", .memory = "1g", .status = EXIT_POLICY},
};

static void each(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct row *r = &rows[i];
        struct msg_op_new m = {bytes_of(r->agent),   bytes_of(r->mode),   bytes_of(r->harness),
                               bytes_of(r->project), bytes_of(""),        bytes_of(""),
                               bytes_of(r->net),     bytes_of(r->memory), bytes_of(r->cpus),
                               bytes_of(r->pids)};
        own_conf_agent struct conf_agent c = {0};
        own_err err_t e = agents_check(&m, &c);
        if ((e ? e->status : 0) != r->status)
            fail_msg("row %zu: status %d, not %d: %s", i, e ? e->status : 0, r->status, err_text(e));
        if (e)
            assert_null(strchr(err_text(e), '\n'));
        else
            assert_string_equal(c.name, r->agent);
    }
}

static void defaults(void **state) {
    (void)state;
    struct bytes none = bytes_of("");
    struct msg_op_new m = {bytes_of("demo"), none, none, none, none, none, none, none, none, none};
    own_conf_agent struct conf_agent c = {0};
    assert_null(agents_check(&m, &c));
    assert_int_equal(c.mode, MODE_POD);
    assert_int_equal(c.net, NET_OPEN);
    assert_string_equal(c.harness, "shell");
    assert_int_equal(c.memory, UINT64_C(4) << 30);
    assert_int_equal(c.pids, 2048);
    assert_null(agents_trade(&c));
    c.mode = MODE_BARE;
    assert_non_null(strstr(agents_trade(&c), "no sandbox"));
    assert_non_null(strstr(agents_trade(&c), "no egress control"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each), cmocka_unit_test(defaults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
