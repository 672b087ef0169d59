/*
 * Leftovers beside the living: of each kind one thing of an agent that is gone, one of an agent that exists
 * and one of an agent that is being made. Only the first is found, and only it goes.
 */
#include "cli/leftovers.h"
#include "base/fs.h"
#include "base/ids.h"
#include "base/own.h"
#include "base/paths.h"

#include <fcntl.h>
#include <libgen.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* A block that no fleet of this machine has, and the range of the agent `there` in it. */
#define BLOCK 0xffe00000u
#define THERE (BLOCK + 0x20000)

static char dir[64], prefix[16];
static struct doctor d;

static void good(err_t e) {
    if (e)
        fail_msg("%s", err_text(e));
}

static void put(const char *text, const char *fmt, const char *name) {
    own_free char *path = path_of(fmt, name);
    good(fs_write(path, text, strlen(text), geteuid(), getegid(), 0644));
}

static void folder(const char *fmt, const char *name) {
    own_free char *path = path_of(fmt, name);
    good(fs_dirs(path));
}

static bool there(const char *fmt, const char *name) {
    own_free char *path = path_of(fmt, name);
    return access(path, F_OK) == 0;
}

static int set_up(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/unit-left-XXXXXX");
    if (geteuid() || !mkdtemp(dir))
        return geteuid() ? 0 : -1;
    snprintf(prefix, sizeof prefix, "u%d", getpid() % 1000000);
    good(paths_set(dir));
    ids_etc(dir);
    folder("/etc%s", "");
    folder(DIR_ETC "/agents%s", "");
    folder(DIR_LIB "/warden/half%s", "");
    own_free char *subuid = xasprintf("%scage:%u:%u\n", prefix, BLOCK, 0x100000);
    put(subuid, "/etc/sub%s", "uid");
    put("mode = pod\nharness = shell\nproject = /\ncreated = 1\nuid_base = 4293001216\n",
        DIR_ETC "/agents/%s.conf", "there");
    put("", DIR_LIB "/warden/half/%s", "making");
    d = (struct doctor){.root = true, .conf_why = xstrdup(""), .host_why = xstrdup(""), .dir = xstrdup("")};
    d.fleet.prefix = xstrdup(prefix);
    d.fleet.image_dir = path_of(DIR_LIB "/images");
    d.fleet.harness_dir = path_of(DIR_LIB "/harness");
    good(cgroup_detect("", &d.host.cgroup));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    if (geteuid())
        return 0;
    conf_fleet_free(&d.fleet);
    free(d.conf_why);
    free(d.host_why);
    free(d.dir);
    ids_etc("");
    good(paths_set(""));
    return fs_remove(dir) != NULL;
}

/* Finds and removes; what was found as "kind what, …". The caller frees. */
static char *clean(void) {
    own_leftovers struct leftovers l = {0};
    own_buf struct buf said = {0};
    good(leftovers_find(&d, &l));
    for (size_t i = 0; i < l.n; i++) {
        const char *what = l.v[i].what;
        buf_printf(&said, "%s%s %s", i ? ", " : "", leftover_word(l.v[i].kind),
                   strncmp(what, dir, strlen(dir)) ? what : what + strlen(dir));
        good(leftover_remove(&d, &l.v[i]));
    }
    return buf_take(&said);
}

static void folders_of_the_gone(void **state) {
    (void)state;
    if (geteuid())
        skip();
    static const char *const agents[] = {"gone", "there", "making"};
    for (size_t i = 0; i < COUNT(agents); i++) {
        folder(DIR_LIB "/agents/%s/executor/deep", agents[i]);
        folder(DIR_RUN "/podman/%s.executor", agents[i]);
        folder(DIR_RUN "/ctl/%s.executor", agents[i]);
    }
    put("{}", DIR_RUN "/podman/%s.json", "seccomp-executor"); /* shared by all rooms */
    folder(DIR_RUN "/ctl/%s", "relay"); /* the fleet's own part, not an agent of that name */
    folder(DIR_LIB "/agents/%s", "Not-A-Name");
    own_free char *said = clean();
    assert_string_equal(
        said, "folder /run/agent-cage/podman/gone.executor, folder /run/agent-cage/ctl/gone.executor, "
              "folder /var/lib/agent-cage/agents/gone");
    for (size_t i = 0; i < COUNT(agents); i++)
        assert_int_equal(there(DIR_LIB "/agents/%s/executor/deep", agents[i]), i != 0);
    assert_true(there(DIR_RUN "/ctl/%s", "relay"));
    own_free char *again = clean();
    assert_string_equal(again, "");
}

