/*
 * What the agent remembers of messages through a kill, an out-of-memory or a power cut: which were started,
 * how they ended, what the manager has kept. Three of delivery's commit points are here
 * (docs/architecture.md):
 *
 *   C2  journal_start   durable before anything is done for the message
 *   C3  journal_finish  durable before its end is said to the manager
 *   C5  journal_settle  the manager has stored the end (C4): its report may go
 *
 * The file "journal" of the state folder is a head and then records: length, CRC-32, body (little-endian).
 * Records are only appended; each is one write and one fdatasync. Reading stops at the first record that is
 * short or has a wrong CRC: a kill in the middle of a write leaves at most one, at the end, and it is cut
 * off. When most of the file is settled it is written anew beside itself and renamed.
 */
#ifndef AGENT_JOURNAL_H
#define AGENT_JOURNAL_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct journal;

enum outcome { OUTCOME_DONE, OUTCOME_REFUSED, OUTCOME_UNKNOWN, OUTCOME_COUNT };
const char *outcome_name(enum outcome o); /* "done", "refused", "unknown": the protocol's words */
bool outcome_of(const char *name, enum outcome *ret);

enum entry_state { ENTRY_STARTED, ENTRY_FINISHED, ENTRY_SETTLED };

/* How a message ended. text and output are TEXT. */
struct ending {
    enum outcome outcome;
    int64_t status;
    uint64_t span_ms;
    const char *text, *output;
    uint64_t tokens, tools; /* what the turn used; how many tool calls it had */
};

struct entry {
    uint64_t id;
    enum entry_state state;
    char *who;
    uint64_t start_wall_ms;
    struct ending end;   /* from ENTRY_FINISHED on; text is "" once settled */
    char *text, *output; /* what end points to */
    struct entry *next;
};

enum {
    JOURNAL_SETTLED_KEPT =
        64, /* settled entries that are remembered: whose commands their late audit rows are */
    JOURNAL_COMPACT_OVER = 1 << 20 /* bytes of file from which it may be written anew */
};

/*
 * Opens or makes it and reads it back. Exactly one process may have it (flock); a second is an error. `home`
 * is not kept. A file that is not a journal is an error.
 */
err_t journal_open(int home, struct journal **ret);

/* Errors mean: not durable. The entry is not there (start), or is kept in memory alone (finish, settle). */
err_t journal_start(struct journal *j, uint64_t id, const char *who, uint64_t wall_ms);
err_t journal_finish(struct journal *j, uint64_t id, const struct ending *end);
err_t journal_settle(struct journal *j, uint64_t id);

/*
 * A message that was refused before it was started and whose start could not be written: remembered in memory
 * alone, so that its end is said until settled. It was never done, so a restart that forgets it may take it
 * again.
 */
void journal_refuse(struct journal *j, uint64_t id, const char *who, uint64_t wall_ms,
                    const struct ending *end);

/* NULL when there is none. */
const struct entry *journal_find(const struct journal *j, uint64_t id);

/* In the order of their start; settled ones too. NULL: none. */
const struct entry *journal_first(const struct journal *j);

/* How many are finished and not settled. */
size_t journal_untold(const struct journal *j);

void journal_free(struct journal *j);

#endif
