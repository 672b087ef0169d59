/*
 * The agents: what the warden last said of each (kept in a table too, so that messages are taken while the warden is away),
 * and what this manager knows of its link while it lives.
 */
#ifndef MANAGER_FLEET_H
#define MANAGER_FLEET_H

#include "manager/asked.h"
#include "manager/db.h"
#include "wire/link.h"

struct manager;

struct agent {
    struct manager *m; /* whose link it is */
    char *name;
    bool known; /* the warden has it; false: only a link, or a wait for the rest to go */
    bool seen;  /* said since the warden's link was made */
    char *mode, *harness, *project, *net, *state, *why;
    uint64_t since_wall_ms;

    struct link *link;  /* NULL: not reachable now */
    uint64_t delivered; /* the last message sent on this link; all open ones up to it were */
    unsigned undone;    /* how many of those have not ended */

    char *login, *survivor_text; /* the agent's own account of itself (desk_state) */
    struct buf token_key;        /* of the agent that is linked; empty: none */
    struct msg asked[ASKED_MAX]; /* asked.h: type MSG_none, a free place */
    uint64_t sessions, survivors, last_command_wall_ms;
    struct msg_desk_usage usage; /* what it said of its model: numbers alone */
    struct agent *next;
};

struct fleet {
    struct agent *first;
};

err_t fleet_load(struct fleet *f, struct db *db);
void fleet_free(struct fleet *f);

struct agent *fleet_find(const struct fleet *f, struct bytes name);  /* NULL: there is none */
struct agent *fleet_known(const struct fleet *f, struct bytes name); /* … that the warden has */
struct agent *fleet_make(struct fleet *f, struct bytes name);        /* found or new, not yet known */

/* What the warden says; the table follows in a QUICK transaction (its error leaves memory right and the table behind). */
err_t fleet_put(struct fleet *f, struct db *db, const struct msg_has_agent *said);

/* The warden has it no more: its open messages end, its row goes; the struct too unless a link is still there. */
err_t fleet_gone(struct fleet *f, struct db *db, struct agent *a);

/* Takes the struct out and frees it, when it is neither known nor has a link. */
void fleet_sweep(struct fleet *f, struct agent *a);

#endif
