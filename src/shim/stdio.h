/*
 * What becomes of the shim's own 0, 1 and 2. Passed as they are: pipes, pty slaves, /dev/null, and write-only
 * files in the scratch folder that both rooms share. Everything else is copied through a pipe, so that no
 * descriptor of the harness room's files, devices or sockets ever reaches a command. Sockets among them, also
 * the pairs that Node makes: a socket carries descriptors, in both directions.
 */
#ifndef SHIM_STDIO_H
#define SHIM_STDIO_H

#include "base/err.h"
#include "shim/pump.h"

#include <stdbool.h>

struct stdio {
    int give[3];  /* what the command gets */
    bool mine[3]; /* give[i] is the end of a pipe that was made here: close it once it is sent */
    int flags[3]; /* of a passed descriptor before the command had it; -1: nothing to put back */
    struct pump pumps[3];
    size_t npumps;
    bool tty; /* a pty among them was our controlling terminal; it is free now for the command's session */
};

err_t stdio_open(struct stdio *io);

/* After the message was sent: only the command holds its ends of our pipes. */
void stdio_sent(struct stdio *io);

/* What the command did to O_NONBLOCK and O_APPEND of what it shares with others is put back. */
void stdio_restore(const struct stdio *io);

#endif
