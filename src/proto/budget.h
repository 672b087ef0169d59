/*
 * A budget of tokens as the command line, the configuration and the agent's gateway write it: so many in each span of the
 * clock (UTC hours, days, weeks from Monday), or in all. Pure.
 */
#ifndef PROTO_BUDGET_H
#define PROTO_BUDGET_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { BUDGET_HOUR_S = 3600, BUDGET_DAY_S = 24 * BUDGET_HOUR_S, BUDGET_WEEK_S = 7 * BUDGET_DAY_S };

struct budget {
    uint64_t limit;  /* tokens; 0: no budget */
    uint64_t span_s; /* 0: for ever */
};

/* "5M/day", "200k/hour", "1.5M/week", "20M" (in all), "none" and "" (no budget). EXIT_USAGE. */
err_t budget_of(const char *text, struct budget *ret);

/* "day" of a span's seconds; "" for one that is for ever. */
const char *budget_span_name(uint64_t span_s);

/* A decimal number with at most six digits behind the point, as millionths; *at moves behind it. False: there is none. */
bool budget_decimal(const char **at, uint64_t *ret_millionths);

#endif
