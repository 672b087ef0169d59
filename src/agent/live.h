/*
 * A running turn's output as it comes, thinned for people: at most one piece in LIVE_EVERY_MS, each at most
 * LIVE_MAX bytes of TEXT, the newest bytes of it; what was passed over is counted in front. Constant memory.
 */
#ifndef AGENT_LIVE_H
#define AGENT_LIVE_H

#include <event2/event.h>
#include <stddef.h>

enum { LIVE_EVERY_MS = 250, LIVE_MAX = 4096 };

struct live;

/* say: called from the loop with one piece, NUL-terminated. */
struct live *live_new(struct event_base *base, void (*say)(void *ctx, const char *text, size_t len),
                      void *ctx);
void live_add(struct live *l, const char *p, size_t n);

/* The turn is over: what was not said yet is forgotten, since the report has it. */
void live_end(struct live *l);
void live_free(struct live *l);

#endif
