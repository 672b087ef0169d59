#include "base/flags.h"

#include <fcntl.h>

void flags_restore(int fd, int was) {
    const int shared = O_NONBLOCK | O_APPEND;
    int now = was < 0 ? -1 : fcntl(fd, F_GETFL);
    if (now >= 0 && ((now ^ was) & shared))
        (void)fcntl(fd, F_SETFL, (now & ~shared) | (was & shared));
}
