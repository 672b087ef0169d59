/* What the manager answers, whom it tells, and what it does when something is in the way. */
#include "manager_peers.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static int begin(void **state) {
    (void)state;
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

static struct msg order(const char *word, const char *agent) {
    struct msg m = {.type = MSG_fleet_order};
    m.fleet_order = (struct msg_fleet_order){
        .cookie = 9, .who = bytes_of("operator"), .order = bytes_of(word), .agent = bytes_of(agent)};
    return m;
}

/* ---- messages ---- */

static void refusals(void **state) {
    (void)state;
    struct msg q = say(7, "k1", "nobody", "hello");
    relay_answers(&q, EXIT_NOTFOUND, "there is no agent 'nobody'");
    q = say(7, "k1", "no\x1b[2Jbody", "hello");
    relay_answers(&q, EXIT_NOTFOUND, "no\\x1b[2Jbody");
    q = say(7, "", "demo", "hello");
    relay_answers(&q, EXIT_USAGE, "key");
    q = say(7, "k1", "demo", "");
    relay_answers(&q, EXIT_USAGE, "text");
    q = order("explode", "demo");
    relay_answers(&q, EXIT_USAGE, "no such order");
    q = order("stop", "nobody");
    relay_answers(&q, EXIT_NOTFOUND, "nobody");
    q = events_of(7, "nobody", 0, true);
    relay_answers(&q, EXIT_NOTFOUND, "nobody");
}

static void a_key_is_taken_once(void **state) {
    (void)state;
    uint64_t id = relay_says("k1", "demo", "hello");
    assert_int_equal(relay_says("k1", "demo", "hello"), id);
    struct msg q = say(7, "k1", "demo", "something else");
    relay_answers(&q, EXIT_USAGE, "another message");
    q = say(7, "k1", "other", "hello");
    relay_answers(&q, EXIT_USAGE, "another message");
    own_msg struct msg m = {0};
    peer_want(peers.agents[0], MSG_desk_deliver, &m);
    assert_int_equal(m.desk_deliver.id, id);
    assert_string_equal(m.desk_deliver.who.p, "operator");
    struct msg more = {0};
    assert_false(peer_get(peers.agents[0], 50, &more, NULL));
}

static void a_stopped_agent_gets_it_later(void **state) {
    (void)state;
    own_closep(&peers.agents[0]);
    own_msg struct msg lost = {0};
    peer_want(peers.control, MSG_part_lost, &lost);
    struct msg q = say(7, "k1", "demo", "hello");
    relay_answers(&q, 0, "as soon as it can");
    struct msg stopped = {.type = MSG_has_agent};
    struct bytes none = bytes_of("");
    stopped.has_agent =
        (struct msg_has_agent){bytes_of("demo"), none, none, none, none, bytes_of("stopped"), none, 1};
    peer_send(peers.warden, &stopped);
    do {
        own_msg struct msg m = {0};
        relay_ask(&peers, &q, &m);
        if (strstr(m.ret_end.text.p, "demo is stopped: it gets the message as soon as it runs"))
            break;
    } while (true);
    peers_link(&peers, LINK_manager_agent, "demo", &peers.agents[0]);
    own_msg struct msg m = {0};
    peer_want(peers.agents[0], MSG_desk_deliver, &m);
    assert_string_equal(m.desk_deliver.text.p, "hello");
}

/* In order, a window at a time, all open ones again on a new link, ended ones never. */
static void delivery(void **state) {
    (void)state;
    uint64_t ids[40];
    for (size_t i = 0; i < COUNT(ids); i++) {
        char key[16];
        snprintf(key, sizeof key, "k%zu", i);
        ids[i] = relay_says(key, "demo", key);
    }
    size_t got = 0;
    for (struct msg m = {0}; peer_get(peers.agents[0], 200, &m, NULL); msg_free(&m))
        assert_int_equal(m.desk_deliver.id, ids[got++]);
    assert_int_equal(got, 16);
    agent_finishes(0, ids[3], "done", "ok");
    agent_is_settled(0, ids[3]);
    own_msg struct msg next = {0};
    peer_want(peers.agents[0], MSG_desk_deliver, &next);
    assert_int_equal(next.desk_deliver.id, ids[16]);
    agent_finishes(0, ids[3], "unknown", "twice"); /* settled again, stored once */
    agent_is_settled(0, ids[3]);
    peers_link(&peers, LINK_manager_agent, "demo", &peers.agents[0]);
    for (size_t i = 0; i < 16; i++) {
        own_msg struct msg m = {0};
        peer_want(peers.agents[0], MSG_desk_deliver, &m);
        assert_int_equal(m.desk_deliver.id, ids[i < 3 ? i : i + 1]);
    }
    agent_finishes(0, 999999, "done",
                   "of nobody"); /* an id that this manager does not have: settled, so that it ends */
    agent_is_settled(0, 999999);
    agent_finishes(1, ids[5], "done", "of another agent"); /* not its message: nothing is stored */
    agent_is_settled(1, ids[5]);
    agent_finishes(0, ids[5], "done", "its own");
    agent_is_settled(0, ids[5]);
}

