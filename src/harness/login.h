/*
 * The vendor's own log-in, alone in the room: nothing of the room may read what it is given.
 *
 *              begin        a tick, the room is empty       stop, or its program ended      a tick, too late
 *   NONE       EMPTY_FIRST  -                               -                               -
 *   EMPTY_FIRST (no)        start it: RUNS                  (stop) EMPTY_LAST               refused: NONE
 *   RUNS       (no)         -                               keep its file: EMPTY_LAST       -
 *   EMPTY_LAST (no)         its folder goes, said: NONE     -                               the room ends
 *
 *   EMPTY_FIRST  every process but this one is being ended. Must not start anything.
 *   RUNS         one program, on a terminal whose other end went up to the agent before it began; its home is a fresh folder in
 *                memory and all that it may write (Landlock), its network the gateway. No turn is under way (links.def).
 *   EMPTY_LAST   as EMPTY_FIRST: what the log-in left in memory goes with its processes. Must not say that it is over before.
 *
 * All processes of the room descend from this one, which adopts orphans: without a child it is alone.
 */
#ifndef HARNESS_LOGIN_H
#define HARNESS_LOGIN_H

#include "harness/harness.h"

struct login;

struct login_ops {
    void (*pty)(void *ctx, int master); /* borrowed */
    /* file: what the program kept the credential in, -1: none; borrowed. */
    void (*end)(void *ctx, int64_t status, const char *text, int file);
};

/* `word`: the harness's of `new --harness`. */
struct login *login_new(const struct floor *f, const char *word, const struct login_ops *ops, void *ctx);
void login_free(struct login *l);

/* An error: nothing was begun. Else ops->end comes, later. */
err_t login_begin(struct login *l);
void login_stop(struct login *l);

/* A child of the room ended; it is reaped after the call. */
void login_exited(struct login *l, pid_t pid, int status);

#endif
