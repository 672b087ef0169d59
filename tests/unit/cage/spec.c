/* The three rooms by value: mounts, limits, environment, podman's arguments; and what a spec is refused for. */
#include "cage/spec.h"
#include "cage/podman.h"
#include "cage/shells.h"

#include "base/fs.h"
#include "base/own.h"
#include "../good.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
/* after the three above */
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char root[] = "/tmp/agent-cage-spec-XXXXXX";

static void make_file(const char *path, mode_t mode) {
    own_free char *at = xasprintf("%s%s", root, path);
    own_file FILE *f = fopen(at, "we");
    assert_non_null(f);
    assert_int_equal(fchmod(fileno(f), mode), 0);
}

static void make_folder(const char *path) {
    own_free char *at = xasprintf("%s%s", root, path);
    assert_int_equal(mkdir(at, 0755), 0);
}

static void make_link(const char *to, const char *path) {
    own_free char *at = xasprintf("%s%s", root, path);
    assert_int_equal(symlink(to, at), 0);
}

/* A workbench as Debian lays it out: /bin is a link, sh is dash, rbash is bash; and things that are no shells. */
static int make_workbench(void **state) {
    (void)state;
    assert_non_null(mkdtemp(root));
    for (const char *const *d =
             (const char *const[]){"/usr", "/usr/bin", "/usr/lib", "/usr/lib/git-core", "/etc", "/opt", NULL};
         *d; d++)
        make_folder(*d);
    make_link("usr/bin", "/bin");
    make_file("/usr/bin/dash", 0755);
    make_file("/usr/bin/bash", 0755);
    make_file("/usr/bin/git", 0755);
    make_link("dash", "/usr/bin/sh");
    make_link("bash", "/usr/bin/rbash");
    make_link("../../bin/git", "/usr/lib/git-core/git");
    make_link("/etc/passwd",
              "/usr/bin/zsh");        /* leads out of the tree on the host: inside it there is no such file */
    make_link("ksh", "/usr/bin/ksh"); /* a loop */
    make_file("/usr/bin/fish", 0644); /* not a program */
    make_file("/opt/xonsh", 0755);
    own_free char *shells = xasprintf("%s/etc/shells", root);
    static const char text[] = "# comment\n/bin/sh\n/opt/xonsh\n/gone\n";
    NO_ERROR(fs_write(shells, text, sizeof text - 1, getuid(), getgid(), 0644));
    return 0;
}

static int remove_workbench(void **state) {
    (void)state;
    NO_ERROR(fs_remove(root));
    return 0;
}

static struct cage_plan plan(void) {
    return (struct cage_plan){.prefix = "t",
                              .fleet = "",
                              .agent = "demo",
                              .mode = MODE_POD,
                              .net = NET_OPEN,
                              .uid_base = 1879048192,
                              .memory = 1ull << 30,
                              .cpus = 1500,
                              .pids = 300,
                              .binary = "/lib/agent-cage",
                              .workbench = root,
                              .tree = "/images/tree",
                              .stage = "/run/stage",
                              .state = "/state/demo",
                              .shim = "/run/shim/demo",
                              .project = 9,
                              .project_uid = 1000,
                              .project_gid = 1001};
}

static void every_shell_once(void **state) {
    (void)state;
    own_words struct words found = {0};
    NO_ERROR(shells_find(root, &found));
    static const char *const want[] = {"/usr/bin/dash", "/usr/bin/bash", "/usr/bin/git", "/opt/xonsh"};
    assert_int_equal(found.n, COUNT(want));
    for (size_t i = 0; i < COUNT(want); i++)
        assert_true(words_has(&found, want[i]));
    AN_ERROR(shells_find("/gone", &found));
}

struct row {
    const char *dst;
    bool ro, noexec;
    enum cage_map map;
    uid_t owner;
};

static void assert_mounts(const struct cage_spec *s, const struct row *rows, size_t n) {
    assert_int_equal(s->nmounts, n);
    for (size_t i = 0; i < n; i++) {
        const struct cage_mount *m = &s->mounts[i];
        assert_string_equal(m->dst, rows[i].dst);
        if (m->ro != rows[i].ro || m->noexec != rows[i].noexec || m->map != rows[i].map ||
            m->owner != rows[i].owner)
            fail_msg("%s: ro %d noexec %d map %d owner %u", m->dst, m->ro, m->noexec, m->map, m->owner);
    }
}

