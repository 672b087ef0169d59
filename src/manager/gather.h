/*
 * What must be on the disk before anybody hears of it, gathered: all that has come when the manager wakes up is stored in one
 * transaction, since a flush of the disk takes as long for many as for one. docs/delivery.md has what is promised.
 *
 *   gathered   a message as it came. Nothing is said of it, and no reader sees anything of it
 *   stored     the transaction of all of them was committed; each is now answered, in the order in which they came
 *   stuck      it could not be stored (a full disk) and may not be refused: it waits, and its agent's link is held
 *
 * A commit that fails is undone whole; then each message is stored alone, so that one that cannot be is told apart. Who answers
 * or tells anything that must not come before what is gathered calls gather_now() or gather_before() first.
 */
#ifndef MANAGER_GATHER_H
#define MANAGER_GATHER_H

#include "manager/db.h"

#include <event2/event.h>
#include <stdbool.h>

enum {
    GATHER_MAX = 256,
    GATHER_BYTES = 4 << 20,
    GATHER_RETRY_MS = 1000
}; /* over these it is stored at once */

struct agent;
struct gather;
struct manager;

struct gathered {
    const struct gather_kind *kind;
    struct msg msg;
    struct agent *agent; /* whose link it came by; NULL: the relay's */
    size_t bytes;
    err_t e;     /* why it is not stored */
    uint64_t id; /* what store() found */
    bool is_new;
    bool waited; /* it was stuck before */
    struct gathered *next;
};

struct gather_kind {
    enum db_strength strength;
    bool must; /* it may not be refused: stuck, unless it is wrong in itself (EXIT_USAGE) */
    /* A transaction of its own, in which all that it changes is. */
    err_t (*store)(struct manager *m, struct gathered *g);
    /* It is stored for good, or g->e says why not. Not called for one that is stuck, until it is stored. */
    void (*stored)(struct manager *m, struct gathered *g);
};

struct gather *gather_new(struct manager *m);
void gather_free(struct gather *g);

/* Takes what msg owns; kind is static. Stored when all that has come with it was heard. bytes: of its texts. */
void gather_add(struct manager *m, const struct gather_kind *kind, struct agent *a, struct msg *msg,
                size_t bytes);

/* Stores and answers what is gathered, but for what is stuck. */
void gather_now(struct manager *m);

/* The same, if there is anything of this agent's. */
void gather_before(struct manager *m, const struct agent *a);

/* Is something of it stuck? */
bool gather_stuck(const struct manager *m, const struct agent *a);

/* Its link is over: what is stuck comes again by the next one. Call gather_now() first. */
void gather_drop(struct manager *m, const struct agent *a);

#endif
