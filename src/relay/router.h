/*
 * Who asked what. The router gives each question of an asker a cookie of its own, unique for the machine's
 * life, sends it to the manager with who asks, and brings each answer back under the asker's cookie. It
 * decides nothing and keeps a question's text only until the manager has it (a message that is said: until
 * the manager has stored it).
 */
#ifndef RELAY_ROUTER_H
#define RELAY_ROUTER_H

#include "base/err.h"
#include "proto/msg.h"

#include <event2/event.h>
#include <stdbool.h>

struct router;
struct asker; /* one who asks through a front */
struct front_row;
struct part;

/* `part` is told when the link to the manager is lost. Both outlive the router. */
struct router *router_new(struct event_base *base, struct part *part);
void router_free(struct router *r);

/* The end of a link to the manager, also in place of an older one; takes fd. */
void router_manager(struct router *r, int fd);

struct asker_ops {
    /* An answer (relay_*) under the asker's own cookie, valid during the call. False: the asker has no room
     * for more; its streams pause until router_room(). It must not leave inside this call. */
    bool (*answer)(void *ctx, const struct msg *m);
    /* True: take no more questions from this asker until false. */
    void (*hold)(void *ctx, bool hold);
};

/* who: "terminal:0"; copied. ops outlive the asker. */
struct asker *router_join(struct router *r, const struct front_row *front, const char *who,
                          const struct asker_ops *ops, void *ctx);

/* The asker is gone: its questions are forgotten, its commands end. NULL is fine. */
void router_leave(struct asker *a);

/* The asker has room again. */
void router_room(struct asker *a);

/*
 * Takes a question (front_*, not a hello); m stays the caller's. What cannot be asked is answered at once
 * with relay_end. While there is no manager it waits, at most ROUTER_WAIT_MS.
 */
void router_ask(struct asker *a, const struct msg *m);
enum { ROUTER_WAIT_MS = 5000 };

#endif
