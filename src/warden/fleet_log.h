/* The fleet's log: what the warden and every part say, a line each, in var/lib/agent-cage/warden/fleet.log. At
 * FLEET_LOG_MAX bytes it becomes fleet.log.1 and a new one begins, so no part can fill the disk by talking. */
#ifndef WARDEN_FLEET_LOG_H
#define WARDEN_FLEET_LOG_H

#include "base/err.h"

enum { FLEET_LOG_MAX = 16 << 20 };

/* Log lines go there from now on. */
err_t fleet_log_open(void);

#endif
