/*
 * The heads of the audit chain, kept where the manager cannot reach: one line "SEQ HASH WALL_MS"
 * (decimal, 64 hexadecimal digits, decimal) each. The number may only rise. So a manager that rewrites its rows is seen by
 * `log --verify`, which compares them with these. Over 1 MiB every second line goes, never the last.
 */
#ifndef WARDEN_HEADS_H
#define WARDEN_HEADS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define PATH_HEADS DIR_LIB "/warden/audit-heads"

/* Opens the file and reads the last head. */
err_t heads_open(void);

/* EXIT_POLICY when seq does not rise (the same head again is fine), EXIT_USAGE when the hash is not 32 bytes. */
err_t heads_keep(uint64_t seq, const void *hash, size_t n);

void heads_close(void);

#endif