/* Runs f in a mount namespace of its own; 0 when all its assertions held. */
static int apart(int (*f)(void)) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(unshare(CLONE_NEWNS) || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) ? 77 : f());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static int mounts(void) {
    own_free char *gone = path_of(DIR_RUN "/mnt/gone/project"),
                  *alive = path_of(DIR_RUN "/mnt/there/project");
    own_free char *precious = path_of("/precious");
    put("x", "/%s/file", "precious");
    if (mount(precious, gone, "none", MS_BIND, NULL) || mount(precious, alive, "none", MS_BIND, NULL))
        return 76;
    own_free char *said = clean();
    own_free char *kept = xasprintf("%s/file", precious), *seen = xasprintf("%s/file", alive);
    bool right = !strcmp(said, "mount /run/agent-cage/mnt/gone, folder /run/agent-cage/mnt/gone");
    return !right || access(kept, F_OK) || access(seen, F_OK) || access(gone, F_OK) == 0;
}

static void mounts_go_before_their_folder(void **state) {
    (void)state;
    if (geteuid())
        skip();
    folder("/%s", "precious");
    folder(DIR_RUN "/mnt/%s/project", "gone");
    folder(DIR_RUN "/mnt/%s/project", "there");
    assert_int_equal(apart(mounts), 0);
    assert_true(there("/%s/file", "precious"));
}

static pid_t sleeper(uid_t uid) {
    pid_t pid = fork();
    if (pid == 0) {
        if (setresuid(uid, uid, uid) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    return pid;
}

static void processes_of_nobody(void **state) {
    (void)state;
    if (geteuid())
        skip();
    signal(SIGCHLD, SIG_IGN); /* they are reaped at once */
    pid_t gone = sleeper(BLOCK + 60000), alive = sleeper(THERE + 60000), stranger = sleeper(BLOCK - 1);
    usleep(50000); /* until both have become who they are; earlier they are root's, and not found */
    char want[32];
    snprintf(want, sizeof want, "process %d", (int)gone);
    own_free char *while_making = clean(); /* an agent is half made: whose a process is cannot be told */
    assert_string_equal(while_making, "");
    own_free char *half = path_of(DIR_LIB "/warden/half/making");
    good(fs_remove(half));
    own_free char *said = clean();
    assert_string_equal(said, want);
    assert_int_equal(kill(gone, 0), -1);
    assert_int_equal(kill(alive, SIGKILL) | kill(stranger, SIGKILL), 0);
    signal(SIGCHLD, SIG_DFL);
}

static void groups_with_what_lives_in_them(void **state) {
    (void)state;
    struct cgroup_host h = d.host.cgroup;
    if (geteuid() || (h.kind != CGROUP_HYBRID && h.kind != CGROUP_V2))
        skip();
    h.kind = CGROUP_HYBRID; /* with v2 as bare agents have it */
    own_fd int gone = -1, alive = -1;
    signal(SIGCHLD, SIG_IGN);
    pid_t in_gone = sleeper(BLOCK + 1), in_there = sleeper(THERE + 1);
    good(cgroup_delegate(&h, prefix, "gone", in_gone, BLOCK, &gone));
    good(cgroup_delegate(&h, prefix, "there", in_there, BLOCK, &alive));
    own_free char *said = clean(),
                  *want = xasprintf("control group %s/%sagent-cage/gone", d.host.cgroup.v2, prefix);
    assert_string_equal(said, want);
    assert_int_equal(kill(in_gone, 0), -1);
    assert_int_equal(kill(in_there, SIGKILL), 0);
    for (int i = 0; i < 100 && kill(in_there, 0) == 0; i++)
        usleep(10000);
    own_free char *fleet = xasprintf("%s/%sagent-cage", d.host.cgroup.v2, prefix),
                  *mine = xasprintf("%s/there/executor", fleet), *name = xasprintf("control group %s", fleet);
    assert_int_equal(rmdir(mine) | rmdir(dirname(mine)), 0);
    own_free char *empty = clean(); /* of a warden that was killed on the way */
    assert_string_equal(empty, name);
    assert_int_equal(access(fleet, F_OK), -1);
    signal(SIGCHLD, SIG_DFL);
}

static void an_agent_made_meanwhile_is_left_alone(void **state) {
    (void)state;
    if (geteuid())
        skip();
    folder(DIR_LIB "/agents/%s", "late");
    own_leftovers struct leftovers l = {0};
    good(leftovers_find(&d, &l));
    assert_int_equal(l.n, 1);
    put("", DIR_LIB "/warden/half/%s", "late");
    own_err err_t e = leftover_remove(&d, &l.v[0]);
    assert_int_equal(e->status, EXIT_POLICY);
    assert_true(there(DIR_LIB "/agents/%s", "late"));
}

static void images_of_killed_builds(void **state) {
    (void)state;
    if (geteuid())
        skip();
    folder(DIR_LIB "/images/.new-12345/root/%s", "usr");
    folder(DIR_LIB "/images/%s", "tree-1");
    put("", DIR_LIB "/images/%s", ".lock");
    own_free char *path = path_of(DIR_LIB "/images/.lock");
    own_fd int building = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(building, LOCK_EX), 0);
    own_free char *meanwhile = clean();
    assert_string_equal(meanwhile, "");
    own_closep(&building);
    own_free char *said = clean();
    assert_string_equal(said, "half-made image /var/lib/agent-cage/images/.new-12345");
    assert_false(there(DIR_LIB "/images/%s", ".new-12345"));
    assert_true(there(DIR_LIB "/images/%s", "tree-1"));
}

/* A vendor's program is fetched by who has the lock of its folder. */
static void programs_of_killed_fetches(void **state) {
    (void)state;
    if (geteuid())
        skip();
    folder(DIR_LIB "/harness/.new-12345/%s", "node_modules");
    folder(DIR_LIB "/harness/%s", "claude-1");
    folder(DIR_LIB "/harness/%s", "local");
    put("", DIR_LIB "/harness/%s", ".lock");
    own_free char *path = path_of(DIR_LIB "/harness/.lock");
    own_fd int fetching = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fetching, LOCK_EX), 0);
    own_free char *meanwhile = clean();
    assert_string_equal(meanwhile, "");
    own_closep(&fetching);
    own_free char *said = clean();
    assert_string_equal(said, "half-fetched program /var/lib/agent-cage/harness/.new-12345");
    assert_false(there(DIR_LIB "/harness/%s", ".new-12345"));
    assert_true(there(DIR_LIB "/harness/%s", "claude-1"));
    assert_true(there(DIR_LIB "/harness/%s", "local"));
}

