#include "cage/cgroup.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/parse.h"
#include "cage/cgroup_where.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KILL_ROUNDS = 200, MAKE_TRIES = 10 };

const char *cgroup_kind_name(enum cgroup_kind kind) {
    static const char *const names[] = {
        [CGROUP_NONE] = "none", [CGROUP_V1] = "v1", [CGROUP_HYBRID] = "hybrid", [CGROUP_V2] = "v2"};
    return names[kind];
}

err_t cgroup_detect(const char *sys, struct cgroup_host *ret) {
    struct cgroup_host h = {0};
    bool v1;
    TRY(cgroup_mounts(sys, h.v2, sizeof h.v2, &v1));
    h.kind = v1 ? (h.v2[0] ? CGROUP_HYBRID : CGROUP_V1) : h.v2[0] ? CGROUP_V2 : CGROUP_NONE;
    /* cgroup.kill is in every group but the root, since Linux 5.14: told by the release. */
    own_free char *path = xasprintf("%s/proc/sys/kernel/osrelease", sys);
    own_free char *release = NULL;
    TRY(fs_read_line(path, &release));
    unsigned major = 0, minor = 0;
    sscanf(release, "%u.%u", &major, &minor);
    h.kill = h.v2[0] && (major > 5 || (major == 5 && minor >= 14));
    *ret = h;
    return NULL;
}

static char *fleet_path(const struct cgroup_host *h, const char *prefix) {
    return xasprintf("%s/%sagent-cage", h->v2, prefix);
}

static err_t own_group(int group, uid_t uid) {
    static const char *const files[] = {"cgroup.procs", "cgroup.threads", "cgroup.subtree_control"};
    if (fchown(group, uid, uid))
        return err_sys(errno, "a control group cannot be given to uid %u", uid);
    for (size_t i = 0; i < COUNT(files); i++)
        if (fchownat(group, files[i], uid, uid, AT_SYMLINK_NOFOLLOW) && errno != ENOENT)
            return err_sys(errno, "a control group's %s cannot be given to uid %u", files[i], uid);
    return NULL;
}

