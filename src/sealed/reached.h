/*
 * Whom hostile code turned to, how often, how much went out and came back, and how much was refused: what the sealed rules of a
 * room's network have counted (cage/nft.h). Of one room, or of all rooms of a session, one behind the other.
 */
#ifndef SEALED_REACHED_H
#define SEALED_REACHED_H

#include "base/buf.h"
#include "cage/nft.h"

#include <stdbool.h>

enum { REACHED_MAX = 2 * NFT_REACHED_MAX };

/* In packets and bytes. */
struct reached {
    uint64_t sent, sent_bytes, came, came_bytes, refused, refused_bytes;
    bool gaps;              /* it is not all: what a room did is not known */
    struct nft_reached *to; /* owned; the most used first, at most REACHED_MAX */
    size_t nto;
};

/* Of the room whose network namespace this is; it may have ended. */
err_t reached_count(int netns, struct reached *ret);

/* Adds another room's; of more than REACHED_MAX the least used are forgotten. */
void reached_add(struct reached *r, const struct reached *more);

/* As a file of root's, and back. EXIT_NOTFOUND: there is none. */
err_t reached_keep(const struct reached *r, const char *path);
err_t reached_recall(const char *path, struct reached *ret);

/* As lines for a person; `shown` of whom it turned to. */
void reached_say(const struct reached *r, size_t shown, struct buf *out);

void reached_free(struct reached *r);
#define own_reached __attribute__((cleanup(reached_free)))

#endif
