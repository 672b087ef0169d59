/*
 * The real harness room with `acp:` and a program that misbehaves in every way that is known of such programs. The program is
 * this test itself, started with the word --double and a list of what to do; it speaks just enough of the protocol.
 */
#include "peer.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/own.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the double ---- */

enum { CHUNK = 1 << 16, LONG_LINE = 50 << 20 };

static void tell(const char *fmt, const char *a, const char *b) {
    printf(fmt, a, b);
    printf("\n");
    fflush(stdout);
}

/* The number behind "id": in a question. */
static const char *id_of(const char *line) {
    static char id[32];
    const char *at = strstr(line, "\"id\":");
    snprintf(id, sizeof id, "%ld", at ? strtol(at + 5, NULL, 10) : 0);
    return id;
}

static void update(const char *rest) {
    tell("{\"jsonrpc\":\"2.0\",\"method\":\"session/"
         "update\",\"params\":{\"sessionId\":\"s1\",\"update\":{%s%s}}}",
         rest, "");
}

static void chunk(const char *text) {
    own_free char *rest = xasprintf(
        "\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"%s\"}", text);
    update(rest);
}

static void stop(const char *id, const char *reason) {
    tell("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"stopReason\":\"%s\"}}", id, reason);
}

static void long_line(void) {
    static char block[CHUNK];
    memset(block, 'x', sizeof block);
    printf("{\"text\":\"");
    for (size_t i = 0; i < LONG_LINE / CHUNK; i++)
        fwrite(block, 1, sizeof block, stdout);
    printf("\"}\n");
}

static void tools(void) {
    update("\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"t1\",\"title\":\"Run\",\"status\":\"pending\","
           "\"rawInput\":{\"command\":\"ls\"}");
    update("\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"t2\",\"title\":\"Read\",\"status\":\"pending\"");
    update("\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"t2\",\"status\":\"failed\"");
    update(
        "\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"t1\",\"status\":\"completed\",\"content\":"
        "[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":\"a b\"}}]");
    update("\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"t1\",\"status\":\"completed\"");
}

static char session[64] = "s1";

/* What the turn's text asks for. */
static void act(const char *line) {
    const char *id = id_of(line);
    if (strstr(line, "DIE"))
        raise(SIGKILL);
    if (strstr(line, "WHICH")) {
        chunk(session);
        stop(id, "end_turn");
    } else if (strstr(line, "SLEEP")) { /* a command in the background */
        if (!fork()) {
            execlp("sleep", "sleep", "1", NULL);
            _exit(127);
        }
        stop(id, "end_turn");
    } else if (strstr(line, "HANG"))
        chunk("begun");
    else if (strstr(line, "TWICE")) {
        chunk("once");
        stop(id, "end_turn");
        stop(id, "end_turn");
    } else if (strstr(line, "HALF")) {
        printf("{\"jsonrpc\":\"2.0\",\"method\":\"session/up\n");
        chunk("whole");
        stop(id, "end_turn");
    } else if (strstr(line, "UNKNOWN")) {
        update("\"sessionUpdate\":\"telepathy\",\"content\":{\"type\":\"text\",\"text\":\"no\"}");
        chunk("known");
        stop(id, "end_turn");
    } else if (strstr(line, "LONG")) {
        long_line();
        chunk("after");
        stop(id, "end_turn");
    } else if (strstr(line, "TOOLS")) {
        tools();
        stop(id, "end_turn");
    } else if (strstr(line, "ASK")) {
        tell("{\"jsonrpc\":\"2.0\",\"id\":\"p1\",\"method\":\"session/"
             "request_permission\",\"params\":{\"sessionId\":\"s1\",\"toolCall\":"
             "{\"toolCallId\":\"t1\",\"title\":\"rm\"},\"options\":[{\"optionId\":\"%s\",\"kind\":\"allow_"
             "once\"},{\"optionId\":"
             "\"%s\",\"kind\":\"reject_once\"}]}}",
             "yes", "no");
        char got[4096] = "";
        while (!strstr(got, "\"id\":\"p1\"")) /* a cancel of the turn may come before it */
            if (!fgets(got, sizeof got, stdin))
                exit(1);
        chunk(strstr(got, "\"optionId\":\"yes\"")        ? "was told yes"
              : strstr(got, "\"optionId\":\"no\"")       ? "was told no"
              : strstr(got, "\"outcome\":\"cancelled\"") ? "was cancelled"
                                                         : "was told nothing");
        stop(id, "end_turn");
    } else if (strstr(line, "REFUSE"))
        tell("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32000,\"message\":\"%s\"}}", id,
             "not today");
    else {
        chunk("hello \\u00e9");
        chunk(" world");
        stop(id, "end_turn");
    }
}

