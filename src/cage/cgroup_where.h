/* Where a process's group of one controller is in the file system. For cgroup.c and cgroup_use.c. */
#ifndef CAGE_CGROUP_WHERE_H
#define CAGE_CGROUP_WHERE_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

/* The folder of pid's group: of the v1 hierarchy with this controller, or (NULL) of the v2 one; `sys` before it. The
 * caller frees; NULL: there is no such hierarchy, process or folder to be seen. */
char *cgroup_where(const char *sys, pid_t pid, const char *controller);

/* As above without the folder: the path that /proc/PID/cgroup tells. */
char *cgroup_path(const char *sys, pid_t pid, const char *controller);

/* Mounted hierarchies: the v2 one's place ("" for none), and whether a controller lies in a v1 one. */
err_t cgroup_mounts(const char *sys, char *ret_v2, size_t size, bool *ret_v1);

#endif