static void a_queue_is_bounded(void **state) {
    (void)state;
    for (int i = 0; i < 1000; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        relay_says(key, "other", "hello");
    }
    struct msg q = say(7, "one more", "other", "hello");
    relay_answers(&q, EXIT_POLICY, "1000 messages waiting");
    relay_says("for another", "demo", "hello");
    own_msg struct msg m = {0};
    peer_want(peers.agents[1], MSG_desk_deliver, &m);
    agent_finishes(1, m.desk_deliver.id, "refused", "no");
    agent_is_settled(1, m.desk_deliver.id);
    relay_says("one more", "other", "hello");
}

static void a_removed_agent(void **state) {
    (void)state;
    uint64_t id = relay_says("k1", "demo", "hello");
    struct msg gone = {.type = MSG_has_gone};
    gone.has_gone.agent = bytes_of("demo");
    struct msg q = events_of(3, "demo", 0, true);
    peer_send(peers.relay, &q);
    peer_send(peers.warden, &gone);
    own_msg struct msg queued = {0}, unknown = {0};
    peer_want(peers.relay, MSG_ret_event, &queued);
    peer_want(peers.relay, MSG_ret_event, &unknown);
    assert_string_equal(queued.ret_event.kind.p, "queued");
    assert_string_equal(unknown.ret_event.kind.p, "unknown");
    assert_int_equal(unknown.ret_event.id, id);
    q = say(7, "k2", "demo", "hello");
    relay_answers(&q, EXIT_NOTFOUND, "demo");
    peers_link(&peers, LINK_manager_agent, "demo", &peers.agents[0]);
    struct msg none = {0};
    assert_false(peer_get(peers.agents[0], 50, &none, NULL));
}

/* ---- events ---- */

static struct msg asked(uint64_t question) {
    static const struct bytes choices[] = {{"allow once", 10}, {"decline", 7}};
    struct msg m = {.type = MSG_desk_ask};
    m.desk_ask = (struct msg_desk_ask){.id = 1,
                                       .question = question,
                                       .name = bytes_of("rm"),
                                       .text = bytes_of("rm -rf build"),
                                       .choices = {choices, 2},
                                       .digest = {"0123456789abcdef0123456789abcdef", 32},
                                       .until_wall_ms = 1};
    return m;
}

/* Whoever reads is told a question, also who comes later; the answer goes to its agent with who gave it. */
static void a_question_finds_its_reader(void **state) {
    (void)state;
    struct msg q = events_of(3, "demo", UINT64_MAX, true), a = asked(5);
    peer_send(peers.agents[0], &a);
    peers_know_fleet(&peers);
    peer_send(peers.relay, &q);
    own_msg struct msg told = {0}, got = {0}, over = {0}, end = {0};
    peer_want(peers.relay, MSG_ret_event, &told);
    assert_string_equal(told.ret_event.kind.p, "question");
    assert_int_equal(told.ret_event.question, 5);
    assert_int_equal(told.ret_event.choices.n, 2);
    assert_int_equal(told.ret_event.digest.len, 32);
    struct msg f = {.type = MSG_fleet_answer};
    f.fleet_answer = (struct msg_fleet_answer){.cookie = 8,
                                               .who = bytes_of("telegram:1"),
                                               .agent = bytes_of("demo"),
                                               .question = 5,
                                               .digest = told.ret_event.digest,
                                               .choice = 1};
    peer_send(peers.relay, &f);
    peer_want(peers.agents[0], MSG_desk_answer, &got);
    assert_string_equal(got.desk_answer.who.p, "telegram:1");
    assert_int_equal(got.desk_answer.question, 5);
    assert_int_equal(got.desk_answer.choice, 1);
    assert_memory_equal(got.desk_answer.digest.p, "0123456789abcdef0123456789abcdef", 32);
    struct msg s = {.type = MSG_desk_asked};
    s.desk_asked = (struct msg_desk_asked){
        .id = 1, .question = 5, .who = bytes_of("telegram:1"), .choice = 1, .text = bytes_of("allow once")};
    peer_send(peers.agents[0], &s);
    struct msg e = {.type = MSG_desk_order_end};
    e.desk_order_end.cookie = got.desk_answer.cookie;
    e.desk_order_end.text = bytes_of("allow once");
    peer_send(peers.agents[0], &e);
    peer_want(peers.relay, MSG_ret_event, &over);
    assert_string_equal(over.ret_event.kind.p, "answer");
    assert_string_equal(over.ret_event.who.p, "telegram:1");
    peer_want(peers.relay, MSG_ret_end, &end);
    assert_int_equal(end.ret_end.cookie, 8);
    assert_int_equal(end.ret_end.status, 0);
}

