/* One line of /proc/PID/stat, as far as it is needed (proc(5)). */
#ifndef BASE_PROCSTAT_H
#define BASE_PROCSTAT_H

#include <stdbool.h>
#include <sys/types.h>

enum { PROCSTAT_NAME = 64 };

struct procstat {
    char name[PROCSTAT_NAME]; /* as the process calls itself: any bytes but NUL */
    char state;               /* R S D T t Z X … */
    pid_t parent;
    unsigned long long start; /* clock ticks since boot */
};

/* False: it ended. */
bool procstat_read(pid_t pid, struct procstat *ret);

/* A zombie, or worse. */
bool procstat_dead(const struct procstat *p);

#endif
