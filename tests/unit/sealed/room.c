/* The room of a sealed run by value: what is declared, and podman's arguments for root and for an ordinary user. */
#include "sealed/room.h"

#include "base/own.h"
#include "cage/host.h"
#include "cage/podman.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static struct cage_spec room_of(bool rootless) {
    char prefix[] = "t", label[] = "#sealed", tree[] = "/images/root";
    const struct ground g = {
        .conf = {.prefix = prefix}, .label = label, .workbench = tree, .rootless = rootless};
    const struct sealed_plan p = {.ground = &g,
                                  .session = "20260101-000000-abcd",
                                  .stage = "/run/x/stage",
                                  .uid_base = rootless ? 0 : 0x70000000,
                                  .binary = 10,
                                  .project = 11,
                                  .outbox = 12,
                                  .uid = 1000,
                                  .gid = 1000,
                                  .outbox_uid = 1001,
                                  .outbox_gid = 1001};
    struct cage_spec s;
    own_err err_t e = sealed_room(&p, &s);
    if (e)
        fail_msg("%s", err_text(e));
    return s;
}

static struct words arguments_with(const struct cage_spec *s, enum cgroup_kind kind, const char *user_net) {
    struct host h = {.nofile = 4096, .nproc = 4096, .cgroup = {.kind = kind}};
    snprintf(h.user_net, sizeof h.user_net, "%s", user_net);
    const struct podman_files f = {"/d", "/d/seccomp.json", "/d/pid"};
    struct words w = {0};
    podman_run_args(s, &h, &f, &w);
    return w;
}

static struct words arguments(const struct cage_spec *s, enum cgroup_kind kind) {
    return arguments_with(s, kind, "slirp4netns");
}

static void declared_sets(void **state) {
    (void)state;
    own_spec struct cage_spec s = room_of(false);
    own_words struct words writable = {0};
    static const char *const places[] = {"/project", "/outbox",   "/home/cage", "/tmp",
                                         "/var/tmp", "/run/lock", "/dev/shm",   "/dev/mqueue"};
    assert_int_equal(s.mode, MODE_SEALED);
    assert_int_equal(s.net, NET_SEALED);
    assert_int_equal(s.seccomp, SECCOMP_SEALED);
    assert_int_equal(s.keep, 1);
    assert_int_equal(s.nmounts, 3);
    spec_writable(&s, &writable);
    assert_int_equal(writable.n, COUNT(places));
    for (size_t i = 0; i < COUNT(places); i++)
        assert_true(words_has(&writable, places[i]));
}

static void arguments_for_root(void **state) {
    (void)state;
    own_spec struct cage_spec s = room_of(false);
    own_words struct words w = arguments(&s, CGROUP_V1);
    static const char *const want[] = {"--uidmap=0:1879048192:65536",
                                       "--user=60000:60000",
                                       "--network=bridge",
                                       "--dns=1.1.1.1",
                                       "--dns=9.9.9.9",
                                       "--dns-search=.",
                                       "--pids-limit=2048",
                                       "--memory=4294967296b",
                                       "--rm",
                                       "--cap-drop=all",
                                       "--security-opt=no-new-privileges"};
    for (size_t i = 0; i < COUNT(want); i++)
        if (!words_has(&w, want[i]))
            fail_msg("%s is not there", want[i]);
    for (size_t i = 0; i < s.nmounts; i++)
        assert_true(s.mounts[i].map == CAGE_MAP_OWNER || s.mounts[i].ro);
}

static void arguments_for_a_user(void **state) {
    (void)state;
    own_spec struct cage_spec s = room_of(true);
    own_words struct words w = arguments(&s, CGROUP_HYBRID), v2 = arguments(&s, CGROUP_V2);
    assert_true(words_has(&w, "--userns=keep-id:uid=60000,gid=60000"));
    assert_true(words_has(&w, "--network=slirp4netns"));
    assert_true(words_has(&w, "--security-opt=seccomp=/d/seccomp.json"));
    assert_true(words_has(&w, "--ulimit=nproc=2048:2048"));
    assert_false(words_has(&w, "--pids-limit=2048"));
    assert_true(words_has(&v2, "--pids-limit=2048"));
    for (size_t i = 0; i < w.n; i++)
        assert_null(strstr(w.w[i], "--uidmap"));
    for (size_t i = 0; i < s.nmounts; i++)
        assert_int_equal(s.mounts[i].map, CAGE_MAP_NONE);
}

/* By podman's version and what is installed; and with either the same rules, resolvers and everything else. */
static void what_joins_a_users_room_to_the_network(void **state) {
    (void)state;
    static const struct {
        unsigned major, minor;
        bool pasta, slirp;
        const char *want;
    } rows[] = {
        {4, 3, true, true, "slirp4netns"}, {4, 3, true, false, ""},      {4, 3, false, true, "slirp4netns"},
        {4, 4, true, true, "pasta"},       {4, 4, true, false, "pasta"}, {4, 4, false, true, "slirp4netns"},
        {4, 9, true, true, "pasta"},       {5, 0, true, true, "pasta"},  {5, 3, false, true, "slirp4netns"},
        {3, 9, true, true, "slirp4netns"}, {5, 0, false, false, ""},     {0, 0, true, true, "slirp4netns"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_string_equal(host_user_net(rows[i].major, rows[i].minor, rows[i].pasta, rows[i].slirp),
                            rows[i].want);
    own_spec struct cage_spec s = room_of(true);
    own_words struct words pasta = arguments_with(&s, CGROUP_V2, "pasta"),
                           slirp = arguments_with(&s, CGROUP_V2, "slirp4netns");
    assert_int_equal(pasta.n, slirp.n);
    for (size_t i = 0; i < pasta.n; i++)
        if (strcmp(pasta.w[i], slirp.w[i])) {
            assert_string_equal(pasta.w[i], "--network=pasta");
            assert_string_equal(slirp.w[i], "--network=slirp4netns");
        }
    assert_true(words_has(&pasta, "--network=pasta") && words_has(&pasta, "--dns=1.1.1.1"));
    assert_int_equal(s.net, NET_SEALED);
}

static void a_map_in_a_users_room_is_refused(void **state) {
    (void)state;
    own_spec struct cage_spec s = room_of(true);
    s.mounts[1].map = CAGE_MAP_OWNER;
    own_err err_t e = spec_check(&s);
    assert_non_null(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(declared_sets),
        cmocka_unit_test(arguments_for_root),
        cmocka_unit_test(arguments_for_a_user),
        cmocka_unit_test(what_joins_a_users_room_to_the_network),
        cmocka_unit_test(a_map_in_a_users_room_is_refused),
    };
    return cmocka_run_group_tests_name("sealed/room", tests, NULL, NULL);
}
