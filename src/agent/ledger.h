/*
 * Rows of the executor's account on their way to the manager: each is kept until the manager has stored it,
 * so a manager that was killed in between gets it again. Bounded: over LEDGER_BYTES or LEDGER_ROWS the
 * executor's link is not read any more (ledger_full), and the executor keeps its rows itself.
 */
#ifndef AGENT_LEDGER_H
#define AGENT_LEDGER_H

#include "proto/msg.h"

enum { LEDGER_BYTES = 8 << 20, LEDGER_ROWS = 1024 };

struct ledger;

struct ledger *ledger_new(void);

/* Keeps m (a desk_row) as bytes, unless its number is here already. An error: a field over its bound. */
err_t ledger_add(struct ledger *k, const struct msg *m);
bool ledger_empty(const struct ledger *k);
bool ledger_full(const struct ledger *k);

/* A new manager: every row is to be said again. */
void ledger_rewind(struct ledger *k);

/*
 * The next row that was not said yet, decoded (the caller frees it with msg_free), and marked as said. False:
 * there is none.
 */
bool ledger_next(struct ledger *k, struct msg *ret);

/* The manager has it. */
void ledger_settle(struct ledger *k, uint64_t row);

void ledger_free(struct ledger *k);

#endif
