/*
 * Wards that are accounts of the host: relay, manager, and the rooms of a bare box.
 *
 * Theory. The worker forks the part; the part's half makes itself what it is to be, step by step, and only then
 * becomes the account and runs our binary:
 *
 *   step         should                                              mustn't
 *   session      be its own: no terminal's Ctrl-C, no job control    keep a controlling terminal
 *   world        (harness) its own mounts, network, pids, ipc        show a writable mount that can be executed
 *   pids         (executor) be the first of its own                  be stopped by its commands
 *   descriptors  0 /dev/null, 1 2 a file of its own or /dev/null, 3 to 5 keep any other, or the fleet's log
 *   limits       core 0; processes as the agent's setting says       leave a core file
 *   ids          lockin_become(): proved                             be root at the exec
 *   calls        (rooms) no_new_privs, the cage's filter             run a set-uid program
 *
 * What goes wrong before the exec is told over a socket pair that closes with it. A grandchild of the warden outlives it: the
 * worker ends, and the part's parent is then the warden (PR_SET_CHILD_SUBREAPER) or, after it, `up` or init.
 */
#include "base/fs.h"
#include "base/lockin.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/paths.h"
#include "base/proc.h"
#include "cage/seccomp.h"
#include "warden/account.h"
#include "warden/bare.h"
#include "warden/start.h"
#include "warden/warden.h"
#include "wire/seq.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HIGH_FD = 32 }; /* where descriptors wait for their place */

struct birth {
    struct ward *d;
    const int *fds;
    size_t nfds;
    uid_t uid;
    gid_t gid;
    int told; /* to the worker */
};

static err_t place_fds(const struct birth *b) {
    own_free char *last = path_of(DIR_LIB "/warden/%s.out", ward_kind_name(b->d->kind));
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int out = b->d->box ? null : open(last, O_WRONLY | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (null < 0 || out < 0)
        return err_sys(errno, "open /dev/null and %s", last);
    int high[3];
    for (size_t i = 0; i < b->nfds; i++)
        if ((high[i] = fcntl(b->fds[i], F_DUPFD_CLOEXEC, HIGH_FD)) < 0)
            return err_sys(errno, "move a descriptor");
    if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        return err_sys(errno, "place a descriptor");
    for (size_t i = 0; i < b->nfds; i++)
        if (dup2(high[i], 3 + (int)i) < 0)
            return err_sys(errno, "place a descriptor");
    fds_close_from(3 + (int)b->nfds, &b->told, 1);
    return NULL;
}

static err_t place_limits(const struct ward *d) {
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) < 0)
        return err_sys(errno, "limit core files");
    if (!d->box || !d->box->conf.pids)
        return NULL;
    struct rlimit procs = {d->box->conf.pids, d->box->conf.pids};
    if (setrlimit(RLIMIT_NPROC, &procs) < 0 && errno != EPERM) /* over the hard limit: that one holds then */
        return err_sys(errno, "limit processes");
    return NULL;
}

static err_t place_filter(const struct ward *d) {
    static const enum seccomp_kind kinds[ROOM_COUNT] = {
        [ROOM_AGENT] = SECCOMP_AGENT, [ROOM_HARNESS] = SECCOMP_SEALED, [ROOM_EXECUTOR] = SECCOMP_POD};
    if (!d->box)
        return NULL; /* the relay and the manager bring a narrower one of their own */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(errno, "no_new_privs");
    return seccomp_install(kinds[d->kind]);
}

/* Becomes the part. Returns only what went wrong. */
static err_t become(const struct birth *b) {
    const struct ward *d = b->d;
    bool apart = d->kind == WARD_HARNESS; /* its world has the binary where a pod has it */
    own_free char *binary = apart ? xstrdup("/cage/agent-cage") : path_of(DIR_LIB "/bin/agent-cage");
    own_free char *root = xasprintf("AGENT_CAGE_ROOT=%s", paths_root());
    own_free char *home = d->box
                              ? path_of(DIR_LIB "/agents/%s/%s", d->box->conf.name, ward_kind_name(d->kind))
                              : path_of(DIR_LIB "/%s", ward_kind_name(d->kind));
    own_free char *home_is = xasprintf("HOME=%s", home);
    const char *argv[] = {"agent-cage", ward_kind_name(d->kind), d->box ? d->box->conf.name : "", NULL};
    own_free char *web = xasprintf("AGENT_CAGE_WEB_ORIGIN=%s", d->w->conf.web_origin);
    own_free char *telegram = xasprintf("AGENT_CAGE_TELEGRAM_API=%s", d->w->conf.telegram_api);
    own_free char *ca_file = ward_ca(d), *ca = xasprintf("AGENT_CAGE_CA=%s", ca_file);
    const char *env[] = {"PATH=" PROC_PATH, "LC_ALL=C.UTF-8", root, home_is, NULL, NULL, NULL, NULL};
    if (d->kind == WARD_RELAY) { /* what its fronts go by */
        env[4] = web;
        env[5] = telegram;
        env[6] = ca;
    }
    if (chdir("/") < 0)
        return err_sys(errno, "enter /");
    umask(d->box ? 022 : 077);
    TRY(place_limits(d));
    TRY(lockin_become(b->uid, b->gid, NULL, 0));
    TRY(place_filter(d));
    execve(binary, (char *const *)argv, (char *const *)env);
    return err_sys(errno, "run %s", binary);
}

