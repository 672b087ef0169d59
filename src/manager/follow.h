/*
 * Who reads events or the audit log. Each has a place (the last seq that it was given), and is given pages from the tables
 * while the relay's link has room: nothing is held in memory for a reader that is slow, or far behind.
 */
#ifndef MANAGER_FOLLOW_H
#define MANAGER_FOLLOW_H

#include "proto/msg.h"

#include <event2/event.h>
#include <stdbool.h>

struct manager;
struct follows;
struct event;

enum follow_what { FOLLOW_EVENTS, FOLLOW_ROWS };
enum { FOLLOWS_MAX = 256, FOLLOW_PAGE = 32 };

struct follows *follows_new(struct manager *m);
void follows_free(struct follows *f);

struct follow_ask {
    enum follow_what what;
    uint64_t cookie;
    struct bytes agent; /* "": all */
    uint64_t after;     /* proto/after.h */
    uint64_t before;    /* of events: none from this seq on; 0: no such bound */
    uint64_t limit;     /* 0: none */
    bool follow;
};

/* Begins to answer. EXIT_POLICY: too many read already. */
err_t follow_start(struct follows *f, const struct follow_ask *ask);

/* The asker is gone. True when there was one. */
bool follow_stop(struct follows *f, uint64_t cookie);
void follow_stop_all(struct follows *f);

/* Something was written: those who follow it get it. */
void follow_wake(struct follows *f, enum follow_what what);

/* The relay's link has room again. */
void follow_room(struct follows *f);

/* Does anybody follow this agent's events? Nobody can while there is no link to the relay: then it counts as yes. */
bool follow_reads(const struct follows *f, const char *agent);

/* What a turn does while it runs, to those who follow the agent and are not behind; not kept. Its seq and time are set here. A
 * question that could not be given is given again, like all that are open when a reader begins: asked.h. */
void follow_live(struct follows *f, const struct event *live);

#endif
