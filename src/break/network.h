/*
 * What is done from outside in the network of the cage that is judged: as root by entering its namespace, as an ordinary user by
 * podman, whose user namespace it belongs to.
 */
#ifndef BREAK_NETWORK_H
#define BREAK_NETWORK_H

#include "base/buf.h"
#include "base/err.h"

#include <sys/types.h>

/* The rules there, as `nft -j list ruleset` prints them. */
err_t network_rules(pid_t pid, struct buf *out);

/* The engine's running rooms, a line each: the first process, and behind a blank the ports of this host that lead in. root's engine:
 * an ordinary user's fails, since its rooms' networks are files of the run's own mount namespace. */
err_t network_ports(struct buf *out);

/* An IPv6 address and a default route for a cage that has none, so that what is refused by IPv6 is refused by a rule and not for
 * want of a way. Only for a cage that `break` made itself; its rules stay as they are. */
err_t network_give_six(pid_t pid);

/*
 * One connection from this host to a port on which the cage listens. 0: it was taken, or a packet of it was heard inside, whatever
 * became of the answer; ETIMEDOUT: nothing came back; else what came back. -1: the cage has no address that anybody outside could
 * name, or nobody in it listens, and nothing was sent.
 */
int network_knock(pid_t pid, unsigned port);

#endif
