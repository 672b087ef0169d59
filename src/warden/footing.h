/* What the warden stands on: the folders that it works in, and what root can lock in. */
#ifndef WARDEN_FOOTING_H
#define WARDEN_FOOTING_H

#include "base/err.h"

/* Root needs its powers; what can be given up is: core files, access through /proc by others, a loose umask. Then the
 * folders, with their owners and modes. */
err_t footing_make(void);

/* At the orderly end: the run folders, which are empty by then. */
void footing_remove(void);

#endif
