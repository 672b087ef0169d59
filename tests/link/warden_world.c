#include "warden_world.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/ids.h"
#include "base/names.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/paths.h"
#include "base/proc.h"
#include "part/part.h"
#include "wire/seq.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

const char *world_binary;

/* ---- the fake part --------------------------------------------------------------------------------------------- */

struct fake {
    struct event_base *base;
    const char *part;
    struct part *p;
};

static bool scripted(const char *word) {
    own_free char *path = path_of("/script/%s", word);
    return access(path, F_OK) == 0;
}

/* Brings a link's end to the test; a room in a world of its own cannot, and keeps it. */
static void bring(const char *part, enum link_id link, const char *peer, int fd) {
    own_free char *path = path_of("/fakes.sock");
    own_fd int to = -1;
    err_t e = seq_connect(path, &to);
    if (e) {
        err_free(e);
        return;
    }
    struct given g = {.link = link, .pid = getpid(), .fd = -1};
    snprintf(g.part, sizeof g.part, "%s", part);
    snprintf(g.peer, sizeof g.peer, "%s", peer);
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof fd)];
    } control = {0};
    struct iovec iov = {&g, sizeof g};
    struct msghdr h = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    (void)!sendmsg(to, &h, MSG_NOSIGNAL); /* waits in the socket until the test takes it */
}

static void on_link(void *ctx, enum link_id link, const char *peer, int fd) {
    struct fake *f = ctx;
    bring(f->part, link, peer, fd);
    if (link != LINK_agent_harness && link != LINK_agent_executor)
        close(fd);
}

static void on_go(void *ctx, struct msg *m) {
    struct fake *f = ctx;
    (void)m;
    if (!strcmp(f->part, "executor") && scripted("crash"))
        _exit(7);
    part_ready(f->p);
}

/* Speaks another version of the protocol. */
_Noreturn static void lie(void) {
    for (;;) {
        own_fd int fd = accept4(PART_CONTROL, NULL, NULL, SOCK_CLOEXEC);
        struct msg m = {.type = MSG_part_hello};
        m.part_hello.fingerprint = msg_fingerprint() + 1;
        m.part_hello.part = bytes_of("relay");
        if (fd < 0 || seq_send(fd, &m))
            pause();
        char end;
        (void)!recv(fd, &end, 1, 0);
    }
}

/* Speaks the protocol, and answers questions that were asked of others. */
_Noreturn static void forge(void) {
    for (;;) {
        own_fd int fd = accept4(PART_CONTROL, NULL, NULL, SOCK_CLOEXEC);
        struct msg hello = {.type = MSG_part_hello}, m = {.type = MSG_part_secret_end};
        hello.part_hello.fingerprint = msg_fingerprint();
        hello.part_hello.part = bytes_of("relay");
        m.part_secret_end.text = bytes_of("forged");
        bool said = fd >= 0 && !seq_send(fd, &hello);
        while (said && m.part_secret_end.cookie++ < 8)
            said = !seq_send(fd, &m);
        for (char end; said && recv(fd, &end, 1, 0) > 0;)
            continue;
    }
}

bool world_is_part(int argc, char **argv, int *ret) {
    const char *name = strrchr(argv[0], '/');
    if (strcmp(name ? name + 1 : argv[0], "agent-cage") != 0 || argc < 3 || paths_open())
        return false;
    if (!strcmp(argv[1], "relay") && scripted("liar")) {
        fcntl(PART_CONTROL, F_SETFL, 0);
        lie();
    }
    if (!strcmp(argv[1], "relay") && scripted("forger")) {
        fcntl(PART_CONTROL, F_SETFL, 0);
        forge();
    }
    struct fake f = {event_base_new(), argv[1], NULL};
    static const struct part_ops ops = {.on_link = on_link, .on_go = on_go};
    *ret = part_new(f.base, PART_CONTROL, f.part, &ops, &f, &f.p) ? 1 : 0;
    if (!*ret)
        event_base_dispatch(f.base);
    return true;
}

