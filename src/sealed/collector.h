/*
 * Reading what a cage wrote. Everything in such a tree may be a trap: links out of it (also magic ones), FIFOs and leases that
 * make an open wait, devices, files that are also somewhere else, files without end, a million entries, names made of
 * control bytes, things that change while they are looked at. So there is one way to open a file there and one way to walk,
 * and everything that reads an outbox or a project after a run uses them.
 */
#ifndef SEALED_COLLECTOR_H
#define SEALED_COLLECTOR_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum { COLLECT_ENTRIES_MAX = 1000000, COLLECT_DEPTH_MAX = 128 };

/*
 * Opens the regular file `path` below `dir` for reading: through no link, out of the tree by no way, onto no other file
 * system, without waiting; not when it has other names (hard links) or holds more than cap bytes. Refusals are EXIT_POLICY
 * with a sentence; nothing there: EXIT_NOTFOUND; a lease that is not given up in a while: EXIT_FAILED.
 */
err_t collect_open(int dir, const char *path, uint64_t cap, int *ret_fd, struct stat *ret_st);

/* The bytes of such a file: at most cap, whatever happens to it meanwhile. */
err_t collect_read(int dir, const char *path, uint64_t cap, struct buf *out);

/* One entry of a walk. A link is an entry, never followed; its target is the text in it, cut at 4095 bytes. */
struct collect_entry {
    const char *path; /* below the top, "a/b" */
    const char *name; /* its last part */
    const char *target;
    size_t depth; /* 0: in the top folder */
    struct stat st;
};

struct collect_sum {
    uint64_t entries;
    uint64_t
        skipped; /* not looked at, or not into: too deep, a path too long, unreadable, another file system */
    bool cut; /* the walk ended before its end, by the number of entries or the time; also one in skipped */
};

/* Returns false to end the walk. */
typedef bool collect_fn(void *ctx, const struct collect_entry *e);

/* Walks everything below the folder `dir`, parents before children; no order among siblings. */
err_t collect_walk(int dir, collect_fn *each, void *ctx, struct collect_sum *ret);

struct collect_how {
    collect_fn *each;
    collect_fn *
        skipped; /* NULL, or told of each that is skipped; its st is all zero when that is what could not be read */
    int64_t ms; /* the time that there is; 0: no end */
};

err_t collect_walk_as(int dir, const struct collect_how *how, void *ctx, struct collect_sum *ret);

#endif