static int double_main(const char *how) {
    static char line[1 << 20];
    bool loads = strstr(how, "loads"), many = strstr(how, "many");
    signal(SIGCHLD, SIG_IGN); /* no zombies */
    while (fgets(line, sizeof line, stdin)) {
        if (strstr(line, "\"initialize\"")) {
            own_free char *caps =
                xasprintf("\"agentCapabilities\":{\"loadSession\":%s},\"new\":1", loads ? "true" : "false");
            own_free char *result =
                xasprintf("{\"protocolVersion\":%s,%s}", strstr(how, "v2") ? "2" : "1", caps);
            tell("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", id_of(line), result);
        } else if (strstr(line, "\"session/load\"")) {
            chunk("the past");
            const char *at = strstr(line, "\"sessionId\":\"");
            if (many && at)
                snprintf(session, sizeof session, "%.*s", (int)strcspn(at + 13, "\""), at + 13);
            if (many || strstr(line, "\"s1\""))
                tell("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":null%s}", id_of(line), "");
            else
                tell("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-1,\"message\":\"%s\"}}",
                     id_of(line), "none");
        } else if (strstr(line, "\"session/new\"")) {
            if (many)
                snprintf(session, sizeof session, "s%d", getpid());
            tell("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"sessionId\":\"%s\"}}", id_of(line), session);
        } else if (strstr(line, "\"session/cancel\"") && !strstr(how, "deaf"))
            stop("3", "cancelled");
        else if (strstr(line, "\"session/prompt\""))
            act(line);
    }
    return 0;
}

/* ---- the room ---- */

struct heard {
    struct buf text, tools, notes;
    char outcome[17], why[1025];
    int64_t status;
};

static void heard_free(struct heard *h) {
    buf_free(&h->text);
    buf_free(&h->tools);
    buf_free(&h->notes);
}
#define own_heard __attribute__((cleanup(heard_free)))

static struct peer p;
static int agent = -1;
static uint64_t next_id = 1;

/* Where the model is, so that turns are taken. */
static void say_world(const char *placeholder) {
    struct msg m = {.type = MSG_turn_world};
    m.turn_world = (struct msg_turn_world){.base_url = bytes_of("http://127.0.0.1:4100"),
                                           .vendor = bytes_of("anthropic"),
                                           .placeholder = bytes_of(placeholder),
                                           .login = bytes_of("key"),
                                           .model = bytes_of("")};
    say(agent, &m);
}

static void say_session(uint64_t number) {
    struct msg m = {.type = MSG_turn_session};
    m.turn_session.number = number;
    say(agent, &m);
}

static uint64_t idle_ms;

static void begin(const char *how) {
    peer_begin(&p, "harness");
    p.idle_ms = idle_ms;
    own_free char *program = xasprintf("%s/double", p.dir);
    own_free char *self = realpath("/proc/self/exe", NULL);
    assert_null(fs_copy(self, program, 0, 0, 0755));
    assert_int_equal(chmod(p.dir, 0755), 0);
    peer_start(&p);
    agent = peer_link(&p, LINK_agent_harness);
    own_free char *harness = xasprintf("acp:%s --double %s", program, how);
    peer_go_as(&p, harness, 1 << 20);
    say_world("one");
    say_session(1);
}