/* ---- the test's side ------------------------------------------------------------------------------------------- */

/* Those that came and were not asked for yet, the oldest first. */
static struct given waiting[32];
static size_t nwaiting;

static void must(err_t e) {
    if (e)
        fail_msg("%s", err_text(e));
}

static void install(struct world *w) {
    own_free char *bin = path_of(DIR_LIB "/bin"), *to = path_of(DIR_LIB "/bin/agent-cage");
    own_free char *shim = path_of(DIR_LIB "/bin/shim");
    own_free char *etc = path_of(DIR_ETC), *conf = path_of(PATH_CONF), *run = path_of(DIR_RUN);
    own_free char *script = path_of("/script"), *self = realpath("/proc/self/exe", NULL);
    static const char text[] = "prefix = " WORLD_PREFIX "\n";
    (void)w;
    must(fs_dirs(bin));
    must(fs_dirs(etc));
    must(fs_dirs(run));
    must(fs_dirs(script));
    must(fs_copy(self, to, 0, 0, 0755));
    must(fs_copy(self, shim, 0, 0, 0755)); /* is looked at, never run */
    must(fs_write(conf, text, strlen(text), 0, 0, 0644));
}

static void account(const char *part) {
    own_free char *name = xasprintf(WORLD_PREFIX "cage_%s", part), *home = path_of(DIR_LIB "/%s", part);
    err_free(proc_call("userdel", name, NULL));
    must(proc_call("useradd", "-r", "-U", "-M", "-d", home, "-s", "/usr/sbin/nologin", name, NULL));
    must(fs_dirs(home));
}

/* What a test that failed half-way left on the machine. */
static void sweep(void) {
    static const char *const agents[] = {"anna", "bert", "carl", "dora"};
    for (size_t i = 0; i < COUNT(agents); i++)
        for (int room = 0; room < ROOM_COUNT; room++) {
            own_free char *name =
                xasprintf(WORLD_PREFIX "cage-%s%s", agents[i], room_suffix((enum room)room));
            err_free(proc_call("userdel", name, NULL));
            err_free(proc_call("groupdel", name, NULL));
        }
    err_free(ids_drop(WORLD_PREFIX));
}

void world_run_warden(struct world *w) {
    w->warden = fork();
    if (w->warden == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("AGENT_CAGE_ROOT", w->root, 1);
        execl(world_binary, "agent-cage", "warden", (char *)NULL);
        _exit(125);
    }
    assert_true(w->warden > 0);
}

void world_start(struct world *w) {
    snprintf(w->root, sizeof w->root, "/tmp/wlt-XXXXXX");
    assert_non_null(mkdtemp(w->root));
    assert_int_equal(chmod(w->root, 0755), 0);
    must(paths_set(w->root));
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sweep();
    install(w);
    account("relay");
    account("manager");
    own_free char *fakes = path_of("/fakes.sock");
    must(seq_listen(fakes, 0666, &w->fakes));
    world_run_warden(w);
}

void world_kill_warden(struct world *w) {
    kill(w->warden, SIGKILL);
    assert_int_equal(waitpid(w->warden, NULL, 0), w->warden);
}

