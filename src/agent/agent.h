/* What the files of this room share. */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "part/part.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

struct agent {
    struct event_base *base;
    struct part *part;
    bool gone;               /* part_go came: what is below is there, links are read */
    struct journal *journal; /* journal.h */
    struct turn *turn;       /* turn.h */
    struct ledger *ledger;   /* ledger.h */
    struct ledger
        *begun; /* commands that run: each as the row that it gets when its executor ends before it does */
    uint64_t first_row;          /* of the executor that is linked, or was last; 0: none yet */
    struct event *leaving;       /* set: the part ends, once its rows are kept */
    char *login;                 /* the strip's line about the credential; "" until part_go */
    struct model *model;         /* model.h; NULL: an agent without one */
    struct questions *questions; /* questions.h */
    struct sessions *sessions;   /* sessions.h */
    struct signin *signin;       /* signin.h */
    struct witness *witness;     /* witness.h */
    struct token_box *token_box; /* token_box.h; NULL: it takes no credential */
    struct intray *intray;       /* intray.h */
    struct desk *desk;           /* from_manager.h */
    struct to_harness *harness;
    struct to_executor *executor;
};

/* A turn ended, or a row is kept: when the part is to end and has told all rows, its loop does. */
void agent_quiet(struct agent *a);

#endif
