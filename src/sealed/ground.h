/*
 * What one-shot runs stand on: where their folders are, which image, which runtime, which ids. Root and an ordinary user
 * differ here (root.c, rootless.c) and nowhere else.
 *
 *   run   what lives as long as a run: one folder for each, its lock held by the run's process
 *   lib   what lasts: uid ranges (root), changes that --keep-clean kept, the last report on a folder
 */
#ifndef SEALED_GROUND_H
#define SEALED_GROUND_H

#include "base/conf.h"
#include "base/err.h"
#include "cage/host.h"

#include <stdbool.h>
#include <stdint.h>

struct ground {
    struct conf_fleet conf;
    struct host host;
    char *run, *lib;
    char *
        label; /* the fleet label of the containers: not the fleet's, so that its warden does not take them over */
    char *workbench; /* the tree */
    bool rootless;
};

/* Needs what a run needs: podman, nft, a network for an ordinary user, the image. What is missing is refused with what to
 * install. tell: progress while the image is made (root), or NULL. */
err_t ground_open(void (*tell)(void *ctx, const char *line), void *ctx, struct ground *ret);

/* Folders and labels alone: enough for `aftermath` and for clearing up. */
err_t ground_outline(struct ground *ret);
void ground_close(struct ground *g);
#define own_ground __attribute__((cleanup(ground_close)))

/* The runtime that starts rooms here: what the configuration or an earlier run says, else found by trial and kept. */
err_t ground_runtime(struct ground *g, const char *binary, uint32_t uid_base);

/* A room did not start: the next run tries the runtimes again. */
void ground_doubt(const struct ground *g);

/*
 * A range of ids for one run, as long as *ret_lock is open. Nothing on disk ever has ids of it (rooms of one-shot runs see
 * the owner's files through a map, the rest is memory), so the next run may have the same. For an ordinary user: 0, -1.
 */
err_t ground_ids(const struct ground *g, uint32_t *ret_base, int *ret_lock);

/* root.c and rootless.c */
err_t ground_of_root(struct ground *g);
err_t ground_of_user(struct ground *g);
err_t ground_check_user(const struct ground *g);
err_t ground_ids_of_root(const struct ground *g, uint32_t *ret_base, int *ret_lock);

#endif
