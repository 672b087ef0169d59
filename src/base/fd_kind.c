#include "base/fd_kind.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

/* Documentation/admin-guide/devices.txt: 1:3 is /dev/null; 136 to 143 are the slaves of ptys. */
enum { MEM_MAJOR = 1, NULL_MINOR = 3, PTY_FIRST = 136, PTY_LAST = 143 };

bool fd_kind_passes(const struct stat *st, int flags) {
    switch (st->st_mode & S_IFMT) {
    case S_IFIFO:
        return true;
    case S_IFCHR:
        return st->st_rdev == makedev(MEM_MAJOR, NULL_MINOR) ||
               (major(st->st_rdev) >= PTY_FIRST && major(st->st_rdev) <= PTY_LAST);
    case S_IFREG:
        return (flags & O_ACCMODE) == O_WRONLY && st->st_nlink > 0;
    default:
        return false;
    }
}
