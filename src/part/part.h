/*
 * What every daemon part (relay, manager, agent, harness, executor) has in common: its control socket.
 *
 * The part inherits a listener on descriptor PART_CONTROL, bound in a folder that only root can reach, so
 * whoever connects is the warden; the newest connection wins, since a restarted warden connects again. The
 * part says hello, then gets its links, the word to go, the word to stop. Log lines go to the warden as
 * part_note while it is connected (else standard error). A part outlives its warden: losing the control
 * connection changes nothing.
 */
#ifndef PART_PART_H
#define PART_PART_H

#include "base/err.h"
#include "proto/msg.h"

#include <event2/event.h>
#include <stdbool.h>

enum { PART_CONTROL = 3, PART_LISTENER = 4, PART_WEB = 5 };

struct part;

struct part_ops {
    /* A link's end, also in place of an older one; the handler owns fd. peer: the agent's name (manager) or
       "". May be NULL for a part that has no links. */
    void (*on_link)(void *ctx, enum link_id link, const char *peer, int fd);
    void (*on_unlink)(void *ctx, enum link_id link, const char *peer); /* may be NULL */
    /* Once in a part's life: m->part_go and perhaps m->fds[0] (put -1 there to keep it). May be NULL. */
    void (*on_go)(void *ctx, struct msg *m);
    void (*on_stop)(void *ctx, uint64_t grace_ms); /* NULL: the loop ends */
    /* The agent room's alone. The bytes are cleared after the call; *ret_text: what to say when it was taken, static. */
    err_t (*on_secret)(void *ctx, const char *kind, const char *p, size_t n, const char **ret_text);
    void (*on_budget)(void *ctx, const char *budget);
};

/*
 * Takes the listener `fd`. `name` ("agent demo") is said in the hello and copied; ops must outlive the part.
 * Also ignores SIGPIPE. The loop is the caller's.
 */
err_t part_new(struct event_base *base, int fd, const char *name, const struct part_ops *ops, void *ctx,
               struct part **ret);

/* Tells the warden that the room does its work now (after on_go, e.g. listening); remembered for a later
 * warden. */
void part_ready(struct part *p);

/*
 * To be called from every on_end of a link that on_link gave: the warden then makes that link anew (at most
 * once a second) when the peer lives, and after its own restart it knows which links still stand. Not for a
 * link that a newer one replaced.
 */
void part_lost(struct part *p, enum link_id link, const char *peer);

/* A line for the fleet's log and this agent's status, whatever log level is on. */
void part_note(struct part *p, unsigned level, const char *text);

bool part_gone(const struct part *p); /* on_go was called */
void part_free(struct part *p);

#endif
