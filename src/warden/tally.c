#include "warden/tally.h"
#include "base/log.h"
#include "base/own.h"
#include "sealed/session.h"
#include "warden/farewell.h"
#include "warden/warden.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static bool is_told(const struct ward *d) {
    return d->box && d->kind == WARD_EXECUTOR && d->box->conf.mode == MODE_SEALED &&
           d->box->conf.net == NET_SEALED;
}

/* The worker saw the process alive and in that namespace; its pid may be another's by now, whose namespace it is not. */
void tally_hold(struct ward *d) {
    struct stat st;
    tally_let_go(d);
    if (!is_told(d))
        return;
    own_free char *path = xasprintf("/proc/%d/ns/net", (int)d->made.pid);
    own_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || st.st_ino != d->made.netns)
        log_warn("%s: what it reaches will not be known", ward_title(d));
    else
        d->netns = TAKE_FD(fd);
}

int tally_held(const void *ward) {
    return ((const struct ward *)ward)->netns;
}

/* This warden began to make it, and that failed: nothing of it ever ran. */
static bool never_ran(const struct ward *d) {
    return d->started_ms && !d->adopted && !d->made.pid;
}

err_t tally_keep(const struct ward *d, bool whole) {
    own_reached struct reached r = {0};
    if (!is_told(d) || never_ran(d))
        return NULL;
    own_err err_t unknown = d->netns < 0 ? NULL : reached_count(d->netns, &r);
    r.gaps = !whole || d->netns < 0 || unknown;
    own_free char *dir = farewell_session(d->box->conf.name);
    TRY(sealed_session_reached(dir, &r));
    return TAKE(unknown);
}

void tally_let_go(struct ward *d) {
    own_closep(&d->netns);
}
