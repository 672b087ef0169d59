/*
 * A link in an event loop: sends with a bounded queue, receives, and holds both directions to the tables. A
 * message that is malformed, on the wrong link, in the wrong direction or at the wrong moment ends the link;
 * handlers see only what may be. Not thread-safe; one event_base.
 */
#ifndef WIRE_LINK_H
#define WIRE_LINK_H

#include "proto/msg.h"

#include <event2/event.h>

struct link;

/* One handler a message type; m is freed after it (descriptors that it keeps: put -1 in m->fds[i]). It may
 * link_free(l). */
typedef void link_fn(void *ctx, struct link *l, struct msg *m);

struct link_ops {
    link_fn *const *on; /* indexed by enum msg_type, MSG_COUNT long; a permitted message without a handler
                           ends the link */
    /* The link is over: why is NULL when the peer just left; owned by the link. The handler must
     * link_free(l), now or later. */
    void (*on_end)(void *ctx, struct link *l, err_t why);
    /* The queue fell below half of its bound after link_full() was true. May be NULL. */
    void (*on_room)(void *ctx, struct link *l);
};

enum {
    LINK_QUEUE_MAX =
        4 << 20, /* bytes queued to be sent before link_full(); a descriptor counts as PACKET_FD_WEIGHT */
    LINK_QUEUE_END = 16 << 20 /* with this many queued the next link_send() ends the link: nobody reads */
};

/*
 * Takes fd (non-blocking from here on). me_commands: this end is the link's commander. ops must outlive the
 * link.
 */
struct link *link_new(struct event_base *base, int fd, enum link_id id, bool me_commands,
                      const struct link_ops *ops, void *ctx);

/* Closes; what was queued and not sent is lost. Safe inside a handler of this link. NULL is fine. */
void link_free(struct link *l);

/*
 * Queues m (fields are copied, descriptors duplicated: the caller keeps its own). An error when the tables
 * forbid it (a fault of ours), when a field is over its bound, or when the link is over. Never blocks. A
 * sender that can produce without bound checks link_full() first and waits for on_room.
 */
err_t link_send(struct link *l, const struct msg *m);
bool link_full(const struct link *l);

/* True stops reading (back-pressure on the peer) until false. That the peer left is not seen meanwhile either, since what
 * it said before comes first; a link_send() notices, and whoever waits for the peer gets a new link in this one's place. */
void link_hold(struct link *l, bool hold);

/* Hears what has come by now, unless it is held. Not inside a handler of this link. */
void link_hear(struct link *l);

void *link_ctx(const struct link *l);

/* Tries to send all that is queued, blocking at most timeout_ms: for a last word before an exit. */
void link_flush(struct link *l, int timeout_ms);

#endif
