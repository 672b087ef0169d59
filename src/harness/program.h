/*
 * A vendor's program that speaks JSON, an object a line, on its standard input and output. Started, heard, spoken to, ended;
 * what the lines mean is a protocol's. Its standard error is kept short, for the sentence about a program that failed.
 *
 * It is over when it has ended and what it had said until then was heard (FIONREAD, as in shell.c: a process that it left
 * behind must not keep it open).
 */
#ifndef HARNESS_PROGRAM_H
#define HARNESS_PROGRAM_H

#include "harness/harness.h"

#include <jansson.h>

struct program_ops {
    void (*line)(void *ctx, const json_t *j);     /* borrowed */
    void (*plain)(void *ctx, const char *text);   /* a line that is no JSON object; any bytes */
    void (*cut)(void *ctx, const char *sentence); /* one was too long: a sentence about it */
    void (*over)(void *ctx, int status);          /* as waitpid's */
};

enum {
    PROGRAM_QUEUE_MAX = 1 << 20,
    PROGRAM_ERRORS_MAX = 2048,
    PROGRAM_CLOSE_MS = 3000,
    PROGRAM_TERM_MS = 1000
};

struct program *program_new(const struct floor *f, const struct program_ops *ops, void *ctx);
void program_free(struct program *p);

/* path: absolute, or a name that is looked up, first among what came from npm (/cage/harness/bin). The one before must be over or dropped. */
err_t program_start(struct program *p, const char *path, char *const argv[], char *const env[]);
bool program_runs(const struct program *p);

/* Queues an object as a line; takes j. False: it does not read, and has PROGRAM_QUEUE_MAX bytes to read already. */
bool program_say(struct program *p, json_t *j);

/* The same with any bytes; with end, its standard input is closed behind them. */
bool program_write(struct program *p, const char *bytes, size_t n, bool end);

/* Something that it started runs. */
bool program_has_children(const struct program *p);

/* To its process group. */
void program_signal(struct program *p, int signo);

/*
 * Ends it in order, so that it keeps what it has to keep: its standard input ends, after ms it gets SIGTERM, after PROGRAM_TERM_MS
 * more SIGKILL. What it says is nobody's from now on, and it does not run; over() comes when it is gone. Fine when none runs.
 */
void program_close(struct program *p, unsigned ms);
bool program_leaves(const struct program *p); /* closed, and not gone yet */

/* Kills its group and forgets it: nothing of it is told any more. Fine when none runs. */
void program_drop(struct program *p);

/* The room's child ended. */
void program_exited(struct program *p, pid_t pid, int status);

/* say_full() is not true any more. */
void program_resume(struct program *p);

/* Its standard error has this, among its newest PROGRAM_ERRORS_MAX bytes. */
bool program_complained(const struct program *p, const char *phrase);

/* The end of its standard error, one line, escaped; "" when it said nothing. Owned by p, until the next call. */
const char *program_errors(struct program *p);

#endif
