/*
 * Questions on their way. The relay names each of its own by a cookie; what the manager asks the warden or an agent because of
 * it has a number of the manager's, unique across its restarts (it starts at the wall clock's microseconds), so that an
 * answer to an earlier life is never taken for one to this. Commands of an agent's executor (runs) are questions like the
 * others, with this number as their run.
 */
#ifndef MANAGER_ASKS_H
#define MANAGER_ASKS_H

#include "proto/msg.h"

#include <stdbool.h>

enum { ASKS_MAX = 2048 };

enum ask_kind { ASK_STATE, ASK_ORDER, ASK_DESK, ASK_RUN };

struct ask {
    uint64_t number, cookie;
    enum ask_kind kind;
    char agent[64 + 1];
    struct ask *next;
};

struct asks {
    struct ask *first;
    uint64_t last;
    unsigned n;
};

void asks_open(struct asks *asks);
void asks_free(struct asks *asks);

/* A new one, or NULL when too many are on their way. Owned by asks. */
struct ask *asks_add(struct asks *asks, enum ask_kind kind, uint64_t cookie, struct bytes agent);

/* The one with this number and kind, or NULL; the one of this cookie, or NULL. */
struct ask *asks_find(const struct asks *asks, enum ask_kind kind, uint64_t number);
struct ask *asks_of(const struct asks *asks, uint64_t cookie);
void asks_drop(struct asks *asks, struct ask *ask);

#endif
