#include "bed.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/lockin.h"
#include "base/own.h"
#include "wire/seq.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

bool bed_keep_rows, bed_drop_cwd;

static const char *const cgroup_roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};

/* The shim lies over these in the harness's world; in the executor's the real ones are at the same place. */
static const char *const shells[] = {"bash", "sh", "dash"};

static _Noreturn void give_up(const char *what) {
    fprintf(stderr, "bed: %s: %s\n", what, strerrordesc_np(errno));
    exit(1);
}

#define MUST(call)                                                                                           \
    do {                                                                                                     \
        if ((call) < 0)                                                                                      \
            give_up(#call);                                                                                  \
    } while (0)

#define MUST_OK(call)                                                                                        \
    do {                                                                                                     \
        err_t must_e_ = (call);                                                                              \
        if (must_e_) {                                                                                       \
            fprintf(stderr, "bed: %s: %s\n", #call, err_text(must_e_));                                      \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* --- a root of our own: the machine's top folders, and ours --- */

static void take_over(const char *top, const char *name) {
    char from[300], to[600];
    snprintf(from, sizeof from, "/%s", name);
    snprintf(to, sizeof to, "%s/%s", top, name);
    struct stat st;
    char link[300];
    if (lstat(from, &st) < 0)
        return;
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlink(from, link, sizeof link - 1);
        if (n > 0) {
            link[n] = 0;
            MUST(symlink(link, to));
        }
    } else if (S_ISDIR(st.st_mode)) {
        MUST(mkdir(to, 0755));
        MUST(mount(from, to, NULL, MS_BIND | MS_REC, NULL));
    }
}

static void make_room_folder(const char *path, uid_t owner, mode_t mode) {
    MUST(mkdir(path, mode));
    MUST(chown(path, owner, owner));
    MUST(chmod(path, mode));
}

/* Names at the top that the bed has for itself. */
static bool is_ours_alone(const char *name) {
    static const char *const own[] = {".", "..", "mnt", "cage", "scratch", "project"};
    for (size_t i = 0; i < COUNT(own); i++)
        if (!strcmp(name, own[i]))
            return true;
    return false;
}

/* A file at `place` that shows `what`. */
static void show(const char *what, const char *place) {
    int fd = open(place, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    MUST(fd);
    close(fd);
    MUST(mount(what, place, NULL, MS_BIND, NULL));
}

void bed_root(const char *binary, const char *shim) {
    own_free char *real = realpath(binary, NULL), *real_shim = realpath(shim, NULL);
    if (!real || !real_shim)
        give_up(binary);
    MUST(unshare(CLONE_NEWNS));
    MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    static const char top[] = "/mnt"; /* in our namespace alone: nothing is left of it */
    MUST(mount("bed", top, "tmpfs", 0, "mode=0755"));
    DIR *dir = opendir("/");
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (!is_ours_alone(d->d_name))
            take_over(top, d->d_name);
    closedir(dir);
    MUST(chdir(top));
    MUST(chroot("."));
    make_room_folder("/cage", 0, 0755);
    make_room_folder("/cage/shim", 0, 0755);
    make_room_folder("/cage/bin", 0, 0755);
    make_room_folder("/scratch", BED_EXECUTOR, 0777);
    make_room_folder("/project", BED_EXECUTOR, 0777);
    show(real, "/cage/agent-cage");
    /* A copy, removed once it is mounted: an upgrade does that to the rooms that run. */
    MUST_OK(fs_copy(real_shim, "/cage/shim-copy", 0, 0, 0755));
    for (size_t i = 0; i < COUNT(shells); i++) {
        own_free char *path = xasprintf("/cage/bin/%s", shells[i]);
        show("/cage/shim-copy", path);
    }
    MUST(unlink("/cage/shim-copy"));
    umask(022);
}

/* --- the executor --- */

static int delegate(struct bed *b) {
    for (size_t i = 0; i < COUNT(cgroup_roots); i++) {
        own_free char *probe = xasprintf("%s/cgroup.procs", cgroup_roots[i]);
        if (access(probe, W_OK) < 0)
            continue;
        snprintf(b->cgroup_path, sizeof b->cgroup_path, "%s/exec-bed-%d", cgroup_roots[i], getpid());
        MUST(mkdir(b->cgroup_path, 0755));
        static const char *const owned[] = {"", "/cgroup.procs", "/cgroup.threads",
                                            "/cgroup.subtree_control"};
        for (size_t k = 0; k < COUNT(owned); k++) {
            own_free char *path = xasprintf("%s%s", b->cgroup_path, owned[k]);
            MUST(chown(path, BED_EXECUTOR, BED_EXECUTOR));
        }
        return open(b->cgroup_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    fprintf(stderr, "bed: no cgroup-v2 hierarchy is mounted\n");
    exit(1);
}

/* As a sealed room's filter: libc falls back to clone, where flags can be seen. */
static void filter_clone3(void) {
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
    if (!f || seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) < 0 || seccomp_load(f) < 0)
        give_up("seccomp");
    seccomp_release(f);
}

static _Noreturn void be_executor(const struct bed *b, int control, int shims) {
    MUST(mount("proc", "/proc", "proc", 0, NULL));
    for (size_t i = 0; i < COUNT(shells); i++) {
        own_free char *from = xasprintf("/bin/%s", shells[i]), *to = xasprintf("/cage/bin/%s", shells[i]);
        MUST(umount2(to, MNT_DETACH));
        MUST(mount(from, to, NULL, MS_BIND, NULL));
    }
    if (b->cgroup >= 0) {
        own_fd int procs = openat(b->cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);
        MUST(write(procs, "0", 1));
    }
    MUST(setrlimit(RLIMIT_NPROC, &(struct rlimit){BED_PROCESSES, BED_PROCESSES}));
    if (b->mode == BED_MOVED)
        filter_clone3();
    MUST_OK(lockin_become(BED_EXECUTOR, BED_EXECUTOR, NULL, 0));
    MUST(prctl(PR_SET_PDEATHSIG, SIGKILL)); /* a change of uid clears it */
    MUST(control = fcntl(control, F_DUPFD, 10));
    MUST(shims = fcntl(shims, F_DUPFD, 10));
    MUST(dup2(control, 3));
    MUST(dup2(shims, 4));
    close_range(5, ~0u, 0);
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    close(null);
    char *const env[] = {NULL}, *const argv[] = {(char *)"agent-cage", (char *)"executor", (char *)"bed",
                                                 NULL};
    execve("/cage/agent-cage", argv, env);
    _exit(127);
}

static void start_first(struct bed *b, int control, int shims) {
    b->outer = fork();
    MUST(b->outer);
    if (b->outer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        MUST(unshare(CLONE_NEWPID | CLONE_NEWNS));
        MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
        pid_t first = fork();
        MUST(first);
        if (first == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0)
            be_executor(b, control, shims);
        close_range(0, ~0u, 0);
        int status;
        waitpid(first, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
}

static void control_say(struct bed *b, const struct msg *m) {
    MUST_OK(seq_send(b->control, m));
}

static void control_hear(struct bed *b, enum msg_type type) {
    for (;;) {
        own_msg struct msg m = {0};
        enum seq_got got;
        MUST_OK(seq_recv(b->control, &m, &got));
        if (got != SEQ_MESSAGE) {
            fprintf(stderr, "bed: the executor ended\n");
            exit(1);
        }
        if (m.type == MSG_part_note)
            fprintf(stderr, "# executor says: %s\n", m.part_note.text.p);
        if (m.type == MSG_part_ready)
            b->first = (pid_t)m.part_ready.pid;
        if (m.type == type)
            return;
    }
}

/* The executor's pid in our namespace: the one child of `outer`. */
static pid_t pid_of_first(const struct bed *b) {
    own_free char *path = xasprintf("/proc/%d/task/%d/children", b->outer, b->outer);
    own_file FILE *f = fopen(path, "re");
    int pid = -1;
    if (!f || fscanf(f, "%d", &pid) != 1)
        give_up("the executor's pid");
    return pid;
}

void bed_link_agent(struct bed *b) {
    own_closep(&b->agent);
    int pair[2];
    MUST_OK(seq_pair(pair));
    b->agent = pair[0];
    struct msg link = {.type = MSG_part_link, .fds = {pair[1]}, .nfds = 1};
    link.part_link.link = LINK_agent_executor;
    link.part_link.peer = bytes_of("");
    control_say(b, &link);
    close(pair[1]);
}

void bed_up(struct bed *b, enum bed_mode mode) {
    *b = (struct bed){.mode = mode, .cgroup = -1, .agent = -1, .control = -1};
    if (mode != BED_MINDED)
        b->cgroup = delegate(b);
    own_fd int control = -1, shims = -1;
    MUST_OK(seq_listen("/cage/control.sock", 0600, &control));
    MUST_OK(seq_listen("/cage/shim/shim.sock", 0666, &shims));
    start_first(b, control, shims);
    MUST_OK(seq_connect("/cage/control.sock", &b->control));
    control_hear(b, MSG_part_hello);
    bed_link_agent(b);
    struct msg go = {.type = MSG_part_go, .fds = {b->cgroup}, .nfds = mode != BED_MINDED};
    go.part_go.agent = bytes_of("bed");
    go.part_go.mode = bytes_of("pod");
    go.part_go.harness = bytes_of("shell");
    go.part_go.project = bytes_of("/project");
    go.part_go.scratch = bytes_of("/scratch");
    go.part_go.home = bytes_of("/project");
    go.part_go.outbox = bytes_of("/scratch");
    go.part_go.output_max = 1 << 20;
    go.part_go.peer_uid = BED_HARNESS;
    control_say(b, &go);
    control_hear(b, MSG_part_ready);
    b->first = pid_of_first(b);
}

void bed_down(struct bed *b) {
    kill(b->first, SIGKILL);
    waitpid(b->outer, NULL, 0);
    own_closep(&b->control);
    own_closep(&b->agent);
    own_closep(&b->cgroup);
    if (!b->cgroup_path[0])
        return;
    DIR *dir = opendir(b->cgroup_path);
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (d->d_type == DT_DIR && d->d_name[0] != '.')
            unlinkat(dirfd(dir), d->d_name, AT_REMOVEDIR);
    closedir(dir);
    for (int i = 0; i < 1000 && rmdir(b->cgroup_path) < 0 && errno == EBUSY; i++)
        poll(NULL, 0, 5);
}

/* --- the harness --- */

pid_t bed_start(const int fds[3], char *const *argv, const char *cwd) {
    pid_t pid = fork();
    MUST(pid);
    if (pid)
        return pid;
    MUST(setresgid(BED_HARNESS, BED_HARNESS, BED_HARNESS));
    MUST(setresuid(BED_HARNESS, BED_HARNESS, BED_HARNESS));
    setsid();
    signal(SIGINT, SIG_DFL); /* a suite that runs in the background of a script ignores both */
    signal(SIGQUIT, SIG_DFL);
    MUST(chdir(cwd ? cwd : "/project"));
    if (bed_drop_cwd)
        MUST(rmdir(cwd));
    for (int i = 0; i < 3; i++) {
        int fd = fds[i] >= 0 ? fds[i] : open("/dev/null", O_RDWR | O_CLOEXEC);
        MUST(dup2(fd, i));
    }
    if (isatty(0))
        MUST(ioctl(0, TIOCSCTTY, 0));
    close_range(3, ~0u, 0);
    char path[64];
    snprintf(path, sizeof path, "/cage/bin/%s", argv[0]);
    static char *const env[] = {(char *)"TERM=dumb",       (char *)"ANTHROPIC_API_KEY=secret",
                                (char *)"TMPDIR=/scratch", (char *)"PATH=/cage/bin",
                                (char *)"LC_ALL=C.UTF-8",  NULL};
    execve(path, argv, env);
    _exit(99);
}

int bed_wait(pid_t pid) {
    int64_t end = clock_mono_ns() + BED_MS * 1000000LL;
    own_fd int fd = (int)syscall(434 /* pidfd_open */, pid, 0);
    struct pollfd p = {fd, POLLIN, 0};
    int status;
    while (poll(&p, 1, (int)((end - clock_mono_ns()) / 1000000)) < 0 && errno == EINTR)
        ;
    if (waitpid(pid, &status, WNOHANG) != pid) {
        fprintf(stderr, "bed: process %d did not end\n", pid);
        abort();
    }
    return status;
}

static void pump(int in, const char *input, size_t left, int out, int err, struct outcome *o) {
    struct buf b[2] = {{0}, {0}};
    fcntl(in, F_SETFL, O_NONBLOCK);
    while (out >= 0 || err >= 0) {
        struct pollfd p[3] = {{left ? in : -1, POLLOUT, 0}, {out, POLLIN, 0}, {err, POLLIN, 0}};
        if (poll(p, 3, BED_MS) <= 0)
            give_up("output");
        if (p[0].revents) {
            ssize_t n = write(in, input, left);
            if (n < 0 && errno != EAGAIN)
                left = 0;
            if (n > 0) {
                input += n;
                left -= (size_t)n;
            }
        }
        if (!left && in >= 0)
            own_closep(&in);
        for (int i = 0; i < 2; i++) {
            char chunk[65536];
            int *fd = i ? &err : &out;
            ssize_t n = p[1 + i].revents ? read(*fd, chunk, sizeof chunk) : -1;
            if (n > 0)
                buf_add(&b[i], chunk, (size_t)n);
            if (n == 0)
                own_closep(fd);
        }
    }
    own_closep(&in);
    o->out_len = b[0].len;
    o->err_len = b[1].len;
    o->out = buf_take(&b[0]);
    o->err = buf_take(&b[1]);
}

void bed_run(struct outcome *o, const char *input, size_t input_len, char *const *argv) {
    int in[2], out[2], err[2];
    MUST(pipe2(in, O_CLOEXEC));
    MUST(pipe2(out, O_CLOEXEC));
    MUST(pipe2(err, O_CLOEXEC));
    /* The pipes are the harness's, as in life. */
    MUST(fchown(in[0], BED_HARNESS, BED_HARNESS));
    MUST(fchown(out[0], BED_HARNESS, BED_HARNESS));
    MUST(fchown(err[0], BED_HARNESS, BED_HARNESS));
    signal(SIGPIPE, SIG_IGN);
    pid_t pid = bed_start((int[]){in[0], out[1], err[1]}, argv, NULL);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    pump(in[1], input, input_len, out[0], err[0], o);
    o->status = bed_wait(pid);
}

void bed_bash(struct outcome *o, const char *text) {
    char *const argv[] = {(char *)"bash", (char *)"-c", (char *)(uintptr_t)text, NULL};
    bed_run(o, NULL, 0, argv);
}

void outcome_free(struct outcome *o) {
    free(TAKE(o->out));
    free(TAKE(o->err));
}

/* --- the agent --- */

static void settle(struct bed *b, const struct msg *row) {
    struct msg m = {.type = MSG_run_settle};
    m.run_settle.row = row->ran_row.row;
    MUST_OK(seq_send(b->agent, &m));
}

void bed_settle(struct bed *b, int ms) {
    struct pollfd p = {b->agent, POLLIN, 0};
    while (poll(&p, 1, ms) == 1) {
        own_msg struct msg m = {0};
        enum seq_got got;
        MUST_OK(seq_recv(b->agent, &m, &got));
        if (got != SEQ_MESSAGE)
            give_up("the agent's link");
        if (m.type == MSG_ran_row && !bed_keep_rows)
            settle(b, &m);
    }
}

void bed_hear(struct bed *b, enum msg_type type, struct msg *ret) {
    for (;;) {
        struct msg m = {0};
        enum seq_got got;
        struct pollfd p = {b->agent, POLLIN, 0};
        if (poll(&p, 1, BED_MS) != 1) {
            fprintf(stderr, "bed: no %s from the executor\n", msg_rows[type].name);
            abort();
        }
        MUST_OK(seq_recv(b->agent, &m, &got));
        if (got != SEQ_MESSAGE)
            give_up("the agent's link");
        if (m.type == MSG_ran_row && !bed_keep_rows)
            settle(b, &m);
        if (m.type == type) {
            *ret = m;
            return;
        }
        msg_free(&m);
    }
}

void bed_ask(struct bed *b, uint64_t run, const char *text, uint64_t timeout_ms, const int fds[3]) {
    struct bytes argv[] = {bytes_of("bash"), bytes_of("-c"), bytes_of(text)};
    own_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct msg m = {.type = MSG_run_start, .nfds = 3};
    m.run_start.run = run;
    m.run_start.who = bytes_of("bed");
    m.run_start.timeout_ms = timeout_ms;
    m.run_start.cwd = bytes_of("");
    m.run_start.argv = (struct list){argv, 3};
    for (int i = 0; i < 3; i++)
        m.fds[i] = fds && fds[i] >= 0 ? fds[i] : null;
    MUST_OK(seq_send(b->agent, &m));
}

/* --- what is there --- */

/* Is it in the executor's PID namespace? Another bed may run beside this one. */
static bool is_ours(const struct bed *b, int pid) {
    char path[2][64], name[2][64];
    ssize_t n[2];
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "/proc/%d/ns/pid", i ? pid : b->first);
        n[i] = readlink(path[i], name[i], sizeof name[i]);
    }
    return n[0] > 0 && n[0] == n[1] && !memcmp(name[0], name[1], (size_t)n[0]);
}

size_t bed_count(const struct bed *b) {
    DIR *dir = opendir("/proc");
    size_t n = 0;
    for (struct dirent *d; dir && (d = readdir(dir));) {
        int pid = (int)strtol(d->d_name, NULL, 10);
        if (pid <= 0 || pid == b->first)
            continue;
        own_free char *path = xasprintf("/proc/%d/status", pid);
        own_file FILE *f = fopen(path, "re");
        char line[256];
        unsigned uid = 0;
        char state = 0;
        while (f && fgets(line, sizeof line, f)) {
            sscanf(line, "State: %c", &state);
            sscanf(line, "Uid: %u", &uid);
        }
        n += uid == BED_EXECUTOR && state != 'Z' && is_ours(b, pid);
    }
    closedir(dir);
    return n;
}

size_t bed_children(const struct bed *b) {
    own_free char *path = xasprintf("/proc/%d/task/%d/children", b->first, b->first);
    own_file FILE *f = fopen(path, "re");
    size_t n = 0;
    for (int c; f && (c = fgetc(f)) != EOF;)
        n += c == ' ';
    return n;
}

int64_t bed_until(const struct bed *b, size_t n) {
    int64_t start = clock_mono_ns();
    while (bed_count(b) != n) {
        if (clock_mono_ns() - start > BED_MS * 1000000LL)
            return -1;
        poll(NULL, 0, 1);
    }
    return (clock_mono_ns() - start) / 1000000;
}

static size_t entries(const char *path, bool folders) {
    DIR *dir = opendir(path);
    size_t n = 0;
    for (struct dirent *d; dir && (d = readdir(dir));)
        n += d->d_name[0] != '.' && (!folders || d->d_type == DT_DIR);
    if (dir)
        closedir(dir);
    return n;
}

size_t bed_descriptors(const struct bed *b) {
    own_free char *path = xasprintf("/proc/%d/fd", b->first);
    return entries(path, false);
}

size_t bed_groups(const struct bed *b) {
    return b->cgroup_path[0] ? entries(b->cgroup_path, true) : 0;
}

/* --- for groups of tests --- */

struct bed bed;

static int up(enum bed_mode mode) {
    bed_up(&bed, mode);
    return 0;
}

int bed_up_grouped(void **state) {
    (void)state;
    return up(BED_GROUPED);
}

int bed_up_moved(void **state) {
    (void)state;
    return up(BED_MOVED);
}

int bed_up_minded(void **state) {
    (void)state;
    return up(BED_MINDED);
}

int bed_remove(void **state) {
    (void)state;
    bed_down(&bed);
    return 0;
}
