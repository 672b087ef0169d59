/*
 * Standard input, output and error of a command that runs elsewhere. What may be passed is passed; the rest is copied by
 * pumps that live in the caller's poll loop:
 *
 *   a pipe, an unnamed stream socket pair, /dev/null    passed as it is
 *   input and output both a terminal                    a terminal of its own (error too, where that is one)
 *   everything else (files, terminals, devices, other sockets)    copied through a pipe
 */
#ifndef CLI_STREAMS_H
#define CLI_STREAMS_H

#include "base/err.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

enum { PUMPS_MAX = 3, PUMP_ROOM = 65536 };

struct pump {
    int from, to;          /* -1, -1: it has ended */
    bool own_from, own_to; /* ours to close */
    bool out;              /* from the command to us */
    bool slow;             /* a terminal: small pieces, so that signals are seen between them */
    size_t at, len;        /* bytes[at .. at+len) is to be written */
    char *bytes;
};

struct streams {
    int pass[3];  /* what the command gets; owned */
    int flags[3]; /* of what is passed as it is, before the command had it; -1: nothing to put back */
    int master;   /* of its terminal, -1: it has none; belongs to the pumps */
    struct pump pumps[PUMPS_MAX];
    size_t npumps;
    err_t wrong; /* the first failure to read our input or write our output; owned */
};

/* copy: pipes and socket pairs are copied too. What is passed to a command it can open anew in the other direction: hostile
 * code would read what others write to the same pipe. */
enum streams_way { STREAMS_PASS, STREAMS_COPY };

/* From descriptors 0, 1, 2; a terminal is one of `ptmx` (terminal.h). On failure nothing is left open. */
err_t streams_open(enum streams_way way, const char *ptmx, struct streams *ret);

/* The command has its descriptors: closes our copies, without which no pipe would ever end. */
void streams_passed(struct streams *s);

/* Puts what the pumps wait for into p (room for PUMPS_MAX); returns how many. After poll(): streams_pump(). */
size_t streams_poll(const struct streams *s, struct pollfd *p);
void streams_pump(struct streams *s);

/* The command is over: writes what it wrote before, without waiting for others that hold its pipes. */
void streams_drain(struct streams *s);

void streams_close(struct streams *s);

#endif
