/*
 * Files to an agent's in-tray and from its outbox. Only a pipe is given to the fleet, never a file of this machine, and never
 * the other way round: this program copies between the two.
 */
#ifndef CLI_FILES_H
#define CLI_FILES_H

#include "cli/client.h"

/* Sends the regular file `path` under its own last name. *ret_place: where the agent's rooms see it; the caller frees. */
err_t files_put(const char *agent, const char *path, char **ret_place);

/*
 * Fetches `name` from the agent's outbox into the file `to`, which must not exist ("-": standard output). A file that did not
 * come whole is removed again.
 */
err_t files_get(const char *agent, const char *name, const char *to);

#endif
