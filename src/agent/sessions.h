/*
 * The agent's conversations. One is current: what is said to the agent goes on in it; the others can be taken up again. The
 * vendor's own name for each is the harness room's to keep (harness/session.h), by the number that is given here. Kept in the
 * file "sessions" of the state folder; of the oldest, beyond SESSIONS_MAX, nothing is kept.
 */
#ifndef AGENT_SESSIONS_H
#define AGENT_SESSIONS_H

#include "agent/agent.h"
#include "base/err.h"

enum { SESSIONS_MAX = 32, SESSION_NAME_MAX = 64 };

struct sessions;

/* home: the state folder. A file that cannot be read right is as if it were not there. */
struct sessions *sessions_open(struct agent *a, const char *home);
void sessions_free(struct sessions *s);

uint64_t sessions_current(const struct sessions *s);

/* What its turns used, by the gateway's count. */
uint64_t sessions_tokens(const struct sessions *s);

/* A new one becomes the current. name "": none. EXIT_USAGE: no name for people. */
err_t sessions_begin(struct sessions *s, const char *name);

/* The one with this number or, the last used, with this name. EXIT_NOTFOUND. */
err_t sessions_resume(struct sessions *s, const char *which);

/* A turn of the current one. */
void sessions_turn_begins(struct sessions *s);      /* kept at once, so before the harness has its text */
void sessions_turn_never_began(struct sessions *s); /* the harness did not take it */
void sessions_turn_ended(struct sessions *s);

/* desk_session for each, the last used first, then desk_order_end. */
void sessions_say(struct sessions *s, uint64_t cookie);

#endif
