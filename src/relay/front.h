/*
 * The seam of the fronts. A front is a file that
 *   - knows who asks: an identity by number that something outside vouches for (terminal: the kernel,
 * SO_PEERCRED);
 *   - takes questions in, as front_* messages, and gives them to the router with that identity (router.h);
 *   - brings answers out, relay_* messages, in its own way and within its own limits;
 * and decides nothing else. A front that needs something of its own (a token, a listener) gets it from the
 * warden.
 */
#ifndef RELAY_FRONT_H
#define RELAY_FRONT_H

#include "base/buf.h"
#include "base/err.h"
#include "relay/router.h"

#include <event2/event.h>
#include <stddef.h>

struct front;

/* root's word to the front itself: what it answers is appended to *ret. It must answer at once. */
typedef err_t front_word(struct front *front, struct bytes word, struct bytes data, struct buf *ret);

struct front_row {
    const char *name;
    err_t (*start)(const struct front_row *row, struct event_base *base, struct router *router,
                   struct front **ret);
    void (*stop)(struct front *front);
    front_word *word; /* NULL: it takes none */
    size_t askers_max, questions_max, text_max;
};

#define FRONT(name, askers, questions, text, word) FRONT_##name,
enum {
#include "relay/fronts.def"
    FRONTS
};
#undef FRONT

extern const struct front_row front_rows[FRONTS + 1]; /* ended by a NULL name */

#define FRONT(name, askers, questions, text, word)                                                           \
    err_t front_##name##_start(const struct front_row *row, struct event_base *base, struct router *router,  \
                               struct front **ret);                                                          \
    void front_##name##_stop(struct front *front);
#include "relay/fronts.def"
#undef FRONT

front_word front_web_word, front_telegram_word;

/* All of them. One that has nothing to work with (no token, no listener) starts all the same, and idles. */
err_t fronts_start(struct event_base *base, struct router *router);
void fronts_stop(void);

/* The word for the front of that name. EXIT_USAGE: there is none, or it takes no words. */
err_t fronts_word(struct bytes front, struct bytes word, struct bytes data, struct buf *ret);

#endif
