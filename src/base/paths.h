/*
 * Where things are. Every path of a fleet lies below $AGENT_CAGE_ROOT (empty in production), an absolute path
 * read once by paths_open(). The folders and their owners are in docs/architecture.md.
 */
#ifndef BASE_PATHS_H
#define BASE_PATHS_H

#include "base/err.h"

#include <limits.h>

/* Reads AGENT_CAGE_ROOT; refuses a relative one or one over 200 bytes (socket addresses are short). */
err_t paths_open(void);

/* As above with a value given by hand (rooms that get no environment). "" is production. */
err_t paths_set(const char *root);
const char *paths_root(void);

/* printf into a fresh string below the root: path_of("/run/agent-cage/%s.sock", name). The caller frees. */
char *path_of(const char *fmt, ...) __attribute__((format(printf, 1, 2), malloc, returns_nonnull));

#define DIR_ETC "/etc/agent-cage"
#define DIR_RUN "/run/agent-cage"
#define DIR_LIB "/var/lib/agent-cage"

#define PATH_CONF DIR_ETC "/agent-cage.conf"
#define PATH_WARDEN_SOCKET DIR_RUN "/warden.sock" /* operator → warden; root only */
#define PATH_RELAY_SOCKET DIR_RUN "/relay.sock"   /* terminal front → relay; root only */
#define PATH_FAREWELLS                                                                                       \
    DIR_RUN "/farewells" /* what a warden that ends has to say of sealed sessions, for `down` */
#define PATH_WARDEN_LOCK DIR_RUN "/warden.lock" /* write-locked by the living warden; holds its pid */
#define PATH_LOG DIR_LIB "/warden/fleet.log"

#endif
