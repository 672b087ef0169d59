/* Delivery: the real agent with a scripted manager, harness and executor, killed at every moment and on a full disk. */
#include "agent_bed.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/own.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

static void a_message_is_run_and_told(void **state) {
    (void)state;
    deliver(7, "echo hi");
    own_msg struct msg m = {0};
    expect(manager, MSG_desk_started, &m);
    assert_int_equal(m.desk_started.id, 7);
    assert_in_range(clock_wall_ms() - (int64_t)m.desk_started.wall_ms, 0, DEADLINE_MS);
    expect(harness, MSG_turn_start, &m);
    assert_string_equal(m.turn_start.text.p, "echo hi");
    output(7, "hi\n", 3);
    end_turn(7, 3);
    expect(manager, MSG_desk_output, &m);
    assert_string_equal(m.desk_output.text.p, "hi\n");
    expect(manager, MSG_desk_finished, &m);
    assert_string_equal(m.desk_finished.outcome.p, "done");
    assert_int_equal(m.desk_finished.status, 3);
    assert_string_equal(m.desk_finished.text.p, "hi\n");
    assert_string_equal(m.desk_finished.output.p, "outputs/7");
    own_free char *path = xasprintf("%s/home/outputs/7", p.dir);
    own_buf struct buf whole = {0};
    assert_null(fs_read(path, 100, &whole));
    assert_string_equal(buf_text(&whole), "hi\n");
    settle(7);
}

static void one_at_a_time_and_never_twice(void **state) {
    (void)state;
    deliver(1, "a");
    deliver(2, "b");
    deliver(1, "a"); /* under way: said to be started again, not run again */
    expect_start(1);
    expect_none(harness, MSG_turn_start, 100);
    end_turn(1, 0);
    expect_finish(1, "done", "");
    expect_start(2);
    deliver(1, "a"); /* ended: told again */
    expect_finish(1, "done", "");
    settle(1);
    end_turn(2, 0);
    expect_finish(2, "done", "");
    settle(2);
    deliver(2, "b"); /* settled */
    expect_finish(2, "done", "");
    expect_none(harness, MSG_turn_start, 100);
}

static void waits_for_both_links(void **state) {
    (void)state;
    close(executor);
    own_msg struct msg m = {0};
    expect(p.control, MSG_part_lost, &m);
    deliver(1, "a");
    expect_none(harness, MSG_turn_start, 100);
    executor = peer_link(&p, LINK_agent_executor);
    expect_start(1);
}

/* --- kills between every two commit points --- */

static void killed_before_c2(void **state) {
    (void)state;
    close(harness); /* so that it cannot begin */
    own_msg struct msg m = {0};
    expect(p.control, MSG_part_lost, &m);
    harness = -1;
    deliver(1, "a");
    deliver(2, "b");
    restart();
    expect_none(harness, MSG_turn_start, 100); /* it was never its own: the manager delivers again */
    deliver(1, "a");
    expect_start(1);
}

static void killed_after_c2(void **state) {
    (void)state;
    deliver(1, "a");
    expect_start(1);
    restart();
    deliver(1, "a");
    expect_finish(1, "unknown", "not run again");
    expect_none(harness, MSG_turn_start, 100);
    settle(1);
    deliver(2, "b");
    expect_start(2);
}

static void killed_after_c3(void **state) {
    (void)state;
    deliver(1, "a");
    expect_start(1);
    output(1, "result", 6);
    end_turn(1, 4);
    expect_finish(1, "done", "result");
    for (int i = 0; i < 3; i++) {
        restart();
        expect_finish(1, "done", "result");
    }
    deliver(1, "a");
    expect_finish(1, "done", "result");
    expect_none(harness, MSG_turn_start, 100);
}

static void killed_after_c5(void **state) {
    (void)state;
    deliver(1, "a");
    expect_start(1);
    end_turn(1, 0);
    expect_finish(1, "done", "");
    settle(1);
    deliver(2, "b"); /* once it started, the settle before it was read */
    expect_start(2);
    restart();
    expect_finish(2, "unknown", "");
    expect_none(manager, MSG_desk_finished, 100);
}

static void end_is_told_on_every_new_link(void **state) {
    (void)state;
    deliver(1, "a");
    expect_start(1);
    end_turn(1, 0);
    expect_finish(1, "done", "");
    for (int i = 0; i < 3; i++) {
        close(manager);
        manager = peer_link(&p, LINK_manager_agent);
        expect_finish(1, "done", "");
    }
    settle(1);
    deliver(2, "b");
    expect_start(2); /* so the settle was read */
    close(manager);
    manager = peer_link(&p, LINK_manager_agent);
    expect_none(manager, MSG_desk_finished, 100);
}

/* --- kills at random moments --- */

enum { KILLS = 120, ROUNDS = 1000 };

struct fate {
    int starts;
    char outcome[16]; /* "" until the scripted manager has it */
};
static struct fate fates[ROUNDS * 4];
static uint64_t delivered, first_open;

/* What one side says while the others are served too. Returns false when nothing came. */
static bool serve_manager(void) {
    own_msg struct msg m = {0};
    bool gone;
    if (!hear(manager, 0, &m, &gone))
        return false;
    if (m.type != MSG_desk_finished)
        return true;
    struct fate *f = &fates[m.desk_finished.id];
    if (!f->outcome[0])
        snprintf(f->outcome, sizeof f->outcome, "%s", m.desk_finished.outcome.p);
    else /* the first word stays */
        assert_true(!strcmp(f->outcome, m.desk_finished.outcome.p));
    if (rand() % 4) /* else: settled later, when it is told again */
        settle(m.desk_finished.id);
    return true;
}

