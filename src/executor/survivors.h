/* What commands left running when they ended: kept, listed for `status`, ended with `stop`. */
#ifndef EXECUTOR_SURVIVORS_H
#define EXECUTOR_SURVIVORS_H

#include "executor/tree.h"
#include "wire/link.h"

#include <stdbool.h>

struct survivors;

/* on_none is called whenever the last tree became empty. */
struct survivors *survivors_new(struct event_base *base, void (*on_none)(void *ctx), void *ctx);

/* Takes a tree whose main process was reaped, or is about to be; an empty one is freed. */
void survivors_take(struct survivors *s, struct tree *t);

void survivors_kill(struct survivors *s);
void survivors_terminate(struct survivors *s);
bool survivors_none(const struct survivors *s);

/* Where ran_survivors goes from now on (NULL: nowhere); said at once, and when it changed. */
void survivors_link(struct survivors *s, struct link *l);

#endif