/*
 * Harness and executor of a bare box are each the first process of a pid namespace, so each is one fork further down: what runs
 * beside the executor under its uid can neither stop nor kill it, and ends with it.
 */
static bool is_first(const struct ward *d) {
    return d->kind == WARD_HARNESS || d->kind == WARD_EXECUTOR;
}

static pid_t fork_part(const struct birth *b, err_t *ret) {
    bool harness = b->d->kind == WARD_HARNESS, first = is_first(b->d);
    struct bare_trees trees;
    *ret = !first ? NULL : harness ? bare_unshare(b->d, &trees) : bare_unshare_pids();
    if (*ret)
        return -1;
    pid_t pid = first ? fork() : 0;
    if (pid < 0)
        *ret = err_sys(errno, "fork");
    if (pid == 0 && first)
        *ret = harness ? bare_harness_world(b->d, &trees) : bare_own_proc();
    return pid;
}

_Noreturn static void child(const struct birth *b) {
    setsid();
    err_t e = place_fds(b);
    pid_t pid = e ? -1 : fork_part(b, &e);
    if (pid > 0 || (pid == 0 && !is_first(b->d))) {
        pid_t self = pid ? pid : getpid();
        (void)!send(b->told, &self, sizeof self, MSG_NOSIGNAL);
    }
    if (pid > 0)
        _exit(0);
    if (!e)
        e = become(b);
    (void)!send(b->told, e, sizeof *e, MSG_NOSIGNAL);
    _exit(1);
}

/* One record is the pid, another, if the part could not become itself, why. The exec closes the pair. */
static err_t hear(int told, pid_t *ret_pid) {
    *ret_pid = 0;
    for (;;) {
        union {
            pid_t pid;
            struct err why;
        } r;
        ssize_t n = recv(told, &r, sizeof r, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == sizeof r.pid)
            *ret_pid = r.pid;
        else if (n == sizeof r.why)
            return err_as(err_new(EXIT_FAILED, "%s", err_text(&r.why)), r.why.status);
        else
            return *ret_pid ? NULL : err_new(EXIT_FAILED, "the new process said nothing");
    }
}

static char *pid_path(const struct ward *d) {
    if (!d->box)
        return path_of(DIR_RUN "/pid/%s", ward_kind_name(d->kind));
    return path_of(DIR_RUN "/pid/%s.%s", d->box->conf.name, ward_kind_name(d->kind));
}

err_t account_start(struct ward *d, const int *fds, size_t nfds, struct ward_made *ret) {
    struct birth b = {.d = d, .fds = fds, .nfds = nfds};
    TRY(ward_uid(d, &b.uid, &b.gid));
    TRY(account_kill_all(b.uid, b.gid));
    if (d->box)
        TRY(bare_mounts(d));
    int told[2];
    TRY(seq_pair(told));
    own_fd int hear_fd = told[0], tell_fd = told[1];
    b.told = fcntl(tell_fd, F_DUPFD_CLOEXEC, HIGH_FD);
    if (b.told < 0)
        return err_sys(errno, "move a descriptor");
    pid_t pid = fork();
    if (pid == 0)
        child(&b);
    own_closep(&tell_fd);
    own_closep(&b.told);
    if (pid < 0)
        return err_sys(errno, "fork");
    TRY(hear(hear_fd, &ret->pid));
    own_free char *path = pid_path(d), *text = xasprintf("%d\n", (int)ret->pid);
    return fs_write(path, text, strlen(text), 0, 0, 0600);
}

err_t account_adopt(struct ward *d, struct ward_made *ret) {
    uid_t uid;
    gid_t gid;
    TRY(ward_uid(d, &uid, &gid));
    own_free char *path = pid_path(d), *line = NULL;
    uint64_t pid;
    TRY(fs_read_line(path, &line));
    TRY(parse_u64(line, INT32_MAX, &pid));
    if (!account_owns(uid, (pid_t)pid))
        return err_new(EXIT_NOTFOUND, "its process %" PRIu64 " is gone", pid);
    ret->pid = (pid_t)pid;
    return NULL;
}

err_t account_clear(struct ward *d) {
    uid_t uid;
    gid_t gid;
    TRY(ward_uid(d, &uid, &gid));
    TRY(account_kill_all(uid, gid));
    own_free char *path = pid_path(d);
    TRY(fs_remove(path));
    if (d->kind != WARD_EXECUTOR)
        return NULL;
    struct cgroup_host groups = bare_groups(d);
    TRY(cgroup_remove(&groups, d->w->conf.prefix, d->box->conf.name));
    return bare_mounts_off(d);
}
