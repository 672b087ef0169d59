/*
 * What a sealed agent's executor reached. The rules in its network namespace remember it, and the engine lets go of the namespace with
 * the room; so the warden holds it while the room lives, and the worker that cleared the room away reads it then and adds it to
 * what the session knows (sealed/session.h).
 *
 * A warden that takes a room over holds its namespace as well. What a room did that ended while there was no warden is not known,
 * and the session knows that.
 */
#ifndef WARDEN_TALLY_H
#define WARDEN_TALLY_H

#include "base/err.h"

#include <stdbool.h>

struct ward;

/* The room was made, or taken over: its namespace is held, if it is one whose figures are told. */
void tally_hold(struct ward *d);

/* worker_ops.keep of the worker that calls tally_keep(). */
int tally_held(const void *ward);

/* In that worker, once nothing of the room is left; whole false: something is, which nobody tries to remove any more. */
err_t tally_keep(const struct ward *d, bool whole);

void tally_let_go(struct ward *d);

#endif