static void a_question_that_nobody_reads_is_declined(void **state) {
    (void)state;
    struct msg a = asked(6);
    peer_send(peers.agents[0], &a);
    own_msg struct msg got = {0};
    peer_want(peers.agents[0], MSG_desk_answer, &got);
    assert_int_equal(got.desk_answer.choice, 0);
    assert_string_equal(got.desk_answer.who.p, "");
}

static void follow_live(void **state) {
    (void)state;
    struct msg q = events_of(3, "demo", UINT64_MAX, true); /* only what comes from now on */
    relay_says("old", "demo", "old");
    peer_send(peers.relay, &q);
    peers_know_fleet(&peers); /* it was heard */
    struct msg n = {.type = MSG_desk_note};
    n.desk_note.text = bytes_of("a note");
    peer_send(peers.agents[0], &n);
    own_msg struct msg note = {0}, output = {0};
    peer_want(peers.relay, MSG_ret_event, &note);
    assert_string_equal(note.ret_event.kind.p, "note");
    struct msg o = {.type = MSG_desk_output};
    o.desk_output.id = 1;
    o.desk_output.text = bytes_of("live");
    peer_send(peers.agents[1], &o);
    peer_send(peers.agents[0], &o);
    peer_want(peers.relay, MSG_ret_event, &output);
    assert_string_equal(output.ret_event.kind.p, "output");
    assert_string_equal(output.ret_event.agent.p, "demo");
    assert_int_equal(output.ret_event.seq, note.ret_event.seq);
    struct msg f = {.type = MSG_fleet_forget};
    f.fleet_forget.cookie = 3;
    peer_send(peers.relay, &f);
    peers_know_fleet(&peers);
    peer_send(peers.agents[0], &n);
    struct msg none = {0};
    assert_false(peer_get(peers.relay, 50, &none, NULL));
}

static uint64_t resident(void) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", peers.pid);
    own_file FILE *f = fopen(path, "re");
    assert_non_null(f);
    unsigned long long kib = 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %llu", &kib) == 1)
            break;
    return kib << 10;
}

/* A reader that does not read, of much more than fits its link. */
static void a_slow_reader(void **state) {
    (void)state;
    enum { N = 400 };
    for (int i = 0; i < N; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        uint64_t id = relay_says(key, "demo", key);
        agent_finishes(0, id, "done", long_text());
        agent_is_settled(0, id);
    }
    uint64_t before = resident();
    struct msg q = events_of(3, "", 0, false), q2 = events_of(4, "demo", 0, true);
    peer_send(peers.relay, &q);
    peer_send(peers.relay, &q2);
    own_msg struct msg late = {0};
    struct msg other = say(7, "late", "other", "while the reader sleeps");
    peer_send(peers.relay, &other);
    peer_want(peers.agents[1], MSG_desk_deliver, &late);
    assert_in_range(resident(), 0, before + (16 << 20)); /* a page and a full link, not 48 MB */
    uint64_t last[5] = {0};
    int given[5] = {0};
    for (bool over = false; !over || given[4] < 2 * N;) {
        own_msg struct msg m = {0};
        assert_true(peer_get(peers.relay, DEADLINE_MS, &m, NULL));
        if (m.type == MSG_ret_end) {
            over |= m.ret_end.cookie == 3;
            continue;
        }
        uint64_t cookie = m.ret_event.cookie;
        assert_true(m.ret_event.seq > last[cookie]);
        last[cookie] = m.ret_event.seq;
        given[cookie]++;
    }
    assert_in_range(given[3], 2 * N, 2 * N + 1);
}

