/*
 * A harness's program and its commands both see the project and the scratch folder. At a socket with a name there the two could
 * meet and pass descriptors, which no filter of calls refuses alone: the harness room would have the executor's network, a command
 * the gateway. In a sealed agent both are hostile, so neither room makes a socket there (Landlock): each only where it
 * is alone (home, /tmp, /var/tmp, /run, /dev/shm), and only if that is another mount, from which nothing is renamed into the shared ones.
 *
 * Not for `shell`, which has no program of its own. Not in an ordinary pod, whose commands may mount in user namespaces of their
 * own (bwrap), which nobody can under Landlock; nor in bare, where home and project may be one mount.
 */
#ifndef PART_APART_H
#define PART_APART_H

#include "proto/msg.h"

/* Is it such an agent's room? */
bool apart(const struct msg_part_go *go);

/* In a harness room or an executor that was told to go, before it starts anything. Does nothing where apart() says no; an error,
 * also of a kernel that cannot, must end the room. */
err_t apart_sockets(const struct msg_part_go *go);

/* The executor's TMPDIR, where programs make sockets: the scratch folder, or, where that takes none, `.tmp` in the home, which is made.
 * The caller frees. */
err_t apart_tmpdir(const struct msg_part_go *go, char **ret);

#endif
