#include "base/procstat.h"
#include "base/own.h"

#include <fcntl.h>
#include <unistd.h>

enum { FIELD_STATE = 3, FIELD_START = 22 };

/* The name may hold anything, blanks and brackets too: it ends at the last bracket. */
bool procstat_read(pid_t pid, struct procstat *ret) {
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    own_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return false;
    text[n] = 0;
    const char *name = strchr(text, '('), *end = strrchr(text, ')');
    if (!name || !end || end < name || !end[1] || !end[2])
        return false;
    snprintf(ret->name, sizeof ret->name, "%.*s", (int)(end - name - 1), name + 1);
    ret->state = end[2];
    char *at = (char *)(uintptr_t)end + 3;
    ret->parent = (pid_t)strtol(at, &at, 10);
    for (int field = FIELD_STATE + 2; field <= FIELD_START; field++)
        ret->start = strtoull(at, &at, 10); /* the fields between are numbers too, some of them negative */
    return true;
}

bool procstat_dead(const struct procstat *p) {
    return p->state == 'Z' || p->state == 'X';
}
