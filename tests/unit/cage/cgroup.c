/* Control groups on trees of files that look like a v1, a hybrid and a v2 host; and, where this host lets us, a real
 * group whose processes are killed. */
#include "cage/cgroup.h"

#include "base/fs.h"
#include "base/own.h"
#include "../good.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the three above */
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char sys[] = "/tmp/agent-cage-cgroup-XXXXXX";

static void put(const char *path, const char *text) {
    char at[400];
    snprintf(at, sizeof at, "%s%s", sys, path);
    for (char *slash = at + strlen(sys) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(at, 0755);
    }
    own_file FILE *f = fopen(at, "we");
    assert_non_null(f);
    fputs(text, f);
}

static int begin(void **state) {
    (void)state;
    memcpy(sys + strlen(sys) - 6, "XXXXXX", 6);
    return mkdtemp(sys) ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    NO_ERROR(fs_remove(sys));
    return 0;
}

#define MOUNT(place, type, options)                                                                          \
    "30 20 0:29 / " place " rw,relatime shared:9 - " type " cgroup " options "\n"
#define OTHER "25 1 254:0 / / rw - ext4 /dev/vda rw\n"

static void v2_host(void **state) {
    (void)state;
    put("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    put("/proc/self/mountinfo", OTHER MOUNT("/sys/fs/cgroup", "cgroup2", "rw,nsdelegate"));
    put("/proc/42/cgroup", "0::/libpod_parent/libpod-1\n");
    put("/sys/fs/cgroup/libpod_parent/libpod-1/memory.current", "5000\n");
    put("/sys/fs/cgroup/libpod_parent/libpod-1/memory.stat", "anon 1\ninactive_file 2000\nactive_file 7\n");
    put("/sys/fs/cgroup/libpod_parent/libpod-1/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/libpod_parent/libpod-1/memory.events", "low 0\noom 3\noom_kill 2\n");
    put("/sys/fs/cgroup/libpod_parent/libpod-1/pids.current", "7\n");
    put("/sys/fs/cgroup/libpod_parent/libpod-1/pids.max", "max\n");
    put("/sys/fs/cgroup/libpod_parent/libpod-1/cpu.stat", "usage_usec 1500\nuser_usec 9\n");
    struct cgroup_host h;
    struct cgroup_use u;
    NO_ERROR(cgroup_detect(sys, &h));
    assert_int_equal(h.kind, CGROUP_V2);
    assert_string_equal(h.v2, "/sys/fs/cgroup");
    assert_true(h.kill);
    NO_ERROR(cgroup_use(sys, 42, &u));
    assert_int_equal(u.memory, 3000);
    assert_int_equal(u.memory_max, 1073741824);
    assert_int_equal(u.pids, 7);
    assert_true(u.pids_max == UINT64_MAX);
    assert_int_equal(u.cpu_ns, 1500000);
    assert_int_equal(u.oom_kills, 2);
    put("/sys/fs/cgroup/libpod_parent/libpod-1/cgroup.freeze", "0");
    NO_ERROR(cgroup_freeze(sys, 42, true));
    own_free char *path = xasprintf("%s/sys/fs/cgroup/libpod_parent/libpod-1/cgroup.freeze", sys);
    own_free char *line = NULL;
    NO_ERROR(fs_read_line(path, &line));
    assert_string_equal(line, "1");
}

static void v1_files(const char *memory_limit) {
    put("/proc/42/cgroup", "4:memory:/a/b\n3:pids:/a/b\n2:cpu,cpuacct:/a/b\n1:name=systemd:/\n0::/\n");
    put("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "9000\n");
    put("/sys/fs/cgroup/memory/a/b/memory.stat", "inactive_file 1\ntotal_inactive_file 4000\n");
    put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", memory_limit);
    put("/sys/fs/cgroup/memory/a/b/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    put("/sys/fs/cgroup/pids/a/b/pids.current", "3\n");
    put("/sys/fs/cgroup/pids/a/b/pids.max", "200\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpuacct.usage", "123\n");
}

#define V1_MOUNTS                                                                                            \
    MOUNT("/sys/fs/cgroup/memory", "cgroup", "rw,memory")                                                    \
    MOUNT("/sys/fs/cgroup/pids", "cgroup", "rw,pids")                                                        \
    MOUNT("/sys/fs/cgroup/cpu,cpuacct", "cgroup", "rw,cpu,cpuacct")                                          \
    MOUNT("/sys/fs/cgroup/systemd", "cgroup", "rw,name=systemd")

static void assert_v1_use(uint64_t memory_max) {
    struct cgroup_use u;
    NO_ERROR(cgroup_use(sys, 42, &u));
    assert_int_equal(u.memory, 5000);
    assert_true(u.memory_max == memory_max);
    assert_int_equal(u.pids, 3);
    assert_int_equal(u.pids_max, 200);
    assert_int_equal(u.cpu_ns, 123);
    assert_int_equal(u.oom_kills, 1);
}

static void v1_host(void **state) {
    (void)state;
    struct cgroup_host h;
    put("/proc/sys/kernel/osrelease", "5.10.0\n");
    put("/proc/self/mountinfo", OTHER V1_MOUNTS);
    v1_files("9223372036854771712\n");
    NO_ERROR(cgroup_detect(sys, &h));
    assert_int_equal(h.kind, CGROUP_V1);
    assert_string_equal(h.v2, "");
    assert_false(h.kill);
    assert_v1_use(UINT64_MAX);
}

static void hybrid_host(void **state) {
    (void)state;
    struct cgroup_host h;
    put("/proc/sys/kernel/osrelease", "5.13.0\n");
    put("/proc/self/mountinfo", OTHER V1_MOUNTS MOUNT("/sys/fs/cgroup/unified", "cgroup2", "rw"));
    v1_files("4096\n");
    NO_ERROR(cgroup_detect(sys, &h));
    assert_int_equal(h.kind, CGROUP_HYBRID);
    assert_string_equal(h.v2, "/sys/fs/cgroup/unified");
    assert_false(h.kill); /* cgroup.kill came with 5.14 */
    assert_v1_use(4096);
}

/* A mount that shows part of a hierarchy (a host that is itself a container): its root is no part of the path. */
static void part_of_a_hierarchy(void **state) {
    (void)state;
    struct cgroup_use u;
    put("/proc/sys/kernel/osrelease", "5.13.0\n");
    put("/proc/self/mountinfo", "30 20 0:29 /outer /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n");
    put("/proc/42/cgroup", "3:pids:/outer/inner\n");
    put("/sys/fs/cgroup/pids/inner/pids.current", "11\n");
    NO_ERROR(cgroup_use(sys, 42, &u));
    assert_int_equal(u.pids, 11);
    assert_true(u.memory == UINT64_MAX && u.cpu_ns == UINT64_MAX);
    /* A process that is not there: nothing is known, and nothing else goes wrong. */
    NO_ERROR(cgroup_use(sys, 43, &u));
    assert_true(u.pids == UINT64_MAX);
}

/* With v2 as bare agents have it, as on a hybrid host. False: this machine has no groups to make, or we may not. */
static bool has_groups(struct cgroup_host *ret) {
    NO_ERROR(cgroup_detect("", ret));
    if (ret->kind == CGROUP_V2)
        ret->kind = CGROUP_HYBRID;
    return ret->kind == CGROUP_HYBRID && !getuid();
}

/* Children of children, ignoring SIGTERM, in sessions of their own: all of them end by one call. */
static void a_real_group_is_killed(void **state) {
    (void)state;
    struct cgroup_host h;
    own_fd int group = -1;
    if (!has_groups(&h))
        skip();
    pid_t pid = fork();
    if (!pid) {
        signal(SIGTERM, SIG_IGN);
        sleep(1);
        for (int i = 0; i < 5; i++)
            if (!fork())
                setsid();
        for (;;)
            pause();
    }
    NO_ERROR(cgroup_delegate(&h, "tunit", "unit", pid, 12345, &group));
    struct stat st;
    assert_int_equal(fstat(group, &st), 0);
    assert_int_equal(st.st_uid, 12345);
    for (uint64_t n = 0; n < 2; usleep(10000))
        NO_ERROR(cgroup_count(group, &n));
    NO_ERROR(cgroup_kill(group));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (uint64_t n = 1; n; usleep(1000))
        NO_ERROR(cgroup_count(group, &n));
    NO_ERROR(cgroup_remove(&h, "tunit", "unit"));
    NO_ERROR(cgroup_remove(&h, "tunit", "unit"));
    own_free char *gone = xasprintf("%s/tunitagent-cage", h.v2);
    assert_int_not_equal(access(gone, F_OK), 0);
}

/* A child that waits in the delegated group of the test's agent; the group's limits are root's, and hold. */
static void groups_are_limited(void **state) {
    (void)state;
    struct cgroup_host h;
    own_fd int group = -1;
    if (!has_groups(&h))
        skip();
    pid_t pid = fork();
    if (!pid)
        for (;;)
            pause();
    NO_ERROR(cgroup_delegate(&h, "tunit", "limit", pid, 12345, &group));
    own_free char *above = xasprintf("%s/tunitagent-cage/limit", h.v2);
    static const struct {
        const char *file, *value;
    } limits[] = {{"cgroup.max.depth", "8"}, {"cgroup.max.descendants", "4096"}};
    for (size_t i = 0; i < COUNT(limits); i++) {
        own_free char *path = xasprintf("%s/%s", above, limits[i].file), *line = NULL;
        struct stat st;
        NO_ERROR(fs_read_line(path, &line));
        assert_string_equal(line, limits[i].value);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_uid, 0);
    }
    /* 7 below the delegated one, which is itself the first. */
    int at = dup(group);
    for (int i = 1; i < CGROUP_DEPTH; i++) {
        assert_int_equal(mkdirat(at, "deep", 0755), 0);
        int below = openat(at, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = below;
    }
    assert_int_equal(mkdirat(at, "deep", 0755), -1);
    assert_int_equal(errno, EAGAIN);
    close(at);
    int made = CGROUP_DEPTH; /* with the delegated one */
    for (char name[16]; snprintf(name, sizeof name, "w%d", made), mkdirat(group, name, 0755) == 0;)
        assert_true(++made <= CGROUP_DESCENDANTS);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(made, CGROUP_DESCENDANTS);
    /* Something lives in it: that is said, and names the group. */
    own_err err_t e = cgroup_remove(&h, "tunit", "limit");
    assert_non_null(e);
    assert_non_null(strstr(err_text(e), above));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    NO_ERROR(cgroup_remove(&h, "tunit", "limit"));
    assert_int_not_equal(access(above, F_OK), 0);
}

/* What a fleet without the limits left: deeper than PATH_MAX and than this process has descriptors. */
static void a_deep_tree_is_removed(void **state) {
    (void)state;
    enum { DEEP = 1500 };
    struct cgroup_host h;
    if (!has_groups(&h))
        skip();
    own_free char *fleet = xasprintf("%s/tunitagent-cage", h.v2), *mine = xasprintf("%s/deep", fleet);
    mkdir(fleet, 0755);
    assert_int_equal(mkdir(mine, 0755), 0);
    int at = open(mine, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    own_fd int top = dup(at);
    for (int i = 0; i < DEEP; i++) {
        assert_int_equal(mkdirat(at, "aside", 0755), 0);
        assert_int_equal(mkdirat(at, "below", 0755), 0);
        int below = openat(at, "below", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(below >= 0);
        close(at);
        at = below;
    }
    close(at);
    struct rlimit was, few = {64, 64};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    few.rlim_max = was.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    uint64_t n = 1;
    NO_ERROR(cgroup_count(top, &n));
    assert_int_equal(n, 0);
    NO_ERROR(cgroup_remove(&h, "tunit", "deep"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_int_not_equal(access(mine, F_OK), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(v2_host, begin, end),
        cmocka_unit_test_setup_teardown(v1_host, begin, end),
        cmocka_unit_test_setup_teardown(hybrid_host, begin, end),
        cmocka_unit_test_setup_teardown(part_of_a_hierarchy, begin, end),
        cmocka_unit_test(a_real_group_is_killed),
        cmocka_unit_test(groups_are_limited),
        cmocka_unit_test(a_deep_tree_is_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
