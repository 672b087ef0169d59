#include "warden/account.h"
#include "base/fs.h"
#include "base/lockin.h"
#include "base/own.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KILL_ROUNDS = 100, ROUND_MS = 20 };

struct process {
    unsigned uids[4];
    uint64_t memory;
};

/* False: there is no such process, or it is a zombie, which is dead already and waits for its parent. */
static bool look(const char *pid, struct process *ret) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/status", pid);
    own_buf struct buf b = {0};
    own_err err_t e = fs_read(path, 1 << 16, &b);
    const char *uids = e ? NULL : strstr(buf_text(&b), "\nUid:");
    const char *rss = e ? NULL : strstr(buf_text(&b), "\nVmRSS:");
    *ret = (struct process){0};
    if (!uids || strstr(buf_text(&b), "\nState:\tZ"))
        return false;
    if (rss && sscanf(rss, "\nVmRSS: %" SCNu64, &ret->memory) == 1)
        ret->memory *= 1024;
    return sscanf(uids, "\nUid: %u %u %u %u", &ret->uids[0], &ret->uids[1], &ret->uids[2], &ret->uids[3]) ==
           4;
}

struct account_use account_use(uid_t uid) {
    DIR *proc = opendir("/proc");
    struct account_use use = {0};
    for (struct dirent *e; proc && (e = readdir(proc));) {
        struct process p;
        if (e->d_name[0] < '1' || e->d_name[0] > '9' || !look(e->d_name, &p) || p.uids[0] != uid)
            continue;
        use.processes++;
        use.memory += p.memory;
    }
    if (proc)
        closedir(proc);
    return use;
}

static uint64_t written_by(const char *pid) {
    own_free char *path = xasprintf("/proc/%s/io", pid);
    own_buf struct buf b = {0};
    own_err err_t e = fs_read(path, 1 << 12, &b);
    const char *at = e ? NULL : strstr(buf_text(&b), "\nwrite_bytes:");
    uint64_t n = 0;
    return at && sscanf(at, "\nwrite_bytes: %" SCNu64, &n) == 1 ? n : 0;
}

static struct account_written *row_of(struct account_written *rows, size_t n, uid_t uid) {
    for (size_t i = 0; i < n; i++)
        if (rows[i].uid == uid)
            return &rows[i];
    return NULL;
}

void account_written(struct account_written *rows, size_t n) {
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && (e = readdir(proc));) {
        struct process p;
        if (e->d_name[0] < '1' || e->d_name[0] > '9' || !look(e->d_name, &p))
            continue;
        struct account_written *row = row_of(rows, n, p.uids[0]);
        if (row)
            row->bytes += written_by(e->d_name);
    }
    if (proc)
        closedir(proc);
}

bool account_owns(uid_t uid, pid_t pid) {
    char name[16];
    struct process p;
    snprintf(name, sizeof name, "%d", (int)pid);
    if (pid <= 1 || !look(name, &p))
        return false;
    for (size_t i = 0; i < COUNT(p.uids); i++)
        if (p.uids[i] != uid)
            return false;
    return true;
}

/* To all at once, by a child that becomes that uid. */
static err_t signal_all(uid_t uid, gid_t gid, int signo) {
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(errno, "fork");
    if (pid == 0) {
        err_t e = lockin_become(uid, gid, NULL, 0);
        if (!e)
            kill(-1, signo); /* another such child too, at some moment */
        _exit(e ? 1 : 0);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(errno, "wait");
    if (WIFEXITED(status) && WEXITSTATUS(status))
        return err_new(EXIT_FAILED, "could not become uid %u to signal its processes", (unsigned)uid);
    return NULL;
}

err_t account_kill_all(uid_t uid, gid_t gid) {
    for (int round = 0; round < KILL_ROUNDS; round++) {
        if (!account_use(uid).processes)
            return NULL;
        TRY(signal_all(uid, gid, SIGKILL));
        nanosleep(&(struct timespec){0, ROUND_MS * 1000000L}, NULL);
    }
    return err_new(EXIT_FAILED, "processes of uid %u do not end", (unsigned)uid);
}

err_t account_stop(uid_t uid, gid_t gid, bool stopped) {
    return signal_all(uid, gid, stopped ? SIGSTOP : SIGCONT);
}
