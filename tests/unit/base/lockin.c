/*
 * Locking in, for real: each attempt runs in a child that went the product's way, root → account → all steps.
 * The same attempt with its step left out must get through or be seen by the proof, else it proves nothing.
 */
#include "base/lockin.h"
#include "base/fs.h"
#include "base/own.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/capability.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { UID = 65533, STRAY = 40 };
enum end {
    HELD,
    THROUGH,
    SEEN,
    BROKEN
}; /* refused; it worked; an error of the steps or the proof; the test's fault */

static char dir[64], inside[80], outside[80];
static uint16_t port; /* of a listener on the loopback */

typedef enum end attempt(void);
typedef err_t entering(void);

struct child {
    const char *left_out; /* name of a step */
    enum lockin_calls calls;
    bool splices;
    entering *enter; /* NULL: lockin_become */
    attempt *try;
    attempt *try_outside; /* by another process of the same account, while the child waits */
};

static err_t become(void) {
    return lockin_become(UID, UID, NULL, 0);
}

static err_t steps(const struct child *c) {
    struct lockin_spec spec = {.part = "test",
                               .calls = c->calls,
                               .splices = c->splices,
                               .nfds = 3,
                               .read = {"/proc/version"},
                               .write = {inside},
                               .nofile = 64};
    own_buf struct buf lacks = {0};
    struct lockin_run run = {&spec, &lacks, -1};
    if (!c->left_out)
        return lockin(&spec, &lacks);
    for (size_t i = 0; i < LOCKIN_STEPS; i++)
        if (strcmp(lockin_steps[i].name, c->left_out))
            TRY(lockin_steps[i].run(&run));
    if (run.status < 0)
        return NULL; /* the step that opens it was left out */
    return lockin_prove(&spec, run.status);
}

static int ready[2], done[2];
static pid_t locked;

static _Noreturn void in_child(const struct child *c) {
    int stray = open(dir, O_PATH | O_CLOEXEC);
    dup2(stray, STRAY);
    err_t e = c->enter ? c->enter() : become();
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* as exec does */
    int say = c->try_outside ? dup2(ready[1], 1) : -1, wait_on = c->try_outside ? dup2(done[0], 2) : -1;
    if (!e)
        e = steps(c);
    char byte = 0;
    if (!e && c->try_outside)
        (void)!(write(say, &byte, 1) + read(wait_on, &byte, 1));
    _exit(e ? SEEN : c->try ? (int)c->try() : HELD);
}

static enum end outside_try(const struct child *c) {
    char byte;
    pid_t pid = fork();
    if (pid == 0) {
        close(ready[1]); /* so that a child that ended is the end of the pipe */
        if (read(ready[0], &byte, 1) != 1)
            _exit(SEEN);
        err_t e = become();
        _exit(e ? BROKEN : (int)c->try_outside());
    }
    close(ready[1]);
    int status;
    waitpid(pid, &status, 0);
    (void)!write(done[1], "", 1);
    return WIFEXITED(status) ? (enum end)WEXITSTATUS(status) : BROKEN;
}

static enum end run(struct child c) {
    if (c.try_outside)
        assert_true(pipe(ready) == 0 && pipe(done) == 0);
    locked = fork();
    if (locked == 0)
        in_child(&c);
    enum end from_outside = c.try_outside ? outside_try(&c) : HELD;
    if (c.try_outside)
        close(ready[0]), close(done[0]), close(done[1]);
    int status;
    assert_int_equal(waitpid(locked, &status, 0), locked);
    if (WIFSIGNALED(status))
        return WTERMSIG(status) == SIGSYS ? HELD : BROKEN;
    return from_outside != HELD ? from_outside : (enum end)WEXITSTATUS(status);
}

static enum end unless(bool worked) {
    return worked ? THROUGH : HELD;
}

/* ---- attempts ---- */

static enum end use_stray(void) {
    return unless(fcntl(STRAY, F_GETFD) >= 0);
}

static enum end have_limits(void) {
    struct rlimit core, files, procs;
    getrlimit(RLIMIT_CORE, &core);
    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_NPROC, &procs);
    return unless(core.rlim_max || files.rlim_max > 64 || procs.rlim_max);
}

static enum end read_memory(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)locked);
    own_fd int fd = open(path, O_RDWR | O_CLOEXEC);
    return unless(fd >= 0);
}

