/* Files into the real agent's in-tray, and from its executor's outbox: the test is manager and executor. */
#include "agent_bed.h"
#include "base/fs.h"
#include "base/own.h"
#include "proto/file_name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *in_tray(const char *name) {
    return xasprintf("%s/inbox/%s", p.dir, name);
}

/* As the manager; returns the pipe's writing end, or closes both and returns -1 when fd is given. */
static int put_fd(uint64_t cookie, struct bytes name, uint64_t size, int fd) {
    int ends[2] = {fd, -1};
    if (fd < 0)
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct msg m = {.type = MSG_desk_put, .fds = {ends[0]}, .nfds = 1};
    m.desk_put = (struct msg_desk_put){.cookie = cookie, .who = bytes_of("anna"), .name = name, .size = size};
    say(manager, &m);
    close(ends[0]);
    return ends[1];
}

static void put_text(uint64_t cookie, const char *name, uint64_t size, const char *text) {
    own_fd int to = put_fd(cookie, bytes_of(name), size, -1);
    size_t n = strlen(text);
    ssize_t done = write(to, text, n);
    assert_true(done == (ssize_t)n || (done < 0 && errno == EPIPE));
}

static void answered(uint64_t cookie, int status, const char *text) {
    own_msg struct msg m = {0};
    expect(manager, MSG_desk_order_end, &m);
    assert_int_equal(m.desk_order_end.cookie, cookie);
    if ((int)m.desk_order_end.status != status || !strstr(m.desk_order_end.text.p, text))
        fail_msg("status %d, %s", (int)m.desk_order_end.status, m.desk_order_end.text.p);
}

static void noted(const char *text) {
    own_msg struct msg m = {0};
    expect(manager, MSG_desk_note, &m);
    if (!strstr(m.desk_note.text.p, text))
        fail_msg("%s", m.desk_note.text.p);
}

static void holds(const char *name, const char *want) {
    own_free char *path = in_tray(name);
    own_buf struct buf text = {0};
    own_err err_t e = fs_read(path, 1 << 20, &text);
    if (e)
        fail_msg("%s", err_text(e));
    assert_string_equal(buf_text(&text), want);
}

/* How many files lie there, whole or coming. */
static size_t files(void) {
    own_free char *path = in_tray(".");
    DIR *d = opendir(path);
    assert_non_null(d);
    size_t n = 0;
    for (struct dirent *f; (f = readdir(d));)
        n += strcmp(f->d_name, ".") && strcmp(f->d_name, "..");
    closedir(d);
    return n;
}

static void a_file_arrives_whole_and_is_told(void **state) {
    (void)state;
    put_text(7, "report.pdf", 5, "hello");
    noted("anna sent a file, 5 bytes: /inbox/report.pdf");
    answered(7, 0, "/inbox/report.pdf");
    holds("report.pdf", "hello");
    struct stat st;
    own_free char *path = in_tray("report.pdf");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    put_text(8, "empty", 0, "");
    answered(8, 0, "/inbox/empty");
}

static void a_name_that_is_taken_gets_a_number(void **state) {
    (void)state;
    put_text(1, "a.txt", 3, "one");
    answered(1, 0, "/inbox/a.txt");
    put_text(2, "a.txt", 3, "two");
    answered(2, 0, "/inbox/a-2.txt");
    own_free char *link_at = in_tray("a-3.txt"); /* also of what is no file */
    assert_int_equal(symlink("/etc/passwd", link_at), 0);
    put_text(3, "a.txt", 5, "three");
    answered(3, 0, "/inbox/a-4.txt");
    holds("a.txt", "one");
    holds("a-2.txt", "two");
    holds("a-4.txt", "three");
}

static void what_is_not_its_size_is_no_file(void **state) {
    (void)state;
    put_text(1, "short", 6, "hello");
    answered(1, 125, "only 5 of 6 bytes came");
    put_text(2, "long", 4, "hello");
    answered(2, 126, "more than its 4 bytes");
    put_text(3, "endless", 0, "x");
    answered(3, 126, "more than its 0 bytes");
    assert_int_equal(files(), 0);
    put_text(4, "still", 5, "works");
    answered(4, 0, "/inbox/still");
}

static void hostile_names_and_sizes_are_refused(void **state) {
    (void)state;
    static const struct bytes names[] = {
        {"", 0},    {".", 1},    {"..", 2},       {".hidden", 7},         {"../up", 5},    {"/etc/x", 6},
        {"a/b", 3}, {"a\nb", 3}, {"a\x1b[2J", 5}, {"\xe2\x80\xaetxt", 6}, {".coming-1", 9}};
    for (size_t i = 0; i < COUNT(names); i++) {
        close(put_fd(i, names[i], 1, -1));
        answered(i, 126, "");
    }
    close(put_fd(50, bytes_of("large"), FILE_BYTES_MAX + 1, -1));
    answered(50, 126, "too large");
    assert_int_equal(files(), 0);
}