static bool serve_harness(void) {
    own_msg struct msg m = {0};
    bool gone;
    if (!hear(harness, 0, &m, &gone) || m.type != MSG_turn_start)
        return false;
    fates[m.turn_start.id].starts++;
    if (rand() % 8 == 0) /* works longer than the agent lives */
        return true;
    output(m.turn_start.id, "x\n", 2);
    end_turn(m.turn_start.id, 0);
    return true;
}

static void redeliver(void) {
    while (first_open < delivered && fates[first_open].outcome[0])
        first_open++;
    for (uint64_t id = first_open; id < delivered; id++)
        if (!fates[id].outcome[0])
            deliver(id, "work");
}

static void killed_at_random_moments(void **state) {
    (void)state;
    srand(4711);
    memset(fates, 0, sizeof fates);
    delivered = first_open = 1;
    for (int kill = 0; kill < KILLS; kill++) {
        for (int n = rand() % 4; n >= 0; n--)
            deliver(delivered++, "work");
        int64_t until = clock_mono_ns() + rand() % 12000000; /* up to 12 ms */
        while (clock_mono_ns() < until)
            if (!serve_manager() && !serve_harness())
                poll(NULL, 0, 0);
        restart();
        redeliver();
    }
    for (int64_t until = now_ms() + 3 * DEADLINE_MS; first_open < delivered;) {
        assert_true(now_ms() < until);
        if (!serve_manager() && !serve_harness()) {
            poll(NULL, 0, 1);
            if (rand() % 100 == 0) { /* a turn that the script left unanswered */
                restart();
            }
            redeliver();
        }
    }
    size_t done = 0, unknown = 0;
    for (uint64_t id = 1; id < delivered; id++) {
        bool is_done = !strcmp(fates[id].outcome, "done");
        if (fates[id].starts > 1 || (is_done && fates[id].starts != 1))
            fail_msg("message %" PRIu64 ": %s, run %d times", id, fates[id].outcome, fates[id].starts);
        assert_true(is_done || !strcmp(fates[id].outcome, "unknown"));
        done += is_done;
        unknown += !is_done;
    }
    print_message("%" PRIu64 " messages: %zu done, %zu unknown\n", delivered - 1, done, unknown);
    assert_true(done && unknown);
}

/* --- a full disk --- */

static void fill(bool full) {
    own_free char *path = xasprintf("%s/home/filler", p.dir);
    if (!full) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    own_fd int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    static const char zeros[4096];
    while (write(fd, zeros, sizeof zeros) > 0)
        ;
}

/* Delivers it. True: it began. False: it was refused, and the sentence says why. */
static bool begins(uint64_t id) {
    deliver(id, "a");
    for (;;) {
        own_msg struct msg m = {0};
        bool gone;
        assert_true(hear(manager, DEADLINE_MS, &m, &gone));
        if (m.type == MSG_desk_started)
            return true;
        if (m.type != MSG_desk_finished)
            continue;
        assert_int_equal(m.desk_finished.id, id);
        assert_string_equal(m.desk_finished.outcome.p, "refused");
        assert_non_null(strstr(m.desk_finished.text.p, "No space left"));
        return false;
    }
}

/* Root alone may mount; CI is root. */
static void full_disk_refuses_and_goes_on(void **state) {
    (void)state;
    if (geteuid() != 0)
        skip();
    peer_kill(&p);
    cut();
    own_free char *home = xasprintf("%s/home", p.dir);
    assert_int_equal(unshare(CLONE_NEWNS), 0);
    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    assert_int_equal(
        mount("tmpfs", home, "tmpfs", MS_NOSUID | MS_NODEV, "size=256k,mode=700,uid=50000,gid=50000"), 0);
    start();
    own_msg struct msg ready = {0};
    expect(manager, MSG_desk_state, &ready);
    fill(true);
    uint64_t id = 10;
    while (begins(id)) { /* the journal's last page still has room */
        expect_start(id);
        end_turn(id, 0);
        expect_finish(id, "done", "");
        settle(id++);
        assert_in_range(id, 10, 200);
    }
    expect_none(harness, MSG_turn_start, 100);
    settle(id);
    fill(false);
    deliver(2, "b");
    expect_start(2);
    fill(true);
    static char chunk[65536];
    memset(chunk, 'x', sizeof chunk);
    output(2, chunk, sizeof chunk);
    end_turn(2, 0);
    expect_finish(2, "done", "xxx"); /* said, though it could not be written down */
    restart(); /* so a restart cannot know; ends above whose settling found no room are told again */
    own_msg struct msg m = {0};
    do
        expect(manager, MSG_desk_finished, &m);
    while (m.desk_finished.id != 2);
    assert_string_equal(m.desk_finished.outcome.p, "unknown");
    fill(false);
    deliver(3, "c");
    expect_start(3);
    end_turn(3, 0);
    expect_finish(3, "done", "");
    peer_kill(&p);
    assert_int_equal(umount(home), 0);
}

int main(int argc, char **argv) {
    peer_binary = argc > 1 ? argv[1] : "build/agent-cage";
    const struct CMUnitTest tests[] = {
        row(a_message_is_run_and_told), row(one_at_a_time_and_never_twice),
        row(waits_for_both_links),      row(killed_before_c2),
        row(killed_after_c2),           row(killed_after_c3),
        row(killed_after_c5),           row(end_is_told_on_every_new_link),
        row(killed_at_random_moments),  row(full_disk_refuses_and_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
