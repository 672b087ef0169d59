/* The real command line through a real relay to a double of the fleet. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/own.h"
#include "double.h"
#include "relay_world.h"
#include "up/supervise.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

static pid_t fleet;

static int setup(void **state) {
    static struct world w;
    world_start(&w);
    fleet = fork();
    if (!fleet) {
        close(w.control);
        double_run(w.manager);
    }
    own_closep(&w.manager);
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world_stop(*state);
    waitpid(fleet, NULL, 0);
    return 0;
}

struct ran {
    int status;
    struct buf out, err;
};

static void ran_free(struct ran *r) {
    buf_free(&r->out);
    buf_free(&r->err);
}
#define own_ran __attribute__((cleanup(ran_free)))

static void slurp(int fd, struct buf *out) {
    char chunk[65536];
    for (ssize_t n; (n = read(fd, chunk, sizeof chunk)) > 0;)
        buf_add(out, chunk, (size_t)n);
}

/* With pipes all around; input is given at once (less than a pipe holds). */
static struct ran run(struct world *w, const char *input, char *const argv[]) {
    int in[2], out[2], err[2];
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    assert_int_equal(write(in[1], input, strlen(input)), (ssize_t)strlen(input));
    close(in[1]);
    pid_t pid = world_cli(w, (int[]){in[0], out[1], err[1]}, argv);
    close(in[0]), close(out[1]), close(err[1]);
    struct ran r = {0};
    slurp(out[0], &r.out);
    slurp(err[0], &r.err);
    close(out[0]), close(err[0]);
    r.status = reap(pid);
    return r;
}
#define RUN(input, ...) run(w, input, (char *[]){"agent-cage", __VA_ARGS__, NULL})

static void ls_lists_and_disarms(void **state) {
    struct world *w = *state;
    own_ran struct ran r = RUN("", "ls");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(buf_text(&r.out), "demo "));
    assert_non_null(strstr(buf_text(&r.out), HOSTILE_SHOWN));
    assert_null(strchr(buf_text(&r.out), 033));
    own_ran struct ran j = RUN("", "ls", "--json");
    json_t *all = json_loads(buf_text(&j.out), 0, NULL);
    assert_int_equal(json_array_size(all), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(all, 1), "why")), HOSTILE);
    json_decref(all);
}

static void status_shows_the_strip(void **state) {
    struct world *w = *state;
    own_ran struct ran r = RUN("", "status", "demo");
    assert_string_equal(buf_text(&r.out),
                        "[demo] demo — running · up 1m01s\n"
                        "▪ no login needed\n"
                        "◦ 0 active sessions · 10 processes\n"
                        "◆ no command ran yet\n"
                        "— host —\n"
                        "▫ RAM: 6.0G free of 12.0G (50% used) · CPU 0% now, 0% 5min (6 cores)\n");
    own_ran struct ran no = RUN("", "status", "nobody");
    assert_int_equal(no.status, EXIT_NOTFOUND);
    assert_string_equal(buf_text(&no.err), "agent-cage: there is no agent of that name\n");
    own_ran struct ran bad = RUN("", "status", "Bad/Name");
    assert_int_equal(bad.status, EXIT_USAGE);
}

static void send_waits_for_the_report(void **state) {
    struct world *w = *state;
    own_ran struct ran r = RUN("", "send", "demo", "echo one; echo two >&2; exit 3", "--wait");
    assert_int_equal(r.status, 3);
    assert_string_equal(buf_text(&r.out), "one\ntwo\n");
    own_ran struct ran plain = RUN("", "send", "demo", "true");
    assert_string_equal(buf_text(&plain.out), "demo has it as #2\n");
    own_ran struct ran from_input = RUN("echo from input", "send", "demo", "-", "--wait");
    assert_string_equal(buf_text(&from_input.out), "from input\n");
    own_ran struct ran refused = RUN("", "send", "demo", "refuse", "--wait");
    assert_int_equal(refused.status, EXIT_POLICY);
    own_ran struct ran unknown = RUN("", "send", "demo", "unknown", "--wait");
    assert_int_equal(unknown.status, EXIT_FAILED);
    own_ran struct ran hostile = RUN("", "send", "demo", "printf '\\033[2Jx\\r'", "--wait");
    assert_string_equal(buf_text(&hostile.out), "\\x1b[2Jx\\r\n");
}