static err_t write_at(int group, const char *file, const char *text) {
    own_fd int fd = openat(group, file, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        return err_sys(errno, "%s cannot be written", file);
    return NULL;
}

/* A file that root wrote and nobody else may write: what is set there stays. */
static err_t set_limit(int group, const char *file, unsigned n) {
    struct stat st;
    char text[16];
    snprintf(text, sizeof text, "%u", n);
    TRY(write_at(group, file, text));
    if (fstatat(group, file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(errno, "look at %s", file);
    if (st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
        return err_new(EXIT_FAILED, "%s can be written by uid %u", file, st.st_uid);
    return NULL;
}

/* A group costs the host about 12 kB that no limit of the room counts, so their number has one. */
static err_t limit_groups(int group) {
    TRY(set_limit(group, "cgroup.max.depth", CGROUP_DEPTH));
    return set_limit(group, "cgroup.max.descendants", CGROUP_DESCENDANTS);
}

static err_t open_group(const char *path, int *ret) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_sys(errno, "the control group %s cannot be opened", path);
    *ret = fd;
    return NULL;
}

static err_t make_group(const struct cgroup_host *h, const char *prefix, const char *agent, int *ret) {
    own_free char *fleet = fleet_path(h, prefix);
    own_free char *mine = xasprintf("%s/%s", fleet, agent);
    own_free char *group = xasprintf("%s/executor", mine);
    const char *const paths[] = {fleet, mine, group};
    int again = MAKE_TRIES; /* the fleet's goes with another agent's, which was the last */
    for (size_t i = 0; i < COUNT(paths); i++) {
        if (mkdir(paths[i], 0755) == 0 || errno == EEXIST)
            continue;
        if (errno != ENOENT || !again--)
            return err_sys(errno, "the control group %s cannot be made", paths[i]);
        i = (size_t)-1;
    }
    own_fd int above = -1; /* its files stay root's, those of the group below are given away */
    TRY(open_group(mine, &above));
    TRY(err_wrap(limit_groups(above), "limit the groups of %s", mine));
    return open_group(group, ret);
}

err_t cgroup_delegate(const struct cgroup_host *h, const char *prefix, const char *agent, pid_t pid,
                      uid_t uid, int *ret) {
    *ret = -1;
    if (h->kind == CGROUP_NONE || h->kind == CGROUP_V1)
        return NULL;
    own_fd int group = -1;
    char text[16];
    snprintf(text, sizeof text, "%d", pid);
    if (h->kind == CGROUP_V2) {
        own_free char *inside = cgroup_path("", pid, NULL);
        own_free char *path = cgroup_where("", pid, NULL);
        if (!path || !inside[1]) /* the root group is nobody's to give */
            return err_new(EXIT_FAILED, "the room's process %d is in no control group of its own", pid);
        TRY(open_group(path, &group));
        TRY(err_wrap(limit_groups(group), "limit the groups of %s", path));
    } else {
        TRY(make_group(h, prefix, agent, &group));
        TRY(err_wrap(write_at(group, "cgroup.procs", text), "the room's process cannot be moved"));
    }
    TRY(own_group(group, uid));
    *ret = TAKE_FD(group);
    return NULL;
}

static bool is_group(const struct dirent *d) {
    return d->d_type == DT_DIR && d->d_name[0] != '.';
}

static DIR *list_group(int group) {
    int fd = openat(group, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !d)
        close(fd);
    return d;
}

/*
 * A workload may have nested groups as deep as it liked, so neither descriptors nor the stack grow with the depth, and no path
 * is made: what follows goes down by a name, and climbs by ".." as often as it went down.
 */
static err_t step(int *at, int to) {
    if (to < 0)
        return err_sys(errno, "a control group cannot be entered or left");
    close(*at);
    *at = to;
    return NULL;
}

/* How many of the groups below each group on the way have been walked. A count: places of telldir(3) are hashes of names here,
 * and two names with one hash would be walked for ever. */
struct way {
    size_t *walked;
    size_t n, room;
};

static void way_push(struct way *w) {
    if (w->n == w->room) {
        w->room = w->room ? 2 * w->room : 32;
        w->walked = xrealloc(w->walked, w->room, sizeof *w->walked);
    }
    w->walked[w->n++] = 0;
}

/* Opens the next group below `at`; -1 after the last, or when `at` is gone meanwhile, which is fine. */
static int next_below(int at, size_t *walked) {
    DIR *d = list_group(at);
    int below = -1;
    size_t i = 0;
    for (struct dirent *each; d && below < 0 && (each = readdir(d));)
        if (is_group(each) && i++ >= *walked) {
            below = openat(at, each->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
            ++*walked;
        }
    if (d)
        closedir(d);
    return below;
}

/* Calls f for a group and each group below it, the deepest first. */
static err_t walk(int group, err_t (*f)(int group, void *ctx), void *ctx) {
    struct way w = {0};
    own_fd int at = openat(group, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    err_t e = at < 0 ? err_sys(errno, "a control group cannot be opened") : NULL;
    if (!e)
        way_push(&w);
    while (!e && w.n) {
        int below = next_below(at, &w.walked[w.n - 1]);
        if (below >= 0) {
            way_push(&w);
            e = step(&at, below);
        } else if (!(e = f(at, ctx)) && --w.n) {
            e = step(&at, openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        }
    }
    free(w.walked);
    return e;
}

struct procs {
    uint64_t n;
    int signo; /* 0: count only */
};

static err_t each_proc(int group, void *ctx) {
    struct procs *p = ctx;
    int fd = openat(group, "cgroup.procs", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? NULL : err_sys(errno, "cgroup.procs cannot be read");
    own_file FILE *f = fdopen(fd, "r");
    char line[32];
    uint64_t pid;
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        own_err err_t e = parse_u64(line, INT32_MAX, &pid);
        p->n++;
        if (!e && pid && p->signo)
            kill((pid_t)pid, p->signo);
    }
    return NULL;
}

err_t cgroup_count(int group, uint64_t *ret) {
    struct procs p = {0};
    TRY(walk(group, each_proc, &p));
    *ret = p.n;
    return NULL;
}

err_t cgroup_kill(int group) {
    own_err err_t none = write_at(group, "cgroup.kill", "1");
    if (!none)
        return NULL;
    /* A fork storm outruns one pass: again until a pass finds nobody. */
    for (int i = 0; i < KILL_ROUNDS; i++) {
        struct procs p = {.signo = SIGKILL};
        TRY(walk(group, each_proc, &p));
        if (!p.n)
            return NULL;
        usleep(1000);
    }
    return err_new(EXIT_FAILED, "processes of a control group do not end");
}

/* Removes the groups below `at` that have none of their own, and opens the first that has. `left`: what was emptied just now. */
static err_t prune(int at, ino_t left, int *ret_below) {
    DIR *d = list_group(at);
    err_t e = d ? NULL : err_sys(errno, "a control group cannot be listed");
    *ret_below = -1;
    for (struct dirent *each; !e && *ret_below < 0 && (each = readdir(d));) {
        if (!is_group(each) || unlinkat(at, each->d_name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            continue;
        if (each->d_ino == left)
            e = err_sys(errno, "the group %.40s in it", each->d_name);
        else if ((*ret_below = openat(at, each->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)) < 0)
            e = err_sys(errno, "the group %.40s in it", each->d_name);
    }
    if (d)
        closedir(d);
    return e;
}

static err_t remove_below(int *at) {
    ino_t left = 0;
    for (size_t depth = 0;;) {
        int to;
        TRY(prune(*at, left, &to));
        left = 0;
        if (to >= 0) {
            depth++;
        } else if (depth) {
            struct stat st;
            if (fstat(*at, &st) == 0)
                left = st.st_ino;
            to = openat(*at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            depth--;
        } else {
            return NULL;
        }
        TRY(step(at, to));
    }
}

static err_t remove_tree(const char *path) {
    own_fd int at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (at < 0)
        return errno == ENOENT ? NULL : err_sys(errno, "the control group %s cannot be opened", path);
    TRY(err_wrap(remove_below(&at), "the control group %s cannot be removed", path));
    if (rmdir(path) < 0 && errno != ENOENT)
        return err_sys(errno, "the control group %s cannot be removed", path);
    return NULL;
}

err_t cgroup_remove(const struct cgroup_host *h, const char *prefix, const char *agent) {
    if (h->kind != CGROUP_HYBRID)
        return NULL;
    own_free char *fleet = fleet_path(h, prefix);
    own_free char *mine = xasprintf("%s/%s", fleet, agent);
    TRY(remove_tree(mine));
    rmdir(fleet); /* stays while another agent has a group in it */
    return NULL;
}

err_t cgroup_remove_fleet(const struct cgroup_host *h, const char *prefix) {
    own_free char *fleet = fleet_path(h, prefix);
    return rmdir(fleet) == 0 || errno == ENOENT
               ? NULL
               : err_sys(errno, "the control group %s cannot be removed", fleet);
}

err_t cgroup_freeze(const char *sys, pid_t pid, bool frozen) {
    own_free char *v1 = cgroup_where(sys, pid, "freezer");
    own_free char *v2 = v1 ? NULL : cgroup_where(sys, pid, NULL);
    if (!v1 && !v2)
        return err_new(EXIT_FAILED, "this host has no control group to freeze a room with");
    own_fd int group = -1;
    TRY(open_group(v1 ? v1 : v2, &group));
    return v1 ? write_at(group, "freezer.state", frozen ? "FROZEN" : "THAWED")
              : write_at(group, "cgroup.freeze", frozen ? "1" : "0");
}
