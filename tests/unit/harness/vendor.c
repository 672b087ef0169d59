/*
 * A vendor's program between conversations, as scripts that are started, spoken to and ended for real: one that no longer has the
 * conversation that it is to take up, one that keeps it at its end alone, one that does not want to end.
 */
#include "harness/vendor.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/own.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { DEADLINE_MS = 30000 };

static struct buf said;
static bool over;

void __wrap_say_event(struct from_agent *up, const char *kind, const char *call, const char *name,
                      int64_t status, const char *text, size_t len);
void __wrap_say_event(struct from_agent *up, const char *kind, const char *call, const char *name,
                      int64_t status, const char *text, size_t len) {
    (void)up, (void)call, (void)name, (void)status;
    if (strcmp(kind, "usage"))
        buf_printf(&said, "%s(%.*s) ", kind, (int)len, text);
}

void __wrap_say_end(struct from_agent *up, const char *outcome, int64_t status, const char *text);
void __wrap_say_end(struct from_agent *up, const char *outcome, int64_t status, const char *text) {
    (void)up;
    buf_printf(&said, "END(%s,%lld,%s)", outcome, (long long)status, text);
    over = true;
}

void __wrap_say_programs(struct from_agent *up, uint64_t count);
void __wrap_say_programs(struct from_agent *up, uint64_t count) {
    (void)up, (void)count;
}

bool __wrap_say_full(const struct from_agent *up);
bool __wrap_say_full(const struct from_agent *up) {
    (void)up;
    return false;
}

/* ---- a room with one program, which is a script ---- */

static struct event_base *base;
static struct protocol protocol;
static struct world world;
static struct floor room;
static struct vendor *v;
static char dir[] = "/dev/shm/unit-vendor-XXXXXX", path[64], none[] = "", login[] = "key";
static char *const env[] = {(char[]){"PATH=/usr/bin:/bin"}, NULL};

static void open_room(const struct protocol *p, const char *script) {
    base = event_base_new();
    memset(dir + strlen(dir) - 6, 'X', 6);
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/program", dir);
    own_free char *text = xasprintf("#!/bin/sh\ncd %s\n%s", dir, script);
    assert_null(fs_write(path, text, strlen(text), getuid(), getgid(), 0700));
    protocol = *p;
    protocol.program = path;
    world = (struct world){1, none, none, none, login, none};
    room = (struct floor){.base = base, .project = dir, .home = dir, .scratch = dir, .env = env, .arg = none};
    room.world = &world;
    void *h;
    assert_null(vendor_open(&protocol, &room, &h));
    v = h;
    vendor_session_is(v, 1);
}

static void close_room(void) {
    vendor_close(v);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    event_base_free(base);
    assert_null(fs_remove(dir));
    buf_free(&said);
}

static void look_for_children(void) {
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || !info.si_pid)
        return;
    vendor_exited(v, info.si_pid, info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status);
    waitpid(info.si_pid, NULL, 0);
}

static bool kept(const char *name) {
    own_free char *file = xasprintf("%s/%s", dir, name);
    return access(file, F_OK) == 0;
}

#define WAIT_FOR(what)                                                                                       \
    for (int64_t until = clock_mono_ns() / 1000000 + DEADLINE_MS; !(what);) {                                \
        assert_true(clock_mono_ns() / 1000000 < until);                                                      \
        event_base_loopexit(base, &(struct timeval){0, 5000});                                               \
        event_base_dispatch(base);                                                                           \
        look_for_children();                                                                                 \
    }

static void begin(const char *text) {
    buf_clear(&said);
    over = false;
    assert_null(vendor_start(v, text));
}

static void turn(const char *text) {
    begin(text);
    WAIT_FOR(over);
}

/* Claude Code's way of a turn: `id` is the conversation's. */
#define INIT "echo '{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"'$id'\"}'\n"
#define REPLAY "echo '{\"type\":\"user\",\"isReplay\":true,\"message\":{\"content\":\"hi\"}}'\n"
#define RESULT "echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false}'\n"
#define TURN INIT REPLAY RESULT
#define REFUSAL                                                                                              \
    "echo 'No conversation found with session ID: x' >&2\n"                                                  \
    "echo "                                                                                                  \
    "'{\"type\":\"result\",\"subtype\":\"error_during_execution\",\"is_error\":true,\"num_turns\":0}'\n"     \
    "exit 1\n"

static void a_conversation_that_is_gone_begins_anew(void **state) {
    (void)state;
    open_room(&claude_protocol, "case \"$*\" in *--resume*) " REFUSAL ";; esac\n"
                                "id=new; while read -r line; do echo \"$line\" >>got\n" TURN "done\n");
    assert_null(session_keep(&v->session, "old", 0));
    turn("hi");
    assert_string_equal(buf_text(&said), "note(claude has the earlier conversation no more: a new one begins "
                                         "with this message) END(done,0,)");
    assert_string_equal(v->session.id, "new");
    own_free char *got = NULL, *file = xasprintf("%s/got", dir);
    assert_null(fs_read_line(file, &got)); /* once, in the new one */
    assert_non_null(strstr(got, "\"hi\""));
    close_room();
    open_room(&codex_protocol, "case \"$*\" in *resume*) echo 'Error: thread/resume failed: no rollout found "
                               "for thread id x (code -32600)' >&2; exit 1;; esac\n"
                               "echo '{\"type\":\"thread.started\",\"thread_id\":\"'$(cat)'\"}'\n"
                               "echo '{\"type\":\"turn.completed\",\"usage\":{}}'\n");
    assert_null(session_keep(&v->session, "old", 0));
    turn("hi");
    assert_string_equal(buf_text(&said), "note(codex has the earlier conversation no more: a new one begins "
                                         "with this message) END(done,0,)");
    assert_string_equal(v->session.id, "hi");
    close_room();
}