/* Waits until the process has a handler for the signal. */
static bool catches(pid_t pid, int signo) {
    own_free char *path = xasprintf("/proc/%d/status", (int)pid);
    for (int64_t until = clock_mono_ns() + (int64_t)WAIT_MS * 1000000; clock_mono_ns() < until;) {
        own_buf struct buf status = {0};
        own_err err_t e = fs_read(path, 1 << 16, &status);
        const char *row = e ? NULL : strstr(buf_text(&status), "\nSigCgt:");
        if (row && strtoull(row + strlen("\nSigCgt:"), NULL, 16) >> (signo - 1) & 1)
            return true;
        poll(NULL, 0, 5);
    }
    return false;
}

/* Until one of its lines has this in it. */
static void await_line(int fd, const char *what) {
    struct buf seen = {0};
    while (!strstr(buf_text(&seen), what)) {
        struct pollfd p = {fd, POLLIN, 0};
        char chunk[4096];
        ssize_t n = poll(&p, 1, WAIT_MS) > 0 ? read(fd, chunk, sizeof chunk) : -1;
        if (n <= 0)
            fail_msg("no \"%s\" in: %s", what, buf_text(&seen));
        buf_add(&seen, chunk, (size_t)n);
    }
    buf_free(&seen);
}

/* Interrupted once it has said `first` (NULL: once SIGINT is its own), it says `last` and ends with 130. */
static void interrupted(struct world *w, const char *first, const char *last, char *const argv[]) {
    int err[2];
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    own_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t pid = world_cli(w, (int[]){null, null, err[1]}, argv);
    close(err[1]);
    if (first)
        await_line(err[0], first);
    else
        assert_true(catches(pid, SIGINT));
    kill(pid, SIGINT);
    await_line(err[0], last);
    assert_int_equal(reap(pid), 128 + SIGINT);
    close(err[0]);
}

static void what_goes_on_after_ctrl_c_is_said(void **state) {
    struct world *w = *state;
    interrupted(w, "`agent-cage start demo`", "the message stays",
                (char *[]){"agent-cage", "send", "demo", "later", "--wait", NULL});
    interrupted(w, NULL, "the warden goes on with it", (char *[]){"agent-cage", "stop", "demo", NULL});
}

static void send_streams_json(void **state) {
    struct world *w = *state;
    own_ran struct ran r = RUN("", "send", "demo", "printf '\\033x'", "--wait", "--json");
    static const char *const kinds[] = {"queued", "started", "output", "report"};
    const char *p = buf_text(&r.out);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        json_t *e = json_loads(p, JSON_DISABLE_EOF_CHECK, NULL);
        assert_non_null(e);
        assert_string_equal(json_string_value(json_object_get(e, "kind")), kinds[i]);
        if (i == 3)
            assert_string_equal(json_string_value(json_object_get(e, "text")), "\033x");
        json_decref(e);
        p = strchr(p, '\n') + 1;
    }
    assert_int_equal(*p, 0);
    assert_null(strchr(buf_text(&r.out), 033));
}

static void exec_passes_pipes_and_statuses(void **state) {
    struct world *w = *state;
    own_ran struct ran r = RUN("to stdin", "exec", "demo", "--", "sh", "-c", "cat; echo err >&2; exit 7");
    assert_int_equal(r.status, 7);
    assert_string_equal(buf_text(&r.out), "to stdin");
    assert_string_equal(buf_text(&r.err), "err\n");
    own_ran struct ran args = RUN("", "exec", "demo", "--", "printf", "<%s>", "a b", "c\nd", "\xff", "");
    assert_string_equal(buf_text(&args.out), "<a b><c\nd><\xff><>");
    own_ran struct ran killed = RUN("", "exec", "demo", "--", "sh", "-c", "kill -9 $$");
    assert_int_equal(killed.status, 128 + SIGKILL);
    own_ran struct ran late = RUN("", "exec", "demo", "--timeout", "200ms", "--", "sleep", "100");
    assert_int_equal(late.status, EXIT_TIMED_OUT);
    own_ran struct ran none = RUN("", "exec", "nobody", "--", "true");
    assert_int_equal(none.status, EXIT_NOTFOUND);
    own_ran struct ran words = RUN("", "exec", "demo", "true");
    assert_int_equal(words.status, EXIT_USAGE);
}

