/*
 * Full disks. No quota exists on a person's file system, so the warden looks every two seconds at the file systems that an
 * agent's programs can fill: its project and its own folders, which the executor's commands write and the harness's program too.
 * Below the fleet's reserve it freezes the agents of whose two rooms one wrote since the last look, below half of it all of them
 * (a mapped or a preallocated file is not seen as written), and says so beside the state; one goes on once there is a tenth more
 * than the reserve. Harness and executor are frozen together: either can have the other write. The agent's room, which runs
 * nothing but our binary, goes on. Who wrote is told by one look at all processes for all agents, and only while less than four
 * reserves are free to one that is not frozen: a hostile executor has many processes.
 */
#ifndef WARDEN_DISK_H
#define WARDEN_DISK_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct box;
struct ward;
struct warden;

void disk_init(struct warden *w);

/* One look at all boxes, as it is taken every two seconds. */
void disk_look(struct warden *w);

/* Stops the harness or executor `x` and all that runs in it, or lets it go on. A bare harness has no control group: its account's
 * processes are stopped (account_stop()). */
err_t disk_freeze(const struct ward *x, bool frozen);

/* A room of it came or went: one that came to a frozen agent is frozen too, and what is frozen must not be stopped or left so. */
void disk_box_changed(struct box *b);

/* What to do with `free` bytes: freeze, go on, or leave as it is (hysteresis). */
enum disk_step { DISK_LEAVE, DISK_FREEZE, DISK_THAW };
enum disk_step disk_step(uint64_t free, uint64_t reserve, bool frozen);

#endif
