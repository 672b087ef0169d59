/*
 * Head and tail of a turn's output, in constant memory whatever comes: what the report shows. The whole is
 * in a file (outputs.h).
 */
#ifndef AGENT_EXCERPT_H
#define AGENT_EXCERPT_H

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

/* Three times both (text_clean) and a sentence fit a report of 65536 bytes. */
enum { EXCERPT_HEAD = 8192, EXCERPT_TAIL = 8192 };

/* Zero-initialise to start. */
struct excerpt {
    uint64_t total; /* bytes that came */
    size_t head_len, tail_len;
    char head[EXCERPT_HEAD];
    char tail[2 * EXCERPT_TAIL]; /* the last EXCERPT_TAIL of tail_len count; twice the room, so that moves are
                                    rare */
};

void excerpt_add(struct excerpt *x, const char *p, size_t n);

/* Appends it as TEXT: all of it, or the head, "[N bytes left out]" on a line of its own, and the tail. */
void excerpt_text(const struct excerpt *x, struct buf *out);

#endif
