/*
 * What happened, in order: the source of every chat. An event is written in the transaction of what it tells about. Of each
 * agent the newest EVENTS_KEEP are kept, and no more than EVENTS_KEEP_BYTES of text.
 */
#ifndef MANAGER_EVENTS_H
#define MANAGER_EVENTS_H

#include "manager/db.h"

enum { EVENTS_KEEP = 10000, EVENTS_KEEP_BYTES = 64 << 20 };

struct event {
    uint64_t seq; /* given by events_add() */
    struct bytes agent;
    uint64_t id; /* the message's; 0: of none */
    struct bytes kind, who;
    uint64_t wall_ms;
    int64_t status;
    uint64_t span_ms;
    struct bytes text;
    struct bytes call, name;          /* of what is told live and not kept: follow_live() */
    uint64_t tokens, tools;           /* of a report */
    uint64_t question, until_wall_ms; /* of question and answer, which are told live */
    struct bytes digest;
    struct list choices;
};

/* Inside the caller's transaction; *ret_seq when not NULL. wall_ms 0: now. */
err_t events_add(struct db *db, const struct event *event, uint64_t *ret_seq);

/* One event in a QUICK transaction of its own: what is said, not promised. */
err_t events_note(struct db *db, const struct event *event);

/* The seq of the newest, 0 when there is none. */
err_t events_last(struct db *db, uint64_t *ret_seq);

/* The seq before the newest n of an agent ("": of all), of those with seq < before unless that is 0. */
err_t events_back(struct db *db, struct bytes agent, uint64_t before, uint64_t n, uint64_t *ret_seq);

/*
 * Hands up to `limit` events after `seq` to `give`, in order, until it says false (that one counts as not given).
 * *ret_seq is the last one given, unchanged if none; *ret_more whether there may be more.
 */
typedef bool events_give(void *ctx, const struct event *event);
err_t events_after(struct db *db, struct bytes agent, uint64_t limit, events_give *give, void *ctx,
                   uint64_t *ret_seq, bool *ret_more);

#endif
