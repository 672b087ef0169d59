/*
 * One sealed run, from the checks to nothing left:
 *
 *   open    checks → ids → folders → outbox → look at the project → the room, waiting → rules in force and compared
 *   word    the command and its three descriptors go to the room's first process, which runs it
 *   follow  the host's addresses changed: the rules follow
 *   end     the link closes → the room dies → counters are read → container and folders go
 *
 * The run's process holds the link, the lock of the run's folder and the lock of its ids: when it dies in whatever way, the
 * kernel lets go of all three, the room ends, and the next run (or `doctor --clean`) clears what is left.
 */
#ifndef SEALED_RUN_H
#define SEALED_RUN_H

#include "cage/cage.h"
#include "cage/nft.h"
#include "cage/project.h"
#include "proto/msg.h"
#include "sealed/aftermath.h"
#include "sealed/ground.h"
#include "sealed/kept.h"
#include "sealed/outbox_place.h"
#include "sealed/reached.h"

struct sealed_wish {
    const char *project; /* absolute */
    const char *outbox;  /* absolute, or NULL */
    bool keep_clean;
    void (*tell)(void *ctx, const char *line); /* progress; may be NULL */
    void *ctx;
};

struct sealed_run {
    struct ground ground;
    char session[48];
    char *path, *folder; /* the project's path; the run's own folder */
    int folder_lock, ids_lock;
    struct project project;
    struct outbox_place outbox;
    struct kept kept;
    struct aftermath_before before;
    struct cage_spec spec;
    struct cage cage;
    int link;           /* to the room's first process; -1 once closed */
    int netns;          /* stays readable when the room is gone */
    int watch;          /* readable: addresses may have changed; sealed_follow() */
    struct words local; /* what the rules in force hold as local */
    struct reached reached;
    bool limits; /* the engine holds memory, processes and processors to their limits */
    bool running;
};

/* On failure nothing is left. */
err_t sealed_open(const struct sealed_wish *wish, struct sealed_run *ret);

/* fds stay the caller's. */
err_t sealed_word(struct sealed_run *r, char *const *argv, const struct list *env, const int fds[3],
                  bool tty);
err_t sealed_signal(struct sealed_run *r, int signo);
err_t sealed_follow(struct sealed_run *r);

/* Ends the room, reads what it reached and removes what was made for it. Once. */
err_t sealed_end(struct sealed_run *r);
void sealed_close(struct sealed_run *r);

/* Runs that were killed: their folders are there and the locks of these are free. sealed_clear() removes what one left; a run
 * that goes on, or is gone, is fine. */
err_t sealed_left(const struct ground *g, struct words *ret);
err_t sealed_clear(const struct ground *g, const char *session);

#endif
