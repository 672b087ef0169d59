/* The project folder: looked at once, pinned, and only ever used through that descriptor. */
#ifndef CAGE_PROJECT_H
#define CAGE_PROJECT_H

#include "base/err.h"
#include "base/names.h"

#include <sys/types.h>

struct project {
    int fd; /* O_PATH; project_close() */
    uid_t uid;
    gid_t gid;
    char warning[256]; /* a sentence for the person, "" when there is nothing to say */
};

/*
 * Opens and checks `path` for a cage of this mode: it must be absolute, without links on its way, a folder,
 * not a system folder (/, /etc, /usr …; nor $AGENT_CAGE_ROOT's own). A folder owned by root is a warning
 * (pod, bare) or refused (sealed). Sealed also refuses, by inode, whatever the spelling, a home folder, what
 * is above one, such a home's .ssh, .gnupg, .aws, .config/gh or .claude, what is in them, and any folder that holds
 * one of that name.
 */
err_t project_open(const char *path, enum mode mode, struct project *ret);

/* One that a cage of this mode has had: a private folder that is in it now (.ssh …) the cage made itself, and it blocks
 * nothing. All else is checked as above. */
err_t project_again(const char *path, enum mode mode, struct project *ret);
void project_close(struct project *p);

#endif
