/* What this host is like, as far as the verdict depends on it: cages must not lean on any of it. */
#ifndef BREAK_POSTURE_H
#define BREAK_POSTURE_H

#include <stddef.h>

enum { POSTURE_MAX = 24 };

struct posture {
    const char *name; /* static */
    char value[96];   /* "" where this kernel has no such thing */
};

void posture_read(struct posture ret[POSTURE_MAX], size_t *ret_n);

#endif