static void exec_copies_files(void **state) {
    struct world *w = *state;
    char in_name[] = "/tmp/cli-test-XXXXXX", out_name[] = "/tmp/cli-test-XXXXXX";
    own_fd int in = mkostemp(in_name, O_CLOEXEC), out = mkostemp(out_name, O_CLOEXEC);
    static char block[1 << 20];
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (char)(i * 7919 >> 3);
    for (int i = 0; i < 5; i++)
        assert_int_equal(write(in, block, sizeof block), sizeof block);
    lseek(in, 0, SEEK_SET);
    /* The command sees a pipe, not the file: it could reach nothing else through it. */
    pid_t pid = world_cli(w, (int[]){in, out, out},
                          (char *[]){"agent-cage", "exec", "demo", "--", "sh", "-c",
                                     "test -p /dev/stdin && test -p /dev/stdout && cat", NULL});
    assert_int_equal(reap(pid), 0);
    static char got[sizeof block];
    for (int i = 0; i < 5; i++) {
        assert_int_equal(pread(out, got, sizeof got, (off_t)i * (off_t)sizeof got), sizeof got);
        assert_memory_equal(got, block, sizeof got);
    }
    assert_int_equal(lseek(out, 0, SEEK_END), 5 * sizeof block);
    unlink(in_name), unlink(out_name);
}

static void exec_reports_though_a_survivor_writes_on(void **state) {
    struct world *w = *state;
    char name[] = "/tmp/cli-test-XXXXXX";
    own_fd int out = mkostemp(name, O_CLOEXEC), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t pid =
        world_cli(w, (int[]){null, out, null},
                  (char *[]){"agent-cage", "exec", "demo", "--", "sh", "-c",
                             "echo first; (trap '' PIPE; while echo more; do :; done) & exit 5", NULL});
    assert_int_equal(reap(pid), 5);
    char text[6] = {0};
    assert_int_equal(pread(out, text, 5, 0), 5);
    assert_string_equal(text, "first");
    unlink(name);
}

static void exec_forwards_signals_and_dies_with_its_command(void **state) {
    struct world *w = *state;
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    own_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    char *argv[] = {"agent-cage",
                    "exec",
                    "demo",
                    "--",
                    "sh",
                    "-c",
                    "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done",
                    NULL};
    pid_t pid = world_cli(w, (int[]){null, out[1], null}, argv);
    char text[16] = {0};
    assert_int_equal(read(out[0], text, sizeof text), 6);
    kill(pid, SIGINT);
    assert_int_equal(reap(pid), 9);
    pid = world_cli(
        w, (int[]){null, out[1], null},
        (char *[]){"agent-cage", "exec", "demo", "--", "sh", "-c", "echo $$; exec sleep 1000", NULL});
    struct buf line = {0};
    while (!strchr(buf_text(&line), '\n')) {
        ssize_t n = read(out[0], text, sizeof text);
        assert_true(n > 0);
        buf_add(&line, text, (size_t)n);
    }
    const char *last = strstr(line.p, "caught\n") ? strstr(line.p, "caught\n") + 7 : line.p;
    while (!*last) {
        ssize_t n = read(out[0], text, sizeof text);
        assert_true(n > 0);
        buf_add(&line, text, (size_t)n);
        last = strstr(line.p, "caught\n") + 7;
    }
    pid_t command = (pid_t)strtol(last, NULL, 10);
    assert_true(command > 1);
    own_fd int alive = (int)syscall(SYS_pidfd_open, command, 0);
    kill(pid, SIGKILL);
    assert_int_equal(reap(pid), 128 + SIGKILL);
    struct pollfd p = {alive, POLLIN, 0};
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    buf_free(&line);
    close(out[0]), close(out[1]);
}

/* Reads from the terminal until `what` is there. */
static void expect(int master, struct buf *seen, const char *what) {
    while (!strstr(buf_text(seen), what)) {
        struct pollfd p = {master, POLLIN, 0};
        char chunk[4096];
        ssize_t n = poll(&p, 1, WAIT_MS) > 0 ? read(master, chunk, sizeof chunk) : -1;
        if (n <= 0)
            fail_msg("no \"%s\" in: %s", what, buf_text(seen));
        buf_add(seen, chunk, (size_t)n);
    }
}

static void type(int master, const char *keys) {
    assert_int_equal(write(master, keys, strlen(keys)), (ssize_t)strlen(keys));
}

static pid_t in_terminal(struct world *w, int *ret_master, char *const argv[]) {
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    pid_t pid = forkpty(ret_master, NULL, NULL, &size);
    if (pid)
        return pid;
    setenv("AGENT_CAGE_ROOT", w->root, 1);
    setenv("TERM", "xterm", 1);
    setenv("HOME", "/nonexistent", 1);
    execv(getenv("AGENT_CAGE"), argv);
    _exit(99);
}