/* A doctor's folder, which is locked while it lives; only below this fleet's own root. */
static void folders_of_killed_doctors(void **state) {
    (void)state;
    if (geteuid())
        skip();
    char elsewhere[] = DOCTOR_DIR "XXXXXX";
    folder(DOCTOR_DIR "%s/podman", "killed");
    folder(DOCTOR_DIR "%s", "lives");
    folder("/run/agent-cage%s", "-else");
    own_free char *path = path_of(DOCTOR_DIR "lives");
    own_fd int lives = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(lives, LOCK_EX), 0);
    assert_non_null(mkdtemp(elsewhere));
    own_free char *said = clean();
    bool stayed = !rmdir(elsewhere);
    assert_string_equal(said, "folder /run/agent-cage-doctor-killed");
    assert_true(stayed);
    assert_true(there(DOCTOR_DIR "%s", "lives") && there("/run/agent-cage%s", "-else"));
    assert_false(there(DOCTOR_DIR "%s", "killed"));
    folder(DOCTOR_DIR "%s", "new"); /* found before its doctor has locked it, and then locked */
    own_leftovers struct leftovers l = {0};
    good(leftovers_find(&d, &l));
    assert_int_equal(l.n, 1);
    own_fd int fresh = open(l.v[0].what, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(fresh, LOCK_EX), 0);
    good(leftover_remove(&d, &l.v[0]));
    assert_true(there(DOCTOR_DIR "%s", "new"));
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(folders_of_the_gone),
        T(mounts_go_before_their_folder),
        T(processes_of_nobody),
        T(groups_with_what_lives_in_them),
        T(programs_of_killed_fetches),
        T(images_of_killed_builds),
        T(an_agent_made_meanwhile_is_left_alone),
        T(folders_of_killed_doctors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