/* Whatever else fails at the start, the conversation is not given up; nor is a text said twice that was taken up. */
static void nothing_else_begins_anew(void **state) {
    (void)state;
    static const struct {
        const struct protocol *protocol;
        const char *script, *end;
    } rows[] = {
        {&claude_protocol, "echo 'out of memory' >&2; exit 3\n", "(exit 3): out of memory;"},
        {&claude_protocol, "kill -9 $$\n", "(signal 9);"},
        {&claude_protocol, "read -r line\n" REPLAY REFUSAL, "END(done,1,error_during_execution)"},
        {&codex_protocol, "echo 'no such option' >&2; exit 2\n", "(exit 2): no such option;"},
        {&codex_protocol,
         "echo '{\"type\":\"thread.started\",\"thread_id\":\"old\"}'\n"
         "echo 'no rollout found for thread id x' >&2; exit 1\n",
         "(exit 1): no rollout"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        open_room(rows[i].protocol, rows[i].script);
        assert_null(session_keep(&v->session, "old", 0));
        turn("hi");
        assert_non_null(strstr(buf_text(&said), rows[i].end));
        assert_null(strstr(buf_text(&said), "begins"));
        assert_string_equal(v->session.id, "old");
        close_room();
    }
}

static void one_that_ends_without_a_word_is_started_once_more(void **state) {
    (void)state;
    open_room(&claude_protocol, "echo >>starts; test -e tried || { : >tried; exit 0; }\n"
                                "id=new; while read -r line; do echo \"$line\" >>got\n" TURN "done\n");
    turn("hi");
    assert_string_equal(buf_text(&said),
                        "note(claude ended before it took the message up: it is started again) "
                        "END(done,0,)");
    close_room();
    open_room(&claude_protocol, "echo >>starts; kill -9 $$\n");
    turn("hi");
    assert_non_null(strstr(buf_text(&said), "END(unknown,125,claude ended in the middle (signal 9);"));
    own_free char *starts = xasprintf("%s/starts", dir);
    own_buf struct buf text = {0};
    assert_null(fs_read(starts, 100, &text));
    assert_int_equal(text.len, 2);
    close_room();
}

/* ---- its end ---- */

/* Keeps its conversation when its input ends, and not at once; the next one says whether it is there. */
#define KEEPS                                                                                                \
    "id=$(test -e kept && echo found || echo lost)\n"                                                        \
    "while read -r line; do\n" TURN "done\n"                                                                 \
    "head -c 200000 /dev/zero; sleep 0.3; : >kept\n"

static void it_keeps_its_conversation_before_the_next_one_begins(void **state) {
    (void)state;
    open_room(&claude_protocol, KEEPS);
    turn("hi");
    assert_string_equal(v->session.id, "lost");
    vendor_session_is(v, 2);
    turn("hi"); /* waits for the end of the one before */
    assert_string_equal(v->session.id, "found");
    world.generation++; /* another model */
    assert_int_equal(unlink(path), 0);
    begin("hi");
    WAIT_FOR(over); /* where the next one cannot be started it is said */
    assert_non_null(strstr(buf_text(&said), "END(refused,"));
    close_room();
}

static void an_idle_one_is_ended_in_order(void **state) {
    (void)state;
    open_room(&claude_protocol, KEEPS);
    room.idle_ms = 100;
    turn("hi");
    WAIT_FOR(kept("kept"));
    WAIT_FOR(!program_leaves(v->program));
    close_room();
}

static void one_that_does_not_want_to_end_is_killed(void **state) {
    (void)state;
    open_room(&claude_protocol,
              "trap ': >asked' TERM; id=deaf; read -r line\n" TURN "while :; do sleep 0.1; done\n");
    turn("hi");
    world.generation++;
    turn("hi");
    assert_true(kept("asked"));
    close_room();
}

static void a_turn_that_waits_for_an_end_is_stopped(void **state) {
    (void)state;
    open_room(&claude_protocol, KEEPS);
    turn("hi");
    world.generation++;
    begin("hi");
    assert_true(v->waits);
    vendor_stop(v);
    assert_string_equal(buf_text(&said), "END(done,130,)");
    WAIT_FOR(!program_leaves(v->program));
    assert_false(program_runs(v->program));
    close_room();
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation_that_is_gone_begins_anew),
        cmocka_unit_test(nothing_else_begins_anew),
        cmocka_unit_test(one_that_ends_without_a_word_is_started_once_more),
        cmocka_unit_test(it_keeps_its_conversation_before_the_next_one_begins),
        cmocka_unit_test(an_idle_one_is_ended_in_order),
        cmocka_unit_test(one_that_does_not_want_to_end_is_killed),
        cmocka_unit_test(a_turn_that_waits_for_an_end_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
