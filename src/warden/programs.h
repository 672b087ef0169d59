/*
 * The vendors' programs: fetched from npm once a fleet and version, pinned (programs.def), never run on the host.
 *
 * npm runs as a uid of the agent's own range that no room has, without the packages' scripts, in a folder of its own; then
 * every process of that uid is ended, the tree is made root's, read-only for everybody else, and gets its place by a rename:
 * <harness_dir>/<name>-<version>. The harness room sees that folder read-only as /cage/harness, the one place where it may
 * run what is no part of its image. Nothing updates it but a release with another row in programs.def.
 *
 * A harness that is not in the table (zcode, acp:CMD) gets <harness_dir>/local, if the operator made it: its bin/ is where
 * CMD is looked for before the image's own folders (`npm install --global --prefix <harness_dir>/local …`).
 */
#ifndef WARDEN_PROGRAMS_H
#define WARDEN_PROGRAMS_H

#include "base/conf.h"

/* A line of progress. */
typedef void programs_progress(void *ctx, const char *line);

/*
 * The folder that the harness of this agent needs, fetched when it is not there; *ret NULL: it needs none. Blocks; in a
 * worker. EXIT_NOTFOUND: this host has no npm. The caller frees.
 */
err_t programs_get(const struct conf_fleet *fleet, const struct conf_agent *agent, programs_progress *tell,
                   void *ctx, char **ret);

/* The harness's word as people see it: "claude 2.1.197", "shell". The caller frees. */
char *programs_title(const char *harness);

#endif
