/* Who is frozen on a disk that fills up, and what it costs to find out. The linker gives what is free, and what processes wrote. */
#include "warden/disk.h"
#include "base/fs.h"
#include "base/own.h"
#include "warden/warden.h"

#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { AGENTS = 3, BASE = 700000, RESERVE = 1000, MUCH = 1 << 20 };

/* A process of this machine, as those who read /proc are to see it. */
struct writer {
    pid_t pid;
    uid_t uid;
    uint64_t written;
};

static struct bed {
    struct warden w;
    struct box box[AGENTS];
    struct writer writer[AGENTS];
    uint64_t free;
    unsigned looks;                       /* at the whole of /proc */
    bool frozen[AGENTS * ROOM_COUNT + 1]; /* by the first process's number */
} bed;

/* ---- the linker's ------------------------------------------------------------------------------------------------ */

err_t __wrap_fs_space(const char *path, uint64_t *ret_free, uint64_t *ret_size);
err_t __wrap_fs_space(const char *path, uint64_t *ret_free, uint64_t *ret_size) {
    (void)path;
    *ret_free = bed.free;
    *ret_size = 100 * RESERVE;
    return NULL;
}

err_t __real_fs_read(const char *path, size_t max, struct buf *out);
err_t __wrap_fs_read(const char *path, size_t max, struct buf *out);
err_t __wrap_fs_read(const char *path, size_t max, struct buf *out) {
    for (size_t i = 0; i < AGENTS; i++) {
        const struct writer *p = &bed.writer[i];
        own_free char *status = xasprintf("/proc/%d/status", (int)p->pid);
        own_free char *io = xasprintf("/proc/%d/io", (int)p->pid);
        if (!strcmp(path, status)) {
            buf_printf(out, "Name:\tx\nState:\tS\nUid:\t%u\t%u\t%u\t%u\n", p->uid, p->uid, p->uid, p->uid);
            return NULL;
        }
        if (!strcmp(path, io)) {
            buf_printf(out, "rchar: 1\nwrite_bytes: %" PRIu64 "\n", p->written);
            return NULL;
        }
    }
    return __real_fs_read(path, max, out);
}

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path) {
    bed.looks += !strcmp(path, "/proc");
    return __real_opendir(path);
}

err_t __wrap_cgroup_freeze(const char *sys, pid_t pid, bool frozen);
err_t __wrap_cgroup_freeze(const char *sys, pid_t pid, bool frozen) {
    (void)sys;
    assert_in_range(pid, 1, COUNT(bed.frozen) - 1);
    bed.frozen[pid] = frozen;
    return NULL;
}

/* ---- the bed ----------------------------------------------------------------------------------------------------- */