static void end(void) {
    own_closep(&agent);
    peer_end(&p);
}

static uint64_t ask(const char *text) {
    struct msg m = {.type = MSG_turn_start};
    m.turn_start.id = next_id++;
    m.turn_start.text = bytes_of(text);
    say(agent, &m);
    return m.turn_start.id;
}

static void ask_stop(uint64_t id) {
    struct msg m = {.type = MSG_turn_stop};
    m.turn_stop.id = id;
    say(agent, &m);
}

static void take_event(struct heard *h, const struct msg_turn_event *q) {
    if (!strcmp(q->kind.p, "text"))
        buf_add(&h->text, q->text.p, q->text.len);
    else if (!strcmp(q->kind.p, "note"))
        buf_printf(&h->notes, "%s\n", q->text.p);
    else
        buf_printf(&h->tools, "%s %s %s %lld %s\n", q->kind.p, q->call.p, q->name.p, (long long)q->status,
                   q->text.p);
}

static uint64_t choose; /* what is answered to a question */

static void answer(uint64_t id, const struct msg_turn_ask *q, struct heard *h) {
    struct msg m = {.type = MSG_turn_answer};
    m.turn_answer = (struct msg_turn_answer){.id = id, .question = q->question, .choice = choose};
    buf_printf(&h->tools, "ask %s\n", q->name.p);
    for (size_t i = 0; i < q->choices.n; i++)
        buf_printf(&h->tools, "%zu %s\n", i + 1, q->choices.v[i].p);
    assert_non_null(strstr(q->text.p, "\"toolCallId\": \"t1\""));
    say(agent, &m);
    say(agent, &m); /* the second is late, and passed over */
}

static void listen_to(uint64_t id, struct heard *h) {
    for (int64_t until = now_ms() + DEADLINE_MS; now_ms() < until;) {
        own_msg struct msg m = {0};
        bool gone;
        if (!hear(agent, DEADLINE_MS, &m, &gone))
            break;
        if (m.type == MSG_turn_event) {
            assert_int_equal(m.turn_event.id, id);
            take_event(h, &m.turn_event);
        } else if (m.type == MSG_turn_ask) {
            assert_int_equal(m.turn_ask.id, id);
            answer(id, &m.turn_ask, h);
        } else if (m.type == MSG_turn_end) {
            assert_int_equal(m.turn_end.id, id);
            snprintf(h->outcome, sizeof h->outcome, "%s", m.turn_end.outcome.p);
            snprintf(h->why, sizeof h->why, "%s", m.turn_end.text.p);
            h->status = m.turn_end.status;
            return;
        }
    }
    fail_msg("the turn did not end");
}

static void run(const char *text, struct heard *h) {
    listen_to(ask(text), h);
}

static void expect_text(const char *ask_text, const char *text, const char *in_notes) {
    own_heard struct heard h = {0};
    run(ask_text, &h);
    assert_string_equal(buf_text(&h.text), text);
    assert_string_equal(h.outcome, "done");
    assert_int_equal(h.status, 0);
    if (in_notes)
        assert_non_null(strstr(buf_text(&h.notes), in_notes));
    else
        assert_string_equal(buf_text(&h.notes), "");
}

static void what_programs_do_wrong(void **state) {
    (void)state;
    begin("plain");
    expect_text("hi", "hello \xc3\xa9 world\n", NULL);
    expect_text("HALF", "whole\n", "no JSON");
    expect_text("UNKNOWN", "known\n", "telepathy");
    expect_text("LONG", "after\n", "bytes was passed over");
    expect_text("hi", "hello \xc3\xa9 world\n", NULL);
    end();
}