static void exec_in_a_terminal(void **state) {
    struct world *w = *state;
    own_fd int master = -1;
    pid_t pid = in_terminal(
        w, &master,
        (char *[]){"agent-cage", "exec", "demo", "--", "sh", "-c",
                   "test -t 0 && test -t 1 && test -t 2 && stty size; trap 'echo got INT' INT; "
                   "trap 'stty size; echo resized' WINCH; echo ready; "
                   "while :; do read line && echo \"<$line>\" && test \"$line\" = end && exit 4; done",
                   NULL});
    struct buf seen = {0};
    struct termios before, after;
    tcgetattr(master, &before);
    expect(master, &seen, "24 80");
    expect(master, &seen, "ready");
    tcgetattr(master, &after);
    assert_false(after.c_lflag & ICANON); /* ours is raw: every key is the command's */
    type(master, "\003");
    expect(master, &seen, "got INT");
    struct winsize size = {.ws_row = 30, .ws_col = 100};
    ioctl(master, TIOCSWINSZ, &size);
    type(master, "\n"); /* a trap runs when read returns */
    expect(master, &seen, "30 100");
    type(master, "hello\n");
    expect(master, &seen, "<hello>");
    type(master, "end\n");
    expect(master, &seen, "<end>");
    assert_int_equal(reap(pid), 4);
    buf_free(&seen);
}

static void the_terminal_is_put_back(void **state) {
    struct world *w = *state;
    static const int signals[] = {SIGTERM, SIGHUP, SIGINT};
    for (size_t i = 0; i < COUNT(signals); i++) {
        int master, slave;
        assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
        fcntl(master, F_SETFD, FD_CLOEXEC);
        struct termios before = {0}, now = {0};
        tcgetattr(slave, &before);
        pid_t pid = world_cli(
            w, (int[]){slave, slave, slave},
            (char *[]){"agent-cage", "exec", "demo", "--", "sh", "-c", "echo ready; sleep 1000", NULL});
        struct buf seen = {0};
        expect(master, &seen, "ready");
        tcgetattr(slave, &now);
        assert_false(now.c_lflag & ICANON);
        kill(pid, signals[i]);
        assert_int_equal(reap(pid), 128 + signals[i]);
        tcgetattr(slave, &now);
        assert_memory_equal(&now, &before, sizeof now);
        buf_free(&seen);
        close(master), close(slave);
    }
}

static void chat_through_a_pipe(void **state) {
    struct world *w = *state;
    own_ran struct ran r = RUN("echo first\n/sh printf '\\033[2Jsh'; exit 2\n/list\nfalse\n", "chat", "demo");
    assert_int_equal(r.status, 0);
    const char *text = buf_text(&r.out);
    const char *parts[] = {"[demo] demo — running", "first\n◷ 1.2s · exit 0\n", "\\x1b[2Jsh\n◷ ", "exit 2\n",
                           HOSTILE_SHOWN,           "◷ 1.2s · exit 1\n"};
    for (size_t i = 0; i < COUNT(parts); i++) {
        const char *at = strstr(text, parts[i]);
        if (!at)
            fail_msg("no \"%s\" behind the part before it in: %s", parts[i], buf_text(&r.out));
        text = at + strlen(parts[i]);
    }
    assert_null(strchr(buf_text(&r.out), 033));
}

static void chat_with_nobody(void **state) {
    struct world *w = *state;
    own_ran struct ran r = RUN("echo for whom\n", "chat", "nobody");
    assert_int_equal(r.status, EXIT_NOTFOUND);
    assert_string_equal(buf_text(&r.err), "agent-cage: there is no agent of that name\n");
    assert_int_equal(r.out.len, 0);
}

/* Whoever typed on would type into the fleet's room. */
static void chat_with_nobody_in_a_terminal(void **state) {
    struct world *w = *state;
    own_fd int master = -1;
    pid_t pid = in_terminal(w, &master, (char *[]){"agent-cage", "chat", "nobody", NULL});
    own_buf struct buf seen = {0};
    expect(master, &seen, "agent-cage: there is no agent of that name");
    assert_int_equal(reap(pid), EXIT_NOTFOUND);
    assert_null(strstr(buf_text(&seen), "/use NAME"));
}

