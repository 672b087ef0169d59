/*
 * `log --verify`: makes the audit log's chain again (proto/audit_hash.h) and compares it with the heads that the warden
 * kept where the manager cannot write. What the manager changed, left out, put in or cut off the end after a head was
 * kept is seen; what it invented before it told anybody is not.
 *
 * The oldest rows of a long log are let go. Then the first row that is left can only be checked when the warden kept
 * the head before it; all later ones can.
 */
#ifndef CLI_VERIFY_H
#define CLI_VERIFY_H

#include "proto/audit_hash.h"

#include <stdbool.h>
#include <stdio.h>

struct head {
    uint64_t seq;
    uint8_t hash[AUDIT_HASH];
};

/* Zero-initialise, then heads, rows in order, end. */
struct verify {
    struct head *heads;       /* rising */
    size_t nheads, next;      /* next: the first head of a row not seen yet */
    uint64_t first, last;     /* rows seen; 0: none */
    uint8_t hash[AUDIT_HASH]; /* of the last row */
    uint64_t compared;        /* heads that fit their row */
    bool first_unchecked;     /* the first row stands for rows before it that were let go */
    uint64_t bad;             /* the first row that is wrong, when why[0] */
    char why[256];            /* "": all is well so far */
};

/* Reads the warden's lines, "seq hexhash wall_ms" each; a torn last line is passed over. What is not such a file is an
 * error; heads that contradict each other are a finding. */
err_t verify_heads(struct verify *v, FILE *from);

/* Nothing happens once something was found. */
err_t verify_row(struct verify *v, const struct audit_row *row, struct bytes hash);
void verify_end(struct verify *v);
void verify_free(struct verify *v);

#endif
