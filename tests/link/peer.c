#include "peer.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/lockin.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const char *peer_binary;
enum { PART_UID = 50000 };

int64_t now_ms(void) {
    return clock_mono_ns() / 1000000;
}

static void good(err_t e) {
    if (e)
        fail_msg("%s", err_text(e));
}

void peer_begin(struct peer *p, const char *part) {
    *p = (struct peer){.part = part, .listener = -1, .control = -1};
    snprintf(p->dir, sizeof p->dir, "/tmp/agent-cage-link-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    assert_int_equal(chmod(p->dir, 0711), 0);
    static const char *const folders[] = {"home", "project", "scratch", "inbox"};
    for (size_t i = 0; i < COUNT(folders); i++) {
        own_free char *path = xasprintf("%s/%s", p->dir, folders[i]);
        assert_int_equal(mkdir(path, 0700), 0);
        if (geteuid() == 0)
            assert_int_equal(chown(path, PART_UID, PART_UID), 0);
    }
    own_free char *path = xasprintf("%s/control", p->dir);
    good(seq_listen(path, 0600, &p->listener));
}

void peer_start(struct peer *p) {
    own_free char *log = xasprintf("%s/log", p->dir);
    own_fd int binary = open(peer_binary, O_RDONLY | O_CLOEXEC); /* its folder may be closed to the part */
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        int err = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600), null = open("/dev/null", O_RDONLY);
        dup2(p->listener, 10);
        dup2(null, 0);
        dup2(err, 1);
        dup2(err, 2);
        dup2(10, 3);
        for (int fd = 4; fd < 64; fd++)
            if (fd != binary)
                close(fd);
        char *argv[] = {(char[]){"agent-cage"}, (char *)p->part, (char[]){"test"}, NULL};
        if (geteuid() == 0)
            err_free(lockin_become(PART_UID, PART_UID, NULL, 0)); /* a part refuses to be root */
        /* Memory is measured, in sanitizer builds too: they would keep freed memory back. */
        char *env[] = {(char[]){"ASAN_OPTIONS=quarantine_size_mb=1:detect_leaks=0"}, NULL};
        fexecve(binary, argv, env);
        _exit(127);
    }
    own_free char *path = xasprintf("%s/control", p->dir);
    good(seq_connect(path, &p->control));
    own_msg struct msg m = {0};
    expect(p->control, MSG_part_hello, &m);
    assert_int_equal(m.part_hello.fingerprint, msg_fingerprint());
}

void peer_go(struct peer *p, uint64_t output_max) {
    peer_go_as(p, "shell", output_max);
}

void peer_go_as(struct peer *p, const char *harness, uint64_t output_max) {
    own_free char *home = xasprintf("%s/home", p->dir), *project = xasprintf("%s/project", p->dir),
                  *scratch = xasprintf("%s/scratch", p->dir), *tray = xasprintf("%s/inbox", p->dir);
    struct msg m = {.type = MSG_part_go};
    m.part_go = (struct msg_part_go){.agent = bytes_of("test"),
                                     .mode = bytes_of(p->mode ? p->mode : "pod"),
                                     .harness = bytes_of(harness),
                                     .project = bytes_of(project),
                                     .scratch = bytes_of(scratch),
                                     .home = bytes_of(home),
                                     .tray = bytes_of(tray),
                                     .inbox = bytes_of("/inbox"),
                                     .outbox = bytes_of(""),
                                     .output_max = output_max,
                                     .ask_ms = p->ask_ms ? p->ask_ms : 60000,
                                     .idle_ms = p->idle_ms,
                                     .reserve = p->reserve,
                                     .model = bytes_of(""),
                                     .upstream = bytes_of(p->upstream),
                                     .credential = bytes_of(p->credential),
                                     .budget = bytes_of(p->budget),
                                     .prices = bytes_of(p->prices),
                                     .ca = bytes_of(p->ca)};
    say(p->control, &m);
}

int peer_link(struct peer *p, enum link_id link) {
    int pair[2];
    good(seq_pair(pair));
    struct msg m = {.type = MSG_part_link, .fds = {pair[1]}, .nfds = 1};
    m.part_link.link = link;
    m.part_link.peer = bytes_of("");
    say(p->control, &m);
    close(pair[1]);
    return pair[0];
}

void peer_kill(struct peer *p) {
    if (!p->pid)
        return;
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
    p->pid = 0;
    own_closep(&p->control);
}

void peer_end(struct peer *p) {
    peer_kill(p);
    own_closep(&p->listener);
    good(fs_remove(p->dir));
}

uint64_t peer_status(const struct peer *p, const char *field, int base) {
    char path[64], line[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)p->pid);
    snprintf(line, sizeof line, "\n%s:", field);
    own_buf struct buf b = {0};
    good(fs_read(path, 1 << 16, &b));
    const char *at = strstr(buf_text(&b), line);
    if (!at)
        fail_msg("no %s in /proc/PID/status", field);
    return strtoull(at + strlen(line), NULL, base);
}

size_t peer_peak_kb(const struct peer *p) {
    return (size_t)peer_status(p, "VmHWM", 10);
}

void say(int fd, const struct msg *m) {
    good(seq_send(fd, m));
}

bool hear(int fd, int timeout_ms, struct msg *ret, bool *ret_gone) {
    struct pollfd p = {fd, POLLIN, 0};
    *ret_gone = false;
    if (poll(&p, 1, timeout_ms) <= 0)
        return false;
    enum seq_got got;
    err_t e = seq_recv(fd, ret, &got);
    *ret_gone = e || got == SEQ_END;
    err_free(e);
    return !*ret_gone;
}

static bool hear_type(int fd, enum msg_type type, int64_t until, struct msg *ret, bool *ret_gone) {
    *ret_gone = false;
    for (int64_t left; (left = until - now_ms()) > 0;) {
        struct msg m = {0};
        if (!hear(fd, (int)left, &m, ret_gone))
            return false;
        if (m.type == type) {
            *ret = m;
            return true;
        }
        msg_free(&m);
    }
    return false;
}

void expect(int fd, enum msg_type type, struct msg *ret) {
    bool gone;
    msg_free(ret);
    if (!hear_type(fd, type, now_ms() + DEADLINE_MS, ret, &gone))
        fail_msg("%s did not come%s", msg_rows[type].name, gone ? ": the link ended" : "");
}

void expect_none(int fd, enum msg_type type, int timeout_ms) {
    own_msg struct msg m = {0};
    bool gone;
    if (hear_type(fd, type, now_ms() + timeout_ms, &m, &gone))
        fail_msg("%s came", msg_rows[type].name);
}

void expect_end(int fd) {
    own_msg struct msg m = {0};
    bool gone;
    hear_type(fd, MSG_none, now_ms() + DEADLINE_MS, &m, &gone);
    assert_true(gone);
}
