/*
 * What a fleet's agents left behind when their configuration was gone before it was taken away: containers,
 * processes, mounts, control groups, accounts, folders. A thing is a leftover only when it carries this
 * fleet's mark (label, path below its root, name with its prefix, uid of its block), names an agent, and
 * that agent has no configuration and is not being made or removed by a living warden.
 */
#ifndef CLI_LEFTOVERS_H
#define CLI_LEFTOVERS_H

#include "base/err.h"
#include "cli/doctor.h"

enum leftover_kind {
    LEFT_CONTAINER,
    LEFT_PROCESS,
    LEFT_MOUNT,
    LEFT_CGROUP,
    LEFT_ACCOUNT,
    LEFT_FOLDER,
    LEFT_RUN,     /* a one-shot sealed run */
    LEFT_IMAGE,   /* half made by a build that was killed */
    LEFT_HARNESS, /* a vendor's program, half fetched */
    LEFT_DOCTOR,  /* a folder of a doctor that was killed */
    LEFT_KINDS
};

struct leftover {
    enum leftover_kind kind;
    char *what;     /* container, pid, path, account */
    char agent[32]; /* "" where it cannot be told (processes) */
};

struct leftovers {
    struct leftover *v;
    size_t n;
};

const char *leftover_word(enum leftover_kind kind); /* "container", … */

/* In the order in which they can be removed. An error leaves *ret empty. */
err_t leftovers_find(const struct doctor *d, struct leftovers *ret);

/* Removes one; what is gone meanwhile is fine. What belongs to an agent by now is left alone (EXIT_POLICY). */
err_t leftover_remove(const struct doctor *d, const struct leftover *l);

void leftovers_free(struct leftovers *l);
#define own_leftovers __attribute__((cleanup(leftovers_free)))

#endif
