#include "manager/asks.h"
#include "base/clock.h"
#include "base/own.h"

#include <stdio.h>

void asks_open(struct asks *asks) {
    *asks = (struct asks){.last = (uint64_t)clock_wall_ms() * 1000};
}

void asks_free(struct asks *asks) {
    while (asks->first)
        asks_drop(asks, asks->first);
}

struct ask *asks_add(struct asks *asks, enum ask_kind kind, uint64_t cookie, struct bytes agent) {
    if (asks->n >= ASKS_MAX)
        return NULL;
    struct ask *a = xcalloc(1, sizeof *a);
    *a = (struct ask){.number = ++asks->last, .cookie = cookie, .kind = kind, .next = asks->first};
    snprintf(a->agent, sizeof a->agent, "%.*s", (int)agent.len, agent.p);
    asks->first = a;
    asks->n++;
    return a;
}

struct ask *asks_find(const struct asks *asks, enum ask_kind kind, uint64_t number) {
    for (struct ask *a = asks->first; a; a = a->next)
        if (a->number == number && a->kind == kind)
            return a;
    return NULL;
}

struct ask *asks_of(const struct asks *asks, uint64_t cookie) {
    for (struct ask *a = asks->first; a; a = a->next)
        if (a->cookie == cookie)
            return a;
    return NULL;
}

void asks_drop(struct asks *asks, struct ask *ask) {
    struct ask **at = &asks->first;
    while (*at != ask)
        at = &(*at)->next;
    *at = ask->next;
    asks->n--;
    free(ask);
}