static void a_permission_is_a_persons_to_give(void **state) {
    (void)state;
    static const char *const told[] = {"was told no\n", "was told yes\n", "was told no\n"};
    begin("plain");
    for (choose = 0; choose < COUNT(told); choose++) {
        own_heard struct heard h = {0};
        run("ASK", &h);
        assert_string_equal(buf_text(&h.text), told[choose]);
        assert_string_equal(buf_text(&h.tools), "ask rm\n1 allow once\n2 decline\n");
    }
    end();
}

static void a_question_ends_with_its_turn(void **state) {
    (void)state;
    begin("plain");
    own_heard struct heard h = {0};
    uint64_t id = ask("ASK");
    own_msg struct msg m = {0};
    expect(agent, MSG_turn_ask, &m);
    ask_stop(id);
    listen_to(id, &h);
    assert_string_equal(buf_text(&h.text), "was cancelled\n");
    struct msg late = {.type = MSG_turn_answer};
    late.turn_answer = (struct msg_turn_answer){.id = id, .question = m.turn_ask.question, .choice = 1};
    say(agent, &late);
    expect_text("hi", "hello \xc3\xa9 world\n", NULL);
    end();
}

static void a_second_answer_is_passed_over(void **state) {
    (void)state;
    begin("plain");
    own_heard struct heard h = {0}, next = {0};
    run("TWICE", &h);
    assert_string_equal(buf_text(&h.text), "once\n");
    run("hi", &next);
    assert_string_equal(buf_text(&next.text), "hello \xc3\xa9 world\n");
    assert_string_equal(next.outcome, "done");
    end();
}

static void tools_are_told_once(void **state) {
    (void)state;
    begin("plain");
    own_heard struct heard h = {0};
    run("TOOLS", &h);
    assert_string_equal(buf_text(&h.tools),
                        "tool_start t1 Run 1 ls\ntool_start t2 Read 0 \ntool_end t2 Read 1 \n"
                        "tool_end t1 Run 0 a b\n");
    end();
}

static void which(uint64_t number, struct heard *h) {
    say_session(number);
    run("WHICH", h);
}

static void each_session_is_a_conversation_of_its_own(void **state) {
    (void)state;
    begin("loads,many");
    own_heard struct heard first = {0}, second = {0}, again = {0};
    which(1, &first);
    which(2, &second);
    assert_string_not_equal(buf_text(&first.text), buf_text(&second.text));
    which(1, &again);
    assert_string_equal(buf_text(&first.text), buf_text(&again.text));
    assert_string_equal(buf_text(&again.notes), "");
    end();
}

static void expect_programs(uint64_t count) {
    own_msg struct msg m = {0};
    do
        expect(agent, MSG_turn_programs, &m);
    while (m.turn_programs.count != count);
}

static void an_idle_program_is_ended_and_taken_up_again(void **state) {
    (void)state;
    idle_ms = 300;
    begin("loads");
    expect_programs(0);
    expect_text("hi", "hello \xc3\xa9 world\n", NULL);
    expect_programs(0); /* it was ended */
    expect_text("hi", "hello \xc3\xa9 world\n", NULL);
    int64_t before = now_ms();
    expect_text("SLEEP", "", NULL);
    expect_programs(0);
    assert_in_range(now_ms() - before, 1000, DEADLINE_MS); /* not before its command was over */
    idle_ms = 0;
    end();
}

static void an_error_is_an_end(void **state) {
    (void)state;
    begin("plain");
    own_heard struct heard h = {0};
    run("REFUSE", &h);
    assert_string_equal(h.outcome, "done");
    assert_int_equal(h.status, 1);
    assert_string_equal(h.why, "not today");
    end();
}

static void dies_and_goes_on(void **state) {
    (void)state;
    begin("loads");
    expect_text("hi", "hello \xc3\xa9 world\n", NULL);
    own_heard struct heard h = {0};
    run("DIE", &h);
    assert_string_equal(h.outcome, "unknown");
    assert_non_null(strstr(h.why, "signal 9"));
    expect_text("hi", "hello \xc3\xa9 world\n", NULL); /* session/load of s1: "the past" is not told again */
    end();
}

