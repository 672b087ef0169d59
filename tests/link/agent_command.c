/* Commands that pass through the real agent, the account of what ran, the agent's state. */
#include "agent_bed.h"
#include "base/clock.h"
#include "base/own.h"

#include <poll.h>
#include <fcntl.h>
#include <unistd.h>

/* --- commands and their account --- */

static void run_command(uint64_t run, int fd) {
    static const struct bytes argv[] = {{"printf", 6}, {"\xff", 1}, {"", 0}};
    struct msg m = {.type = MSG_desk_exec, .fds = {fd, fd, fd}, .nfds = 3};
    m.desk_exec = (struct msg_desk_exec){.run = run,
                                         .who = bytes_of("root"),
                                         .timeout_ms = 5,
                                         .cwd = bytes_of("/x"),
                                         .argv = {argv, COUNT(argv)}};
    say(manager, &m);
}

static void commands_pass_through(void **state) {
    (void)state;
    int pair[2];
    assert_int_equal(pipe(pair), 0);
    run_command(77, pair[1]);
    close(pair[1]);
    own_msg struct msg m = {0};
    expect(executor, MSG_run_start, &m);
    assert_int_equal(m.run_start.run, 77);
    assert_int_equal(m.run_start.timeout_ms, 5);
    assert_int_equal(m.run_start.argv.n, 3);
    assert_memory_equal(m.run_start.argv.v[1].p, "\xff", 2);
    assert_int_equal(write(m.fds[2], "x", 1), 1);
    msg_free(&m);
    m = (struct msg){0};
    char got[2];
    assert_int_equal(read(pair[0], got, 2), 1);
    assert_int_equal(read(pair[0], got, 2), 0); /* the agent kept none of them */
    close(pair[0]);
    struct msg sig = {.type = MSG_desk_signal};
    sig.desk_signal.run = 78; /* no such run */
    sig.desk_signal.signo = 9;
    say(manager, &sig);
    sig.desk_signal.run = 77;
    sig.desk_signal.signo = 2;
    say(manager, &sig);
    expect(executor, MSG_run_signal, &m);
    assert_int_equal(m.run_signal.run, 77);
    assert_int_equal(m.run_signal.signo, 2);
    struct msg end = {.type = MSG_run_end};
    end.run_end = (struct msg_run_end){.run = 77, .how = bytes_of("exit"), .status = 9, .text = bytes_of("")};
    say(executor, &end);
    expect(manager, MSG_desk_exec_end, &m);
    assert_int_equal(m.desk_exec_end.run, 77);
    assert_int_equal(m.desk_exec_end.status, 9);
}

static void commands_end_with_their_asker(void **state) {
    (void)state;
    own_fd int null = open("/dev/null", O_RDWR);
    own_msg struct msg m = {0};
    run_command(1, null);
    expect(executor, MSG_run_start, &m);
    close(manager);
    expect(executor, MSG_run_signal, &m);
    assert_int_equal(m.run_signal.signo, 9);
    manager = peer_link(&p, LINK_manager_agent);
    run_command(2, null);
    expect(executor, MSG_run_start, &m);
    close(executor);
    expect(manager, MSG_desk_exec_end, &m);
    assert_string_equal(m.desk_exec_end.how.p, "failed");
    executor = -1;
    run_command(3, null);
    expect(manager, MSG_desk_exec_end, &m);
    assert_int_equal(m.desk_exec_end.run, m.desk_exec_end.run == 1 ? 1 : 3);
}

static void rows_are_told_until_settled(void **state) {
    (void)state;
    deliver(5, "a");
    expect_start(5);
    ran(100, "", 1);
    ran(101, "root", 1);
    own_msg struct msg m = {0};
    for (int i = 0; i < 2; i++) {
        expect(manager, MSG_desk_row, &m);
        assert_int_equal(m.desk_row.row, 100);
        assert_int_equal(m.desk_row.id, 5);
        assert_string_equal(m.desk_row.who.p, "anna");
        assert_string_equal(m.desk_row.output.p, "outputs/5");
        expect(manager, MSG_desk_row, &m);
        assert_int_equal(m.desk_row.row, 101);
        assert_int_equal(m.desk_row.id, 0);
        assert_string_equal(m.desk_row.who.p, "root");
        close(manager);
        manager = peer_link(&p, LINK_manager_agent);
    }
    struct msg done = {.type = MSG_desk_settle_row};
    done.desk_settle_row.row = 100;
    say(manager, &done);
    expect(executor, MSG_run_settle, &m);
    assert_int_equal(m.run_settle.row, 100);
    close(manager);
    manager = peer_link(&p, LINK_manager_agent);
    expect(manager, MSG_desk_row, &m);
    assert_int_equal(m.desk_row.row, 101);
    expect_none(manager, MSG_desk_row, 100);
    end_turn(5, 0);
    expect_finish(5, "done", "");
    restart();
    ran(102, "", 1); /* one that began in no turn */
    expect(manager, MSG_desk_row, &m);
    assert_int_equal(m.desk_row.id, 0);
}

