/* A secret out of a file, or out of standard input. */
#ifndef CLI_SECRET_H
#define CLI_SECRET_H

#include "base/err.h"

#include <stdbool.h>

/* Up to the end of the file, or of the line when a person types it. Fewer than `size` bytes, else an error that quotes nothing. */
err_t secret_take(int fd, bool a_line, char *room, size_t size, size_t *ret);

/* path "-": standard input. */
err_t secret_read(const char *path, char *room, size_t size, size_t *ret);

#endif
