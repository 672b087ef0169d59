/* The real warden: which links it makes, when again, what it heals, what it refuses. */
#include "warden_world.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/paths.h"
#include "wire/seq.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

static struct world w;

static int set_up(void **state) {
    (void)state;
    world_start(&w);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    world_stop(&w);
    return 0;
}

static struct given given(const char *part, enum link_id link) {
    struct given g;
    if (!world_given(&w, part, link, WORLD_MS, &g))
        fail_msg("%s was not given %s", part, link_rows[link].name);
    return g;
}

/* The manager's end of manager_warden, with the whole fleet told. */
static int manager_link(uint64_t agents) {
    int fd = given("manager", LINK_manager_warden).fd;
    own_msg struct msg m = {0};
    expect(fd, MSG_has_all, &m);
    assert_int_equal(m.has_all.agents, agents);
    return fd;
}

static void order_end(int fd, const char *order, const char *agent, struct msg *ret) {
    struct msg m = {.type = MSG_ask_order};
    m.ask_order.cookie = 42;
    m.ask_order.order = bytes_of(order);
    m.ask_order.agent = bytes_of(agent);
    say(fd, &m);
    expect(fd, MSG_ret_order, ret);
    assert_int_equal(ret->ret_order.cookie, 42);
}

static void ask_order(int fd, const char *order, const char *agent, uint64_t status) {
    own_msg struct msg r = {0};
    order_end(fd, order, agent, &r);
    if (r.ret_order.status != status)
        fail_msg("%s %s: status %d: %s", order, agent, (int)r.ret_order.status, r.ret_order.text.p);
}

static void ask_order_says(int fd, const char *order, const char *agent, const char *what) {
    own_msg struct msg r = {0};
    order_end(fd, order, agent, &r);
    assert_int_equal(r.ret_order.status, EXIT_OK);
    assert_non_null(strstr(r.ret_order.text.p, what));
}

static uint64_t op_end(int fd, char text[1025]) {
    own_msg struct msg r = {0};
    expect(fd, MSG_op_end, &r);
    snprintf(text, 1025, "%s", r.op_end.text.p);
    return r.op_end.status;
}

static uint64_t op_new(int fd, const char *agent, const char *mode, char text[1025]) {
    struct bytes none = bytes_of("");
    struct msg m = {.type = MSG_op_new};
    m.op_new =
        (struct msg_op_new){bytes_of(agent), bytes_of(mode), none, none, none, none, none, none, none, none};
    say(fd, &m);
    return op_end(fd, text);
}

static uint64_t op_rm(int fd, const char *agent, char text[1025]) {
    struct msg m = {.type = MSG_op_rm};
    m.op_rm.agent = bytes_of(agent);
    say(fd, &m);
    return op_end(fd, text);
}

/* Until has_agent says this state. */
static void await_state(int fd, const char *state) {
    for (;;) {
        own_msg struct msg m = {0};
        expect(fd, MSG_has_agent, &m);
        if (!strcmp(m.has_agent.state.p, state))
            return;
    }
}

static void await_report(int fd, const char *words) {
    for (;;) {
        own_msg struct msg m = {0};
        expect(fd, MSG_has_report, &m);
        if (strstr(m.has_report.text.p, words))
            return;
    }
}

/* relay and manager get the two ends of one pair, the manager its link to the warden, and nobody anything else. */
static void makes_the_fleets_links(void **state) {
    (void)state;
    struct given relay = given("relay", LINK_relay_manager), manager;
    manager = given("manager", LINK_relay_manager);
    struct msg m = {.type = MSG_fleet_list};
    m.fleet_list.cookie = 7;
    say(relay.fd, &m);
    own_msg struct msg r = {0};
    expect(manager.fd, MSG_fleet_list, &r);
    assert_int_equal(r.fleet_list.cookie, 7);
    close(relay.fd);
    close(manager.fd);
}

static void answers_orders(void **state) {
    (void)state;
    int fd = manager_link(0);
    ask_order(fd, "start", "nobody", EXIT_NOTFOUND);
    ask_order(fd, "start", "../etc", EXIT_USAGE);
    ask_order(fd, "start", "", EXIT_USAGE);
    ask_order(fd, "destroy", "nobody", EXIT_USAGE);
    struct msg m = {.type = MSG_ask_state};
    m.ask_state.cookie = 1;
    m.ask_state.agent = bytes_of("");
    say(fd, &m);
    own_msg struct msg r = {0};
    expect(fd, MSG_ret_state, &r);
    assert_true(r.ret_state.host_memory_total > 0 && r.ret_state.host_cores > 0);
    assert_true(r.ret_state.host_cpu_now <= 100 && r.ret_state.host_cpu_5min <= 100);
    close(fd);
}

