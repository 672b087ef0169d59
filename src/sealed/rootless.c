#include "sealed/rootless.h"

#include "base/fs.h"
#include "base/ids.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/proc.h"
#include "cage/image.h"
#include "cage/tree.h"
#include "cage/words.h"
#include "sealed/ground.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <poll.h>
#include <unistd.h>

#define LEASH "AGENT_CAGE_LEASH" /* the inner's end of the pair, as a number */

/* What podman tells itself by inside `podman unshare`, and what it looks up for its user. */
static const char *const podman_env[] = {"HOME",
                                         "XDG_RUNTIME_DIR",
                                         "_CONTAINERS_USERNS_CONFIGURED",
                                         "_CONTAINERS_ROOTLESS_UID",
                                         "_CONTAINERS_ROOTLESS_GID",
                                         NULL};

bool rootless_outside(void) {
    return geteuid() != 0;
}

/* ---- what a user must have ---- */

static err_t has_range(const char *file, const char *user) {
    own_buf struct buf text = {0};
    own_err err_t e = fs_read(file, 1 << 20, &text);
    own_free char *by_name = xasprintf("%s:", user), *by_id = xasprintf("%u:", (unsigned)getuid());
    for (const char *line = e ? "" : buf_text(&text); *line;) {
        if (!strncmp(line, by_name, strlen(by_name)) || !strncmp(line, by_id, strlen(by_id)))
            return NULL;
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return err_new(
        EXIT_FAILED,
        "%s has no line for %s, so no container can be made: sudo usermod --add-subuids 100000-165535 "
        "--add-subgids 100000-165535 %s",
        file, user, user);
}

static err_t has_program(const char *program, const char *package, const char *what) {
    own_free char *path = proc_find(program);
    return path ? NULL
                : err_new(EXIT_FAILED,
                          "%s is not installed, and without it an ordinary user has %s: apt install %s",
                          program, what, package);
}

static err_t may_make_namespaces(void) {
    own_free char *path = xstrdup("/proc/sys/user/max_user_namespaces"), *line = NULL;
    own_err err_t e = fs_read_line(path, &line);
    if (!e && !strcmp(line, "0"))
        return err_new(EXIT_FAILED,
                       "this host lets nobody make user namespaces (sysctl user.max_user_namespaces is 0)");
    return NULL;
}

static err_t has_image(void) {
    own_ground struct ground g = {0};
    TRY(ground_of_user(&g));
    if (!image_have_workbench(g.conf.image_dir))
        return err_new(
            EXIT_FAILED,
            "there is no workbench image at %s; root makes it once: `sudo agent-cage sealed DIR -- true`, or "
            "`sudo agent-cage up`",
            g.conf.image_dir);
    own_free char *root = image_place(g.conf.image_dir);
    return tree_folders_real(root);
}

static err_t has_tun(void) {
    own_fd int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    return fd >= 0
               ? NULL
               : err_sys(
                     errno,
                     "/dev/net/tun cannot be opened, and without it an ordinary user's cage has no network: "
                     "sudo modprobe tun && sudo chmod 0666 /dev/net/tun");
}

static err_t may_run(void) {
    own_free char *user = ids_name(getuid());
    TRY(has_program("podman", "podman", "no container engine"));
    TRY(has_program("nft", "nftables", "no packet rules"));
    TRY(has_program("newuidmap", "uidmap", "no ids for a container"));
    TRY(may_make_namespaces());
    if (!user)
        return err_new(EXIT_FAILED, "uid %u has no account", (unsigned)getuid());
    TRY(has_range("/etc/subuid", user));
    TRY(has_range("/etc/subgid", user));
    TRY(has_tun());
    return has_image();
}

err_t ground_check_user(const struct ground *g) {
    if (g->host.user_net[0])
        return NULL;
    return err_new(
        EXIT_FAILED,
        "neither pasta nor slirp4netns is installed, and without one an ordinary user's cage has no "
        "network: apt install slirp4netns");
}

/* ---- folders ---- */

static err_t own_folder(const char *path) {
    struct stat st;
    if (mkdir(path, 0700) && errno != EEXIST)
        return err_sys(errno, "make the folder %s", path);
    if (lstat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022)
        return err_new(EXIT_FAILED, "%s is not a folder of yours alone", path);
    return NULL;
}

/* As podman looks for it: XDG_RUNTIME_DIR, /run/user/UID, a folder in /tmp. */
static err_t runtime_folder(void) {
    const char *given = getenv("XDG_RUNTIME_DIR");
    struct stat st;
    if (given && *given == '/' && !stat(given, &st))
        return NULL;
    own_free char *usual = xasprintf("/run/user/%u", (unsigned)getuid()),
                  *last = xasprintf("/tmp/podman-run-%u", (unsigned)getuid());
    bool is_usual = !lstat(usual, &st) && S_ISDIR(st.st_mode) && st.st_uid == getuid();
    if (!is_usual)
        TRY(own_folder(last));
    setenv("XDG_RUNTIME_DIR", is_usual ? usual : last, 1);
    return NULL;
}

/* Root's configuration may be closed to us: then the defaults hold. */
static err_t user_conf(struct ground *g) {
    own_err err_t e = conf_fleet_read(&g->conf);
    if (!e)
        return NULL;
    if (e->errnum != EACCES)
        return TAKE(e);
    g->conf.image_dir = xasprintf("/var/lib/agent-cage/images");
    g->conf.prefix = xstrdup("");
    g->conf.runtime = xstrdup("");
    return NULL;
}

err_t ground_of_user(struct ground *g) {
    const char *home = getenv("HOME"), *state = getenv("XDG_STATE_HOME");
    if (!home || *home != '/')
        return err_new(EXIT_FAILED, "HOME is not set");
    TRY(runtime_folder());
    TRY(user_conf(g));
    g->run = xasprintf("%s/agent-cage", getenv("XDG_RUNTIME_DIR"));
    g->lib = state && *state == '/' ? xasprintf("%s/agent-cage/sealed", state)
                                    : xasprintf("%s/.local/state/agent-cage/sealed", home);
    g->label = xstrdup("#sealed");
    TRY(own_folder(g->run));
    TRY(fs_dirs(g->lib));
    return own_folder(g->lib);
}

/* ---- the caller ---- */

static _Noreturn void be_inner(const struct words *w, int leash) {
    own_free char *podman = proc_find("podman"), *number = xasprintf("%d", leash);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    fcntl(leash, F_SETFD, 0);
    setenv(LEASH, number, 1);
    if (podman)
        execv(podman, (char *const *)(uintptr_t)words_argv(w));
    _exit(EXIT_FAILED);
}

static err_t inner_words(int argc, char *const *argv, struct words *w) {
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return err_sys(errno, "find our own binary");
    self[n] = 0;
    words_add(w, "podman");
    words_add(w, "--log-level=error");
    words_add(w, "--cgroup-manager=cgroupfs");
    words_add(w, "unshare");
    words_add(w, self);
    for (int i = 0; i < argc; i++)
        words_add(w, argv[i]);
    return NULL;
}

/* Signals go on as bytes, until the inner ends. In a terminal the keys' signals reach it by themselves too. */
static err_t mind(pid_t pid, int signals, int leash, int *ret_status) {
    int status;
    for (;;) {
        struct signalfd_siginfo info;
        struct pollfd p = {signals, POLLIN, 0};
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid)
            break;
        if (poll(&p, 1, -1) < 0 && errno != EINTR)
            return err_sys(errno, "wait");
        if (read(signals, &info, sizeof info) != sizeof info || info.ssi_signo == SIGCHLD)
            continue;
        unsigned char byte = (unsigned char)info.ssi_signo;
        if (send(leash, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            continue; /* it has so many signals already, or is about to end */
    }
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return NULL;
}

static err_t catch_signals(int *ret) {
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < COUNT(caught); i++)
        sigaddset(&set, caught[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) || (*ret = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return err_sys(errno, "signals");
    return NULL;
}

err_t rootless_enter(int argc, char *const *argv, int *ret_status) {
    own_words struct words w = {0};
    own_fd int signals = -1, mine = -1, its = -1;
    int pair[2];
    TRY(runtime_folder());
    TRY(may_run());
    TRY(inner_words(argc, argv, &w));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return err_sys(errno, "no socket pair");
    mine = pair[0];
    its = pair[1];
    TRY(catch_signals(&signals));
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(errno, "fork");
    if (!pid)
        be_inner(&w, its);
    own_closep(&its);
    return mind(pid, signals, mine, ret_status);
}

/* ---- the inner ---- */

err_t rootless_inside(int *ret_leash) {
    const char *text = getenv(LEASH);
    uint64_t fd;
    *ret_leash = -1;
    if (!text)
        return NULL;
    TRY(parse_u64(text, INT32_MAX, &fd));
    unsetenv(LEASH);
    if (fcntl((int)fd, F_SETFD, FD_CLOEXEC))
        return err_sys(errno, "the caller's end is not there");
    *ret_leash = (int)fd;
    proc_carry(podman_env);
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
        return err_sys(errno, "no mount namespace for this run");
    return NULL;
}
