/*
 * The whole output of each turn, a file each: "outputs/ID" in the agent's state folder, at most `cap` bytes
 * and a last line that says what more there was. The oldest ones go when all together are larger than
 * OUTPUTS_TOTAL caps or more than OUTPUTS_FILES. A write that fails (a full disk) ends that file and nothing
 * else.
 */
#ifndef AGENT_OUTPUTS_H
#define AGENT_OUTPUTS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { OUTPUTS_TOTAL = 4, OUTPUTS_FILES = 512, OUTPUTS_NAME_MAX = 32 };

struct outputs;

/* Makes the folder in `home` (a descriptor, not kept). */
err_t outputs_open(int home, uint64_t cap, struct outputs **ret);

/* The file of turn `id` begins, empty; an older one with this id is replaced. Makes room first. */
err_t outputs_begin(struct outputs *o, uint64_t id);

/* Appends to the file that was begun. An error is returned once; from then on bytes are only counted. */
err_t outputs_add(struct outputs *o, const char *p, size_t n);

/* Closes it; without one begun nothing happens. */
void outputs_end(struct outputs *o);

/* "outputs/ID", as a path below the state folder. */
void outputs_name(char out[OUTPUTS_NAME_MAX], uint64_t id);

void outputs_free(struct outputs *o);

#endif