static void agent_room(void **state) {
    (void)state;
    struct cage_plan p = plan();
    own_spec struct cage_spec s = {0};
    NO_ERROR(spec_room(&p, ROOM_AGENT, &s));
    static const struct row rows[] = {{"/cage/agent-cage", true, false, CAGE_MAP_NONE, 0},
                                      {"/home/cage", false, true, CAGE_MAP_NONE, 0},
                                      {"/inbox", false, true, CAGE_MAP_NONE, 0}};
    assert_mounts(&s, rows, COUNT(rows));
    assert_string_equal(s.rootfs, "/images/tree");
    assert_int_equal(s.net, NET_NONE); /* no upstream: no network */
    assert_int_equal(s.seccomp, SECCOMP_AGENT);
    assert_int_equal(s.ntmpfs, 0);
    assert_int_equal(s.uid, 50000);
}

static void harness_room(void **state) {
    (void)state;
    struct cage_plan p = plan();
    own_spec struct cage_spec s = {0};
    NO_ERROR(spec_room(&p, ROOM_HARNESS, &s));
    static const struct row rows[] = {
        {"/cage/agent-cage", true, false, CAGE_MAP_NONE, 0},
        {"/project", false, true, CAGE_MAP_OWNER, 1000},
        {"/scratch", false, true, CAGE_MAP_OWNER, 1879048192 + 60000},
        {"/home/cage", false, true, CAGE_MAP_NONE, 0},
        {"/inbox", true, true, CAGE_MAP_OWNER,
         1879048192 + 50000}, /* it may read a person's file, not replace it */
        {"/outbox", false, true, CAGE_MAP_OWNER, 1879048192 + 60000},
        {"/cage/shim", true, true, CAGE_MAP_NONE, 0},
        {"/usr/bin/dash", true, false, CAGE_MAP_NONE, 0},
        {"/usr/bin/bash", true, false, CAGE_MAP_NONE, 0},
        {"/usr/bin/git", true, false, CAGE_MAP_NONE, 0},
        {"/opt/xonsh", true, false, CAGE_MAP_NONE, 0},
    };
    assert_mounts(&s, rows, COUNT(rows));
    assert_int_equal(s.net, NET_NONE);
    assert_int_equal(s.seccomp, SECCOMP_SEALED);
    assert_int_equal(s.keep, 1);
    own_words struct words writable = {0};
    spec_writable(&s, &writable);
    for (size_t i = 0; i < s.nmounts; i++)
        assert_true(s.mounts[i].ro == !words_has(&writable, s.mounts[i].dst));
    for (size_t i = 0; i < s.nmounts; i++) /* nothing that can be written can be run */
        assert_true(s.mounts[i].ro || s.mounts[i].noexec);
    assert_true(s.tmpfs[0].noexec);
}

