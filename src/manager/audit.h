/*
 * The audit log: one row for every command that ran in any executor, chained (proto/audit_hash.h).
 *
 * Rows come in bursts, and each must be on the disk before the agent may forget it; so they are gathered and written some at
 * a time: AUDIT_BATCH of them, AUDIT_BATCH_BYTES, or what came within AUDIT_WAIT_MS. After the commit the new head goes to
 * the warden, then each agent is told which of its rows are kept. A row that comes again (a crash in between) is known by its
 * agent and number, and only told again.
 *
 * Of argv at most AUDIT_ARGV_MAX bytes are kept: what is over is replaced by one item that says how much it was and its
 * SHA-256, so that a flood of huge commands cannot fill the disk. The oldest rows go when there are more than AUDIT_KEEP, or
 * more than AUDIT_KEEP_BYTES.
 */
#ifndef MANAGER_AUDIT_H
#define MANAGER_AUDIT_H

#include "manager/db.h"
#include "manager/packed.h"
#include "proto/audit_hash.h"

#include <event2/event.h>

enum { AUDIT_BATCH = 256, AUDIT_BATCH_BYTES = 1 << 20, AUDIT_WAIT_MS = 50, AUDIT_RETRY_MS = 1000 };
enum { AUDIT_KEEP = 1000000 };
#define AUDIT_KEEP_BYTES (UINT64_C(2) << 30)

struct audit;

struct audit_ops {
    /* The chain's end moved: for the warden. */
    void (*on_head)(void *ctx, uint64_t seq, const uint8_t hash[AUDIT_HASH]);
    /* This row of this agent is kept (now, or it was already). */
    void (*on_kept)(void *ctx, const char *agent, uint64_t row);
    /* A batch was tried; e: why it could not be written (it is tried again after AUDIT_RETRY_MS), else NULL. Called last. */
    void (*on_batch)(void *ctx, const struct err *e);
};

/* Reads the chain's end. ops and db must outlive it. */
err_t audit_new(struct event_base *base, struct db *db, const struct audit_ops *ops, void *ctx,
                struct audit **ret);
void audit_free(struct audit *a);

/* Takes a row (copied); its seq is not looked at. `number` and `message` are the agent's. */
void audit_add(struct audit *a, uint64_t number, uint64_t message, const struct audit_row *row);

/*
 * A command that began: an open row, not in the chain, until its row is added. Written with the next batch, and only if it
 * is still open then.
 */
void audit_begin(struct audit *a, uint64_t number, uint64_t message, const struct audit_row *row);

/* No row of this agent with a number below `before` comes any more: those open become rows "unknown", in the chain. */
err_t audit_end_open(struct audit *a, struct bytes agent, uint64_t before);

/* True when a whole batch waits because it cannot be written: no more rows should be taken until on_batch with NULL. */
bool audit_full(const struct audit *a);

/* The chain's end: 0 and zeros when there is no row. */
uint64_t audit_head(const struct audit *a, uint8_t ret_hash[AUDIT_HASH]);

/* Writes what waits now. */
void audit_flush(struct audit *a);

/* As events_back() and events_after(), with each row's hash. */
typedef bool audit_give(void *ctx, const struct audit_row *row, struct bytes hash);
/* The open rows of an agent, with how "running", seq 0 and no hash. */
err_t audit_running(struct db *db, struct bytes agent, audit_give *give, void *ctx);
err_t audit_back(struct db *db, struct bytes agent, uint64_t n, uint64_t *ret_seq);
err_t audit_after(struct db *db, struct bytes agent, uint64_t limit, audit_give *give, void *ctx,
                  uint64_t *ret_seq, bool *ret_more);

#endif
