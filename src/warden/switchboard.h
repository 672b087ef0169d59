/*
 * The switchboard: makes each link of links.def as a connected pair and hands its ends to their owners, once
 * both are up; again when either was started anew or says that the link is lost (at most once a second). After
 * the warden's own restart the links that still stand are left alone: the obeyer's hello says which.
 *
 * There is no other way for two parts to get a link, and rows of the table whose `made` is SOCKET are never made.
 * The manager gets its link to an agent when all three rooms of it are ready, so no message meets half a cage.
 */
#ifndef WARDEN_SWITCHBOARD_H
#define WARDEN_SWITCHBOARD_H

#include "proto/links.h"

#include <stdbool.h>
#include <stdint.h>

struct ward;
struct warden;

/* One link: of the fleet, or of one box. */
struct pair {
    bool made;
    int64_t due_ms; /* monotonic: not made again before */
};

void switchboard_init(struct warden *w);

/* The ward said hello; it is asked which links it brought, then what can be made is made. */
void switchboard_up(struct ward *d);

/* The ward is going away: its links end with it. */
void switchboard_down(struct ward *d);

/* One end says that a link is over. */
void switchboard_lost(struct ward *d, enum link_id link, const char *peer);

/* Makes what can be made now. Also called when a box became running. */
void switchboard_settle(struct warden *w);

#endif
