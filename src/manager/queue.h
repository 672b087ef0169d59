/*
 * Messages to agents, from the moment they are taken until they have ended. The theory is in docs/delivery.md; the states:
 *
 *   queued    taken, with its event "queued", in one lasting transaction (C1). May be delivered, again and again.
 *   started   the agent said so. It changes nothing about delivery: the agent's journal decides what runs.
 *   done, refused, unknown   ended, with its one event, in one lasting transaction (C4). Never delivered again.
 *
 * A message ends once: whatever the agent says later of an ended id is only settled, not stored.
 */
#ifndef MANAGER_QUEUE_H
#define MANAGER_QUEUE_H

#include "manager/db.h"

enum { QUEUE_OPEN_MAX = 1000, QUEUE_KEEP = 1000 }; /* open ones, ended ones, of one agent */

struct queue_say {
    struct bytes key, agent, who, text;
};

/*
 * Takes a message (C1). The same key again is the same message: its id, and *ret_new false. EXIT_USAGE: no key, no text, or
 * the key of another message. EXIT_POLICY: too many are waiting. errnum ENOSPC: the disk is full.
 */
err_t queue_say(struct db *db, const struct queue_say *say, uint64_t *ret_id, bool *ret_new);

/* The agent started it: state and event, QUICK. Nothing when it is not queued. *ret_event: an event was added. */
err_t queue_started(struct db *db, uint64_t id, struct bytes agent, uint64_t wall_ms, bool *ret_event);

struct queue_end {
    uint64_t id;
    struct bytes agent, outcome; /* done, refused, unknown */
    int64_t status;
    uint64_t span_ms;
    struct bytes text, output;
    uint64_t tokens, tools;
};

/*
 * The end of a message (C4). *ret_new: it was open until now and of this agent. Otherwise nothing is stored: the agent may
 * forget it all the same. EXIT_USAGE: no such outcome.
 */
err_t queue_finished(struct db *db, const struct queue_end *end, bool *ret_new);

/* The first open message of an agent after `id`: text and who are handed to `give`. *ret_id 0: there is none. */
typedef void queue_give(void *ctx, uint64_t id, struct bytes who, struct bytes text);
err_t queue_next(struct db *db, struct bytes agent, uint64_t id, queue_give *give, void *ctx,
                 uint64_t *ret_id);

/* How many wait to be started. */
err_t queue_waiting(struct db *db, struct bytes agent, uint64_t *ret);

/* The agent was removed: whatever is open ends unknown, in one lasting transaction. */
err_t queue_abandon(struct db *db, struct bytes agent);

#endif
