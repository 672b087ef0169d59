/*
 * Control groups, v1, hybrid (v1 controllers beside an empty v2) and v2.
 *
 * The executor's commands each live in a sub-group of a v2 group that the executor's uid may manage: so a
 * command's whole tree is killed by one write, whatever it did (setsid, double fork, trap). On a hybrid host
 * that group lies in the v2 hierarchy, where no controller is; on a v2 host it is the container's own group
 * (limits go on holding). On a v1 host without any v2 there is none: the executor falls back to its own
 * means.
 *
 * Functions that read take `sys`: what to put before /proc and /sys ("" on a real host; tests give a tree of
 * files).
 */
#ifndef CAGE_CGROUP_H
#define CAGE_CGROUP_H

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_HYBRID, CGROUP_V2 };
const char *cgroup_kind_name(enum cgroup_kind kind);

struct cgroup_host {
    enum cgroup_kind kind;
    char v2[128]; /* mount point of the v2 hierarchy, "" without one */
    bool kill;    /* it has cgroup.kill (Linux 5.14) */
};

err_t cgroup_detect(const char *sys, struct cgroup_host *ret);

/* What a room may make below the group that is its own: how deep, and how many in all. More fail with EAGAIN. */
enum { CGROUP_DEPTH = 8, CGROUP_DESCENDANTS = 4096 };

/*
 * The executor's group for `agent` of the fleet with this prefix, owned as cgroup v2 delegation wants it (the
 * folder, cgroup.procs, cgroup.threads, cgroup.subtree_control), with pid (its PID 1) moved in; *ret_fd: the
 * folder, O_PATH-free (it can be read). On a v2 host: the group in which pid is. Before it is given away, the limits above
 * are set where its owner cannot change them; where that fails, nothing is given. CGROUP_NONE, CGROUP_V1:
 * success and *ret_fd -1.
 */
err_t cgroup_delegate(const struct cgroup_host *h, const char *prefix, const char *agent, pid_t pid,
                      uid_t uid, int *ret_fd);

/* Kills everything in and below the group (cgroup.kill; without it SIGKILL to each until none is left,
 * bounded). */
err_t cgroup_kill(int group);

/* Processes in and below the group. */
err_t cgroup_count(int group, uint64_t *ret);

/* Removes the group of `agent` and what is below it, and the fleet's when it was the last. Not there is fine;
 * an error when something still lives in it. (v2 hosts: the container's end does that; nothing to do.) */
err_t cgroup_remove(const struct cgroup_host *h, const char *prefix, const char *agent);

/* Removes the fleet's group itself; an error when anything is in it. Not there is fine. */
err_t cgroup_remove_fleet(const struct cgroup_host *h, const char *prefix);

/* What a room uses and may use, from the controllers' files of its PID 1's groups. UINT64_MAX: no limit, or
 * not known. */
struct cgroup_use {
    uint64_t memory, memory_max; /* bytes; without what the page cache could give back at once */
    uint64_t pids, pids_max;
    uint64_t cpu_ns; /* used since its start */
    uint64_t oom_kills;
};
err_t cgroup_use(const char *sys, pid_t pid, struct cgroup_use *ret);

/* Stops or lets go on every process of pid's room (cgroup.freeze, freezer.state). */
err_t cgroup_freeze(const char *sys, pid_t pid, bool frozen);

#endif
