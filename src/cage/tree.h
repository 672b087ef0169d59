/* What is done to a tree, and what must hold for it, before rooms have it as their root. */
#ifndef CAGE_TREE_H
#define CAGE_TREE_H

#include "base/err.h"

#include <stdbool.h>

enum {
    TREE_VERSION = 2,      /* of what tree_furnish() and tree_disarm() do to a workbench */
    AGENT_TREE_VERSION = 4 /* to the near-empty tree */
};

/* Adds mount points, the empty files that the engine mounts on, and the rooms' accounts; `whole`: to a Debian tree that
 * has its own /etc/passwd. */
err_t tree_furnish(const char *root, bool whole);

/* Adds mount points that a whole tree made by an earlier release has not. */
err_t tree_places(const char *root);

/* Removes set-uid programs (without the bit they could not do their work), takes set-gid bits and file capabilities. */
err_t tree_disarm(const char *root);

/* An error for the first file that tree_disarm() would have changed, for a device, and for what is not root's. */
err_t tree_disarmed(const char *root);

/* /dev, /proc, /sys, /etc, /run of the tree are folders, not links. */
err_t tree_folders_real(const char *root);

#endif
