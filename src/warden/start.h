/*
 * How a ward is made, taken over and cleared away. Runs in workers, so it may block; one lock a ward keeps two
 * workers (of two wardens) apart. What is not there is fine to clear.
 *
 *   relay, manager, bare rooms   start_account.c: an account of the host; the harness of a bare box also gets
 *                                namespaces of its own (bare_harness.c)
 *   rooms of a pod               start_pod.c: through cage/, by podman
 */
#ifndef WARDEN_START_H
#define WARDEN_START_H

#include "warden/ward.h"

/* A fresh one. Lines about long steps go to `report` (worker_say). */
err_t start_ward(struct ward *d, struct ward_made *ret, int report);

/* One that lives since before this warden: its pid, and its network rules compared again. */
err_t adopt_ward(struct ward *d, struct ward_made *ret);

/* Puts the network rules of one that runs right, after what is local to this host has changed (cage.h). */
err_t refresh_ward(struct ward *d);

/* Ends what lives of it and removes its mounts, container, groups, sockets; the control socket last. how (NULL: nobody
 * asks): how its first process had ended, where that can still be found out. */
err_t clear_ward(struct ward *d, struct ward_exit *how);

/* The uid of its account or room, as the host's kernel has it. EXIT_NOTFOUND: no such account. */
err_t ward_uid(const struct ward *d, uid_t *ret_uid, gid_t *ret_gid);

/* Each kind of start, for start.c's table. */
err_t account_start(struct ward *d, const int *fds, size_t nfds, struct ward_made *ret);
err_t account_adopt(struct ward *d, struct ward_made *ret);
err_t account_clear(struct ward *d);
err_t pod_start(struct ward *d, const int *fds, size_t nfds, struct ward_made *ret, int report);
err_t pod_adopt(struct ward *d, struct ward_made *ret);
err_t pod_refresh(struct ward *d);
err_t pod_clear(struct ward *d, struct ward_exit *how);

/* The host's file of CA certificates, as configured or where systems keep it; "" when there is none. The caller frees. */
char *ward_ca(const struct ward *d);

#endif
