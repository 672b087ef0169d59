/* The journal's records as bytes; the format is the agent's own and does not move with the protocol. */
#ifndef AGENT_RECORD_H
#define AGENT_RECORD_H

#include "agent/journal.h"
#include "base/buf.h"

enum record_kind { RECORD_STARTED = 1, RECORD_FINISHED, RECORD_SETTLED, RECORD_KINDS };

struct record {
    enum record_kind kind;
    uint64_t id;
    const char *who;   /* started */
    uint64_t wall_ms;  /* started */
    struct ending end; /* finished */
    char *text[3];     /* record_get: the strings that the fields point to, owned */
};

/* The file's first bytes: what it is and its version. */
void record_head(struct buf *out);
size_t record_head_size(void);
bool record_is_head(const char *p);

void record_put(struct buf *out, const struct record *r);

/*
 * Reads the record at p into *ret, whose older strings are freed first (zero-initialise it). Returns its
 * size, or 0 when there is no whole, right one: the end, a torn write, or garbage.
 */
size_t record_get(const char *p, size_t n, struct record *ret);
void record_free(struct record *r);

#endif
