/*
 * A room, made and unmade. The one path that every mode and every test of a pod goes through:
 *
 *   check the spec → write the profile → put the mapped mounts on the stage → podman run → take the stage away
 *   → network rules into its namespace, read back → the room's PID 1 still waits for the warden's word
 *
 * A failure at any step leaves nothing: no container, no mount.
 */
#ifndef CAGE_CAGE_H
#define CAGE_CAGE_H

#include "cage/host.h"
#include "cage/nft.h"
#include "cage/spec.h"

/* A room that runs. */
struct cage {
    pid_t pid;   /* of its PID 1, as the host sees it */
    int pidfd;   /* becomes readable when it ends */
    ino_t netns; /* which network namespace it has */
};

/*
 * dir: podman's start folder and the place of profile and pid file, 0700 root, made if missing. fds:
 * spec->keep of them, seen inside as 3, 4, … The first thing that may tell the room to go on is the caller,
 * after this returned success.
 */
err_t cage_start(const struct cage_spec *s, const struct host *h, const struct nft_place *place,
                 const char *dir, const int *fds, struct cage *ret);

/* Takes over a room that runs already (a restarted warden): its pid and pidfd. The rules are compared again,
 * and set again if they differ. EXIT_NOTFOUND: it does not run. One of another generation is not taken over: it is to be
 * made again. */
err_t cage_adopt(const struct cage_spec *s, const struct host *h, const struct nft_place *place,
                 const char *dir, struct cage *ret);

/* Starts a room without network rules and descriptors, whatever its command does, and removes it: whether this host can
 * make rooms (host.h). */
err_t cage_try(const struct cage_spec *s, const struct host *h, const char *dir);

/* Puts the rules of a room that runs right, after what is local to this host has changed (place.h). Connections that the
 * new rules refuse end; the counters go on. Nothing is done when nothing differs. An error: the rules are not the ones
 * wanted, and the room must be ended. */
err_t cage_refresh(const struct cage_spec *s, const struct cage *c, const struct nft_place *place);

/* Ends it and takes away what it left (container, stage). What is not there is fine. */
err_t cage_stop(const struct cage_spec *s, const struct host *h, const char *dir);
void cage_close(struct cage *c);

#endif
