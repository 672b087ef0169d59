/*
 * A command through shim and broker is exact: its words, its three descriptors, its status, its place. In
 * all three modes of keeping a command together (executor/tree.h).
 */
#include "bed.h"
#include "base/own.h"
#include "wire/seq.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char *word(const char *text) {
    return (char *)(uintptr_t)text;
}

static void expect_run(char *const *argv, const void *in, size_t in_len, int status, const void *out,
                       size_t out_len) {
    struct outcome o;
    bed_run(&o, in, in_len, argv);
    if (o.err_len)
        print_message("stderr: %s\n", o.err);
    assert_int_equal(o.status, status << 8);
    if (o.out_len != out_len)
        print_message("stdout: %s\n", o.out);
    assert_int_equal(o.out_len, out_len);
    assert_memory_equal(o.out, out, out_len);
    outcome_free(&o);
    bed_settle(&bed, 0);
}

static void expect_out(const char *text, int status, const char *out) {
    char *const argv[] = {word("bash"), word("-c"), word(text), NULL};
    expect_run(argv, NULL, 0, status, out, strlen(out));
}

static void test_status(void **state) {
    (void)state;
    expect_out("exit 0", 0, "");
    expect_out("echo one; exit 7", 7, "one\n");
    expect_out("exit 255", 255, "");
    expect_out("exec /project", 126, "");
    expect_out("exec /nosuch", 127, "");
}

static void test_name_and_first_word(void **state) {
    (void)state;
    char *const sh[] = {word("sh"), word("-c"), word("echo $0"), word("a name"), NULL};
    expect_run(sh, NULL, 0, 0, "a name\n", 7);
    expect_out("echo $0", 0, "bash\n");
}

/* Prints every argument and a NUL; what comes back is the argument vector. */
static void expect_words(char **words, size_t n) {
    char **argv = xcalloc(n + 5, sizeof *argv);
    own_buf struct buf want = {0};
    argv[0] = word("bash");
    argv[1] = word("-c");
    argv[2] = word("printf '%s\\0' \"$@\"");
    argv[3] = word("x");
    for (size_t i = 0; i < n; i++) {
        argv[4 + i] = words[i];
        buf_add(&want, words[i], strlen(words[i]) + 1);
    }
    expect_run(argv, NULL, 0, 0, want.p, want.len);
    free(argv);
}

static void test_words(void **state) {
    (void)state;
    char *odd[] = {
        word(""),           word(" "),  word("a b"), word("line\nline\n"), word("\xff\xfe\xed\xa0\x80"),
        word("'\"\\$(x)`"), word("--"), word("-c"),  word("\t\r\x1b[31m"), word("")};
    expect_words(odd, COUNT(odd));
}

static char *long_word(size_t len) {
    char *w = xmalloc(len + 1);
    memset(w, 'x', len);
    w[len] = 0;
    return w;
}

static void test_long_words(void **state) {
    (void)state;
    enum { ONE = 128 * 1024 - 1 }; /* MAX_ARG_STRLEN with its NUL */
    char *words[15];
    for (size_t i = 0; i < COUNT(words); i++)
        words[i] = long_word(ONE);
    expect_words(words, 1);
    expect_words(words, COUNT(words)); /* 2 MiB, less what the kernel wants for the table and environment */
    for (size_t i = 0; i < COUNT(words); i++)
        free(words[i]);
    char *many[20000];
    for (size_t i = 0; i < COUNT(many); i++)
        many[i] = word("many");
    expect_words(many, COUNT(many));
}

static void test_streams(void **state) {
    (void)state;
    char all[256 * 1024];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (char)(i * 7 + i / 256);
    char *const cat[] = {word("bash"), word("-c"), word("cat; echo problem >&2; exit 3"), NULL};
    struct outcome o;
    bed_run(&o, all, sizeof all, cat);
    assert_int_equal(o.status, 3 << 8);
    assert_int_equal(o.out_len, sizeof all);
    assert_memory_equal(o.out, all, sizeof all);
    assert_string_equal(o.err, "problem\n");
    outcome_free(&o);
}