static void executor_arguments(void **state) {
    (void)state;
    struct cage_plan p = plan();
    own_spec struct cage_spec s = {0};
    own_words struct words w = {0};
    struct host h = {.runtime = "runc", .nofile = 4096, .nproc = 100, .swap_limit = true};
    struct podman_files f = {"/run/dir", "/run/dir/seccomp-pod.json", "/run/dir/x.pid"};
    NO_ERROR(spec_room(&p, ROOM_EXECUTOR, &s));
    podman_run_args(&s, &h, &f, &w);
    static const char *const want[] = {
        "podman",
        "--runtime=runc",
        "--cgroup-manager=cgroupfs",
        "--events-backend=none",
        "run",
        "--detach",
        "--interactive",
        "--cap-drop=all",
        "--security-opt=no-new-privileges",
        "--read-only",
        "--read-only-tmpfs=false",
        "--cgroupns=private",
        "--ipc=private",
        "--ulimit=core=0:0",
        "--no-hosts",
        "--no-healthcheck",
        "--passwd=false",
        "--systemd=false",
        "--sdnotify=ignore",
        "--http-proxy=false",
        "--restart=no",
        "--log-driver=none",
        "--umask=0022",
        "--security-opt=mask=/proc/interrupts:/proc/kallsyms:/proc/config.gz:/proc/modules:/proc/slabinfo:"
        "/proc/vmallocinfo:/sys/devices/virtual/dmi:/sys/kernel/debug:/sys/kernel/tracing:/sys/kernel/"
        "security:"
        "/sys/fs/bpf",
        "--name=tcage-demo.executor",
        "--hostname=demo",
        "--label=org.agent-cage.fleet=/",
        "--label=org.agent-cage.agent=demo",
        "--label=org.agent-cage.room=executor",
        "--label=org.agent-cage.generation=1",
        "--uidmap=0:1879048192:65536",
        "--gidmap=0:1879048192:65536",
        "--user=60000:60000",
        "--ulimit=nofile=4096:4096",
        "--ulimit=nproc=100:100",
        "--shm-size=268435456b",
        "--pids-limit=300",
        "--memory=1073741824b",
        "--memory-swap=1073741824b",
        "--cpus=1.500",
        "--oom-score-adj=500",
        "--security-opt=seccomp=/run/dir/seccomp-pod.json",
        "--pidfile=/run/dir/x.pid",
        "--preserve-fds=2",
        "--network=bridge",
        "--volume=/lib/agent-cage:/cage/agent-cage:ro,nosuid,nodev,exec,bind,private",
        "--volume=/run/stage/demo.executor/1:/project:rw,nosuid,nodev,exec,bind,private",
        "--volume=/run/stage/demo.executor/2:/scratch:rw,nosuid,nodev,exec,bind,private",
        "--volume=/state/demo/executor:/home/cage:rw,nosuid,nodev,exec,bind,private",
        "--volume=/run/stage/demo.executor/4:/inbox:ro,nosuid,nodev,noexec,bind,private",
        "--volume=/run/stage/demo.executor/5:/outbox:rw,nosuid,nodev,exec,bind,private",
        "--tmpfs=/tmp:rw,nosuid,nodev,exec,size=1073741824,mode=1777,notmpcopyup",
        "--tmpfs=/var/tmp:rw,nosuid,nodev,exec,size=268435456,mode=1777,notmpcopyup",
        "--tmpfs=/run/lock:rw,nosuid,nodev,noexec,size=1048576,mode=1777,notmpcopyup",
        "--env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "--env=HOME=/home/cage",
        "--env=LANG=C.UTF-8",
        "--env=TERM=dumb",
        "--env=SHELL=/bin/bash",
        "--env=USER=executor",
        "--env=TMPDIR=/scratch",
        "--rootfs",
        "/run/stage/demo.executor/root",
        "/cage/agent-cage",
        "executor",
        "demo"};
    for (size_t i = 0; i < COUNT(want) && i < w.n; i++)
        assert_string_equal(w.w[i], want[i]);
    assert_int_equal(w.n, COUNT(want));
}

static bool has_argument(const struct cage_spec *s, const char *argument) {
    own_words struct words w = {0};
    struct host h = {.nofile = 1 << 20, .nproc = 1 << 20, .systemd = true};
    struct podman_files f = {"/d", "/s", "/p"};
    podman_run_args(s, &h, &f, &w);
    return words_has(&w, argument);
}

static const struct cage_mount *mount_on(const struct cage_spec *s, const char *dst) {
    for (size_t i = 0; i < s->nmounts; i++)
        if (!strcmp(s->mounts[i].dst, dst))
            return &s->mounts[i];
    return NULL;
}

/* What of the arguments follows the policy and the mode. */
static void policies(void **state) {
    (void)state;
    struct cage_plan p = plan();
    own_spec struct cage_spec sealed = {0}, harness = {0}, none = {0}, upstream = {0};
    p.mode = MODE_SEALED;
    p.net = NET_SEALED;
    p.outbox = &(struct cage_folder){7, 1000, 1001};
    NO_ERROR(spec_room(&p, ROOM_HARNESS, &harness));
    assert_null(mount_on(&harness, "/outbox"));
    NO_ERROR(spec_room(&p, ROOM_EXECUTOR, &sealed));
    const struct cage_spec *const below[] = {&harness, &sealed};
    for (size_t i = 0; i < COUNT(below); i++) {
        const struct cage_mount *in = mount_on(below[i], "/inbox");
        assert_non_null(in);
        assert_string_equal(in->src + strlen(in->src) - strlen("/session/inbox"), "/session/inbox");
        assert_true(in->ro && in->noexec && in->map == CAGE_MAP_OWNER);
    }
    const struct cage_mount *outbox = mount_on(&sealed, "/outbox");
    assert_non_null(outbox);
    assert_true(outbox->pin == 7 && outbox->map == CAGE_MAP_OWNER && outbox->owner == 1000 &&
                outbox->group == 1001);
    assert_int_equal(sealed.seccomp, SECCOMP_SEALED);
    assert_true(has_argument(&sealed, "--dns=1.1.1.1"));
    assert_true(has_argument(&sealed, "--dns-search=."));
    p = plan();
    p.net = NET_NONE;
    p.upstream = true;
    NO_ERROR(spec_room(&p, ROOM_EXECUTOR, &none));
    assert_true(has_argument(&none, "--network=none"));
    assert_false(has_argument(&none, "--cgroup-manager=cgroupfs"));
    NO_ERROR(spec_room(&p, ROOM_AGENT, &upstream));
    assert_true(has_argument(&upstream, "--network=bridge"));
}

