/*
 * A tree is one command and everything that it started, wherever those processes hid (setsid, double fork).
 * It can be listed, and ended all at once.
 *
 *   TREE_CGROUP   a cgroup-v2 group of its own below the folder that the warden gave; children are born in it
 *   TREE_MOVED    the same, but the child writes itself into it (where clone3 is filtered)
 *   TREE_MINDER   without such a folder: a small process of ours above each command adopts its orphans
 *                 (PR_SET_CHILD_SUBREAPER); the kernel's parent links are the tree
 *
 * `trees` also reaps: it owns SIGCHLD, so nobody else in this process may wait for children.
 */
#ifndef EXECUTOR_TREE_H
#define EXECUTOR_TREE_H

#include "base/buf.h"
#include "executor/spawn.h"

#include <event2/event.h>
#include <stdint.h>

enum tree_mode { TREE_CGROUP, TREE_MOVED, TREE_MINDER };

struct trees;
struct tree;

struct tree_ops {
    /* The command's own process ended; status as waitpid's. Once. */
    void (*on_main)(void *ctx, int status);
    /* Nothing of the tree lives any more; after on_main. Once; the handler must tree_free(). */
    void (*on_empty)(void *ctx);
};

/*
 * folder: the delegated cgroup-v2 folder (taken over), or -1. Finds out by trial which mode works here;
 * *ret_why says why it is not the first (owned by the caller, NULL when it is). Blocks SIGCHLD.
 */
err_t trees_new(struct event_base *base, int folder, struct trees **ret, char **ret_why);

/* Ends every process of the room but this one, in whatever tree: also what left its group by itself. */
void trees_kill_all(struct trees *ts);

/* Starts a command (s->cgroup and s->procs are set here). Errors as spawn(). ops must outlive the tree. */
err_t tree_start(struct trees *ts, const struct spawn *s, const struct tree_ops *ops, void *ctx,
                 struct tree **ret);

/* Another owner from now on. */
void tree_hand(struct tree *t, const struct tree_ops *ops, void *ctx);

/* To the command's process group, or to its first process alone. Nothing once that was reaped. */
void tree_signal(struct tree *t, int signo, bool group);

/* SIGKILL to all of it; on_empty follows. May be called again. */
void tree_kill(struct tree *t);

/* SIGTERM to every process in it. */
void tree_terminate(struct tree *t);

/* Calls each() for every living process of it. */
void tree_list(struct tree *t, void (*each)(void *ctx, pid_t pid), void *ctx);

/* Forgets an empty tree, or, when the room itself ends, any. */
void tree_free(struct tree *t);

#endif