/* ---- commands ---- */

static struct msg exec_demo(uint64_t cookie, int fds[3]) {
    static const struct bytes argv[] = {{"true", 4}};
    struct msg m = {.type = MSG_fleet_exec, .fds = {fds[0], fds[1], fds[2]}, .nfds = 3};
    m.fleet_exec = (struct msg_fleet_exec){.cookie = cookie,
                                           .who = bytes_of("operator"),
                                           .agent = bytes_of("demo"),
                                           .cwd = bytes_of(""),
                                           .argv = {argv, 1}};
    return m;
}

static uint64_t started(uint64_t cookie) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct msg q = exec_demo(cookie, (int[]){null, null, null});
    peer_send(peers.relay, &q);
    close(null);
    own_msg struct msg m = {0};
    peer_want(peers.agents[0], MSG_desk_exec, &m);
    assert_int_equal(m.nfds, 3);
    return m.desk_exec.run;
}

static void signalled(uint64_t run, uint64_t signo) {
    own_msg struct msg m = {0};
    peer_want(peers.agents[0], MSG_desk_signal, &m);
    assert_int_equal(m.desk_signal.run, run);
    assert_int_equal(m.desk_signal.signo, signo);
}

static void commands(void **state) {
    (void)state;
    uint64_t run = started(20);
    struct msg s = {.type = MSG_fleet_signal};
    s.fleet_signal.cookie = 20;
    s.fleet_signal.signo = SIGINT;
    peer_send(peers.relay, &s);
    signalled(run, SIGINT);
    struct msg e = {.type = MSG_desk_exec_end};
    e.desk_exec_end =
        (struct msg_desk_exec_end){.run = run, .how = bytes_of("exit"), .status = 3, .text = bytes_of("")};
    peer_send(peers.agents[0], &e);
    own_msg struct msg ended = {0};
    peer_want(peers.relay, MSG_ret_exec_end, &ended);
    assert_int_equal(ended.ret_exec_end.cookie, 20);
    assert_int_equal(ended.ret_exec_end.status, 3);

    run = started(21);
    struct msg f = {.type = MSG_fleet_forget};
    f.fleet_forget.cookie = 21;
    peer_send(peers.relay, &f);
    signalled(run, SIGKILL);

    run = started(22);
    own_closep(&peers.relay);
    signalled(run, SIGKILL);
    peers_link(&peers, LINK_relay_manager, "", &peers.relay);

    started(23);
    own_closep(&peers.agents[0]);
    own_msg struct msg broken = {0};
    peer_want(peers.relay, MSG_ret_end, &broken);
    assert_int_equal(broken.ret_end.cookie, 23);
    assert_int_equal(broken.ret_end.status, EXIT_FAILED);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct msg q = exec_demo(9, (int[]){null, null, null});
    relay_answers(&q, EXIT_FAILED, "agent-cage start demo");
    close(null);
}

/* ---- orders and figures ---- */

