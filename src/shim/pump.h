/*
 * Carries bytes between one of our descriptors and a pipe that the command holds the other end of. Never
 * blocks on the pipe; holds at most one buffer, so a slow reader slows the writer.
 */
#ifndef SHIM_PUMP_H
#define SHIM_PUMP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

enum { PUMP_BUFFER = 64 * 1024 };

struct pump {
    int from, to; /* -1, -1: over */
    bool out;     /* `from` is the pipe (ours, as is `to` when out is false); the other is one of 0, 1, 2 */
    bool socket;  /* the other one is a socket */
    bool plain;   /* splice() does not know this kind of file: read and write */
    bool full;    /* waits for `to`, not for `from` */
    size_t at, len;
    char *buffer; /* what was read and not yet written; made when first needed */
};

void pump_open(struct pump *p, int from, int to, bool out);

/* What to poll for. fd -1 when it is over. */
struct pollfd pump_wants(const struct pump *p);

/* Moves what can be moved now. */
void pump_run(struct pump *p);

/* The command ended: carries what is still in its pipe (out), and is over. What a survivor writes later is
 * lost, as the reader was told that the command ended. */
void pump_drain(struct pump *p);

#endif
