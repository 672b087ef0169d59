/*
 * Finds one secret text in a stream of bytes, across the borders of its pieces, and puts as many '*' in its place. What
 * could be the beginning of it is held back until the next bytes tell (never more than the text's own length less one).
 * The state is a number: the held bytes are the needle's own, so nothing of the secret is copied.
 */
#ifndef AGENT_GATEWAY_SIFT_H
#define AGENT_GATEWAY_SIFT_H

#include "proto/msg.h"

#include <stdbool.h>
#include <stdint.h>

enum { SIFT_MAX = 16384 }; /* bytes of a needle */

/* What is looked for: made once for each secret. */
struct needle {
    struct bytes text;  /* borrowed; empty: nothing is ever found */
    uint16_t *fallback; /* of Knuth, Morris and Pratt */
};

void needle_init(struct needle *d, struct bytes text);
void needle_free(struct needle *d);

struct sift {
    size_t held;    /* bytes of the needle that may be its beginning */
    uint64_t found; /* how often it was there */
};

/* There is nothing of the needle in p[0..n), and nothing is held: these bytes may be passed on as they are, unfed. */
bool sift_clean(const struct sift *s, const struct needle *d, const char *p, size_t n);

typedef void sift_fn(void *ctx, const char *p, size_t n);

/* Gives what is known to be harmless, in pieces; the needle's own bytes may be given where they turned out to be none of it. */
void sift_feed(struct sift *s, const struct needle *d, const char *p, size_t n, sift_fn *give, void *ctx);

/* The stream is over: gives what was held. */
void sift_end(struct sift *s, const struct needle *d, sift_fn *give, void *ctx);

#endif
