/* The words that the whole tree agrees on: agents' names, modes, rooms, network policies. */
#ifndef BASE_NAMES_H
#define BASE_NAMES_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { AGENT_NAME_MAX = 20 };

/* An agent's name: [a-z][a-z0-9-]{0,19}. Nothing else ever becomes part of a path, an account or an argument.
 */
bool name_ok(const char *name);

/* The one sentence for a bad name, escaped (EXIT_USAGE); NULL for a good one. */
err_t name_check(const char *name);

/* A prefix of account names: "" or [a-z][a-z0-9_-]{0,7}. */
bool prefix_ok(const char *prefix);

enum mode { MODE_POD, MODE_BARE, MODE_SEALED, MODE_COUNT };
enum net {
    NET_OPEN,
    NET_SEALED,
    NET_NONE,
    NET_UPSTREAM,
    NET_COUNT
}; /* upstream: of agent rooms, never asked for */
enum room { ROOM_AGENT, ROOM_HARNESS, ROOM_EXECUTOR, ROOM_COUNT };

const char *mode_name(enum mode mode);
const char *net_name(enum net net);
const char *room_name(enum room room);

/* EXIT_USAGE with the words that there are, when `text` is none of them. */
err_t mode_of(const char *text, enum mode *ret);
err_t net_of(const char *text, enum net *ret);

/*
 * A room's uid: in a pod inside its own uid map; on the host uid_base plus the same number, in both modes.
 * Room for 65536 ids lies between one agent's uid_base and the next.
 */
uint32_t room_uid(enum room room); /* 50000, 55000, 60000 */
enum { UIDS_EACH = 65536 };

/* What follows "<prefix>cage-NAME" in a bare room's account: "", "_h", "_x". */
const char *room_suffix(enum room room);

#endif
