#include "executor/given.h"
#include "base/fd_kind.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

err_t given_check(const int fds[3]) {
    for (int i = 0; i < 3; i++) {
        struct stat st;
        int flags = fcntl(fds[i], F_GETFL);
        if (flags < 0 || fstat(fds[i], &st) < 0)
            return err_sys(errno, "descriptor %d of the command", i);
        if ((flags & O_PATH) || !fd_kind_passes(&st, flags))
            return err_as(
                err_sys(EPERM, "descriptor %d of the command is of a kind that no command is given", i),
                EXIT_POLICY);
    }
    return NULL;
}

bool given_names(const char *word, const char *exe) {
    word += *word == '-';
    const char *said = proc_name(word), *is = proc_name(exe);
    return !strcmp(word, exe) || (said && is && !strcmp(said, is));
}
