/*
 * A box: an agent and its three wards (agent, harness, executor). Its state is what the three say together:
 *
 *   stopped    none is wanted and none is there
 *   starting   all are wanted, not all are ready (also while a dead one comes back)
 *   running    all three are ready
 *   stopping   none is wanted, something is still there
 *   failing    one is held after a crash loop; an order to start clears it
 */
#ifndef WARDEN_BOX_H
#define WARDEN_BOX_H

#include "base/conf.h"
#include "warden/farewell.h"
#include "warden/switchboard.h"
#include "warden/ward.h"

enum box_state { BOX_STOPPED, BOX_STARTING, BOX_RUNNING, BOX_STOPPING, BOX_FAILING, BOX_STATES };
enum box_order { BOX_START, BOX_STOP, BOX_RESTART, BOX_ORDERS };

/* The order is done (why NULL, text the report or "") or will not be. */
typedef void box_done(void *ctx, const struct err *why, const char *text);

struct box_waiter {
    struct box_waiter *next;
    bool for_running; /* else for stopped */
    box_done *done;
    void *ctx;
};

struct box {
    struct box *next;
    struct warden *w;
    struct conf_agent conf;
    struct ward ward[ROOM_COUNT];
    struct pair pair[LINK_COUNT];
    int model_door;     /* model_door.h; -1: none */
    bool started;       /* as the operator wants it; kept in the warden's folder */
    bool again;         /* a restart: start once all is absent */
    bool leaving;       /* op_rm is under way */
    bool trial;         /* new: the first death is the answer, not a reason to try again */
    bool ran;           /* it was running since it was last stopped */
    bool ordered_again; /* the next report says restarted */
    unsigned died;      /* AT() bits of the rooms that died since it last ran */
    bool said_failing;
    enum box_state state;
    int64_t since_wall_ms, up_boot_ms; /* of this state; of the last time that it became running */
    char frozen[256];                  /* why harness and executor are frozen; "" when they are not */
    uint64_t written[ROOM_COUNT]; /* by the room, at the last look at a disk that fills up; 0: none yet */
    char report[512];             /* of the last start */
    struct worker *closing;       /* a sealed agent's session is being ended; farewell.h */
    bool closed;                  /* it was, since the last start */
    char farewell[FAREWELL_MAX];  /* what that said, until an order's answer has said it too */
    struct box_waiter *waiters;
};

/* The boxes of the agents' configuration, none started. A file that cannot be read is logged and left out. */
void boxes_load(struct warden *w);

/* A box for one more agent (conf is moved in) or NULL when the name is taken. */
struct box *box_add(struct warden *w, struct conf_agent *conf);
struct box *box_find(struct warden *w, const char *name);

/* Takes an absent box out and frees it; the manager is told. */
void box_remove(struct box *b);

/* Start-up: finds what lives, then brings every box to its kept wish. */
void boxes_find(struct warden *w);

/*
 * An order. done comes when it is carried out, when it failed, or when another order came; never inside this
 * call. done may be NULL.
 */
void box_order(struct box *b, enum box_order order, box_done *done, void *ctx);

/*
 * Ends the rooms one behind the other, each once the one before has ended: the harness, so that nothing new comes; the
 * executor, which hands the account of all that ran to the agent; the agent, which hands it to the manager. Idempotent; true
 * when none works any more and all that is to be said about a sealed session was said.
 */
bool box_leave(struct box *b);

/* A ward of the box changed: works the state out again and tells. */
void box_changed(struct box *b);

/* Says that the word beside the state changed (frozen, thawed). */
void box_tell(struct box *b);

/* A ward of it died. */
void box_died(struct box *b, enum room room);

const char *box_state_name(const struct box *b);
void box_why(const struct box *b, char out[256]);

#endif
