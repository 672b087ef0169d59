/*
 * A ward: one part in the warden's care, that is the relay, the manager, or one room of an agent's box.
 *
 * Theory. A ward is wanted or not; the machine brings it there. What happens to it is an event; state × event is
 * the matrix in ward.c.
 *
 *   state      may                                         must not
 *   ABSENT     be wanted                                   leave a process, container, mount or group behind
 *   STARTING   be in a worker's hands                      be interrupted: the worker's end is awaited
 *   HELLO      connect to the control socket               get a link or the word to go
 *   GOING      get links, do what it does                  count as up
 *   READY      work                                        -
 *   STOPPING   say its last words, until its grace ends    be started
 *   CLEARING   be removed by a worker                      be started
 *   BACKOFF    wait: at most one start a second            be asked anything
 *   HELD       wait for an order (a crash loop)            start by itself (the relay and the manager do)
 *
 * A death is the end of the control connection: the part's first process alone holds the other end. Parts
 * outlive a killed warden; the next one finds their control sockets and takes them over (adopted), if they
 * speak its protocol and had got the word to go, else they are made anew.
 */
#ifndef WARDEN_WARD_H
#define WARDEN_WARD_H

#include "base/err.h"
#include "base/names.h"
#include "base/log.h"
#include "wire/link.h"

#include <assert.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct warden;
struct box;
struct worker;

enum ward_kind { WARD_AGENT, WARD_HARNESS, WARD_EXECUTOR, WARD_RELAY, WARD_MANAGER, WARD_KINDS };
static_assert((int)WARD_EXECUTOR == (int)ROOM_EXECUTOR, "the first kinds are the rooms");

enum ward_state {
    WARD_STAY, /* in the matrix: no change */
    WARD_ABSENT,
    WARD_STARTING,
    WARD_HELLO,
    WARD_GOING,
    WARD_READY,
    WARD_STOPPING,
    WARD_CLEARING,
    WARD_BACKOFF,
    WARD_HELD,
    WARD_STATES
};

enum ward_event {
    WARD_WANT,    /* it is wanted now */
    WARD_UNWANT,  /* it is not */
    WARD_STARTED, /* the worker made it; its network rules are in force */
    WARD_FAILED,  /* the worker could not */
    WARD_GREETED, /* the right hello */
    WARD_TOLD,    /* part_ready */
    WARD_LOST,    /* the control connection ended, or a wrong hello */
    WARD_CLEARED, /* nothing of it is left */
    WARD_TIMER,
    WARD_TOO_MANY, /* crashes: WARD_DEATHS_MAX within WARD_DEATHS_MS */
    WARD_EVENTS
};

enum {
    WARD_DEATHS_MAX = 5,
    WARD_DEATHS_MS = 60000,
    WARD_HELLO_MS = 15000,   /* for the hello, and again for part_ready */
    WARD_GRACE_MS = 2000,    /* from part_stop to the end by force */
    WARD_START_MS = 1000,    /* between two starts */
    WARD_CLEAR_TRIES = 3,    /* to remove what is left of it */
    WARD_PATIENCE_MS = 15000 /* a held relay or manager tries again after this */
};

/* What a worker says about the ward that it started. */
struct ward_made {
    pid_t pid;   /* of its first process, as the host sees it */
    ino_t netns; /* which network namespace it has; 0: not looked at */
};

/* An end as waitpid(2) has it; not known for a process that was another's child. */
struct ward_exit {
    bool known;
    int status;
};

struct ward {
    struct warden *w;
    struct box *box; /* NULL: relay, manager */
    enum ward_kind kind;
    enum ward_state state;
    bool wanted, adopted; /* adopted: found alive by this warden, not started by it */
    struct ward_made made;
    unsigned clear_tries;
    struct worker *worker;
    struct worker *refresh; /* rules.h: looks at the rules of the room whose first process is `refreshed` */
    pid_t refreshed;
    int netns; /* tally.h; -1: none is held */
    struct link *control;
    struct event *timer;
    uint64_t links;                  /* the hello's word on which links it holds */
    int64_t started_ms;              /* monotonic, of the last start */
    int64_t deaths[WARD_DEATHS_MAX]; /* crashes: monotonic ms, the newest first */
    bool died;                       /* this clearing follows a death */
    struct ward_exit exit;           /* how its first process ended */
    struct log_site notes;           /* bounds what it says to the log */
    char why[256];                   /* of the last fault, for status */
};

void ward_init(struct ward *d, struct warden *w, struct box *box, enum ward_kind kind);
void ward_event(struct ward *d, enum ward_event event);

/* Wanted or not; a start order also forgives a crash loop. */
void ward_want(struct ward *d, bool wanted);

/* The look at start-up: what lives is taken over, what is dead is cleared away. */
void ward_find(struct ward *d, bool wanted);

/* A child of the warden ended: if it is this ward's first process, that is how it died. */
void ward_exited(struct ward *d, pid_t pid, int status);

/* Tells why, then WARD_LOST. */
void ward_lost(struct ward *d, const char *why);

/* "relay", "executor"; with the agent: "executor of demo" (static, until the next call). */
const char *ward_kind_name(enum ward_kind kind);
const char *ward_title(const struct ward *d);

/* True in GOING and READY: it can hold links. */
bool ward_up(const struct ward *d);

/* True from GOING until its process ended: it may still have something to say. */
bool ward_works(const struct ward *d);

/* Forgets worker, link and timer, before the memory goes. */
void ward_drop(struct ward *d);

#endif
