/*
 * From answers to a verdict. A row is green when its answer is right and something shows that it could have been another
 * (row.h, enum proof); red when the answer is wrong; not judged when nothing shows that the attempt proves anything on this
 * host, or it was not made. Not judged is never counted as green.
 */
#ifndef BREAK_JUDGE_H
#define BREAK_JUDGE_H

#include "break/row.h"

#include "base/buf.h"

enum verdict { GREEN, RED, NOT_JUDGED };
enum { ARMS_MAX = 3, ARM_HOST = 2 }; /* control.h's two, and the host's own answers to a few rows */

/* The answers of one run of the probe, by row; NULL where there is none. Owned. */
struct answers {
    char **of; /* nrows of them; NULL: this run was not made */
};

void answers_start(struct answers *a);
/* From the probe's lines; what is no row's is passed over. */
void answers_read(struct answers *a, const char *text);
void answers_free(struct answers *a);

struct judged {
    enum verdict verdict;
    struct buf why; /* a sentence; empty when there is nothing to say */
};

/* `room` is the cage's run. The caller frees why. */
struct judged judge_row(size_t row, enum kind kind, const struct answers *room,
                        const struct answers arms[ARMS_MAX]);

#endif
