/*
 * The link that the agent commands: its own commands in the executor (`exec`), the end of everything there,
 * and the account of all that ran.
 */
#ifndef AGENT_TO_EXECUTOR_H
#define AGENT_TO_EXECUTOR_H

#include "agent/agent.h"

struct to_executor *to_executor_new(struct agent *a);
void to_executor_free(struct to_executor *x);

/* Takes fd in place of an older link, or ends it; commands that were started there are said to have failed.
 */
void to_executor_link(struct agent *a, int fd);
void to_executor_unlink(struct agent *a);

/*
 * At part_go: when the last command began is kept in the file "last-command" of `home` (a descriptor, not kept), so that the
 * strip is right after a restart too.
 */
void to_executor_open(struct agent *a, int home);

/* The part ends: when the executor has ended before it, what it left untold is unknown. */
void to_executor_leave(struct agent *a);

/* After part_go: reads. */
void to_executor_go(struct agent *a);
/* Hears what the executor has told by now. Not inside a handler of its link. */
void to_executor_hear(struct agent *a);

/* A row of the audit log that is no command: the two witnesses of message `id` differ. */
void to_executor_flag(struct agent *a, const char *text, uint64_t id);

bool to_executor_up(const struct agent *a);

/* desk is a desk_exec with its three descriptors: passed on, answered by desk_exec_end. */
void to_executor_run(struct agent *a, const struct msg *desk);
/* Fetches a file of the outbox (desk_get); answered by desk_order_end, and told in the chat. */
void to_executor_get(struct agent *a, const struct msg *desk);

void to_executor_signal(struct agent *a, uint64_t run, uint64_t signo);

/* Ends every command there is, also those left in the background. */
void to_executor_halt(struct agent *a);

/* Ends the commands that to_executor_run started. */
void to_executor_end_runs(struct agent *a);

/* The manager has stored this row; the executor may forget it. Reads on when the ledger has room again. */
void to_executor_settle(struct agent *a, uint64_t row);

/* Fills the executor's fields of a desk_state. What it points to lives until the next event. */
void to_executor_state(const struct agent *a, struct msg *state);

#endif
