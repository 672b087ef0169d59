/*
 * A child of the warden for whatever blocks (podman, useradd, mounts, nft), so that its loop never does. The
 * child reports over a socket pair: lines of progress, one result, one end. A few run at once, the others wait
 * in turn. A worker outlives a warden that was killed and finishes its work; the next warden's worker for the
 * same thing waits on the lock that it holds (worker_lock()).
 */
#ifndef WARDEN_WORKER_H
#define WARDEN_WORKER_H

#include "base/err.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { WORKER_LINE_MAX = 480, WORKER_RESULT_MAX = 4096, WORKERS_AT_ONCE = 8 };

struct worker;

/* Runs in the child. `report` is for worker_say() and worker_result(); what it returns is told to on_end. */
typedef err_t worker_fn(void *job, int report);

struct worker_ops {
    worker_fn *run;
    int (*keep)(
        const void *job); /* one more descriptor of the warden's that the child has, or -1; may be NULL */
    void (*on_line)(void *ctx, const char *text); /* one line of progress; may be NULL */
    /* Once. why NULL: it worked, and result holds the n bytes that it gave (n 0: none). why stays the
     * worker's. */
    void (*on_end)(void *ctx, const struct err *why, const void *result, size_t n);
};

/* Starts it now or when its turn comes. `job` must live until on_end; ops for ever. */
struct worker *worker_start(struct event_base *base, const struct worker_ops *ops, void *job, void *ctx);

/* Forgets the worker: on_end does not come. One that runs goes on (its job was copied by the fork). */
void worker_forget(struct worker *w);

/* How many run or wait. */
size_t workers_busy(void);

/* In the child: */
void worker_say(int report, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void worker_result(int report, const void *p, size_t n);

/* Holds `name` (a file in the fleet's run folder) for the rest of this child's life, waiting for its holder. */
err_t worker_lock(const char *name);

#endif