static void orders(void **state) {
    (void)state;
    struct msg q = order("restart", "demo");
    peer_send(peers.relay, &q);
    own_msg struct msg asked = {0};
    peer_want(peers.warden, MSG_ask_order, &asked);
    assert_string_equal(asked.ask_order.order.p, "restart");
    struct msg r = {.type = MSG_ret_order};
    r.ret_order =
        (struct msg_ret_order){.cookie = asked.ask_order.cookie, .status = 126, .text = bytes_of("because")};
    peer_send(peers.warden, &r);
    own_msg struct msg m = {0};
    peer_want(peers.relay, MSG_ret_end, &m);
    assert_int_equal(m.ret_end.status, 126);
    assert_string_equal(m.ret_end.text.p, "because");

    q = order("halt", "demo");
    peer_send(peers.relay, &q);
    own_msg struct msg halt = {0}, halted = {0};
    peer_want(peers.agents[0], MSG_desk_halt, &halt);
    struct msg done = {.type = MSG_desk_order_end};
    done.desk_order_end =
        (struct msg_desk_order_end){.cookie = halt.desk_halt.cookie, .text = bytes_of("ended")};
    peer_send(peers.agents[0], &done);
    peer_want(peers.relay, MSG_ret_end, &halted);
    assert_string_equal(halted.ret_end.text.p, "ended");

    static const char box[] = {0, 1, (char)0xff, '\n'};
    q = (struct msg){.type = MSG_fleet_token};
    q.fleet_token =
        (struct msg_fleet_token){.cookie = 9, .agent = bytes_of("demo"), .box = {box, sizeof box}};
    peer_send(peers.relay, &q);
    own_msg struct msg token = {0}, taken = {0};
    peer_want(peers.agents[0], MSG_desk_token, &token);
    assert_int_equal(token.desk_token.box.len, sizeof box);
    assert_memory_equal(token.desk_token.box.p, box, sizeof box);
    done.desk_order_end =
        (struct msg_desk_order_end){.cookie = token.desk_token.cookie, .text = bytes_of("logged in")};
    peer_send(peers.agents[0], &done);
    peer_want(peers.relay, MSG_ret_end, &taken);
    assert_string_equal(taken.ret_end.text.p, "logged in");
    q.fleet_token.agent = bytes_of("nobody");
    relay_answers(&q, EXIT_NOTFOUND, "nobody");

    q = order("start", "demo"); /* the warden goes away before it answers */
    peer_send(peers.relay, &q);
    own_msg struct msg again = {0}, lost = {0};
    peer_want(peers.warden, MSG_ask_order, &again);
    own_closep(&peers.warden);
    peer_want(peers.relay, MSG_ret_end, &lost);
    assert_int_equal(lost.ret_end.status, EXIT_FAILED);
    q = order("start", "demo");
    relay_answers(&q, EXIT_FAILED, "warden cannot be reached");
}

static void figures(void **state) {
    (void)state;
    struct msg desk = {.type = MSG_desk_state};
    desk.desk_state = (struct msg_desk_state){.login = bytes_of("no login needed"),
                                              .token_key = {"a key", 5},
                                              .sessions = 2,
                                              .survivors = 1,
                                              .survivor_text = bytes_of("41 sleep"),
                                              .last_command_wall_ms = 5};
    peer_send(peers.agents[0], &desk);
    relay_says("k", "demo", "waits");
    struct msg q = {.type = MSG_fleet_status};
    q.fleet_status.cookie = 5;
    q.fleet_status.agent = bytes_of("demo");
    peer_send(peers.relay, &q);
    own_msg struct msg asked = {0};
    peer_want(peers.warden, MSG_ask_state, &asked);
    struct msg f = {.type = MSG_ret_state};
    f.ret_state = (struct msg_ret_state){.cookie = asked.ask_state.cookie,
                                         .agent = bytes_of("demo"),
                                         .up_ms = 9,
                                         .processes = 10,
                                         .host_cores = 6};
    peer_send(peers.warden, &f);
    own_msg struct msg m = {0}, over = {0};
    peer_want(peers.relay, MSG_ret_status, &m);
    assert_string_equal(m.ret_status.login.p, "no login needed");
    assert_int_equal(m.ret_status.token_key.len, 5);
    assert_memory_equal(m.ret_status.token_key.p, "a key", 5);
    assert_int_equal(m.ret_status.processes, 10);
    assert_int_equal(m.ret_status.queued, 1);
    assert_int_equal(m.ret_status.host_cores, 6);
    peer_want(peers.relay, MSG_ret_end, &over);
    own_closep(&peers.warden); /* both agents, and nobody with figures */
    own_msg struct msg gone = {0};
    peer_want(peers.control, MSG_part_lost, &gone);
    q.fleet_status.agent = bytes_of("");
    peer_send(peers.relay, &q);
    for (int i = 0; i < AGENTS; i++) {
        own_msg struct msg each = {0};
        peer_want(peers.relay, MSG_ret_status, &each);
        assert_string_equal(each.ret_status.agent.p, agent_names[i]);
        assert_non_null(strstr(each.ret_status.why.p, "warden"));
    }
}

/* ---- the audit log ---- */