/* Reading anything else could wait for ever, or read what is not sent. */
static void only_a_pipes_reading_end_is_taken(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const int fds[] = {open("/etc/hostname", O_RDONLY | O_CLOEXEC), open("/dev/zero", O_RDONLY | O_CLOEXEC),
                       open("/", O_RDONLY | O_CLOEXEC), open("/etc/hostname", O_PATH | O_CLOEXEC), ends[1]};
    for (size_t i = 0; i < COUNT(fds); i++) {
        put_fd(i, bytes_of("x"), 1, fds[i]);
        answered(i, 126, "reading end of a pipe");
    }
    close(ends[0]);
    assert_int_equal(files(), 0);
}

static int held(int pipe_end) {
    int n = -1;
    assert_int_equal(ioctl(pipe_end, FIONREAD, &n), 0);
    return n;
}

/*
 * Who sent a pipe keeps its end too, and so clears the flags that both have. The agent wakes to eight pipes at once; while it
 * is at the first, the byte in the last is taken back.
 */
static void the_agent_never_waits_for_a_pipe(void **state) {
    (void)state;
    enum { TIMES = 30, FULL = 65536, OTHERS = 7, SIZE = 4 << 20 };
    static const char piece[FULL];
    int others[OTHERS], ends[2];
    for (size_t i = 0; i < OTHERS; i++)
        others[i] = put_fd(i, bytes_of("other"), SIZE, -1);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    own_fd int last = fcntl(ends[0], F_DUPFD_CLOEXEC, 3), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    put_fd(OTHERS, bytes_of("last"), SIZE, ends[0]);
    for (unsigned i = 100; i < 100 + TIMES; i++) {
        close(put_fd(i, bytes_of(".."), 1, -1));
        answered(i, 126, ""); /* it goes on, and all before was heard */
        assert_int_equal(fcntl(last, F_SETFL, 0), 0);
        assert_int_equal(kill(p.pid, SIGSTOP), 0);
        assert_int_equal(waitpid(p.pid, NULL, WUNTRACED), p.pid);
        for (size_t k = 0; k < OTHERS; k++)
            assert_int_equal(write(others[k], piece, FULL), FULL);
        assert_int_equal(write(ends[1], "x", 1), 1);
        assert_int_equal(kill(p.pid, SIGCONT), 0);
        while (held(others[0]) == FULL)
            continue;
        splice(last, NULL, null, NULL, 1, SPLICE_F_NONBLOCK);
        for (size_t k = 0; k < OTHERS; k++)
            while (held(others[k]))
                poll(NULL, 0, 1);
    }
    close(put_fd(1, bytes_of(".."), 1, -1));
    answered(1, 126, "");
    close(ends[1]);
    for (size_t i = 0; i < OTHERS; i++)
        close(others[i]);
}

static void too_many_at_once_are_refused(void **state) {
    (void)state;
    int to[8];
    for (size_t i = 0; i < COUNT(to); i++)
        to[i] = put_fd(i + 1, bytes_of("same"), 1, -1);
    close(put_fd(9, bytes_of("same"), 1, -1));
    answered(9, 126, "coming already");
    for (size_t i = 0; i < COUNT(to); i++) {
        assert_int_equal(write(to[i], "x", 1), 1);
        close(to[i]);
        answered(i + 1, 0, "/inbox/same");
    }
    assert_int_equal(files(), COUNT(to));
}

static void what_a_crash_left_goes(void **state) {
    (void)state;
    put_text(1, "whole", 1, "x");
    answered(1, 0, "/inbox/whole");
    own_fd int to = put_fd(2, bytes_of("half"), 10, -1);
    assert_int_equal(write(to, "x", 1), 1);
    for (int i = 0; i < 1000 && files() != 2; i++)
        poll(NULL, 0, 10);
    restart();
    put_text(3, "next", 1, "x");
    answered(3, 0, "/inbox/next");
    assert_int_equal(files(), 2);
}

static void the_fleets_reserve_stays_free(void **state) {
    (void)state;
    p.reserve = UINT64_C(1) << 50; /* more than any disk has */
    restart();
    put_text(1, "x", 1, "x");
    answered(1, 125, "no place");
    assert_int_equal(files(), 0);
    p.reserve = 0;
    restart();
    put_text(2, "x", 1, "x");
    answered(2, 0, "/inbox/x");
}

/* ---- a sealed agent's in-tray is of one conversation ---- */

static int set_up_sealed(void **state) {
    (void)state;
    peer_begin(&p, "agent");
    p.mode = "sealed";
    start();
    return 0;
}

#define sealed_row(f) cmocka_unit_test_setup_teardown(f, set_up_sealed, tear_down)

static void another_conversation_finds_no_file(void **state) {
    (void)state;
    a_turn(1);
    put_text(1, "old.txt", 3, "old");
    answered(1, 0, "/inbox/old.txt");
    own_fd int half = put_fd(2, bytes_of("half"), 10, -1);
    assert_int_equal(write(half, "x", 1), 1);
    session_order(MSG_desk_fresh, 3, "");
    answered(2, 125, "another session began");
    answered(3, 0, "a new session begins");
    assert_int_equal(files(), 0);
    put_text(4, "new.txt", 3, "new");
    answered(4, 0, "/inbox/new.txt");
    session_order(MSG_desk_resume, 5, "nothing"); /* stays where it is */
    answered(5, EXIT_NOTFOUND, "");
    holds("new.txt", "new");
    session_order(MSG_desk_resume, 6, "1");
    answered(6, 0, "goes on");
    assert_int_equal(files(), 0);
}