static enum end open_outside(void) {
    own_fd int fd = open(outside, O_RDONLY | O_CLOEXEC);
    return unless(fd >= 0);
}

static enum end write_outside(void) {
    own_fd int fd = open(outside, O_WRONLY | O_CLOEXEC);
    return unless(fd >= 0);
}

static enum end read_listed(void) {
    own_fd int fd = open("/proc/version", O_RDONLY | O_CLOEXEC), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    return unless(fd >= 0 && null >= 0);
}

/* Into a pipe: from another, or from a file. */
static enum end move(bool otherwise) {
    int from[2], to[2];
    own_fd int file = open("/proc/version", O_RDONLY | O_CLOEXEC);
    if (pipe2(from, O_CLOEXEC) || pipe2(to, O_CLOEXEC) || write(from[1], "x", 1) != 1)
        return BROKEN;
    bool moved = otherwise ? sendfile(to[1], file, NULL, 1) == 1 || tee(from[0], to[1], 1, 0) == 1
                           : splice(from[0], NULL, to[1], NULL, 1, 0) == 1;
    return unless(moved);
}

static enum end move_by_splice(void) {
    return move(false);
}

static enum end move_otherwise(void) {
    return move(true);
}

static enum end make_inet(void) {
    own_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return unless(fd >= 0);
}

static enum end make_unix(void) {
    own_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return unless(fd >= 0);
}

static enum end make_netlink(void) {
    own_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
    return unless(fd >= 0);
}