static int set_up(void **state) {
    (void)state;
    static char shell[] = "shell";
    memset(&bed, 0, sizeof bed);
    bed.free = 2 * RESERVE;
    bed.w.conf.disk_reserve = RESERVE;
    for (size_t i = 0; i < AGENTS; i++) {
        struct box *b = &bed.box[i];
        b->conf.name = b->conf.project = b->conf.harness = shell;
        b->conf.mode = MODE_POD;
        b->conf.uid_base = BASE + (uint32_t)i * 65536;
        b->w = &bed.w;
        b->started = true;
        b->state = BOX_RUNNING;
        for (int room = 0; room < ROOM_COUNT; room++)
            b->ward[room] = (struct ward){.w = &bed.w,
                                          .box = b,
                                          .kind = (enum ward_kind)room,
                                          .state = WARD_READY,
                                          .made = {1 + (pid_t)i * ROOM_COUNT + room}};
        b->next = i + 1 < AGENTS ? b + 1 : NULL;
    }
    bed.w.boxes = bed.box;
    for (size_t i = 0; i < AGENTS; i++) {
        pid_t pid = fork();
        if (pid == 0)
            for (;;)
                pause();
        bed.writer[i] = (struct writer){pid, bed.box[i].conf.uid_base + room_uid(ROOM_EXECUTOR), 0};
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (size_t i = 0; i < AGENTS; i++) {
        kill(bed.writer[i].pid, SIGKILL);
        waitpid(bed.writer[i].pid, NULL, 0);
    }
    return 0;
}

static bool frozen(size_t agent, enum room room) {
    return bed.frozen[bed.box[agent].ward[room].made.pid];
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

static void freeze_whoever_writes(enum room room) {
    bed.writer[1].uid = bed.box[1].conf.uid_base + room_uid(room);
    disk_look(&bed.w);
    bed.writer[1].written += MUCH;
    bed.free = RESERVE - 1;
    disk_look(&bed.w);
    for (size_t i = 0; i < AGENTS; i++) {
        assert_int_equal(frozen(i, ROOM_EXECUTOR), i == 1);
        assert_int_equal(frozen(i, ROOM_HARNESS), i == 1);
        assert_false(frozen(i, ROOM_AGENT));
        assert_int_equal(bed.box[i].frozen[0] != 0, i == 1);
    }
}

static void thaws(void) {
    bed.free = RESERVE + RESERVE / 10;
    disk_look(&bed.w);
    for (size_t i = 1; i < COUNT(bed.frozen); i++)
        assert_false(bed.frozen[i]);
    assert_string_equal(bed.box[1].frozen, "");
}

static void a_writing_executor(void **state) {
    (void)state;
    freeze_whoever_writes(ROOM_EXECUTOR);
    thaws();
}

/* Its program writes the project, the scratch folder, the outbox and its home. */
static void a_writing_harness(void **state) {
    (void)state;
    freeze_whoever_writes(ROOM_HARNESS);
    thaws();
}

static void below_half_all(void **state) {
    (void)state;
    bed.free = RESERVE / 2 - 1;
    disk_look(&bed.w);
    for (size_t i = 0; i < AGENTS; i++) {
        assert_true(frozen(i, ROOM_EXECUTOR));
        assert_true(frozen(i, ROOM_HARNESS));
        assert_false(frozen(i, ROOM_AGENT));
    }
    thaws();
}

/* A room that came while the other was frozen is frozen too; and what leaves running is thawed, so that it can end. */
static void a_room_that_comes_later(void **state) {
    (void)state;
    struct box *b = &bed.box[0];
    b->state = BOX_STARTING;
    b->ward[ROOM_HARNESS].state = WARD_GOING;
    bed.free = RESERVE / 2 - 1;
    disk_look(&bed.w);
    assert_true(frozen(0, ROOM_EXECUTOR));
    assert_false(frozen(0, ROOM_HARNESS));
    b->state = BOX_RUNNING;
    b->ward[ROOM_HARNESS].state = WARD_READY;
    disk_box_changed(b);
    assert_true(frozen(0, ROOM_EXECUTOR));
    assert_true(frozen(0, ROOM_HARNESS));
    b->state = BOX_STOPPING;
    disk_box_changed(b);
    assert_false(frozen(0, ROOM_EXECUTOR));
    assert_false(frozen(0, ROOM_HARNESS));
    assert_string_equal(b->frozen, "");
}

/* A bare harness has no group: every process of its account is stopped, and goes on. */
static void a_bare_harness(void **state) {
    (void)state;
    enum { UID = 1999955000 };
    int ready[2], status;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (setgid(UID) || setuid(UID) || write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char byte;
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    bed.box[0].conf.mode = MODE_BARE;
    bed.box[0].conf.uid_base = UID - room_uid(ROOM_HARNESS);
    assert_null(disk_freeze(&bed.box[0].ward[ROOM_HARNESS], true));
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    assert_null(disk_freeze(&bed.box[0].ward[ROOM_HARNESS], false));
    assert_int_equal(waitpid(pid, &status, WCONTINUED), pid);
    assert_true(WIFCONTINUED(status));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A hostile executor has many processes: all of /proc is looked at once for all agents, and not for those that are frozen. */
static void one_look_for_all(void **state) {
    (void)state;
    bed.free = 5 * RESERVE;
    disk_look(&bed.w);
    assert_int_equal(bed.looks, 0);
    bed.free = 2 * RESERVE;
    disk_look(&bed.w);
    assert_int_equal(bed.looks, 1);
    bed.free = RESERVE / 2 - 1;
    disk_look(&bed.w);
    assert_int_equal(bed.looks, 2);
    disk_look(&bed.w);
    assert_int_equal(bed.looks, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_writing_executor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_writing_harness, set_up, tear_down),
        cmocka_unit_test_setup_teardown(below_half_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_room_that_comes_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_bare_harness, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_look_for_all, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
