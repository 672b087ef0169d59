/* An outbox as one tar file (POSIX ustar). */
#ifndef SEALED_PACK_H
#define SEALED_PACK_H

#include "sealed/collector.h"

/*
 * Writes every regular file of the folder `box` to the descriptor `to`, under names that do no harm where they are unpacked:
 * relative, no "..", no control bytes, no bytes that are not UTF-8, no part that begins with '-' or '.', none that is too
 * long, each once. Owner, mode and time are fixed, so nothing of them comes out. Whatever is no plain file is left out and
 * said, as is every name that had to be changed.
 */
err_t pack_tar(int box, int to, struct buf *said);

/* The harmless name of a path; *ret_changed: it differs. The caller frees. */
char *pack_name(const char *path, bool *ret_changed);

#endif
