/* The shim's own small program, carried in our binary (shim/alone/main.c says why) and written out for the rooms. */
#ifndef CAGE_SHIM_FILE_H
#define CAGE_SHIM_FILE_H

#include "base/err.h"

#include <stdbool.h>

/* Absent (NULL) in a test program, which is not linked with shim/alone/image.c. */
extern const char shim_image[] __attribute__((weak)), shim_image_end[] __attribute__((weak));

/* Writes it to `path` (root's, 0755), unless it is there already. *ret_new: it was written. */
err_t shim_file_install(const char *path, bool *ret_new);

#endif
