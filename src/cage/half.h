/*
 * Trees that are made in a folder beside their place, as ".new-<number>", by whoever has its ".lock", and renamed when they are
 * whole. What is still called so while nobody has the lock was left by somebody who was killed.
 */
#ifndef CAGE_HALF_H
#define CAGE_HALF_H

#include "base/err.h"
#include "cage/words.h"

#include <sys/types.h>

/* The folder's ".lock", waited for; closing *ret_fd lets go. */
err_t half_lock(const char *dir, int *ret_fd);

/* It is held: by the process that makes something there, or 0 if that cannot be said. */
typedef void half_waits(void *ctx, pid_t maker);

/*
 * The same, but the wait ends once `stop` is readable: then nothing is locked and *ret_fd stays as it was, without an error. waits
 * is called once, when there is a wait at all.
 */
err_t half_lock_until(const char *dir, int stop, half_waits *waits, void *ctx, int *ret_fd);

/* Adds their paths; none while something is being made there, or where nothing ever was. */
void half_left(const char *dir, struct words *ret);

/* Removes one of them, unless something is being made there (EXIT_POLICY). */
err_t half_remove(const char *dir, const char *path);

/* Removes them all, for who has the lock; how many went. One that stays is no error: the next who has it tries again. */
size_t half_sweep(const char *dir);

#endif