/* What is not the manager's to say ends its link, and the warden makes another only a while later. */
static void ends_a_link_that_asks_too_much(void **state) {
    (void)state;
    int fd = manager_link(0);
    struct msg m = {.type = MSG_op_rm};
    m.op_rm.agent = bytes_of("demo");
    say(fd, &m);
    assert_true(ends(fd, WORLD_MS));
    close(fd);
    close(manager_link(0));
}

static void heals_a_killed_part(void **state) {
    (void)state;
    close(given("relay", LINK_relay_manager).fd);
    close(manager_link(0));
    pid_t first = world_pid(&w, "manager");
    kill(first, SIGKILL);
    close(given("relay", LINK_relay_manager).fd); /* the survivor's end is made anew too */
    close(manager_link(0));
    assert_int_not_equal(world_pid(&w, "manager"), first);
}

/* A wrong hello is not trusted with anything: no link, and another start, not at once. */
static void turns_a_liar_away(void **state) {
    (void)state;
    struct given g = given("relay", LINK_relay_manager);
    close(g.fd);
    world_script(&w, "liar", true);
    kill(g.pid, SIGKILL);
    assert_false(world_given(&w, "relay", LINK_relay_manager, 2500, &g));
    world_script(&w, "liar", false);
    close(given("relay", LINK_relay_manager).fd);
    own_free char *path = path_of(PATH_LOG);
    own_buf struct buf log = {0};
    assert_null(fs_read(path, 1 << 20, &log));
    assert_non_null(strstr(buf_text(&log), "another version of the protocol"));
}

static void keeps_heads(void **state) {
    (void)state;
    int fd = manager_link(0);
    char hash[32] = "0123456789abcdef0123456789abcde";
    for (uint64_t seq = 5; seq > 3; seq--) { /* 4 behind 5 is refused, and the link goes on */
        struct msg m = {.type = MSG_ask_keep_head};
        m.ask_keep_head.seq = seq;
        m.ask_keep_head.hash = (struct bytes){hash, sizeof hash};
        say(fd, &m);
    }
    ask_order(fd, "stop", "nobody", EXIT_NOTFOUND);
    own_free char *path = path_of(DIR_LIB "/warden/audit-heads");
    own_buf struct buf b = {0};
    assert_null(fs_read(path, 1 << 16, &b));
    assert_memory_equal(buf_text(&b), "5 30313233", 10);
    assert_ptr_equal(strchr(b.p, '\n'), b.p + b.len - 1); /* one line */
    close(fd);
}

/* The parts go on without a warden; the next one takes them over and leaves the link between them alone. */
static void takes_over_what_lives(void **state) {
    (void)state;
    close(given("relay", LINK_relay_manager).fd);
    close(given("manager", LINK_relay_manager).fd);
    close(manager_link(0));
    pid_t relay = world_pid(&w, "relay"), manager = world_pid(&w, "manager");
    world_kill_warden(&w);
    assert_int_equal(kill(relay, 0), 0);
    world_run_warden(&w);
    close(manager_link(0));
    assert_int_equal(world_pid(&w, "relay"), relay);
    assert_int_equal(world_pid(&w, "manager"), manager);
    struct given g;
    assert_false(world_given(&w, "relay", LINK_relay_manager, 500, &g));
}