void world_stop(struct world *w) {
    kill(w->warden, SIGTERM);
    int status = -1;
    for (int64_t until = clock_boot_ms() + WORLD_MS; clock_boot_ms() < until;) {
        if (waitpid(w->warden, &status, WNOHANG) == w->warden)
            break;
        poll(NULL, 0, 20);
    }
    close(w->fakes);
    while (nwaiting)
        close(waiting[--nwaiting].fd);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    const char *const parts[] = {"relay", "manager"};
    for (size_t i = 0; i < COUNT(parts); i++) {
        own_free char *name = xasprintf(WORLD_PREFIX "cage_%s", parts[i]);
        err_free(proc_call("userdel", name, NULL));
    }
    sweep();
    must(fs_remove(w->root));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void world_script(struct world *w, const char *word, bool on) {
    (void)w;
    own_free char *path = path_of("/script/%s", word);
    must(on ? fs_write(path, "", 0, 0, 0, 0644) : fs_remove(path));
}

/* One link that a fake brought; its place in the record's fd is ours. */
static bool take(int from, struct given *ret) {
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {ret, sizeof *ret};
    struct msghdr h = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    if (recvmsg(from, &h, MSG_CMSG_CLOEXEC) != sizeof *ret || !CMSG_FIRSTHDR(&h))
        return false;
    memcpy(&ret->fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof ret->fd);
    return true;
}

static bool from_waiting(const char *part, enum link_id link, struct given *ret) {
    for (size_t i = 0; i < nwaiting; i++)
        if (!strcmp(waiting[i].part, part) && waiting[i].link == link) {
            *ret = waiting[i];
            memmove(&waiting[i], &waiting[i + 1], (--nwaiting - i) * sizeof waiting[0]);
            return true;
        }
    return false;
}

bool world_given(struct world *w, const char *part, enum link_id link, int timeout_ms, struct given *ret) {
    for (int64_t until = clock_boot_ms() + timeout_ms; !from_waiting(part, link, ret);) {
        int64_t left = until - clock_boot_ms();
        struct pollfd p = {w->fakes, POLLIN, 0};
        if (left <= 0 || poll(&p, 1, (int)left) <= 0)
            return false;
        own_fd int from = accept4(w->fakes, NULL, NULL, SOCK_CLOEXEC);
        assert_true(nwaiting < COUNT(waiting));
        if (from >= 0 && take(from, &waiting[nwaiting]))
            nwaiting++;
    }
    return true;
}

int world_operator(struct world *w) {
    (void)w;
    own_free char *path = path_of(PATH_WARDEN_SOCKET);
    int fd = -1;
    for (int64_t until = clock_boot_ms() + WORLD_MS;; poll(NULL, 0, 10)) {
        err_t e = seq_connect(path, &fd);
        if (!e)
            break;
        if (clock_boot_ms() > until)
            fail_msg("%s", err_text(e));
        err_free(e);
    }
    struct msg m = {.type = MSG_op_hello};
    m.op_hello.fingerprint = msg_fingerprint();
    say(fd, &m);
    return fd;
}

pid_t world_pid(const struct world *w, const char *part) {
    (void)w;
    own_free char *path = path_of(DIR_RUN "/pid/%s", part), *line = NULL;
    uint64_t pid = 0;
    must(fs_read_line(path, &line));
    must(parse_u64(line, INT32_MAX, &pid));
    return (pid_t)pid;
}

void say(int fd, const struct msg *m) {
    must(seq_send(fd, m));
}

void expect(int fd, enum msg_type type, struct msg *ret) {
    for (int64_t until = clock_boot_ms() + WORLD_MS;;) {
        struct pollfd p = {fd, POLLIN, 0};
        int64_t left = until - clock_boot_ms();
        if (left <= 0 || poll(&p, 1, (int)left) <= 0)
            fail_msg("%s did not come", msg_rows[type].name);
        enum seq_got got;
        must(seq_recv(fd, ret, &got));
        if (got == SEQ_END)
            fail_msg("the link ended before %s", msg_rows[type].name);
        if (got == SEQ_MESSAGE && ret->type == type)
            return;
        if (got == SEQ_MESSAGE)
            msg_free(ret);
    }
}

bool ends(int fd, int timeout_ms) {
    for (int64_t until = clock_boot_ms() + timeout_ms;;) {
        struct pollfd p = {fd, POLLIN, 0};
        int64_t left = until - clock_boot_ms();
        char bytes[65536];
        if (left <= 0 || poll(&p, 1, (int)left) <= 0)
            return false;
        if (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) <= 0)
            return true;
    }
}
