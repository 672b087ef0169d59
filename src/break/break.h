/*
 * Judges this machine: a cage is made by the product's own path, the probe tries every row from inside it, the control arms
 * try the same outside, and what the cage is from outside is looked at while the probe holds still. What was made for it goes
 * away again; nothing of the person's is touched.
 */
#ifndef BREAK_BREAK_H
#define BREAK_BREAK_H

#include "base/err.h"
#include "break/judge.h"
#include "break/posture.h"

struct break_wish {
    const char *name; /* an agent that runs; NULL: a sealed cage of its own */
    enum kind kind;   /* of that agent's executor, or KIND_SEALED */
};

struct break_row {
    const char *what; /* static */
    enum verdict verdict;
    char *why; /* owned; "" when there is nothing to say */
};

struct break_report {
    struct posture posture[POSTURE_MAX];
    size_t nposture;
    struct break_row *rows; /* owned */
    size_t nrows, count[NOT_JUDGED + 1];
    int64_t took_ms;
};

/* An error: no verdict was reached. */
err_t break_run(const struct break_wish *wish, struct break_report *ret);
void break_report_free(struct break_report *r);
#define own_break_report __attribute__((cleanup(break_report_free)))

#endif
