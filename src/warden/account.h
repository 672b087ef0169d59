/* Processes of accounts: started by number, ended by number. */
#ifndef WARDEN_ACCOUNT_H
#define WARDEN_ACCOUNT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Kills every process that runs as `uid` and waits until none is left (bounded: an error then). kill(2) with -1
 * by a child that became that uid: the kernel picks them in one go, forks included.
 */
err_t account_kill_all(uid_t uid, gid_t gid);

/*
 * Stops every process that runs as `uid` (SIGSTOP, which none can refuse, the first of a pid namespace neither, since it comes from
 * outside; and none of that uid is left that could undo it), or lets them go on. Not while account_kill_all() may be at work there.
 */
err_t account_stop(uid_t uid, gid_t gid, bool stopped);

/* Processes whose real uid it is (zombies are none), and the memory that they hold, shared pages counted in each. */
struct account_use {
    size_t processes;
    uint64_t memory; /* bytes */
};
struct account_use account_use(uid_t uid);

/*
 * Adds to each row's bytes what processes of its uid had written to disks (proc_pid_io(5): when they dirtied them; with those of
 * processes that they waited for): one look at all processes for all rows. It falls when a process goes that nobody waited for.
 */
struct account_written {
    uid_t uid;
    uint64_t bytes;
};
void account_written(struct account_written *rows, size_t n);

/* True when pid runs and its four uids are `uid`. */
bool account_owns(uid_t uid, pid_t pid);

#endif
