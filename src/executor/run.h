/*
 * One command, from the asking to the answer. Who asked (a shim's connection, the agent) is a pair of
 * functions to it. When a command ends by itself, its answer is given at once and what it left running goes
 * to `survivors`; when it is ended, the answer comes once its tree is empty.
 */
#ifndef EXECUTOR_RUN_H
#define EXECUTOR_RUN_H

#include "proto/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct executor;
struct run;

enum { RUN_GRACE_MS = 2000, RUN_EMPTY_MS = 1000, RUN_WHO_MAX = 64 };

/* What is asked. The byte strings live in `arena`, which the run takes over, as it does the descriptors. */
struct command {
    const char *exe;  /* NULL, "": argv[0] */
    struct bytes cwd; /* "": the project */
    struct list argv, env;
    const char
        *argv0; /* what the program is told that it is called; NULL: as argv says, which is the account's */
    char who[RUN_WHO_MAX + 1]; /* for the account; "": the harness */
    int fds[3];
    bool tty;
    uint64_t timeout_ms; /* 0: none */
    void *arena;
};

/* Takes arena and descriptors out of m. */
void command_take(struct command *c, struct msg *m);

/* How it ended: in the words of messages.def. text is a sentence for "failed", else "". */
typedef void run_done(void *ctx, const char *how, int64_t status, const char *text);

/*
 * Starts it now, or, while the account is full, as soon as it has room. done() is called once, perhaps before
 * this returns: then NULL is returned.
 */
struct run *run_new(struct executor *x, struct command *c, run_done *done, void *ctx);

/* To its process group; USR1 and USR2 to its first process alone. 9 ends its tree, as run_kill(). */
void run_signal(struct run *r, int signo);

/* Ends its whole tree; "killed". */
void run_kill(struct run *r);

/* The asker is gone: ends its tree, done() will not be called. */
void run_abandon(struct run *r);

/* All runs: killed, or asked (SIGTERM to every process). */
void runs_kill(struct executor *x);
void runs_terminate(struct executor *x);

/* Tells the agent of those that began and were not told yet; again: of all (a new link). */
void runs_tell(struct executor *x, bool again);

/* The account has room again. */
void runs_go_on(struct executor *x);

#endif