static void chat_asks_which_agent(void **state) {
    struct world *w = *state;
    own_ran struct ran r = RUN("echo for whom\n1\n/restart\nother\n/stop\nnone\n/nonsense\n", "chat");
    const char *parts[] = {"which agent?\n  1  demo\n  2  other\n",
                           "[demo] for whom",
                           "which agent?",
                           "◆ restart of other: done",
                           "which agent?",
                           "nothing was done",
                           "no such command: /nonsense"};
    const char *text = buf_text(&r.out);
    for (size_t i = 0; i < COUNT(parts); i++) {
        const char *at = strstr(text, parts[i]);
        if (!at)
            fail_msg("no \"%s\" behind the part before it in: %s", parts[i], buf_text(&r.out));
        text = at + strlen(parts[i]);
    }
}

static void chat_in_a_terminal(void **state) {
    struct world *w = *state;
    own_fd int master = -1;
    pid_t pid = in_terminal(w, &master, (char *[]){"agent-cage", "chat", "demo", NULL});
    struct buf seen = {0};
    expect(master, &seen, "no login needed");
    expect(master, &seen, "demo ▸");
    buf_clear(&seen);
    type(master, "echo $((6*7))\r");
    expect(master, &seen, "42");
    expect(master, &seen, "exit 0");
    buf_clear(&seen);
    type(master, "/us\tot\t\r");
    expect(master, &seen, "other ▸");
    buf_clear(&seen);
    type(master, "/sh echo never said");
    expect(master, &seen, "never said");
    type(master, "\003");
    expect(master, &seen, "\033[J"); /* the line is gone */
    buf_clear(&seen);
    type(master, "/sh sleep 1000; echo not\r");
    expect(master, &seen, "echo not\r\n");
    type(master, "\003");
    expect(master, &seen, "signal 2");
    assert_null(strstr(buf_text(&seen), "\nnot"));
    assert_null(strstr(buf_text(&seen), "\nnever"));
    buf_clear(&seen);
    type(master, "\003");
    expect(master, &seen, "Ctrl-C again");
    type(master, "\003");
    assert_int_equal(reap(pid), 0);
    buf_free(&seen);
}

/* `up` runs a chat whose end is the fleet's: no key that is pressed by habit may be that end. */
static void the_chat_of_up_is_not_left_by_ctrl_c(void **state) {
    struct world *w = *state;
    own_fd int master = -1;
    setenv(UP_CHAT, "1", 1);
    pid_t pid = in_terminal(w, &master, (char *[]){"agent-cage", "chat", "demo", NULL});
    unsetenv(UP_CHAT);
    own_buf struct buf seen = {0};
    expect(master, &seen, "/quit leaves and ends the fleet");
    expect(master, &seen, "demo ▸");
    for (int i = 0; i < 3; i++) {
        buf_clear(&seen);
        type(master, "\003");
        expect(master, &seen, "/quit leaves it and ends the fleet");
    }
    type(master, "echo $((6*7))\r");
    expect(master, &seen, "exit 0");
    type(master, "/quit\r");
    assert_int_equal(reap(pid), 0);
}

static void no_fleet_is_one_sentence(void **state) {
    (void)state;
    struct world w = {.root = "/tmp/no-fleet-here"};
    own_ran struct ran r = run(&w, "", (char *[]){"agent-cage", "ls", NULL});
    assert_int_equal(r.status, EXIT_FAILED);
    assert_string_equal(buf_text(&r.err),
                        "agent-cage: no fleet is up on this machine below /tmp/no-fleet-here: start it "
                        "with `agent-cage up`\n");
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        EACH(ls_lists_and_disarms),
        EACH(status_shows_the_strip),
        EACH(send_waits_for_the_report),
        EACH(what_goes_on_after_ctrl_c_is_said),
        EACH(send_streams_json),
        EACH(exec_passes_pipes_and_statuses),
        EACH(exec_copies_files),
        EACH(exec_reports_though_a_survivor_writes_on),
        EACH(exec_forwards_signals_and_dies_with_its_command),
        EACH(exec_in_a_terminal),
        EACH(the_terminal_is_put_back),
        EACH(chat_through_a_pipe),
        EACH(chat_with_nobody),
        EACH(chat_with_nobody_in_a_terminal),
        EACH(chat_asks_which_agent),
        EACH(chat_in_a_terminal),
        EACH(the_chat_of_up_is_not_left_by_ctrl_c),
        cmocka_unit_test(no_fleet_is_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
