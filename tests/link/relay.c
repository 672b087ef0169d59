/* The relay as a daemon: what fronts ask reaches the manager, answers come back, and nothing gets lost, mixed up or stuck. */
#include "base/own.h"
#include "proto/after.h"
#include "relay_world.h"
#include "wire/seq.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int setup(void **state) {
    static struct world w;
    world_start(&w);
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world_stop(*state);
    return 0;
}

static void ask_list(int front, uint64_t cookie) {
    struct msg m = {.type = MSG_front_list};
    m.front_list.cookie = cookie;
    say(front, &m);
}

static void ask_say(int front, uint64_t cookie, const char *key) {
    struct msg m = {.type = MSG_front_say};
    m.front_say.cookie = cookie;
    m.front_say.key = bytes_of(key);
    m.front_say.agent = bytes_of("demo");
    m.front_say.text = bytes_of("echo hello");
    say(front, &m);
}

static void expect_end(int front, uint64_t cookie, uint64_t status) {
    own_msg struct msg m = {0};
    hear(front, MSG_relay_end, &m);
    assert_int_equal(m.relay_end.cookie, cookie);
    assert_int_equal(m.relay_end.status, status);
}

static void a_message_goes_down_with_who_said_it(void **state) {
    struct world *w = *state;
    own_fd int front = world_front(w);
    ask_say(front, 7, "key-1");
    own_msg struct msg m = {0}, back = {0};
    hear(w->manager, MSG_fleet_say, &m);
    assert_string_equal(m.fleet_say.who.p, "terminal:0");
    assert_string_equal(m.fleet_say.key.p, "key-1");
    assert_string_equal(m.fleet_say.agent.p, "demo");
    assert_string_equal(m.fleet_say.text.p, "echo hello");
    end(w->manager, m.fleet_say.cookie, 0, 42, "");
    hear(front, MSG_relay_end, &back);
    assert_int_equal(back.relay_end.cookie, 7);
    assert_int_equal(back.relay_end.id, 42);
}

static void answers_go_to_the_one_who_asked(void **state) {
    struct world *w = *state;
    own_fd int a = world_front(w), b = world_front(w);
    own_msg struct msg qa = {0}, qb = {0}, got = {0};
    ask_list(a, 1);
    hear(w->manager, MSG_fleet_list, &qa);
    ask_list(b, 1);
    hear(w->manager, MSG_fleet_list, &qb);
    assert_int_not_equal(qa.fleet_list.cookie, qb.fleet_list.cookie);
    struct msg m = {.type = MSG_ret_agent};
    m.ret_agent.cookie = qb.fleet_list.cookie;
    m.ret_agent.agent = bytes_of("for-b");
    m.ret_agent.since_wall_ms = 99;
    say(w->manager, &m);
    end(w->manager, qb.fleet_list.cookie, 0, 0, "");
    hear(b, MSG_relay_agent, &got);
    assert_string_equal(got.relay_agent.agent.p, "for-b");
    assert_int_equal(got.relay_agent.since_wall_ms, 99);
    expect_end(b, 1, 0);
    assert_true(silent(a, 50));
    end(w->manager, qa.fleet_list.cookie, 0, 0, "");
    expect_end(a, 1, 0);
}

static void ask_exec(int front, uint64_t cookie, const int fds[3]) {
    static const struct bytes argv[] = {{"printf", 6}, {"a\xff b", 4}};
    struct msg m = {.type = MSG_front_exec, .fds = {fds[0], fds[1], fds[2]}, .nfds = 3};
    m.front_exec.cookie = cookie;
    m.front_exec.agent = bytes_of("demo");
    m.front_exec.timeout_ms = 1500;
    m.front_exec.cwd = bytes_of("");
    m.front_exec.argv = (struct list){argv, COUNT(argv)};
    say(front, &m);
}

