/*
 * Messages, one at a time: from delivered to told. Each ends in one of three ways and is never run twice.
 *
 *   done      the harness said how it ended (also when it was stopped)
 *   refused   it was not run: the harness, or a full disk, refused it
 *   unknown   it was started, and nobody can say how far it came: the agent or the harness ended in the
 * middle
 *
 *              output, event   ended       lost        order       late
 *   NONE       -               -           -           do it       -
 *   RUNNING    keep it         finish      unknown     stop        -
 *   STOPPING   keep it         finish      unknown     wait        unknown, and the harness's link is made anew
 *
 *   NONE      nothing is under way. May start the next message when both links stand, no more than
 * TURN_UNTOLD_MAX ends are untold, and no order waits. Must not listen to a harness. RUNNING   C2 is written,
 * the harness has the text. Must not start another. STOPPING  the harness and the executor were told to end
 * it; TURN_STOP_MS from then it is over in any case.
 */
#ifndef AGENT_TURN_H
#define AGENT_TURN_H

#include "agent/agent.h"
#include "proto/msg.h"

#include <stddef.h>

enum { TURN_UNTOLD_MAX = 32, TURN_STOP_MS = 1900, TURN_ORDERS_MAX = 16 };

struct turn;

/*
 * `home` is the state folder (a descriptor, not kept). a->journal is there; what it has as started and not
 * finished ends as unknown here.
 */
err_t turn_open(struct agent *a, int home, uint64_t output_max, struct turn **ret);
void turn_free(struct turn *t);

/* A message of the manager. One that is known already is answered with what is known of it. */
void turn_deliver(struct turn *t, uint64_t id, const char *who, const char *text);

/*
 * halt: end the turn and every command. fresh: that, and begin a new session (arg: its name); resume: that, and take up the
 * session that arg names. Answered by desk_order_end.
 */
enum order { ORDER_HALT, ORDER_FRESH, ORDER_RESUME };
void turn_order(struct turn *t, enum order order, uint64_t cookie, const char *arg);

/* An order to begin or take up a session waits for the turn's end. */
bool turn_changes_session(const struct turn *t);

/* The part ends: no message is started any more, the one under way is stopped; then agent_quiet(). */
void turn_leave(struct turn *t);

/* Of the harness. */
void turn_output(struct turn *t, uint64_t id, const char *p, size_t n);
void turn_event(struct turn *t, const struct msg *m); /* a MSG_turn_event */
void turn_asks(struct turn *t,
               const struct msg *m); /* a MSG_turn_ask; in a turn that is being stopped the answer is no */
void turn_ended(struct turn *t, uint64_t id, const char *outcome, int64_t status, const char *text);
void turn_lost(struct turn *t);

/* Of the executor: a command of the harness began in the turn of message `id`. */
void turn_ran(struct turn *t, uint64_t id, uint64_t row, const struct list *argv);

/* Starts the next message if it may: called when something that it waits for came. */
void turn_pump(struct turn *t);
bool turn_running(const struct turn *t);

/* The message in whose turn a command began that the harness started then: its id, and *ret_who (the
 * journal's). 0: none. */
uint64_t turn_of(const struct turn *t, uint64_t wall_ms, const char **ret_who);

#endif