static void makes_and_removes_a_bare_agent(void **state) {
    (void)state;
    char text[1025];
    int manager = manager_link(0), op = world_operator(&w);
    assert_int_equal(op_new(op, "Bad", "bare", text), EXIT_USAGE);
    assert_int_equal(op_rm(op, "bert", text), EXIT_NOTFOUND);
    if (op_new(op, "bert", "bare", text))
        fail_msg("%s", text);
    assert_non_null(strstr(text, "bare bert started"));
    await_state(manager, "running");
    assert_string_equal(given("manager", LINK_manager_agent).peer, "bert");
    assert_int_equal(op_new(op, "bert", "bare", text), EXIT_POLICY);
    ask_order(manager, "stop", "bert", EXIT_OK);
    ask_order(manager, "start", "bert", EXIT_OK);
    ask_order_says(manager, "start", "bert", "runs already");
    pid_t agent = world_pid(&w, "bert.agent");
    kill(agent, SIGKILL);
    await_state(manager, "starting");
    await_state(manager, "running");
    assert_int_equal(op_rm(op, "bert", text), EXIT_OK);
    own_msg struct msg gone = {0};
    expect(manager, MSG_has_gone, &gone);
    own_buf struct buf accounts = {0};
    assert_null(fs_read("/etc/passwd", 1 << 20, &accounts));
    assert_null(strstr(buf_text(&accounts), WORLD_PREFIX "cage-bert"));
    close(op);
    close(manager);
}

/* Whether a credential was taken is the word of the room that it went to, and nobody else's. */
static void believes_the_room_that_was_asked(void **state) {
    (void)state;
    char text[1025];
    int op = world_operator(&w);
    if (op_new(op, "anna", "bare", text))
        fail_msg("%s", text);
    pid_t agent = world_pid(&w, "anna.agent");
    kill(agent, SIGSTOP); /* it takes its time */
    struct msg m = {.type = MSG_op_auth};
    m.op_auth.agent = bytes_of("anna");
    m.op_auth.kind = bytes_of("");
    m.op_auth.credential = bytes_of("not-a-real-credential");
    say(op, &m);
    world_script(&w, "forger", true);
    pid_t relay = world_pid(&w, "relay");
    kill(relay, SIGKILL);
    assert_int_equal(poll(&(struct pollfd){op, POLLIN, 0}, 1, 2500), 0);
    assert_int_not_equal(world_pid(&w, "relay"), relay); /* it has forged by now */
    kill(agent, SIGKILL);
    assert_int_equal(op_end(op, text), EXIT_FAILED);
    assert_non_null(strstr(text, "died before it answered"));
    world_script(&w, "forger", false);
    kill(world_pid(&w, "relay"), SIGKILL);
    assert_int_equal(op_rm(op, "anna", text), EXIT_OK);
    close(op);
}

static void does_not_keep_what_does_not_start(void **state) {
    (void)state;
    char text[1025];
    int op = world_operator(&w);
    world_script(&w, "crash", true);
    assert_int_equal(op_new(op, "carl", "bare", text), EXIT_FAILED);
    assert_non_null(strstr(text, "executor died"));
    own_free char *conf = path_of(DIR_ETC "/agents/carl.conf"), *lib = path_of(DIR_LIB "/agents/carl");
    own_free char *project = path_of("/srv/agent-cage/carl");
    assert_int_not_equal(access(conf, F_OK), 0);
    assert_int_not_equal(access(lib, F_OK), 0);
    assert_int_not_equal(access(project, F_OK), 0);
    close(op);
}

static void holds_a_crash_loop_and_says_so_once(void **state) {
    (void)state;
    char text[1025];
    int manager = manager_link(0), op = world_operator(&w);
    if (op_new(op, "dora", "bare", text))
        fail_msg("%s", text);
    world_script(&w, "crash", true);
    kill(world_pid(&w, "dora.executor"), SIGKILL);
    await_report(manager, "is failing");
    await_state(manager, "failing");
    world_script(&w, "crash", false);
    ask_order(manager, "start", "dora", EXIT_OK);
    assert_int_equal(op_rm(op, "dora", text), EXIT_OK);
    close(op);
    close(manager);
}

int main(int argc, char **argv) {
    int status;
    if (world_is_part(argc, argv, &status))
        return status;
    if (geteuid() != 0) {
        fprintf(stderr, "this test makes accounts and namespaces: run it as root\n");
        return 77;
    }
    world_binary = argc > 1 ? argv[1] : "build/agent-cage";
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(makes_the_fleets_links),
        T(answers_orders),
        T(ends_a_link_that_asks_too_much),
        T(heals_a_killed_part),
        T(turns_a_liar_away),
        T(keeps_heads),
        T(takes_over_what_lives),
        T(makes_and_removes_a_bare_agent),
        T(believes_the_room_that_was_asked),
        T(does_not_keep_what_does_not_start),
        T(holds_a_crash_loop_and_says_so_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