static void a_command_carries_its_descriptors_and_signals(void **state) {
    struct world *w = *state;
    own_fd int front = world_front(w);
    int in[2], out[2];
    assert_int_equal(pipe(in) | pipe(out), 0);
    ask_exec(front, 3, (int[]){in[0], out[1], out[1]});
    close(out[1]);
    {
        own_msg struct msg m = {0}, s = {0};
        hear(w->manager, MSG_fleet_exec, &m);
        assert_int_equal(m.nfds, 3);
        assert_int_equal(m.fleet_exec.timeout_ms, 1500);
        assert_int_equal(m.fleet_exec.argv.n, 2);
        assert_memory_equal(m.fleet_exec.argv.v[1].p, "a\xff b", 5);
        assert_int_equal(write(m.fds[1], "output", 6), 6);
        assert_int_equal(write(in[1], "input", 5), 5);
        char text[8] = {0};
        assert_int_equal(read(m.fds[0], text, sizeof text), 5);
        assert_string_equal(text, "input");
        struct msg q = {.type = MSG_front_signal};
        q.front_signal.cookie = 3;
        q.front_signal.signo = SIGINT;
        say(front, &q);
        hear(w->manager, MSG_fleet_signal, &s);
        assert_int_equal(s.fleet_signal.cookie, m.fleet_exec.cookie);
        assert_int_equal(s.fleet_signal.signo, SIGINT);
        struct msg e = {.type = MSG_ret_exec_end};
        e.ret_exec_end.cookie = m.fleet_exec.cookie;
        e.ret_exec_end.how = bytes_of("signal");
        e.ret_exec_end.status = SIGINT;
        say(w->manager, &e);
    }
    own_msg struct msg got = {0};
    hear(front, MSG_relay_exec_end, &got);
    assert_int_equal(got.relay_exec_end.cookie, 3);
    assert_string_equal(got.relay_exec_end.how.p, "signal");
    char text[16] = {0};
    assert_int_equal(read(out[0], text, sizeof text), 6);
    assert_int_equal(read(out[0], text, sizeof text), 0); /* nobody kept a copy: relay nor front */
    close(in[0]), close(in[1]), close(out[0]);
}

static void ask_file(int front, uint64_t cookie, const char *name, uint64_t size, int fd) {
    struct msg m = {.type = MSG_front_put, .fds = {fd}, .nfds = 1};
    m.front_put.cookie = cookie;
    m.front_put.agent = bytes_of("demo");
    m.front_put.name = bytes_of(name);
    m.front_put.size = size;
    say(front, &m);
    m.type = MSG_front_get;
    m.front_get =
        (struct msg_front_get){.cookie = cookie + 1, .agent = bytes_of("demo"), .name = bytes_of(name)};
    if (!size)
        say(front, &m);
}

static void files_are_checked_and_carry_their_pipe(void **state) {
    struct world *w = *state;
    own_fd int front = world_front(w);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    static const char *const bad[] = {"", "..", ".x", "a/b", "a\nb", "\xe2\x80\xaetxt"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        ask_file(front, 10, bad[i], 0, ends[0]);
        expect_end(front, 10, EXIT_POLICY);
        expect_end(front, 11, EXIT_POLICY);
    }
    ask_file(front, 10, "large", (UINT64_C(2) << 30) + 1, ends[0]);
    expect_end(front, 10, EXIT_POLICY);
    ask_file(front, 20, "fine", 0, ends[1]); /* the first that the manager hears of */
    close(ends[1]);
    own_msg struct msg put = {0}, get = {0};
    hear(w->manager, MSG_fleet_put, &put);
    hear(w->manager, MSG_fleet_get, &get);
    assert_string_equal(put.fleet_put.name.p, "fine");
    assert_string_equal(put.fleet_put.who.p, "terminal:0");
    assert_int_equal(put.nfds + get.nfds, 2);
    assert_int_equal(write(get.fds[0], "x", 1), 1);
    msg_free(&put);
    msg_free(&get);
    put = get = (struct msg){0};
    char text[2];
    assert_int_equal(read(ends[0], text, 2), 1);
    assert_int_equal(read(ends[0], text, 2), 0); /* the relay kept none of it */
    close(ends[0]);
}

static void who_leaves_is_forgotten(void **state) {
    struct world *w = *state;
    own_fd int front = world_front(w);
    own_fd int null = open("/dev/null", 2);
    ask_exec(front, 5, (int[]){null, null, null});
    own_msg struct msg m = {0}, f = {0};
    hear(w->manager, MSG_fleet_exec, &m);
    own_closep(&front);
    hear(w->manager, MSG_fleet_forget, &f);
    assert_int_equal(f.fleet_forget.cookie, m.fleet_exec.cookie);
    end(w->manager, m.fleet_exec.cookie, 0, 0, "late"); /* harms nobody */
    own_fd int other = world_front(w);
    ask_list(other, 1);
    own_msg struct msg q = {0};
    hear(w->manager, MSG_fleet_list, &q);
}

static void a_new_manager_is_asked_again_what_may_be(void **state) {
    struct world *w = *state;
    own_fd int front = world_front(w), null = open("/dev/null", 2);
    own_msg struct msg said = {0}, ran = {0}, ordered = {0}, again = {0};
    ask_say(front, 1, "key-2");
    hear(w->manager, MSG_fleet_say, &said);
    ask_exec(front, 2, (int[]){null, null, null});
    hear(w->manager, MSG_fleet_exec, &ran);
    struct msg m = {.type = MSG_front_order};
    m.front_order.cookie = 3;
    m.front_order.order = bytes_of("start");
    m.front_order.agent = bytes_of("demo");
    say(front, &m);
    hear(w->manager, MSG_fleet_order, &ordered);
    own_closep(&w->manager);
    own_msg struct msg one = {0}, two = {0};
    hear(front, MSG_relay_end, &one);
    hear(front, MSG_relay_end, &two);
    assert_int_equal(one.relay_end.cookie + two.relay_end.cookie, 5); /* command and order, not the message */
    assert_int_equal(one.relay_end.status, EXIT_FAILED);
    world_manager(w);
    hear(w->manager, MSG_fleet_say, &again);
    assert_string_equal(again.fleet_say.key.p, "key-2");
    assert_int_not_equal(again.fleet_say.cookie, said.fleet_say.cookie);
    end(w->manager, again.fleet_say.cookie, 0, 8, "");
    expect_end(front, 1, 0);
}