static void only_this_generation_is_taken_over(void **state) {
    (void)state;
    static const struct {
        const char *says, *why;
    } rows[] = {
        {"4711 0\n", "generation 0"}, {"4711 \n", "generation 0"}, {"4711 <no value>\n", "generation 0"},
        {"4711 2\n", "generation 2"}, {"0 1\n", "does not run"},   {"what\n", "nothing that is known"}};
    pid_t pid = 0;
    for (size_t i = 0; i < COUNT(rows); i++) {
        own_err err_t e = podman_pid_of("x", rows[i].says, &pid);
        assert_non_null(e);
        if (!strstr(err_text(e), rows[i].why))
            fail_msg("\"%s\": %s", rows[i].says, err_text(e));
    }
    assert_int_equal(pid, 0);
    own_free char *ours = xasprintf("4711 %d\n", CAGE_GENERATION);
    NO_ERROR(podman_pid_of("x", ours, &pid));
    assert_int_equal(pid, 4711);
}

/* Each way to break a good spec. */
static void break_root(struct cage_spec *s) {
    free(s->rootfs), s->rootfs = xstrdup("relative");
}
static void break_colon(struct cage_spec *s) {
    spec_mount(s, "/a:b", "/x");
}
static void break_comma(struct cage_spec *s) {
    spec_mount(s, "/a,ro", "/x");
}
static void break_newline(struct cage_spec *s) {
    spec_mount(s, "/a\n", "/x");
}
static void break_twice(struct cage_spec *s) {
    spec_mount(s, "/a", "/project");
}
static void break_over_tmpfs(struct cage_spec *s) {
    spec_mount(s, "/a", "/tmp");
}
static void break_place(struct cage_spec *s) {
    spec_mount(s, "/a", "x");
}
static void break_size(struct cage_spec *s) {
    spec_tmpfs(s, "/x", 0, true);
}
static void break_uid(struct cage_spec *s) {
    s->uid = 0;
}
static void break_high_uid(struct cage_spec *s) {
    s->uid = 65536;
}
static void break_base(struct cage_spec *s) {
    s->uid_base = 0;
}
static void break_high_base(struct cage_spec *s) {
    s->uid_base = UINT32_MAX - 65536;
}
static void break_nofile(struct cage_spec *s) {
    s->nofile = 0;
}
static void break_argv(struct cage_spec *s) {
    words_free(&s->argv);
}
static void break_utf8(struct cage_spec *s) {
    words_add(&s->env, "A=\xc3\xa9");
}
static void break_filter(struct cage_spec *s) {
    s->mode = MODE_SEALED, s->seccomp = SECCOMP_POD;
}

static void what_a_spec_is_refused_for(void **state) {
    (void)state;
    static void (*const breaks[])(struct cage_spec *) = {
        break_root,   break_colon, break_comma, break_newline,  break_twice, break_over_tmpfs,
        break_place,  break_size,  break_uid,   break_high_uid, break_base,  break_high_base,
        break_nofile, break_argv,  break_utf8,  break_filter};
    for (size_t i = 0; i < COUNT(breaks); i++) {
        struct cage_plan p = plan();
        own_spec struct cage_spec s = {0};
        NO_ERROR(spec_room(&p, ROOM_EXECUTOR, &s));
        NO_ERROR(spec_check(&s));
        breaks[i](&s);
        own_err err_t e = spec_check(&s);
        if (!e)
            fail_msg("break %zu is not seen", i);
    }
    struct cage_plan p = plan();
    own_spec struct cage_spec s = {0};
    p.agent = "../demo";
    AN_ERROR(spec_room(&p, ROOM_AGENT, &s));
}

/* Valgrind 3.19 answers ENOSYS to openat2, without which no room is made: this program is then not judged (77). */
static bool kernel_is_hidden(void) {
    struct open_how how = {.flags = O_PATH};
    return syscall(SYS_openat2, AT_FDCWD, "", &how, sizeof how) < 0 && errno == ENOSYS;
}

int main(void) {
    if (kernel_is_hidden())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shell_once),
        cmocka_unit_test(agent_room),
        cmocka_unit_test(harness_room),
        cmocka_unit_test(executor_arguments),
        cmocka_unit_test(policies),
        cmocka_unit_test(only_this_generation_is_taken_over),
        cmocka_unit_test(what_a_spec_is_refused_for),
    };
    return cmocka_run_group_tests(tests, make_workbench, remove_workbench);
}
