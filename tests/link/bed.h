/*
 * A test bed for the executor: the real binary as the first process of a PID namespace of its own, under the
 * executor's uid, with its cgroup folder or without one; we play the warden (control socket), the agent and
 * the harness, whose shells are the real shim. All in a private mount namespace with a root of its own, so
 * that /cage/shim is where the shim looks for it, and nothing of the machine is touched.
 *
 * Needs root and an empty place in a cgroup-v2 hierarchy (for the first of the two modes).
 */
#ifndef TESTS_LINK_BED_H
#define TESTS_LINK_BED_H

#include "proto/msg.h"

#include <stdbool.h>
#include <sys/types.h>

enum { BED_HARNESS = 55000, BED_EXECUTOR = 60000, BED_MS = 20000, BED_PROCESSES = 400 };

/* How the executor keeps commands together (executor/tree.h). */
enum bed_mode {
    BED_GROUPED, /* with a cgroup folder */
    BED_MOVED,   /* with one, but clone3 is filtered */
    BED_MINDED   /* without */
};

struct bed {
    enum bed_mode mode;
    int control, agent; /* our ends */
    pid_t outer, first; /* the parent in the namespace's front; the executor as we see it */
    int cgroup;         /* the delegated folder, -1 in the fallback mode */
    char cgroup_path[128];
};

/* Once a process: the private root. binary, shim: what to test. Exits with a sentence when not possible. */
void bed_root(const char *binary, const char *shim);

/* Starts an executor. Until it said part_ready. */
void bed_up(struct bed *b, enum bed_mode mode);

/* A fresh link in place of the agent's. */
void bed_link_agent(struct bed *b);

/* Ends it and what is left. */
void bed_down(struct bed *b);

/* What a shim run gave. out and err are malloc'ed and NUL-terminated behind their len. */
struct outcome {
    int status; /* as waitpid's */
    char *out, *err;
    size_t out_len, err_len;
};
void outcome_free(struct outcome *o);

/* Runs argv[0] of /cage/bin (the shim) as the harness, with pipes, input on its stdin; waits. */
void bed_run(struct outcome *o, const char *input, size_t input_len, char *const *argv);

/* Starts it only, with these three descriptors (-1: /dev/null). */
pid_t bed_start(const int fds[3], char *const *argv, const char *cwd);
extern bool bed_drop_cwd; /* its working directory is removed before it starts */

/* bash -c text */
void bed_bash(struct outcome *o, const char *text);

/* waitpid with a deadline; fails the process when it passes. */
int bed_wait(pid_t pid);

/* The next message from the executor on the agent's link of this type; rows are settled on the way unless
 * `keep_rows`. */
void bed_hear(struct bed *b, enum msg_type type, struct msg *ret);
extern bool bed_keep_rows;

/* Settles rows as they come, until none came for so long. */
void bed_settle(struct bed *b, int ms);

/* Asks as the agent. */
void bed_ask(struct bed *b, uint64_t run, const char *text, uint64_t timeout_ms, const int fds[3]);

/* Processes with the executor's uid that are alive, but the executor. */
size_t bed_count(const struct bed *b);

/* Children of the executor, zombies too. */
size_t bed_children(const struct bed *b);

/* Until bed_count() is n, with a deadline; returns the milliseconds it took, or -1. */
int64_t bed_until(const struct bed *b, size_t n);

/* Open descriptors of the executor; groups in its folder. */
size_t bed_descriptors(const struct bed *b);
size_t bed_groups(const struct bed *b);

/* Set-up and tear-down of a group of tests, which share one bed. */
extern struct bed bed;
int bed_up_grouped(void **state);
int bed_up_moved(void **state);
int bed_up_minded(void **state);
int bed_remove(void **state);

#endif
