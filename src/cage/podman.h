/*
 * podman: its arguments from a spec (pure), and the few commands that we run. After a room's start nothing
 * here is called until the room ends.
 */
#ifndef CAGE_PODMAN_H
#define CAGE_PODMAN_H

#include "cage/host.h"
#include "cage/spec.h"

/*
 * podman is started from `dir` and writes there: a folder that root alone can open. (conmon writes a file
 * `oom` into its start folder, as root and through a link of that name, when a room runs out of memory.)
 */
struct podman_files {
    const char *dir;     /* absolute, 0700 root */
    const char *seccomp; /* absolute path of the profile */
    const char *pidfile; /* absolute path; podman writes the pid of the room's PID 1 there */
};

/* `podman [--runtime …] run -d …` for this room. */
void podman_run_args(const struct cage_spec *s, const struct host *h, const struct podman_files *f,
                     struct words *ret);

/* Whether the engine can hold the room to its limits of memory, processes and processors: not for an ordinary user
 * where groups are v1. */
bool podman_limits(const struct cage_spec *s, const struct host *h);

/* Runs it; fds become 3, 4, …; *ret_pid: the room's PID 1 as the host sees it. On failure no container is
 * left. */
err_t podman_run(const struct cage_spec *s, const struct host *h, const struct podman_files *f,
                 const int *fds, pid_t *ret_pid);

/* Ends and removes the container at once; one that is not there is fine. */
err_t podman_rm(const struct host *h, const char *dir, const char *name);

/* The pid of a running container's PID 1. EXIT_NOTFOUND: no such container, or it does not run. One of another generation
 * (spec.h) is an error. */
err_t podman_pid(const struct host *h, const char *dir, const char *name, pid_t *ret);

/* What it makes of podman's answer, "PID GENERATION"; without that label the generation is 0, older than any. Pure. */
err_t podman_pid_of(const char *name, const char *says, pid_t *ret);

/* A container of a fleet. */
struct podman_container {
    char name[96], agent[32], room[16];
    int generation;
    bool running;
    pid_t pid; /* 0 when it does not run */
};

/* Every container whose label says `fleet`; the caller frees *ret. */
err_t podman_list(const struct host *h, const char *dir, const char *fleet, struct podman_container **ret,
                  size_t *ret_n);

#endif
