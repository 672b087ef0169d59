/* A vendor's turn, between vendor.c, which begins and ends it, and vendor_heard.c, which hears the program. */
#ifndef HARNESS_VENDOR_TURN_H
#define HARNESS_VENDOR_TURN_H

#include "harness/vendor.h"

enum { STATUS_STOPPED = 130 }; /* 128 + SIGINT */

/* What vendor_heard.c hears of the program; the context is the vendor. */
extern const struct program_ops vendor_ops;

/* Says upward whether the program runs, whenever that may have changed. */
void vendor_tell_programs(struct vendor *v);

/* The turn's text goes to a program that runs, started if need be; when that cannot be, the turn ends as refused. */
void vendor_give(struct vendor *v);

/* The turn is over and its end is said; outcome as in turn_end. */
void vendor_end_turn(struct vendor *v, const char *outcome, int64_t status, const char *text);

#endif