static void test_opened_by_name(void **state) {
    (void)state;
    struct outcome o;
    bed_bash(&o, "echo one > /dev/stdout; echo two > /dev/stderr; cat < /dev/stdin");
    assert_int_equal(o.status, 0);
    assert_string_equal(o.out, "one\n");
    assert_string_equal(o.err, "two\n");
    outcome_free(&o);
}

static void test_signals(void **state) {
    (void)state;
    static const int each[] = {SIGKILL, SIGTERM, SIGSEGV, SIGINT, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < COUNT(each); i++) {
        own_free char *text = xasprintf("kill -%d $$; sleep 5", each[i]);
        struct outcome o;
        bed_bash(&o, text);
        assert_true(WIFSIGNALED(o.status));
        assert_int_equal(WTERMSIG(o.status), each[i]);
        outcome_free(&o);
    }
}

static void read_line(int fd, char *line, size_t size) {
    size_t n = 0;
    struct pollfd p = {fd, POLLIN, 0};
    while (n < size - 1 && poll(&p, 1, BED_MS) == 1 && read(fd, line + n, 1) == 1 && line[n++] != '\n')
        ;
    line[n] = 0;
}

static void test_forwarded(void **state) {
    (void)state;
    static const struct {
        int signo;
        const char *name;
    } each[] = {{SIGTERM, "TERM"}, {SIGINT, "INT"},   {SIGHUP, "HUP"},
                {SIGUSR1, "USR1"}, {SIGQUIT, "QUIT"}, {SIGWINCH, "WINCH"}};
    for (size_t i = 0; i < COUNT(each); i++) {
        int out[2];
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        own_free char *text =
            xasprintf("trap 'echo got; exit 9' %s; echo ready; while :; do sleep 0.02; done", each[i].name);
        char *const argv[] = {word("bash"), word("-c"), text, NULL};
        pid_t pid = bed_start((int[]){-1, out[1], 2}, argv, NULL);
        close(out[1]);
        char line[64];
        read_line(out[0], line, sizeof line);
        assert_string_equal(line, "ready\n");
        kill(pid, each[i].signo);
        read_line(out[0], line, sizeof line);
        assert_string_equal(line, "got\n");
        assert_int_equal(bed_wait(pid), 9 << 8);
        close(out[0]);
    }
}

static void test_place(void **state) {
    (void)state;
    expect_out("pwd", 0, "/project\n");
    assert_int_equal(mkdir("/project/gone", 0777), 0);
    chmod("/project/gone", 0777);
    int err[2];
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    char *const argv[] = {word("bash"), word("-c"), word("true"), NULL};
    bed_drop_cwd = true;
    pid_t pid = bed_start((int[]){-1, -1, err[1]}, argv, "/project/gone");
    bed_drop_cwd = false;
    close(err[1]);
    char line[512];
    read_line(err[0], line, sizeof line);
    assert_non_null(strstr(line, "working directory is gone (getcwd)"));
    assert_int_equal(bed_wait(pid), 126 << 8);
    close(err[0]);
}

static void test_agent_refusals(void **state) {
    (void)state;
    struct msg m;
    struct bytes none[] = {bytes_of("no-such-program")};
    own_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct msg ask = {.type = MSG_run_start, .nfds = 3, .fds = {null, null, null}};
    ask.run_start.run = 1;
    ask.run_start.cwd = bytes_of("");
    ask.run_start.argv = (struct list){none, 1};
    assert_null(seq_send(bed.agent, &ask));
    bed_hear(&bed, MSG_run_end, &m);
    assert_string_equal(m.run_end.how.p, "failed");
    assert_int_equal(m.run_end.status, ENOENT);
    assert_non_null(strstr(m.run_end.text.p, "no-such-program: command not found"));
    msg_free(&m);
    none[0] = bytes_of("true");
    ask.run_start.cwd = bytes_of("/project/nowhere");
    assert_null(seq_send(bed.agent, &ask));
    bed_hear(&bed, MSG_run_end, &m);
    assert_string_equal(m.run_end.how.p, "failed");
    assert_int_equal(m.run_end.status, ENOENT);
    assert_non_null(strstr(m.run_end.text.p, "cannot enter the folder /project/nowhere"));
    msg_free(&m);
}

