/* One TCP listener on each address of this host, so that a refusal inside a cage is not just that nobody listens. */
#ifndef BREAK_LISTENERS_H
#define BREAK_LISTENERS_H

#include "base/err.h"
#include "cage/words.h"

enum { LISTENERS_MAX = 24, BROADCASTS_MAX = 16 };

struct listeners {
    int fd[LISTENERS_MAX];
    size_t n;
};

/* facts: "listener=ADDRESS/PORT" is added for each, "broadcast=ADDRESS" for those where nobody can
 * listen by TCP. Loopback and link-local addresses are left out. */
err_t listeners_open(struct listeners *ret, struct words *facts);

/* Takes and drops what has come, and says how many came. */
size_t listeners_count(struct listeners *l);
void listeners_close(struct listeners *l);

#endif
