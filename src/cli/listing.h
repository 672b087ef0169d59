/* A folder that others filled, as lines: what each entry is, its size, its name escaped. No link is followed, nothing opened but folders. */
#ifndef CLI_LISTING_H
#define CLI_LISTING_H

#include "base/err.h"

/* Prints what is below the folder; what was not looked into is said on standard error. */
err_t listing_print(int folder);

#endif
