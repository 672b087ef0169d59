/* Kinds of descriptors that a command of the harness room may come with: the shim passes these, the executor takes no other. */
#ifndef BASE_FD_KIND_H
#define BASE_FD_KIND_H

#include <stdbool.h>
#include <sys/stat.h>

/*
 * A pipe, /dev/null, the slave of a pty, a file with a name (a memfd has none) that is open for writing alone. No socket: who
 * holds an end of one can hand over any descriptor. flags: F_GETFL.
 */
bool fd_kind_passes(const struct stat *st, int flags);

#endif
