/*
 * Processes by their parents, read from /proc: what a room has to go by where there are no cgroups. Everything
 * of ours descends from a process that adopts orphans, so "below" misses nothing for longer than one pass.
 */
#ifndef EXECUTOR_SWEEP_H
#define EXECUTOR_SWEEP_H

#include <stddef.h>
#include <sys/types.h>

/* Calls each() for every living descendant of `top` (not top itself, no zombies). Returns how many. */
size_t sweep_list(pid_t top, void (*each)(void *ctx, pid_t pid), void *ctx);

/*
 * Ends all descendants of `top`: stops them, pass after pass, until a pass finds no new one (what is stopped
 * cannot fork), then kills them. Bounded passes; who may still be there is found by the next call.
 */
void sweep_kill(pid_t top);

#endif
