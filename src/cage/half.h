/*
 * Trees that are made in a folder beside their place, as ".new-<number>", by whoever has its ".lock", and renamed when they are
 * whole. What is still called so while nobody has the lock was left by somebody who was killed.
 */
#ifndef CAGE_HALF_H
#define CAGE_HALF_H

#include "base/err.h"
#include "cage/words.h"

/* The folder's ".lock", waited for; closing *ret_fd lets go. */
err_t half_lock(const char *dir, int *ret_fd);

/* Adds their paths; none while something is being made there, or where nothing ever was. */
void half_left(const char *dir, struct words *ret);

/* Removes one of them, unless something is being made there (EXIT_POLICY). */
err_t half_remove(const char *dir, const char *path);

/* Removes them all, for who has the lock; how many went. One that stays is no error: the next who has it tries again. */
size_t half_sweep(const char *dir);

#endif
