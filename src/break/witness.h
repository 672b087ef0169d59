/*
 * The second witness: what is seen of the cage from outside while the probe holds still. An errno inside says what an attempt
 * was told; this says what is so.
 */
#ifndef BREAK_WITNESS_H
#define BREAK_WITNESS_H

#include "base/err.h"
#include "break/row.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { WITNESS_MAX = 10, WITNESS_TEXT = 512 };

struct witness {
    const char *what; /* as a row's; static */
    bool judged, right;
    char why[WITNESS_TEXT];
};

/* The cage's process whose command line ends with `word`, as this host numbers it; 0: none. */
pid_t witness_find(const char *word);

/* Looks at that process and every other of its process namespace. accepted: connections that the listeners outside got.
 * A room with a sealed cage's network has its rules, and their counters, read. */
void witness_look(pid_t pid, enum kind kind, size_t accepted, struct witness ret[WITNESS_MAX], size_t *ret_n);

#endif
