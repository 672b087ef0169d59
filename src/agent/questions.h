/*
 * What the harness asks a person, while its turn runs. The agent gives each question a number of its own and a digest of
 * exactly what is shown (proto/ask_digest.h); an answer is taken when it names both, once, in time. Everything else is no:
 *
 *   answered    the choice goes to the harness; a note that is kept says who chose what
 *   nobody      no front reads this agent's events (the manager says so), or none answered in time: no, with a note
 *   over        the turn ended or was stopped: nothing goes to the harness any more
 *   too many    QUESTIONS_MAX are open: no, with a note
 */
#ifndef AGENT_QUESTIONS_H
#define AGENT_QUESTIONS_H

#include "agent/agent.h"
#include "proto/msg.h"

enum { QUESTIONS_MAX = 8 };

struct questions;

/* wait_ms: how long one is open. */
struct questions *questions_new(struct agent *a, uint64_t wait_ms);
void questions_free(struct questions *q);

void questions_ask(struct questions *q, const struct msg_turn_ask *m);

/* Answered by desk_order_end of its cookie. */
void questions_answer(struct questions *q, const struct msg_desk_answer *m);

void questions_over(struct questions *q, const char *why);

/* A new link to the manager: the open ones again. */
void questions_say(struct questions *q);

#endif
