/*
 * The link that this room obeys: one turn at a time, passed to the harness.
 *
 *              start        stop        session    link lost    new link    harness said its end
 *   IDLE       BUSY         -           pass it    -            read it     (cannot be)
 *   BUSY       (refused     stop it     (refused   stop: ENDING the same    say it: IDLE
 *              by links.def)            by links.def)
 *   ENDING     (not read)   (not read)  (not read) -            hold it     IDLE, read the link
 *
 * A log-in (login.h) takes the place of a turn, and is BUSY and stopped as one.
 *
 *   ENDING: the agent that had asked is gone; its turn is being ended, and a new link is not read until it
 * has.
 */
#ifndef HARNESS_FROM_AGENT_H
#define HARNESS_FROM_AGENT_H

#include "harness/harness.h"
#include "harness/login.h"
#include "part/part.h"

extern const struct login_ops from_agent_login_ops; /* ctx: the struct from_agent */

struct from_agent *from_agent_new(struct event_base *base);
void from_agent_free(struct from_agent *up);

/* What the agent said of the model, from the start on; kept up to date. */
const struct world *from_agent_world(const struct from_agent *up);

/* Takes fd in place of an older link. */
void from_agent_link(struct from_agent *up, int fd);
void from_agent_unlink(struct from_agent *up);

/* A child of the room ended: the log-in's? */
void from_agent_exited(struct from_agent *up, pid_t pid, int status);

/* After part_go: turns go to this harness from now on; before, the link is not read. part is told of a lost
 * link. */
void from_agent_go(struct from_agent *up, struct part *part, const struct harness *harness, void *h,
                   struct login *login);

#endif
