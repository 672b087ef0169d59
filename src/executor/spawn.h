/*
 * Starts one program without copying a page: the child borrows our memory until its exec, so the cost does not
 * grow with the broker, and what went wrong comes back as an error instead of an exit status that a program
 * could have chosen too.
 */
#ifndef EXECUTOR_SPAWN_H
#define EXECUTOR_SPAWN_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The command's argument vector with the room that an exec of a script without "#!" needs before it. */
struct spawn_args {
    char **argv; /* NULL-ended, at least one word; argv[-1] exists and is the spawner's */
};

struct spawn {
    const char *exe;  /* with a slash: this file; without: looked up in `path` */
    const char *path; /* colon-separated folders */
    struct spawn_args args;
    char *const *env; /* NULL-ended */
    const char *cwd;  /* where it starts; a relative `exe` counts from there */
    int fds[3];       /* become 0, 1, 2; all ≥ 3; stay the caller's */
    bool tty;         /* the terminal among them becomes the controlling one */
    int cgroup;       /* a cgroup-v2 folder to be born in (CLONE_INTO_CGROUP), or -1 */
    int procs;        /* a cgroup.procs that the child writes itself into, or -1 */
};

/*
 * The child leads a session of its own, has 0, 1, 2 and no other descriptor, default signal actions and an
 * empty mask. A program that is a script without an interpreter line goes to /bin/sh, as execvp(3) does.
 *
 * Errors: EXIT_NOTFOUND when there is no such program, EXIT_POLICY (a shell's 126) when it or its folder
 * cannot be used, EXIT_FAILED when no process could be made; err.errnum is the cause, ENODEV for a cgroup that was removed.
 */
err_t spawn(const struct spawn *s, pid_t *ret_pid);

/* Whether children can be born in `cgroup`, or move there by `procs` (the other -1): starts one that ends at
 * once, and reaps it. 0 or an errno. */
int spawn_probe(int cgroup, int procs);

#endif