static void a_huge_command(void **state) {
    (void)state;
    static char huge[2000000];
    memset(huge, 'a', sizeof huge);
    struct bytes argv[] = {bytes_of("echo"), {huge, sizeof huge}, bytes_of("end")};
    struct msg r = {.type = MSG_desk_row};
    r.desk_row = (struct msg_desk_row){.row = 4,
                                       .who = bytes_of(""),
                                       .argv = {argv, 3},
                                       .cwd = bytes_of("/p"),
                                       .how = bytes_of("exit"),
                                       .output = bytes_of("")};
    peer_send(peers.agents[0], &r);
    peer_send(peers.agents[0], &r);
    own_msg struct msg kept = {0}, twice = {0}, head = {0}, row = {0}, over = {0};
    peer_want(peers.agents[0], MSG_desk_settle_row, &kept);
    peer_want(peers.agents[0], MSG_desk_settle_row, &twice);
    peer_want(peers.warden, MSG_ask_keep_head, &head);
    assert_int_equal(head.ask_keep_head.seq, 1);
    struct msg q = {.type = MSG_fleet_log};
    q.fleet_log.cookie = 2;
    q.fleet_log.agent = bytes_of("demo");
    peer_send(peers.relay, &q);
    peer_want(peers.relay, MSG_ret_row, &row);
    assert_int_equal(row.ret_row.argv.n, 2);
    assert_string_equal(row.ret_row.argv.v[0].p, "echo");
    assert_non_null(strstr(row.ret_row.argv.v[1].p, "(left out: 2 arguments, 2000005 bytes, sha256 "));
    assert_memory_equal(row.ret_row.hash.p, head.ask_keep_head.hash.p, 32);
    peer_want(peers.relay, MSG_ret_end, &over);
}

static struct msg file(enum msg_type type, const char *agent, const char *name, uint64_t size, int fd) {
    struct msg m = {.type = type, .fds = {fd}, .nfds = 1};
    if (type == MSG_fleet_put)
        m.fleet_put = (struct msg_fleet_put){.cookie = 1,
                                             .who = bytes_of("web:0"),
                                             .agent = bytes_of(agent),
                                             .name = bytes_of(name),
                                             .size = size};
    else
        m.fleet_get = (struct msg_fleet_get){
            .cookie = 1, .who = bytes_of("web:0"), .agent = bytes_of(agent), .name = bytes_of(name)};
    return m;
}

/* A relay that was taken over says what it likes. */
static void files(void **state) {
    (void)state;
    own_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    static const enum msg_type types[] = {MSG_fleet_put, MSG_fleet_get};
    for (size_t i = 0; i < COUNT(types); i++) {
        struct msg up = file(types[i], "demo", "../up", 1, null),
                   gone = file(types[i], "nobody", "x", 1, null);
        relay_answers(&up, EXIT_POLICY, "begins with a dot");
        relay_answers(&gone, EXIT_NOTFOUND, "no agent");
        struct msg q = file(types[i], "demo", "x.bin", 7, null);
        peer_send(peers.relay, &q);
        own_msg struct msg m = {0}, ended = {0};
        peer_want(peers.agents[0], i ? MSG_desk_get : MSG_desk_put, &m);
        assert_int_equal(m.nfds, 1);
        assert_string_equal(i ? m.desk_get.name.p : m.desk_put.name.p, "x.bin");
        assert_string_equal(i ? m.desk_get.who.p : m.desk_put.who.p, "web:0");
        struct msg e = {.type = MSG_desk_order_end};
        e.desk_order_end =
            (struct msg_desk_order_end){.cookie = m.desk_put.cookie, .text = bytes_of("/inbox/x.bin")};
        peer_send(peers.agents[1], &e); /* not asked: it is not believed */
        peer_send(peers.agents[0], &e);
        peer_want(peers.relay, MSG_ret_end, &ended);
        assert_string_equal(ended.ret_end.text.p, "/inbox/x.bin");
    }
    struct msg large = file(MSG_fleet_put, "demo", "x", (UINT64_C(2) << 30) + 1, null);
    relay_answers(&large, EXIT_POLICY, "too large");
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(refusals),
        CASE(a_key_is_taken_once),
        CASE(a_stopped_agent_gets_it_later),
        CASE(delivery),
        CASE(a_queue_is_bounded),
        CASE(a_removed_agent),
        CASE(a_question_finds_its_reader),
        CASE(a_question_that_nobody_reads_is_declined),
        CASE(follow_live),
        CASE(a_slow_reader),
        CASE(commands),
        CASE(files),
        CASE(orders),
        CASE(figures),
        CASE(a_huge_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