static void stop_is_a_cancel(void **state) {
    (void)state;
    begin("plain");
    own_heard struct heard h = {0};
    uint64_t id = ask("HANG");
    own_msg struct msg m = {0};
    expect(agent, MSG_turn_event, &m);
    int64_t before = now_ms();
    ask_stop(id);
    listen_to(id, &h);
    assert_in_range(now_ms() - before, 0, 900); /* it was not killed */
    assert_string_equal(h.outcome, "done");
    assert_int_equal(h.status, 130);
    end();
}

static void who_ignores_a_cancel_is_killed(void **state) {
    (void)state;
    begin("deaf,loads");
    own_heard struct heard h = {0};
    uint64_t id = ask("HANG");
    own_msg struct msg m = {0};
    expect(agent, MSG_turn_event, &m);
    int64_t before = now_ms();
    ask_stop(id);
    listen_to(id, &h);
    assert_in_range(now_ms() - before, 0, 1900);
    assert_int_equal(h.status, 130);
    expect_text("hi", "hello \xc3\xa9 world\n", NULL);
    end();
}

static void another_version_is_refused(void **state) {
    (void)state;
    begin("v2");
    for (int i = 0; i < 2; i++) {
        own_heard struct heard h = {0};
        run("hi", &h);
        assert_string_equal(h.outcome, "refused");
        assert_string_equal(h.why, "the harness speaks version 2 of ACP, agent-cage speaks 1");
    }
    end();
}

static void another_placeholder_is_another_program(void **state) {
    (void)state;
    begin("loads");
    expect_text("hi", "hello \xc3\xa9 world\n", NULL);
    say_world("two");
    expect_text("hi", "hello \xc3\xa9 world\n", NULL);
    end();
}

static void without_a_model_a_turn_is_refused(void **state) {
    (void)state;
    peer_begin(&p, "harness");
    peer_start(&p);
    agent = peer_link(&p, LINK_agent_harness);
    peer_go_as(&p, "acp:/bin/cat", 1 << 20);
    own_heard struct heard h = {0};
    run("hi", &h);
    assert_string_equal(h.outcome, "refused");
    assert_non_null(strstr(h.why, "--upstream"));
    end();
}

static void a_program_that_is_not_there(void **state) {
    (void)state;
    peer_begin(&p, "harness");
    peer_start(&p);
    agent = peer_link(&p, LINK_agent_harness);
    peer_go_as(&p, "acp:no-such-program --acp", 1 << 20);
    say_world("one");
    own_heard struct heard h = {0};
    run("hi", &h);
    assert_string_equal(h.outcome, "refused");
    assert_string_equal(h.why, "this room has no program no-such-program");
    end();
}

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "--double"))
        return double_main(argv[2]);
    peer_binary = argc > 1 ? argv[1] : "build/agent-cage";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_programs_do_wrong),
        cmocka_unit_test(a_permission_is_a_persons_to_give),
        cmocka_unit_test(a_question_ends_with_its_turn),
        cmocka_unit_test(a_second_answer_is_passed_over),
        cmocka_unit_test(tools_are_told_once),
        cmocka_unit_test(each_session_is_a_conversation_of_its_own),
        cmocka_unit_test(an_idle_program_is_ended_and_taken_up_again),
        cmocka_unit_test(an_error_is_an_end),
        cmocka_unit_test(dies_and_goes_on),
        cmocka_unit_test(stop_is_a_cancel),
        cmocka_unit_test(who_ignores_a_cancel_is_killed),
        cmocka_unit_test(another_version_is_refused),
        cmocka_unit_test(another_placeholder_is_another_program),
        cmocka_unit_test(without_a_model_a_turn_is_refused),
        cmocka_unit_test(a_program_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
