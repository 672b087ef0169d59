/*
 * The link that this room obeys: the manager's messages, orders and commands come in here, and all that the
 * agent has to say goes out here. Without the link what may be thinned is dropped; the rest is in the journal
 * and the ledger, and is said again on the next link.
 */
#ifndef AGENT_FROM_MANAGER_H
#define AGENT_FROM_MANAGER_H

#include "agent/agent.h"
#include "agent/journal.h"

struct desk *desk_new(struct agent *a);
void desk_free(struct desk *d);

/* Takes fd in place of an older link. Until part_go nothing is read from it. */
void desk_link(struct agent *a, int fd);
void desk_unlink(struct agent *a);

/* After part_go: reads, and says all that the manager may have missed. */
void desk_go(struct agent *a);

void desk_started(struct agent *a, const struct entry *e);
void desk_finished(struct agent *a, const struct entry *e);
void desk_output(struct agent *a, uint64_t id, const char *text,
                 size_t len);                                   /* dropped when the link is full */
void desk_event(struct agent *a, const struct msg *turn_event); /* the same */
bool desk_note(struct agent *a, const char *text); /* false: there is no link, and it was not said */
void desk_exec_end(struct agent *a, uint64_t run, const char *how, int64_t status, const char *text);
void desk_ask(struct agent *a, const struct msg *m); /* a MSG_desk_ask */
void desk_asked(struct agent *a, const struct msg_desk_ask *q, const char *who, uint64_t choice,
                const char *text);
void desk_usage(struct agent *a, const struct msg *m);
void desk_session(struct agent *a, const struct msg_desk_session *session);
void desk_order_end(struct agent *a, uint64_t cookie, int status, const char *text);

bool desk_up(const struct agent *a);

/* Says that a command began; its row has the rest. */
void desk_begin(struct agent *a, const struct msg_desk_row *row);

/* Says the rows of the ledger that were not said yet, as far as the link has room. */
void desk_rows(struct agent *a);

/* Says the agent's state when it differs from what this link heard last. */
void desk_state(struct agent *a);

/* Before an exit. */
void desk_flush(struct agent *a);

#endif
