/* One cgroup-v2 group below the delegated folder. Needs no controller: cgroup.kill and cgroup.events are in
 * every group but the root (kernel 5.14 and 4.x, Documentation/admin-guide/cgroup-v2.rst). */
#ifndef EXECUTOR_SUBGROUP_H
#define EXECUTOR_SUBGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct subgroup {
    int parent; /* the delegated folder; borrowed */
    int events; /* cgroup.events */
    int folder; /* O_PATH, until subgroup_used() */
    uint64_t n; /* its name is "cmd-N" */
    bool killed;
};
#define SUBGROUP_NONE ((struct subgroup){-1, -1, -1, 0, false})

/* 0 or an errno. `parent` must outlive it. */
int subgroup_new(int parent, struct subgroup *ret);

/* Nothing more will be born in it by folder: one descriptor less for each command. */
void subgroup_used(struct subgroup *g);

/* cgroup.procs opened for writing, or -1. */
int subgroup_procs(const struct subgroup *g);

bool subgroup_empty(const struct subgroup *g);

/* SIGKILL to all that is in it and below, at once; without cgroup.kill, process by process until none is left
 * (bounded). */
void subgroup_kill(struct subgroup *g);

/* Calls each() for every process in it and below. */
void subgroup_list(const struct subgroup *g, void (*each)(void *ctx, pid_t pid), void *ctx);

/*
 * Makes one that a command has left ready for the next: making and removing groups takes a lock that every fork into a
 * group waits for. False: it is not as it was made (not empty, with groups below it, removed), or it was killed (some
 * kernels, 6.18 among them, kill what is cloned into such a group later), so it is to be ended.
 */
bool subgroup_again(struct subgroup *g);

/* Closes and removes it, with groups that were made inside. One that is not empty stays. *g becomes NONE. */
void subgroup_end(struct subgroup *g);

#endif
