/*
 * Which variables of the harness's environment a command sees: those on a list, nothing else. So a credential,
 * whatever its name will be, does not pass; PATH, HOME, TMPDIR and the like are the executor's own.
 */
#ifndef SHIM_ENVIRON_H
#define SHIM_ENVIRON_H

#include "proto/msg.h"

enum { ENVIRON_MAX = 1024 };

/* The allowed lines of env (NULL-ended) into v; returns how many. Lines beyond ENVIRON_MAX, and one that is
 * longer than 64 KiB, are left out. */
size_t environ_allowed(char *const *env, struct bytes v[ENVIRON_MAX]);

#endif
