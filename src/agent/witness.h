/*
 * Two witnesses of what ran in a turn: the harness, by its tool calls, and the executor, by its account. The harness can lie,
 * the executor cannot be asked to; where they differ somebody should look.
 *
 *   never ran   a tool call that ended well is said to have run a command that the executor knows nothing of
 *   not told    the executor ran a shell's command that no tool call tells of, or a program that no shim is called as
 *
 * A command is compared as its letters, without blanks, quotes and backslashes, because each harness wraps it in a shell's words of its
 * own. What a vendor's program runs for itself at its start is known (housekeeping.def) and counts as told, a few times a turn;
 * so does git. The audit log has every row whatever is judged here.
 */
#ifndef AGENT_WITNESS_H
#define AGENT_WITNESS_H

#include "base/buf.h"
#include "proto/msg.h"

enum { WITNESS_BYTES = 16 << 20, WITNESS_ROWS = 2000, WITNESS_SHOWN = 3, HOUSEKEEPING_MAX = 4 };

struct witness;

/* harness: the word of part_go. For "shell" nothing is compared: there the message is the command. */
struct witness *witness_new(const char *harness);
void witness_free(struct witness *w);

/* A turn begins. */
void witness_begin(struct witness *w);

/* Of the harness: a tool_start or tool_end; others are passed over. */
void witness_tool(struct witness *w, const struct msg_turn_event *e);

/* Of the executor: a command of the harness began in this turn. The same row may come twice. */
void witness_ran(struct witness *w, uint64_t row, const struct list *argv);

/* Appends one sentence: what differs, or that more came than can be compared. Else nothing. */
void witness_judge(struct witness *w, struct buf *out);

#endif