static void without_a_manager_a_question_ends(void **state) {
    struct world *w = *state;
    own_closep(&w->manager);
    own_fd int front = world_front(w);
    ask_list(front, 4);
    expect_end(front, 4, EXIT_FAILED);
    world_manager(w);
}

static void give_event(int manager, uint64_t cookie, uint64_t seq, const char *text) {
    struct msg m = {.type = MSG_ret_event};
    m.ret_event.cookie = cookie;
    m.ret_event.seq = seq;
    m.ret_event.agent = bytes_of("demo");
    m.ret_event.kind = bytes_of("output");
    m.ret_event.text = bytes_of(text);
    say(manager, &m);
}

/* One front follows events and does not read. */
static void a_slow_reader_costs_nobody_else_and_loses_nothing(void **state) {
    struct world *w = *state;
    own_fd int slow = world_front(w), quick = world_front(w);
    struct msg m = {.type = MSG_front_events};
    m.front_events.cookie = 1;
    m.front_events.agent = bytes_of("");
    m.front_events.after = after_last(0);
    m.front_events.follow = 1;
    say(slow, &m);
    own_msg struct msg q = {0};
    hear(w->manager, MSG_fleet_events, &q);
    assert_int_equal(q.fleet_events.after, after_last(0));
    static char text[50001];
    memset(text, 'x', sizeof text - 1);
    uint64_t seq = 0;
    while (silent(w->manager, 0)) /* until the relay says that it is enough */
        give_event(w->manager, q.fleet_events.cookie, ++seq, text);
    assert_in_range(seq, 80, 1000); /* about LINK_QUEUE_MAX and the sockets' own room */
    own_msg struct msg f = {0};
    hear(w->manager, MSG_fleet_forget, &f);
    assert_int_equal(f.fleet_forget.cookie, q.fleet_events.cookie);
    ask_list(quick, 2);
    own_msg struct msg other = {0};
    hear(w->manager, MSG_fleet_list, &other);
    end(w->manager, other.fleet_list.cookie, 0, 0, "");
    expect_end(quick, 2, 0);

    uint64_t seen = 0, cookie = 0;
    while (seen < seq) {
        own_msg struct msg got = {0};
        hear(slow, MSG_relay_event, &got);
        assert_int_equal(got.relay_event.cookie, 1);
        assert_int_equal(got.relay_event.seq, seen + 1);
        seen = got.relay_event.seq;
        if (cookie || silent(w->manager, 0))
            continue;
        own_msg struct msg again = {0};
        hear(w->manager, MSG_fleet_events, &again);
        cookie = again.fleet_events.cookie;
        for (uint64_t s = again.fleet_events.after; s < seq;)
            give_event(w->manager, cookie, ++s, "rest");
    }
}

static void answer_list(int manager) {
    static char project[4001];
    memset(project, 'p', sizeof project - 1);
    own_msg struct msg q = {0};
    hear(manager, MSG_fleet_list, &q);
    struct msg m = {.type = MSG_ret_agent};
    m.ret_agent.cookie = q.fleet_list.cookie;
    m.ret_agent.project = bytes_of(project);
    say(manager, &m);
    end(manager, q.fleet_list.cookie, 0, 0, "");
}

static void who_does_not_read_may_not_ask_on(void **state) {
    struct world *w = *state;
    own_fd int front = world_front(w);
    fcntl(front, F_SETFL, O_NONBLOCK);
    uint64_t asked = 0, ended = 0;
    int patience = 500;
    for (;; asked++) {
        struct msg m = {.type = MSG_front_list};
        m.front_list.cookie = asked + 1;
        own_err err_t full = seq_send(front, &m);
        if (full)
            break;
        if (!silent(w->manager, patience))
            answer_list(w->manager);
        else
            patience = 0; /* the relay reads no more, and soon the socket is full */
        assert_true(asked < 20000);
    }
    while (ended < asked) {
        own_msg struct msg got = {0};
        struct pollfd p[] = {{front, POLLIN, 0}, {w->manager, POLLIN, 0}};
        assert_true(poll(p, COUNT(p), WAIT_MS) > 0);
        if (p[1].revents)
            answer_list(w->manager);
        if (!p[0].revents)
            continue;
        enum seq_got what;
        assert_null(seq_recv(front, &got, &what));
        assert_int_equal(what, SEQ_MESSAGE);
        ended += got.type == MSG_relay_end; /* also of those that were too many at once */
    }
}