static enum end be_traced(void) {
    return unless(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
}

static enum end map_code(void) {
    return unless(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
}

static enum end protect_code(void) {
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? BROKEN : unless(mprotect(p, 4096, PROT_READ | PROT_EXEC) == 0);
}

static enum end execute(void) {
    execl("/bin/true", "true", (char *)NULL);
    return BROKEN; /* the filter kills */
}

static enum end make_process(void) {
    return fork() >= 0 ? THROUGH : BROKEN;
}

static enum end signal_parent(void) {
    return unless(kill(getppid(), 0) == 0);
}

static enum end make_namespace(void) {
    return unshare(CLONE_NEWUSER) == 0 ? THROUGH : BROKEN;
}

static enum end become_root(void) {
    return syscall(SYS_setresuid, 0, 0, 0) == 0 ? THROUGH : BROKEN;
}

static enum end mount_something(void) {
    return mount("none", "/mnt", "tmpfs", 0, NULL) == 0 ? THROUGH : BROKEN;
}

static enum end use_uring(void) {
    char params[128] = {0};
    return syscall(SYS_io_uring_setup, 1, params) >= 0 ? THROUGH : BROKEN;
}

static enum end raise_limit(void) {
    struct rlimit r = {10, 10};
    return unless(setrlimit(RLIMIT_NOFILE, &r) == 0);
}

static enum end push_input(void) {
    return unless(ioctl(0, TIOCSTI, "x") == 0 || errno != ENOSYS);
}

static enum end connect_tcp(void) {
    own_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = port, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    return unless(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
}

/* ---- ways in that leave something behind ---- */

static err_t stay_root(void) {
    return NULL;
}

static err_t keep_bounding(void) {
    return setgroups(0, NULL) || setresgid(UID, UID, UID) || setresuid(UID, UID, UID) ? err_new(1, "?")
                                                                                      : NULL;
}

static err_t keep_inheritable(void) {
    cap_t caps = cap_get_proc();
    const cap_value_t raw = CAP_NET_RAW;
    cap_set_flag(caps, CAP_INHERITABLE, 1, &raw, CAP_SET);
    cap_set_proc(caps);
    cap_free(caps);
    for (cap_value_t c = 0; cap_get_bound(c) >= 0; c++)
        cap_drop_bound(c);
    return keep_bounding();
}

static err_t keep_saved_uid(void) {
    return setgroups(0, NULL) || setresgid(UID, UID, UID) || setresuid(UID, UID, 0) ? err_new(1, "?") : NULL;
}

static err_t keep_group(void) {
    const gid_t group = 4;
    return lockin_become(UID, UID, &group, 1);
}

/* ---- tests ---- */

/* Without root there is nothing to drop; Valgrind runs its own system calls in our process. */
static bool cannot(void) {
    const char *preloaded = getenv("LD_PRELOAD");
    return geteuid() != 0 || (preloaded && strstr(preloaded, "vgpreload"));
}

static int set_up(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/unit-lockin-XXXXXX");
    if (!mkdtemp(dir) || chmod(dir, 0711) < 0)
        return -1;
    snprintf(inside, sizeof inside, "%s/inside", dir);
    snprintf(outside, sizeof outside, "%s/outside", dir);
    err_t e = fs_dir(inside, UID, UID, 0700);
    if (!e)
        e = fs_write(outside, "x", 1, UID, UID, 0644);
    return e != NULL;
}

static int tear_down(void **state) {
    (void)state;
    return fs_remove(dir) != NULL;
}

/* An attempt that each step holds off or the proof sees, and the same without the step. */
static const struct {
    const char *step;
    struct child child;
    enum end with, without;
} guarded[] = {
    {"descriptors", {.try = use_stray}, HELD, THROUGH},
    {"ids", {.enter = stay_root}, SEEN, SEEN},
    {"ids", {.enter = keep_saved_uid}, SEEN, SEEN},
    {"limits", {.try = have_limits}, HELD, THROUGH},
    {"memory", {.try_outside = read_memory}, HELD, THROUGH},
    {"capabilities", {.enter = keep_bounding}, SEEN, SEEN},
    {"capabilities", {.enter = keep_inheritable}, HELD, SEEN},
    {"privileges", {.try = NULL}, HELD, SEEN},
    {"files", {.try = open_outside}, HELD, THROUGH},
    {"files", {.try = write_outside}, HELD, THROUGH},
    {"files", {.try = read_listed}, THROUGH, THROUGH},
    {"calls", {.try = make_inet}, HELD, SEEN},
    {"calls", {.enter = keep_group}, SEEN, SEEN},
};

static void each_step_is_needed(void **state) {
    (void)state;
    if (cannot())
        skip();
    for (size_t i = 0; i < COUNT(guarded); i++) {
        if (!strcmp(guarded[i].step, "files") && !lockin_landlock_abi())
            continue;
        struct child c = guarded[i].child;
        enum end with = run(c);
        c.left_out = guarded[i].step;
        enum end without = run(c);
        if (with != guarded[i].with || without != guarded[i].without)
            fail_msg("row %zu, %s: %d with the step, %d without it", i, guarded[i].step, with, without);
    }
}

static void forbidden_calls(void **state) {
    (void)state;
    if (cannot())
        skip();
    static attempt *const refused[] = {execute,     make_process,    signal_parent, make_namespace,
                                       become_root, mount_something, use_uring,     be_traced,
                                       map_code,    protect_code,    raise_limit,   push_input,
                                       make_unix,   make_netlink,    make_inet};
    for (size_t i = 0; i < COUNT(refused); i++)
        if (run((struct child){.try = refused[i]}) != HELD)
            fail_msg("attempt %zu got through", i);
}

/* Who waits in one of these, with a socket that gives nothing, holds a pipe's lock: of the others not even kill(2) frees one. */
static void nobody_holds_a_pipe(void **state) {
    (void)state;
    if (cannot())
        skip();
    for (int calls = LOCKIN_DAEMON; calls <= LOCKIN_NETWORK; calls++) {
        struct child c = {.calls = (enum lockin_calls)calls, .try = move_by_splice};
        assert_int_equal(run(c), HELD);
        c.try = move_otherwise;
        assert_int_equal(run(c), HELD);
        c = (struct child){.calls = (enum lockin_calls)calls, .splices = true, .try = move_by_splice};
        assert_int_equal(run(c), THROUGH);
    }
}

static void network_only_where_it_belongs(void **state) {
    (void)state;
    if (cannot())
        skip();
    own_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof at;
    assert_int_equal(
        bind(fd, (struct sockaddr *)&at, n) | listen(fd, 8) | getsockname(fd, (struct sockaddr *)&at, &n), 0);
    port = at.sin_port;
    assert_int_equal(run((struct child){.calls = LOCKIN_NETWORK, .try = connect_tcp}), THROUGH);
    assert_int_equal(run((struct child){.calls = LOCKIN_DAEMON, .try = connect_tcp}), HELD);
    assert_int_equal(run((struct child){.calls = LOCKIN_NETWORK, .try = make_unix}), HELD);
    assert_int_equal(run((struct child){.calls = LOCKIN_NETWORK, .try = make_netlink}), HELD);
}

/* What a spawner's child does. */
static enum end spawn(void) {
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "ulimit -c | grep -qx 0 && : >/dev/null", (char *)NULL);
        _exit(BROKEN);
    }
    int status = 1;
    return waitpid(pid, &status, 0) == pid && status == 0 ? THROUGH : BROKEN;
}

static void a_spawner_can_spawn(void **state) {
    (void)state;
    if (cannot())
        skip();
    assert_int_equal(run((struct child){.calls = LOCKIN_SPAWNER, .try = spawn}), THROUGH);
    assert_int_equal(run((struct child){.calls = LOCKIN_SPAWNER, .try = use_stray}), HELD);
    assert_int_equal(run((struct child){.calls = LOCKIN_SPAWNER, .try_outside = read_memory}), HELD);
}

static void on_tick(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    ++*(int *)arg;
}

static enum end use_libevent(void) {
    int ticks = 0;
    struct event_base *base = event_base_new();
    struct event *timer = base ? event_new(base, -1, 0, on_tick, &ticks) : NULL;
    struct event *sig = base ? evsignal_new(base, SIGTERM, on_tick, &ticks) : NULL;
    if (!timer || !sig || event_add(timer, &(struct timeval){0, 1000}) || event_add(sig, NULL))
        return BROKEN;
    event_base_loop(base, EVLOOP_ONCE);
    event_free(timer);
    event_free(sig);
    event_base_free(base);
    return unless(ticks == 1);
}

static enum end use_sqlite(void) {
    sqlite3 *db = NULL;
    char path[128];
    snprintf(path, sizeof path, "%s/fleet.db", inside);
    static const char sql[] =
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY;"
        "DROP TABLE IF EXISTS t; CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB);"
        "INSERT INTO t(b) VALUES (randomblob(200000)), (randomblob(100));"
        "CREATE INDEX i ON t(b); DELETE FROM t WHERE a = 1; PRAGMA wal_checkpoint(TRUNCATE); VACUUM;"
        "PRAGMA journal_mode=DELETE; INSERT INTO t(b) VALUES (1);";
    int r = sqlite3_open(path, &db);
    if (r == SQLITE_OK)
        r = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return unless(sqlite3_close(db) == SQLITE_OK && r == SQLITE_OK);
}

static enum end use_openssl(void) {
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    unsigned char sig[64], hash[32];
    size_t n = sizeof sig, m = sizeof hash;
    bool ok = key && EVP_DigestSignInit(c, NULL, NULL, NULL, key) == 1 &&
              EVP_DigestSign(c, sig, &n, (const unsigned char *)"x", 1) == 1 &&
              EVP_Q_digest(NULL, "SHA256", NULL, "x", 1, hash, &m) == 1;
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    SSL *ssl = tls ? SSL_new(tls) : NULL;
    if (ssl) { /* a hello: key shares, random bytes */
        SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
        SSL_set_connect_state(ssl);
        ok = ok && SSL_do_handshake(ssl) < 0 && BIO_pending(SSL_get_wbio(ssl)) > 100;
    }
    SSL_free(ssl);
    SSL_CTX_free(tls);
    EVP_MD_CTX_free(c);
    EVP_PKEY_free(key);
    return unless(ok && ssl);
}

static enum end use_files(void) {
    char path[128], sub[128], deep[128];
    snprintf(path, sizeof path, "%s/a", inside);
    snprintf(sub, sizeof sub, "%s/sub", inside);
    snprintf(deep, sizeof deep, "%s/sub/x/y/z", inside);
    err_t e = fs_write(path, "x", 1, UID, UID, 0600);
    own_buf struct buf b = {0};
    if (!e)
        e = fs_read(path, 10, &b);
    if (!e)
        e = fs_dirs(deep);
    if (!e)
        e = fs_remove(sub);
    return unless(!e && !strcmp(buf_text(&b), "x") && access(sub, F_OK) < 0);
}

static void what_a_daemon_needs_works(void **state) {
    (void)state;
    if (cannot())
        skip();
    static attempt *const needs[] = {use_libevent, use_sqlite, use_openssl, use_files};
    for (size_t i = 0; i < COUNT(needs); i++)
        for (int calls = LOCKIN_DAEMON; calls <= LOCKIN_NETWORK; calls++)
            if (run((struct child){.calls = (enum lockin_calls)calls, .try = needs[i]}) != THROUGH)
                fail_msg("need %zu, calls %d", i, calls);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(each_step_is_needed), T(forbidden_calls),     T(network_only_where_it_belongs),
        T(nobody_holds_a_pipe), T(a_spawner_can_spawn), T(what_a_daemon_needs_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
