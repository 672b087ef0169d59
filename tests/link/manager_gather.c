/*
 * What comes together is stored by one commit, and nothing is said of it before that. The manager is stopped while it is spoken
 * to, so that it finds all of it when it wakes. Its flushes of the disk are counted, and one is made its last.
 */
#include "manager_peers.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Shared with the manager. */
static struct flushes {
    atomic_int n;
    atomic_bool last; /* the next one never ends */
} * flushes;

/* In place of the C library's, for SQLite too. */
int fdatasync(int fd) {
    if (atomic_load(&flushes->last))
        _exit(137); /* a power cut: what was written may be lost */
    atomic_fetch_add(&flushes->n, 1);
    return (int)syscall(SYS_fdatasync, fd);
}

static int begin(void **state) {
    (void)state;
    atomic_store(&flushes->last, false);
    peers_open(&peers, 0);
    peers_start(&peers);
    peers_say_fleet(&peers);
    peers_know_fleet(&peers);
    return 0;
}

static int end(void **state) {
    (void)state;
    peers_close(&peers);
    return 0;
}

static void stop(void) {
    int status;
    assert_int_equal(kill(peers.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(peers.pid, &status, WUNTRACED), peers.pid);
    assert_true(WIFSTOPPED(status));
}

static void wake(void) {
    assert_int_equal(kill(peers.pid, SIGCONT), 0);
}

enum { N = 48 };

static void say_all(const char *agent) {
    for (uint64_t i = 0; i < N; i++) {
        char key[16];
        snprintf(key, sizeof key, "key %d", (int)i);
        struct msg q = say(100 + i, key, agent, key);
        peer_send(peers.relay, &q);
    }
}

/* The answers to all of them; each message's number. */
static void taken(uint64_t ids[N]) {
    for (uint64_t i = 0; i < N; i++) {
        own_msg struct msg m = {0};
        peer_want(peers.relay, MSG_ret_end, &m);
        assert_int_equal(m.ret_end.cookie, 100 + i); /* in the order in which they were said */
        assert_int_equal(m.ret_end.status, 0);
        ids[i] = m.ret_end.id;
        assert_true(!i || ids[i] > ids[i - 1]);
    }
}

static void one_commit_for_all(void **state) {
    (void)state;
    uint64_t ids[N];
    stop();
    say_all("demo");
    int before = atomic_load(&flushes->n);
    wake();
    taken(ids);
    assert_in_range(atomic_load(&flushes->n) - before, 1, 3);
    for (int i = 0; i < 16; i++) { /* as many as an agent holds */
        own_msg struct msg m = {0};
        peer_want(peers.agents[0], MSG_desk_deliver, &m);
        assert_int_equal(m.desk_deliver.id, ids[i]);
    }
    stop();
    for (int i = 0; i < 16; i++)
        agent_finishes(0, ids[i], "done", "r");
    before = atomic_load(&flushes->n);
    wake();
    for (int i = 0; i < 16; i++)
        agent_is_settled(0, ids[i]);
    assert_in_range(atomic_load(&flushes->n) - before, 1, 3);
}

/* The power is cut in the middle of the flush: nobody has heard a word, and all of it can be said again. */
static void nothing_is_said_before(void **state) {
    (void)state;
    uint64_t ids[N];
    struct msg all = events_of(3, "", UINT64_MAX, true);
    peer_send(peers.relay, &all);
    peers_know_fleet(&peers);
    stop();
    say_all("demo");
    atomic_store(&flushes->last, true);
    wake();
    own_fd int process = pidfd_open(peers.pid, 0);
    struct pollfd over = {process, POLLIN, 0};
    int status;
    assert_int_equal(poll(&over, 1, DEADLINE_MS), 1);
    assert_int_equal(waitpid(peers.pid, &status, 0), peers.pid);
    assert_int_equal(WEXITSTATUS(status), 137);
    peers.pid = 0;
    struct msg none = {0};
    assert_false(peer_get(peers.relay, 0, &none, NULL));
    assert_false(peer_get(peers.agents[0], 0, &none, NULL));
    peers_hang_up(&peers);
    atomic_store(&flushes->last, false);
    peers_start(&peers);
    peers_say_fleet(&peers);
    peers_know_fleet(&peers);
    say_all("demo");
    taken(ids);
}

/* What is wrong with one is no other's fault. */
static void each_for_itself(void **state) {
    (void)state;
    struct msg said[] = {say(1, "a", "demo", "one"), say(2, "a", "demo", "two"), say(3, "a", "demo", "one"),
                         say(4, "", "demo", "no key"), say(5, "b", "other", "three")};
    static const int status[] = {0, EXIT_USAGE, 0, EXIT_USAGE, 0};
    uint64_t ids[COUNT(said)];
    stop();
    for (size_t i = 0; i < COUNT(said); i++)
        peer_send(peers.relay, &said[i]);
    wake();
    for (size_t i = 0; i < COUNT(said); i++) {
        own_msg struct msg m = {0};
        peer_want(peers.relay, MSG_ret_end, &m);
        assert_int_equal(m.ret_end.cookie, i + 1);
        assert_int_equal(m.ret_end.status, status[i]);
        ids[i] = m.ret_end.id;
    }
    assert_int_equal(ids[0], ids[2]); /* the same key is the same message */
    own_msg struct msg first = {0}, other = {0};
    peer_want(peers.agents[0], MSG_desk_deliver, &first);
    assert_int_equal(first.desk_deliver.id, ids[0]);
    peer_want(peers.agents[1], MSG_desk_deliver, &other);
    assert_int_equal(other.desk_deliver.id, ids[4]);
}

/* An order that was given behind a message comes to the agent behind it. */
static void an_order_behind_a_message(void **state) {
    (void)state;
    struct msg said = say(1, "a", "demo", "one"), halt = {.type = MSG_fleet_order};
    halt.fleet_order = (struct msg_fleet_order){
        .cookie = 2, .who = bytes_of("operator"), .order = bytes_of("halt"), .agent = bytes_of("demo")};
    stop();
    peer_send(peers.relay, &said);
    peer_send(peers.relay, &halt);
    wake();
    own_msg struct msg first = {0}, second = {0};
    assert_true(peer_get(peers.agents[0], DEADLINE_MS, &first, NULL));
    assert_int_equal(first.type, MSG_desk_deliver);
    assert_true(peer_get(peers.agents[0], DEADLINE_MS, &second, NULL));
    assert_int_equal(second.type, MSG_desk_halt);
}

/* What a turn shows while it runs stays between its start and its report. */
static void live_keeps_its_place(void **state) {
    (void)state;
    static const char *const kinds[] = {"started", "output", "report"};
    uint64_t id = relay_says("a", "demo", "one");
    struct msg all = events_of(3, "demo", UINT64_MAX, true);
    peer_send(peers.relay, &all);
    peers_know_fleet(&peers);
    struct msg started = {.type = MSG_desk_started}, output = {.type = MSG_desk_output};
    started.desk_started.id = output.desk_output.id = id;
    output.desk_output.text = bytes_of("live");
    stop();
    peer_send(peers.agents[0], &started);
    peer_send(peers.agents[0], &output);
    agent_finishes(0, id, "done", "r");
    wake();
    for (size_t i = 0; i < COUNT(kinds); i++) {
        own_msg struct msg m = {0};
        peer_want(peers.relay, MSG_ret_event, &m);
        assert_string_equal(m.ret_event.kind.p, kinds[i]);
    }
}

int main(void) {
    flushes = mmap(NULL, sizeof *flushes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(one_commit_for_all),        CASE(nothing_is_said_before), CASE(each_for_itself),
        CASE(an_order_behind_a_message), CASE(live_keeps_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
