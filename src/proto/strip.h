/*
 * The state strip: what is known of an agent, as the few lines that every front shows (the terminal as they are, a chat
 * pinned). Pure: the numbers of a status in, text out. What comes from elsewhere (why, names of survivors) is escaped here.
 */
#ifndef PROTO_STRIP_H
#define PROTO_STRIP_H

#include "base/buf.h"
#include "proto/msg.h"

enum { STRIP_SIZE_MAX = 24 };

/* The agent's lines; now_wall_ms is what "ago" counts from. Each line ends with a newline. */
void strip_agent(struct buf *out, const struct msg_relay_status *s, int64_t now_wall_ms);

/*
 * Its line about what its model used, and about the budget: "▪ model: 1.2M of 5M tok this day · 340.5k tok this session". Nothing
 * for an agent that used none and has no budget. Part of strip_agent().
 */
void strip_budget(struct buf *out, const struct msg_relay_status *s);

/* "512", "10685.0k", "12.3M" tokens. */
void strip_tokens(char out[STRIP_SIZE_MAX], uint64_t tokens);

/* The host's two lines. */
void strip_host(struct buf *out, const struct msg_relay_status *s);

/* "6.5G", "512M", "4.0K", "17B". */
void strip_size(char out[STRIP_SIZE_MAX], uint64_t bytes);

#endif
