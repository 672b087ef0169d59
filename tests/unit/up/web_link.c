/* What the relay says of its page is printed for a terminal: whatever it says, no byte of it is an order to one. */
#include "up/web_link.h"

#include "../scratch.h"
#include "proto/msg.h"
#include "wire/seq.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { PATIENCE_MS = 60000 };

/* A relay in a child, which answers what it is asked with this. */
static pid_t relay(uint64_t status, const char *text) {
    own_free char *path = path_of(PATH_RELAY_SOCKET), *run = path_of(DIR_RUN);
    own_fd int listener = -1;
    assert_null(fs_dirs(run));
    assert_null(seq_listen(path, 0600, &listener));
    pid_t pid = fork();
    if (pid)
        return pid;
    struct pollfd asked = {listener, POLLIN, 0};
    poll(&asked, 1, PATIENCE_MS);
    own_fd int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    own_msg struct msg hello = {0}, word = {0};
    enum seq_got got;
    struct msg end = {.type = MSG_relay_end};
    end.relay_end.status = status;
    end.relay_end.text = bytes_of(text);
    bool bad = seq_recv(fd, &hello, &got) || seq_recv(fd, &word, &got) || word.type != MSG_front_word;
    end.relay_end.cookie = bad ? 0 : word.front_word.cookie;
    _exit(bad || seq_send(fd, &end));
}

/* What is printed of it. */
static void printed(uint64_t status, const char *text, char *ret, size_t size) {
    pid_t pid = relay(status, text);
    int out = dup(STDOUT_FILENO), file = open("said", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), how;
    fflush(stdout);
    dup2(file, STDOUT_FILENO);
    web_link_print("build/agent-cage");
    dup2(out, STDOUT_FILENO);
    close(out);
    ssize_t n = pread(file, ret, size - 1, 0);
    close(file);
    ret[n < 0 ? 0 : n] = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
}

static void is_escaped(void **state) {
    (void)state;
    char said[512];
    printed(1, "no\x1b]0;owned\a page\nand\x7f more", said, sizeof said);
    assert_string_equal(said, "no\\x1b]0;owned\\x07 page\nand\\x7f more\n");
    printed(0, "http://127.0.0.1:717/#login=\x1b[2J", said, sizeof said);
    assert_string_equal(strchr(said, ':') + 2, "http://127.0.0.1:717/#login=\\x1b[2J\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(is_escaped, scratch_fleet_up, scratch_fleet_down)};
    return cmocka_run_group_tests_name("up/web_link", tests, NULL, NULL);
}
