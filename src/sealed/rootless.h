/*
 * One-shot runs of an ordinary user. Two processes:
 *
 *   the caller   the person's own process. Checks what the host must have, then becomes the parent of …
 *   the inner    … the same program inside `podman unshare`: uid 0 of the user namespace that podman made from the person's
 *                subuid range, which may mount, enter the rooms' network namespaces and load rules there, and is nobody
 *                special outside. From here on it is the same code as root's.
 *
 * The caller holds one end of a socket pair, the inner the other: a byte there is a signal for the inner, and the end of it
 * is the end of the cage. So a caller that is killed takes the cage with it.
 */
#ifndef SEALED_ROOTLESS_H
#define SEALED_ROOTLESS_H

#include "base/err.h"

#include <stdbool.h>

/* Are we an ordinary user who is not yet inside? */
bool rootless_outside(void);

/* Runs this program with the same words inside, and waits; *ret_status: its exit status. */
err_t rootless_enter(int argc, char *const *argv, int *ret_status);

/* In the inner, first of all: its own mount namespace (mounts of a run that is killed go with it), the descriptor whose
 * bytes are signals (-1: we are root), and the environment that podman needs. */
err_t rootless_inside(int *ret_leash);

#endif