static void test_flags_put_back(void **state) {
    (void)state;
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    char *const argv[] = {word("bash"), word("-c"), word("echo x | dd oflag=nonblock,append status=none"),
                          NULL};
    pid_t pid = bed_start((int[]){-1, out[1], 2}, argv, NULL);
    assert_int_equal(bed_wait(pid), 0);
    assert_int_equal(fcntl(out[1], F_GETFL) & (O_NONBLOCK | O_APPEND), 0);
    close(out[0]);
    close(out[1]);
}

static void test_environment(void **state) {
    (void)state;
    static const char want[] =
        "HOME=/project\nLANG=C.UTF-8\nLC_ALL=C.UTF-8\nLOGNAME=cage\n"
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nPWD=/project\n"
        "SHELL=/bin/bash\nSHLVL=0\nTERM=dumb\nTMPDIR=/scratch\nUSER=cage\n";
    expect_out("exec env | LC_ALL=C sort | sed 's/^SHLVL=.*/SHLVL=0/'", 0, want);
}

static void test_descriptors(void **state) {
    (void)state;
    expect_out("exec ls /proc/self/fd", 0, "0\n1\n2\n3\n"); /* 3 is the folder that ls reads */
}

static void fill(const char *path, const char *text, uid_t owner) {
    own_fd int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchown(fd, owner, owner), 0);
}

static char *slurp(const char *path) {
    static char text[8192];
    own_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    return text;
}

static int run_with(const int fds[3], const char *text) {
    char *const argv[] = {word("bash"), word("-c"), word(text), NULL};
    return bed_wait(bed_start(fds, argv, NULL));
}

