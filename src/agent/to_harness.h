/* The link that the agent commands: turns of the harness. One at a time. */
#ifndef AGENT_TO_HARNESS_H
#define AGENT_TO_HARNESS_H

#include "agent/agent.h"

struct to_harness *to_harness_new(struct agent *a);
void to_harness_free(struct to_harness *h);

/* Takes fd in place of an older link; a turn that was under way there is lost (turn_lost). */
void to_harness_link(struct agent *a, int fd);

/* Ends the link; the same. The warden makes a new one. */
void to_harness_unlink(struct agent *a);

/* After part_go: reads. */
void to_harness_go(struct agent *a);

/* Says turn_world (model.h) now, or once the turn that is under way is over; the same world is not said twice on one link. */
void to_harness_world(struct agent *a);

/* A turn can be started: the link is there and no turn is under way on it. */
bool to_harness_idle(const struct agent *a);

/*
 * When idle. The harness answers with turn_output() and turn_ended() of this id, or turn_lost(). False: the
 * link was over already and nothing was said; it is not idle any more until the next link.
 */
bool to_harness_start(struct agent *a, uint64_t id, const char *text);
void to_harness_stop(struct agent *a, uint64_t id);

/* To a question of the turn `id`; choice 0: no. */
void to_harness_answer(struct agent *a, uint64_t id, uint64_t question, uint64_t choice);

/* When idle: another conversation is current (sessions.h). */
err_t to_harness_session(struct agent *a);

/* How many programs of the harness run, in a turn or between turns. */
uint64_t to_harness_programs(const struct agent *a);

/* The vendor's log-in in a turn's place; it is idle. to_harness_stop() ends it too. */
void to_harness_login(struct agent *a, uint64_t id);

#endif
