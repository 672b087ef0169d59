/* The table of system calls (syscalls.def) as data, and as rules that do not overlap. */
#ifndef CAGE_CALLS_H
#define CAGE_CALLS_H

#include "cage/seccomp.h"

#include <stddef.h>
#include <stdint.h>

enum { CALLS_CONDS_MAX = 2, CALLS_NAME_MAX = 32, CALLS_ARGS = 6 };

/* (argument & mask) == value, on the low 32 bits; a mask of 0 is always true. */
struct calls_cond {
    unsigned arg;
    uint32_t mask, value;
};

/* A line of the table. */
struct calls_row {
    unsigned kinds;    /* bits 1 << enum seccomp_kind */
    int verdict;       /* 0: allowed; else the errno */
    const char *names; /* one, or many with a blank between */
    struct calls_cond cond[CALLS_CONDS_MAX];
};
extern const struct calls_row calls_rows[];
extern const size_t calls_nrows;

/* A rule for one call; no two of one call hold for the same arguments, so their order does not matter. */
struct calls_rule {
    char name[CALLS_NAME_MAX];
    int verdict;
    size_t nconds; /* at most one condition for each argument */
    struct calls_cond cond[CALLS_ARGS];
};

/* The whole table for one kind; the caller frees. */
struct calls_rule *calls_rules(enum seccomp_kind kind, size_t *ret_n);

#endif
