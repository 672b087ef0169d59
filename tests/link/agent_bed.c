#include "agent_bed.h"
#include "base/clock.h"
#include "base/own.h"

#include <stdlib.h>
#include <string.h>

struct peer p;
int manager = -1, harness = -1, executor = -1;

static void links(void) {
    manager = peer_link(&p, LINK_manager_agent);
    harness = peer_link(&p, LINK_agent_harness);
    executor = peer_link(&p, LINK_agent_executor);
}

void cut(void) {
    own_closep(&manager);
    own_closep(&harness);
    own_closep(&executor);
}

void start(void) {
    peer_start(&p);
    links();
    peer_go(&p, OUTPUT_MAX);
}

void restart(void) {
    restart_as("shell");
}

void restart_as(const char *word) {
    peer_kill(&p);
    cut();
    peer_start(&p);
    links();
    peer_go_as(&p, word, OUTPUT_MAX);
}

int set_up(void **state) {
    (void)state;
    peer_begin(&p, "agent");
    start();
    return 0;
}

int tear_down(void **state) {
    (void)state;
    cut();
    peer_end(&p);
    return 0;
}

void deliver(uint64_t id, const char *text) {
    struct msg m = {.type = MSG_desk_deliver};
    m.desk_deliver.id = id;
    m.desk_deliver.who = bytes_of("anna");
    m.desk_deliver.text = bytes_of(text);
    say(manager, &m);
}

void settle(uint64_t id) {
    struct msg m = {.type = MSG_desk_settle};
    m.desk_settle.id = id;
    say(manager, &m);
}

void output(uint64_t id, const char *text, size_t n) {
    struct msg m = {.type = MSG_turn_output};
    m.turn_output.id = id;
    m.turn_output.stream = 1;
    m.turn_output.data = (struct bytes){text, n};
    say(harness, &m);
}

void end_turn(uint64_t id, int64_t status) {
    end_turn_as(id, "done", status);
}

void end_turn_as(uint64_t id, const char *outcome, int64_t status) {
    struct msg m = {.type = MSG_turn_end};
    m.turn_end.id = id;
    m.turn_end.outcome = bytes_of(outcome);
    m.turn_end.status = status;
    m.turn_end.text = bytes_of("");
    say(harness, &m);
}

void expect_start(uint64_t id) {
    own_msg struct msg m = {0};
    expect(harness, MSG_turn_start, &m);
    assert_int_equal(m.turn_start.id, id);
}

void expect_finish(uint64_t id, const char *outcome, const char *text) {
    own_msg struct msg m = {0};
    expect(manager, MSG_desk_finished, &m);
    assert_int_equal(m.desk_finished.id, id);
    assert_string_equal(m.desk_finished.outcome.p, outcome);
    if (!strstr(m.desk_finished.text.p, text))
        fail_msg("'%s' is not in the report '%s'", text, m.desk_finished.text.p);
}

void ran(uint64_t row, const char *who, size_t argument) {
    own_free char *big = xmalloc(argument + 1);
    memset(big, 'a', argument);
    struct bytes argv[] = {{"x", 1}, {big, argument}};
    struct msg m = {.type = MSG_ran_row};
    m.ran_row = (struct msg_ran_row){.row = row,
                                     .who = bytes_of(who),
                                     .argv = {argv, 2},
                                     .cwd = bytes_of("/project"),
                                     .start_wall_ms = (uint64_t)clock_wall_ms(),
                                     .how = bytes_of("exit")};
    say(executor, &m);
}

void session_order(enum msg_type type, uint64_t cookie, const char *arg) {
    struct msg m = {.type = type};
    m.desk_fresh =
        (struct msg_desk_fresh){.cookie = cookie, .arg = bytes_of(arg)}; /* the same as desk_resume */
    say(manager, &m);
}

void a_turn(uint64_t id) {
    deliver(id, "a");
    expect_start(id);
    end_turn(id, 0);
    expect_finish(id, "done", "");
    settle(id);
}