/* What the harness alone may open is copied; the command never holds a descriptor of it. */
static void test_copied(void **state) {
    (void)state;
    fill("/project/in", "from a file\n", BED_HARNESS);
    fill("/project/out", "", BED_HARNESS);
    int in = open("/project/in", O_RDONLY | O_CLOEXEC), out = open("/project/out", O_WRONLY | O_CLOEXEC);
    const char *text = "readlink /proc/$$/fd/0 | cut -c1-5; cat; echo two >&2; echo three";
    assert_int_equal(run_with((int[]){in, out, out}, text), 0);
    assert_string_equal(slurp("/project/out"), "pipe:\nfrom a file\ntwo\nthree\n");
    close(in);
    close(out);
    int append = open("/project/out", O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(run_with((int[]){-1, append, -1}, "echo four"), 0);
    assert_string_equal(slurp("/project/out"), "pipe:\nfrom a file\ntwo\nthree\nfour\n");
    close(append);
}

static void test_scratch_files_pass(void **state) {
    (void)state;
    fill("/scratch/out", "", BED_HARNESS);
    int out = open("/scratch/out", O_WRONLY | O_CLOEXEC), both = open("/scratch/out", O_RDWR | O_CLOEXEC);
    assert_int_equal(
        run_with((int[]){-1, out, out}, "readlink /proc/$$/fd/1 | grep -o 'scratch/out'; echo err >&2"), 0);
    assert_string_equal(slurp("/scratch/out"), "scratch/out\nerr\n");
    assert_int_equal(ftruncate(both, 0), 0);
    assert_int_equal(run_with((int[]){-1, both, -1}, "readlink /proc/$$/fd/1 | cut -c1-5"), 0);
    assert_string_equal(slurp("/scratch/out"), "pipe:\n"); /* it could be read, so it is copied */
    close(out);
    close(both);
}

static void test_closed_and_null(void **state) {
    (void)state;
    fill("/scratch/out", "", BED_HARNESS);
    int out = open("/scratch/out", O_WRONLY | O_CLOEXEC);
    assert_int_equal(
        run_with((int[]){-1, out, -1}, "readlink /proc/$$/fd/0 /proc/$$/fd/2 | grep -o '/dev/null$'"), 0);
    assert_string_equal(slurp("/scratch/out"), "/dev/null\n/dev/null\n");
    close(out);
}

/* Large output to a file elsewhere: nothing is lost, however it is carried. */
static void test_much_copied(void **state) {
    (void)state;
    fill("/project/out", "", BED_HARNESS);
    int out = open("/project/out", O_WRONLY | O_CLOEXEC);
    assert_int_equal(run_with((int[]){-1, out, -1}, "head -c 50000000 /dev/zero"), 0);
    struct stat st;
    assert_int_equal(fstat(out, &st), 0);
    assert_int_equal(st.st_size, 50000000);
    close(out);
    unlink("/project/out");
}

/* Node's stdio: it is copied, whole, in both directions; an end on one side is an end on the other. */
static void test_socket_pair(void **state) {
    (void)state;
    static char all[1024 * 1024], back[sizeof all + 64];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (char)(i * 7 + i / 256);
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    char *const argv[] = {
        word("bash"), word("-c"),
        word("for i in 0 1 2; do readlink /proc/$$/fd/$i | cut -c1-5; done; cat; echo end >&2"), NULL};
    pid_t pid = bed_start((int[]){pair[1], pair[1], pair[1]}, argv, NULL);
    close(pair[1]);
    size_t put = 0, got = 0;
    for (ssize_t n = 1; n;) {
        struct pollfd p = {pair[0], (short)(POLLIN | (put < sizeof all ? POLLOUT : 0)), 0};
        assert_int_equal(poll(&p, 1, BED_MS), 1);
        if (put < sizeof all &&
            (n = send(pair[0], all + put, sizeof all - put, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0) {
            put += (size_t)n;
            if (put == sizeof all)
                assert_int_equal(shutdown(pair[0], SHUT_WR), 0);
        }
        n = recv(pair[0], back + got, sizeof back - got, MSG_DONTWAIT);
        got += n > 0 ? (size_t)n : 0;
    }
    assert_int_equal(bed_wait(pid), 0);
    assert_int_equal(got, 18 + sizeof all + 4);
    assert_memory_equal(back, "pipe:\npipe:\npipe:\n", 18);
    assert_memory_equal(back + 18, all, sizeof all);
    assert_memory_equal(back + 18 + sizeof all, "end\n", 4);
    close(pair[0]);
}

/* Whoever reads the output leaves: the command is told by a broken pipe. */
static void test_socket_reader_leaves(void **state) {
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    char *const argv[] = {word("bash"), word("-c"), word("exec yes"), NULL};
    pid_t pid = bed_start((int[]){-1, pair[1], -1}, argv, NULL);
    close(pair[1]);
    char line[64];
    read_line(pair[0], line, sizeof line);
    assert_string_equal(line, "y\n");
    close(pair[0]);
    int status = bed_wait(pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
}

static void test_terminal(void **state) {
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    fchmod(slave, 0666); /* the bed's /dev/pts knows no owner for it */
    char *const argv[] = {word("bash"), word("-c"), word("echo through > /dev/tty; sleep 30"), NULL};
    pid_t pid = bed_start((int[]){slave, slave, slave}, argv, NULL);
    char line[256];
    read_line(master, line, sizeof line);
    assert_string_equal(line, "through\r\n");
    assert_int_equal(write(master, "\003", 1), 1); /* Ctrl-C: to the command's session, by the terminal */
    int status = bed_wait(pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    close(slave);
    close(master);
}

static void test_many_at_once(void **state) {
    (void)state;
    enum { MANY = 64 };
    pid_t pids[MANY];
    char *const argv[] = {word("bash"), word("-c"), word("sleep 0.2; exit 4"), NULL};
    for (size_t i = 0; i < MANY; i++)
        pids[i] = bed_start((int[]){-1, -1, 2}, argv, NULL);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(bed_wait(pids[i]), 4 << 8);
    bed_settle(&bed, 20);
    assert_true(bed_until(&bed, 0) >= 0);
}

static size_t in_a_row; /* fewer where a sanitizer starts with every program */

static void test_many_in_a_row(void **state) {
    (void)state;
    char *const argv[] = {word("sh"), word("-c"), word(":"), NULL};
    assert_true(bed_until(&bed, 0) >= 0);
    bed_settle(&bed, 100);
    size_t fds = bed_descriptors(&bed), groups = bed_groups(&bed);
    for (size_t i = 0, times = bed.mode == BED_GROUPED ? in_a_row : in_a_row / 10; i < times; i++) {
        assert_int_equal(bed_wait(bed_start((int[]){-1, -1, 2}, argv, NULL)), 0);
        bed_settle(&bed, 0);
    }
    bed_settle(&bed, 100);
    assert_true(bed_until(&bed, 0) >= 0);
    assert_int_equal(bed_descriptors(&bed), fds);
    assert_int_equal(bed_groups(&bed), groups);
}

static void test_stranger(void **state) {
    (void)state;
    int fd;
    assert_null(seq_connect("/cage/shim/shim.sock", &fd)); /* as root: not the harness's uid */
    struct msg m;
    enum seq_got got;
    assert_null(seq_recv(fd, &m, &got));
    assert_int_equal(got, SEQ_END);
    close(fd);
}

static void test_account(void **state) {
    (void)state;
    bed_settle(&bed, 100);
    bed_keep_rows = true;
    expect_out("echo noted; exit 5", 5, "noted\n");
    expect_out("true", 0, "");
    bed_keep_rows = false;
    struct msg m;
    bed_link_agent(&bed); /* unsettled: told again on a new link */
    bed_hear(&bed, MSG_ran_row, &m);
    uint64_t number = m.ran_row.row;
    assert_int_equal(m.ran_row.status, 5);
    msg_free(&m);
    bed_hear(&bed, MSG_ran_row, &m);
    assert_true(m.ran_row.row > number);
    assert_string_equal(m.ran_row.who.p, "");
    assert_int_equal(m.ran_row.argv.n, 3);
    assert_string_equal(m.ran_row.argv.v[2].p, "true");
    assert_string_equal(m.ran_row.cwd.p, "/project");
    assert_string_equal(m.ran_row.how.p, "exit");
    msg_free(&m);
}

/* A full account: the next command waits until a line is settled. */
static void test_account_full(void **state) {
    (void)state;
    bed_settle(&bed, 100);
    enum { ONE = 128 * 1024 - 1, WORDS = 15, ROWS = 5 };
    char *argv[WORDS + 5] = {word("bash"), word("-c"), word(":"), word("x")};
    for (size_t i = 0; i < WORDS; i++)
        argv[4 + i] = long_word(ONE);
    for (size_t i = 0; i < ROWS; i++)
        assert_int_equal(bed_wait(bed_start((int[]){-1, -1, 2}, argv, NULL)), 0);
    char *const quick[] = {word("bash"), word("-c"), word("exit 6"), NULL};
    pid_t pid = bed_start((int[]){-1, -1, 2}, quick, NULL);
    struct timespec moment = {0, 200000000};
    nanosleep(&moment, NULL); /* it would have ended long ago */
    int status;
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    bed_settle(&bed, 300);
    assert_int_equal(bed_wait(pid), 6 << 8);
    for (size_t i = 0; i < WORDS; i++)
        free(argv[4 + i]);
    bed_settle(&bed, 100);
}

static void test_orphans_are_reaped(void **state) {
    (void)state;
    expect_out("for i in {1..100}; do (sleep 0.01 &) ; done; wait", 0, "");
    assert_true(bed_until(&bed, 0) >= 0);
    for (int i = 0; i < 2000 && bed_children(&bed); i++)
        poll(NULL, 0, 5);
    assert_int_equal(bed_children(&bed), 0);
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    in_a_row = strtoul(argv[3], NULL, 10);
    bed_root(argv[1], argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_name_and_first_word),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_opened_by_name),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_forwarded),
        cmocka_unit_test(test_place),
        cmocka_unit_test(test_agent_refusals),
        cmocka_unit_test(test_flags_put_back),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_copied),
        cmocka_unit_test(test_scratch_files_pass),
        cmocka_unit_test(test_closed_and_null),
        cmocka_unit_test(test_much_copied),
        cmocka_unit_test(test_socket_pair),
        cmocka_unit_test(test_socket_reader_leaves),
        cmocka_unit_test(test_terminal),
        cmocka_unit_test(test_stranger),
        cmocka_unit_test(test_orphans_are_reaped),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_account),
        cmocka_unit_test(test_account_full),
        cmocka_unit_test(test_many_in_a_row),
    };
    int failed = cmocka_run_group_tests_name("in a cgroup", tests, bed_up_grouped, bed_remove);
    failed += cmocka_run_group_tests_name("moved into a cgroup", tests, bed_up_moved, bed_remove);
    return failed + cmocka_run_group_tests_name("minded", tests, bed_up_minded, bed_remove);
}