static void rows_without_a_manager_wait_at_the_executor(void **state) {
    (void)state;
    close(manager);
    own_msg struct msg m = {0};
    expect(p.control, MSG_part_lost, &m);
    enum { ROWS = 120, SIZE = 1 << 20 };
    uint64_t sent = 0;
    struct pollfd room = {executor, POLLOUT, 0};
    while (sent < ROWS && poll(&room, 1, 300) == 1) /* until it does not read any more */
        ran(1000 + sent++, "", SIZE);
    assert_in_range(sent, 8, ROWS - 1);
    assert_in_range(peer_peak_kb(&p), 1, 64 * 1024);
    manager = peer_link(&p, LINK_manager_agent);
    for (uint64_t i = 0; i < sent; i++) {
        expect(manager, MSG_desk_row, &m);
        assert_int_equal(m.desk_row.row, 1000 + i);
        struct msg done = {.type = MSG_desk_settle_row};
        done.desk_settle_row.row = m.desk_row.row;
        say(manager, &done);
    }
    assert_in_range(peer_peak_kb(&p), 1, 64 * 1024);
}

static void begins(uint64_t row) {
    static const struct bytes word = {"sleep", 5};
    struct msg m = {.type = MSG_ran_begin};
    m.ran_begin = (struct msg_ran_begin){.row = row,
                                         .who = bytes_of("root"),
                                         .argv = {&word, 1},
                                         .cwd = bytes_of("/"),
                                         .start_wall_ms = (uint64_t)clock_wall_ms()};
    say(executor, &m);
}

static void opens(uint64_t first) {
    struct msg m = {.type = MSG_ran_open};
    m.ran_open.first = first;
    say(executor, &m);
}

/* What an executor had begun when it died is unknown as soon as the next one says its first number, and only that. */
static void begun_rows_end_with_their_executor(void **state) {
    (void)state;
    own_msg struct msg m = {0};
    opens(100);
    expect(manager, MSG_desk_open, &m);
    assert_int_equal(m.desk_open.first, 100);
    for (uint64_t row = 100; row < 103; row++) {
        begins(row);
        expect(manager, MSG_desk_begin, &m);
        assert_int_equal(m.desk_begin.row, row);
    }
    ran(100, "root", 1);
    expect(manager, MSG_desk_row, &m);
    close(executor);
    executor = peer_link(&p, LINK_agent_executor);
    opens(100); /* the same one: nothing ended */
    expect_none(manager, MSG_desk_row, 100);
    close(manager);
    manager = peer_link(&p, LINK_manager_agent); /* a new manager is told of what runs */
    expect(manager, MSG_desk_begin, &m);
    assert_int_equal(m.desk_begin.row, 101);
    close(executor);
    executor = peer_link(&p, LINK_agent_executor);
    opens(200);
    expect(manager, MSG_desk_row, &m); /* said again: not settled */
    assert_int_equal(m.desk_row.row, 100);
    for (uint64_t row = 101; row < 103; row++) {
        expect(manager, MSG_desk_row, &m);
        assert_int_equal(m.desk_row.row, row);
        assert_string_equal(m.desk_row.how.p, "unknown");
    }
    expect(manager, MSG_desk_open, &m);
    assert_int_equal(m.desk_open.first, 200);
}

static void state_is_told_when_it_changes(void **state) {
    (void)state;
    own_msg struct msg m = {0};
    expect(manager, MSG_desk_state, &m);
    assert_string_equal(m.desk_state.login.p, "no login needed");
    assert_int_equal(m.desk_state.sessions, 0);
    deliver(1, "a");
    expect(manager, MSG_desk_state, &m);
    assert_int_equal(m.desk_state.sessions, 1);
    struct msg s = {.type = MSG_ran_survivors};
    s.ran_survivors.count = 2;
    s.ran_survivors.text = bytes_of("sleep 300");
    say(executor, &s);
    expect(manager, MSG_desk_state, &m);
    assert_int_equal(m.desk_state.survivors, 2);
    say(executor, &s);
    expect_none(manager, MSG_desk_state, 100);
    end_turn(1, 0);
    expect(manager, MSG_desk_state, &m);
    assert_int_equal(m.desk_state.sessions, 0);
    ran(1, "root", 1);
    expect(manager, MSG_desk_state, &m);
    uint64_t last = m.desk_state.last_command_wall_ms;
    assert_in_range(clock_wall_ms() - (int64_t)last, 0, DEADLINE_MS);
    restart(); /* and it is known after a restart */
    expect(manager, MSG_desk_state, &m);
    assert_int_equal(m.desk_state.last_command_wall_ms, last);
}

int main(int argc, char **argv) {
    peer_binary = argc > 1 ? argv[1] : "build/agent-cage";
    const struct CMUnitTest tests[] = {
        row(commands_pass_through),         row(commands_end_with_their_asker),
        row(rows_are_told_until_settled),   row(rows_without_a_manager_wait_at_the_executor),
        row(state_is_told_when_it_changes), row(begun_rows_end_with_their_executor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
