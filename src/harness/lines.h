/*
 * A stream of bytes as lines, with a bound: a line over LINE_MAX is passed over, whatever its length, in constant memory.
 * The reader of a harness's output: what comes is what a model, a file or a stranger's code made a program print.
 */
#ifndef HARNESS_LINES_H
#define HARNESS_LINES_H

#include "base/buf.h"

#include <stdint.h>

/* More than any event of a pinned version had, with a tool's result of 10 MB in it. */
enum { LINE_MAX_BYTES = 24 << 20 };

struct lines {
    struct buf part;  /* of a line that has not ended */
    uint64_t skipped; /* bytes of the line that is being passed over; 0: none is */
};

struct lines_ops {
    /* A line without its end; p[n] may be written to (it is NUL). Empty lines are not told. */
    void (*line)(void *ctx, char *p, size_t n);
    /* One of n bytes was passed over. */
    void (*cut)(void *ctx, uint64_t n);
};

/* max: LINE_MAX_BYTES but in tests. The callbacks may not call this for the same lines. */
void lines_add(struct lines *l, size_t max, const char *p, size_t n, const struct lines_ops *ops, void *ctx);

/* The stream is over: what has no end is a line all the same. */
void lines_end(struct lines *l, const struct lines_ops *ops, void *ctx);
void lines_free(struct lines *l);

#endif
