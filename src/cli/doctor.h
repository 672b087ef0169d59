/*
 * doctor: what this host has and lacks. A check is a row and a function; the function says how it stands
 * and what it found, the row says what that means and what mends it. Nothing that a check does outlives it.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "base/buf.h"
#include "base/conf.h"
#include "base/err.h"
#include "cage/host.h"

#include <stdbool.h>

enum standing {
    STANDS_OK,
    STANDS_NOTE, /* works; something is less good than it could be */
    STANDS_LACKS /* something of agent-cage does not work on this host */
};

/* What all checks look at, read once. */
struct doctor {
    bool root;               /* some things cannot be tried without */
    struct conf_fleet fleet; /* the defaults when conf_why is not "" */
    struct host host;        /* zero when host_why is not "" */
    char *conf_why, *host_why;
    char *dir; /* a folder that only root can enter, for trying things; "" without root */
    int lock;  /* that folder, locked while we live; -1 without root */
};
#define DOCTOR_DIR "/run/agent-cage-doctor-" /* for path_of() */

struct finding {
    struct buf found; /* one line, escaped where it is shown */
    /* The row's, unless the check has better words for this case; static or owned by `words`. */
    const char *means, *mend;
    char *words;
};

struct check {
    const char *name;
    enum standing (*look)(const struct doctor *d, struct finding *f);
    const char *means, *mend; /* shown when it is not ok */
};

extern const struct check doctor_engine_checks[]; /* what rooms are made with; ended by a NULL name */
extern const struct check doctor_kernel_checks[]; /* what they and our daemons stand on */
extern const struct check doctor_fleet_checks[];  /* this fleet's own state */

/* Puts "<the host's package manager> install <package>" into f->mend. */
void doctor_mend_by_package(struct finding *f, const char *package);

/* The path itself or the nearest folder above it that exists; the caller frees. */
char *doctor_nearest(const char *path);

#endif
