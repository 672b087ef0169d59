/*
 * What a host must have before a warden can start: the fleet's folders and accounts, the binary at its place, the
 * workbench image, a container runtime that works. Each step is done only if it is not done yet, so a second `up`
 * costs nothing; what takes longer than a second is told line by line.
 */
#ifndef UP_PREPARE_H
#define UP_PREPARE_H

#include "base/err.h"

struct host;

/* One line for the person. */
typedef void prepare_say(void *ctx, const char *line);

/* EXIT_POLICY when not root. */
err_t prepare(prepare_say *say, void *ctx);

/* Do all folders of this path (up to its last slash) let every account through, and is none somebody's who is not root, or to
 * be changed by such? Else EXIT_POLICY. */
err_t prepare_way(const char *path);

/* The runtime that was found to work here, into h->runtime; left alone when none was found yet. For the warden. */
void prepare_runtime(struct host *h);
#define PATH_RUNTIME DIR_RUN "/runtime"

#endif
