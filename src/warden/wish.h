/* What the operator wants of each agent (started or stopped), kept in a file each so that it outlives everything. */
#ifndef WARDEN_WISH_H
#define WARDEN_WISH_H

#include "base/err.h"

#include <stdbool.h>

/* True for one that was never told anything. */
bool wish_read(const char *name);
err_t wish_write(const char *name, bool started);
err_t wish_forget(const char *name);

#endif
