/*
 * One question: a front's message made into the manager's, what is kept of it, and what becomes of it when
 * the manager goes away. Pure: no link, no loop.
 */
#ifndef RELAY_QUESTION_H
#define RELAY_QUESTION_H

#include "proto/msg.h"

#include <stdbool.h>

/* What kind of question a front_* message is. */
struct question_kind {
    enum msg_type front, fleet;
    void (*fill)(const struct msg *front, const char *who, struct msg *ret_fleet);
    bool again;       /* may be asked again of a new manager though the old one had it */
    bool stream;      /* rows with rising seq: goes on behind the last one that was shown */
    const char *lost; /* the manager went away with it and it may not be asked again */
};

/* NULL: no question (a hello, a signal). */
const struct question_kind *question_kind(enum msg_type front);

/* The relay_* message that a ret_* one becomes, the struct being the same; MSG_none: none. */
enum msg_type question_answer(enum msg_type ret);

/* Does this answer (ret_*) end its question? */
bool question_ends(enum msg_type ret);

struct question {
    const struct question_kind *kind;
    uint64_t cookie, theirs; /* the router's, the asker's */
    struct asker *asker;
    struct msg kept;       /* the fleet_* message, owned; MSG_none once it is no longer needed */
    bool sent;             /* the manager of now has it */
    bool tried;            /* some manager had it */
    bool answered;         /* something came back */
    bool complete;         /* every row that its limit allows has come; only the end is missing */
    bool paused;           /* its asker has no room: forgotten at the manager, asked again later */
    int64_t until_ns;      /* while not sent and not paused: when waiting is over */
    struct question *next; /* of the same asker */
    struct question *chain;
};

/* A question of `front` (its cookie is `theirs`); what front points to is not kept, its descriptors are
 * duplicated. */
err_t question_new(const struct msg *front, const char *who, struct question **ret);
void question_free(struct question *q);

/* It was sent: drops what is not needed for asking it again. */
void question_sent(struct question *q);

/* An answer came: a stream moves on. */
void question_moves(struct question *q, const struct msg *ret);

/* Can it still be asked of another manager? */
bool question_again(const struct question *q);

#endif
