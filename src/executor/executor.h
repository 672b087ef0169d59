/* What the files of this room share. One of it; everything runs in one loop. */
#ifndef EXECUTOR_EXECUTOR_H
#define EXECUTOR_EXECUTOR_H

#include "part/part.h"

#include <event2/event.h>
#include <stdbool.h>
#include <sys/types.h>

struct run;

struct executor {
    struct event_base *base;
    struct part *part;
    struct trees *trees; /* these four from part_go on */
    struct environ *environ;
    struct survivors *survivors;
    char *project, *outbox;
    struct account *account;
    struct run *runs;       /* oldest first */
    struct shims *shims;    /* from_shim.c */
    struct link *agent;     /* NULL while there is none */
    struct event *stopping; /* set: the room ends */
    bool broken;            /* it could not begin to work */
};

/* Something ended; when the room is to end and nothing is left, its loop does. */
void executor_quiet(struct executor *x);

#endif
