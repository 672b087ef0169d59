/*
 * Budgets and prices as arithmetic. A budget is so many tokens in each span of the clock (UTC hours, days, weeks from Monday),
 * or in all; every token that the API counts is one, from the cache or not. Pure.
 */
#ifndef AGENT_GATEWAY_BUDGET_H
#define AGENT_GATEWAY_BUDGET_H

#include "agent/gateway/scan.h"
#include "proto/budget.h"

/* What was used of the budget's current span. */
struct window {
    uint64_t span_s, used;
    int64_t start_ms; /* wall time */
};

/*
 * Brings the window to now. A clock that was set back stays in the span that it was in. Another span than before (the
 * budget was changed) keeps what was used; without a budget nothing is counted.
 */
void window_at(struct window *w, const struct budget *b, int64_t now_ms);
void window_use(struct window *w, const struct budget *b, const struct tokens *t);
bool window_over(const struct window *w, const struct budget *b);
int64_t window_until_ms(const struct window *w); /* 0: for ever */

uint64_t tokens_sum(const struct tokens *t);

/*
 * What tokens cost by a price table: "MODEL INPUT OUTPUT CACHE_READ CACHE_WRITE" each, for a million tokens, apart by ';'. The
 * row whose MODEL is the longest beginning of the name counts. In thousand-millionths of the table's unit; 0: no row.
 */
uint64_t price_nano(const char *table, const char *model, const struct tokens *t);

/* EXIT_USAGE names the first row that is not right. */
err_t price_check(const char *table);

#endif