static void a_file_between_the_order_and_the_change_is_refused(void **state) {
    (void)state;
    deliver(1, "a");
    expect_start(1);
    session_order(MSG_desk_fresh, 2, "");
    own_msg struct msg m = {0};
    expect(harness, MSG_turn_stop, &m);
    close(put_fd(3, bytes_of("early"), 1, -1));
    answered(3, 125, "about to begin");
    end_turn(1, 143);
    answered(2, 0, "a new session begins");
    put_text(4, "then", 1, "x");
    answered(4, 0, "/inbox/then");
}

/* The list of conversations is kept first; a kill between the two leaves files of the one before. */
static void a_kill_within_the_change_brings_no_file_over(void **state) {
    (void)state;
    put_text(1, "kept.txt", 1, "x");
    answered(1, 0, "/inbox/kept.txt");
    restart(); /* healed in the same conversation: it stays */
    assert_int_equal(files(), 1);
    own_free char *note = xasprintf("%s/home/intray-of", p.dir);
    own_err err_t e = fs_write(note, "77\n", 3, geteuid(), getegid(), 0644);
    assert_null(e);
    restart();
    put_text(2, "next", 1, "x");
    answered(2, 0, "/inbox/next");
    assert_int_equal(files(), 1);
}

static void a_pods_files_stay(void **state) {
    (void)state;
    a_turn(1);
    put_text(1, "old.txt", 3, "old");
    answered(1, 0, "/inbox/old.txt");
    session_order(MSG_desk_fresh, 2, "");
    answered(2, 0, "a new session begins");
    holds("old.txt", "old");
}

static void get(uint64_t cookie, struct bytes name, int fd) {
    struct msg m = {.type = MSG_desk_get, .fds = {fd}, .nfds = 1};
    m.desk_get = (struct msg_desk_get){.cookie = cookie, .who = bytes_of("anna"), .name = name};
    say(manager, &m);
}

static void got(uint64_t cookie, uint64_t status, const char *text) {
    struct msg m = {.type = MSG_run_got};
    m.run_got = (struct msg_run_got){.cookie = cookie, .status = status, .size = 3, .text = bytes_of(text)};
    say(executor, &m);
}

static void a_file_is_fetched_from_the_executor(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    get(5, bytes_of("out.bin"), ends[1]);
    close(ends[1]);
    own_msg struct msg m = {0};
    expect(executor, MSG_run_get, &m);
    assert_string_equal(m.run_get.name.p, "out.bin");
    assert_int_equal(write(m.fds[0], "abc", 3), 3);
    msg_free(&m);
    m = (struct msg){0};
    char text[4];
    assert_int_equal(read(ends[0], text, 4), 3);
    assert_int_equal(read(ends[0], text, 4), 0); /* the agent kept nothing of the pipe */
    close(ends[0]);
    got(6, 0, ""); /* not asked for: nobody is told */
    got(5, 0, "");
    answered(5, 0, "");
    noted("anna fetched out.bin from the outbox, 3 bytes");
    got(5, 0, "");
    own_fd int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    get(8, bytes_of("../x"), null);
    answered(8, 126, "begins with a dot");
    get(9, bytes_of("y"), null);
    expect(executor, MSG_run_get, &m);
    got(9, 126, "a link");
    answered(9, 126, "a link");
}

static void who_fetches_is_told_that_the_executor_ended(void **state) {
    (void)state;
    own_fd int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    get(1, bytes_of("x"), null);
    own_msg struct msg m = {0};
    expect(executor, MSG_run_get, &m);
    close(executor);
    executor = -1;
    answered(1, 125, "executor ended");
    get(2, bytes_of("x"), null);
    answered(2, 125, "executor");
}

int main(int argc, char **argv) {
    (void)argc;
    peer_binary = argv[1];
    const struct CMUnitTest tests[] = {row(a_file_arrives_whole_and_is_told),
                                       row(a_name_that_is_taken_gets_a_number),
                                       row(what_is_not_its_size_is_no_file),
                                       row(hostile_names_and_sizes_are_refused),
                                       row(only_a_pipes_reading_end_is_taken),
                                       row(the_agent_never_waits_for_a_pipe),
                                       row(too_many_at_once_are_refused),
                                       row(what_a_crash_left_goes),
                                       row(the_fleets_reserve_stays_free),
                                       row(a_pods_files_stay),
                                       sealed_row(another_conversation_finds_no_file),
                                       sealed_row(a_file_between_the_order_and_the_change_is_refused),
                                       sealed_row(a_kill_within_the_change_brings_no_file_over),
                                       row(a_file_is_fetched_from_the_executor),
                                       row(who_fetches_is_told_that_the_executor_ended)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