static void only_root_may_speak(void **state) {
    struct world *w = *state;
    own_free char *path = xasprintf("%s/run/agent-cage/relay.sock", w->root);
    assert_int_equal(chmod(path, 0666), 0); /* the second lock opened: the first must hold alone */
    pid_t pid = fork();
    if (!pid) {
        int fd;
        if (setgid(64998) || setuid(64998) || seq_connect(path, &fd))
            _exit(1);
        struct msg m = {0};
        enum seq_got got;
        _exit(seq_recv(fd, &m, &got) || got != SEQ_END ? 2 : 0);
    }
    assert_int_equal(reap(pid), 0);
    chmod(path, 0600);
}

static void another_build_is_told_so(void **state) {
    struct world *w = *state;
    own_free char *path = xasprintf("%s/run/agent-cage/relay.sock", w->root);
    own_fd int fd = -1;
    assert_null(seq_connect(path, &fd));
    struct msg m = {.type = MSG_front_hello};
    m.front_hello.fingerprint = msg_fingerprint() + 1;
    m.front_hello.front = bytes_of("test");
    say(fd, &m);
    expect_end(fd, 0, EXIT_FAILED);
    assert_true(hangs_up(fd));
}

static void a_front_cannot_ask_without_end(void **state) {
    struct world *w = *state;
    own_fd int front = world_front(w);
    for (uint64_t i = 1; i <= 65; i++)
        ask_list(front, i);
    expect_end(front, 65, EXIT_USAGE);
    ask_list(front, 1); /* a cookie that is open */
    expect_end(front, 1, EXIT_USAGE);
    for (int i = 0; i < 64; i++) {
        own_msg struct msg m = {0};
        hear(w->manager, MSG_fleet_list, &m);
        end(w->manager, m.fleet_list.cookie, 0, 0, "");
        own_msg struct msg got = {0};
        hear(front, MSG_relay_end, &got);
    }
}

static void nonsense_ends_the_link_alone(void **state) {
    struct world *w = *state;
    own_fd int front = world_front(w), other = world_front(w);
    assert_int_equal(write(front, "nonsense", 8), 8);
    assert_true(hangs_up(front));
    struct msg m = {.type = MSG_op_rm}; /* another link's message */
    m.op_rm.agent = bytes_of("demo");
    own_fd int wrong = world_front(w);
    say(wrong, &m);
    assert_true(hangs_up(wrong));
    ask_list(other, 1);
    own_msg struct msg q = {0};
    hear(w->manager, MSG_fleet_list, &q);
}

static void a_restarted_relay_uses_no_cookie_again(void **state) {
    struct world *w = *state;
    own_msg struct msg before = {0}, after = {0};
    own_fd int front = world_front(w);
    ask_list(front, 1);
    hear(w->manager, MSG_fleet_list, &before);
    world_restart(w);
    assert_true(hangs_up(front));
    own_fd int again = world_front(w);
    ask_list(again, 1);
    hear(w->manager, MSG_fleet_list, &after);
    assert_true(after.fleet_list.cookie > before.fleet_list.cookie);
}

/* root's words go to a front that takes them, and are words that it knows. */
static void a_word_for_nobody_is_refused(void **state) {
    struct world *w = *state;
    own_fd int front = world_front(w);
    static const char *const all[][2] = {{"nobody", "login"}, {"terminal", "login"}, {"web", "nonsense"}};
    for (size_t i = 0; i < COUNT(all); i++) {
        struct msg m = {.type = MSG_front_word};
        m.front_word.cookie = i + 1;
        m.front_word.front = bytes_of(all[i][0]);
        m.front_word.word = bytes_of(all[i][1]);
        say(front, &m);
        expect_end(front, i + 1, EXIT_USAGE);
    }
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        EACH(a_message_goes_down_with_who_said_it),
        EACH(answers_go_to_the_one_who_asked),
        EACH(a_command_carries_its_descriptors_and_signals),
        EACH(files_are_checked_and_carry_their_pipe),
        EACH(who_leaves_is_forgotten),
        EACH(a_new_manager_is_asked_again_what_may_be),
        EACH(without_a_manager_a_question_ends),
        EACH(a_slow_reader_costs_nobody_else_and_loses_nothing),
        EACH(who_does_not_read_may_not_ask_on),
        EACH(only_root_may_speak),
        EACH(another_build_is_told_so),
        EACH(a_front_cannot_ask_without_end),
        EACH(nonsense_ends_the_link_alone),
        EACH(a_restarted_relay_uses_no_cookie_again),
        EACH(a_word_for_nobody_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
