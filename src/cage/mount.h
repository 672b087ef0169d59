/*
 * Mounts made by descriptor: a source is pinned once, checked, and cloned from there, so no later change of a
 * path matters. Every mount is nosuid and nodev and private.
 */
#ifndef CAGE_MOUNT_H
#define CAGE_MOUNT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A run of ids: `disk` … on the file system is seen as `seen` … */
struct mount_ids {
    uint32_t disk, seen, count;
};

/* A user namespace that stands for these ids (at most 340 runs each, user_namespaces(7)); *ret_fd is to be
 * closed. */
err_t mount_userns(const struct mount_ids *uids, size_t nuids, const struct mount_ids *gids, size_t ngids,
                   int *ret_fd);

struct mount_how {
    bool ro, noexec, recursive;
    int userns; /* mount_userns(); -1: ids as on disk */
};

/* Pins a path without following any link in it: O_PATH. EXIT_NOTFOUND; a link on the way is EXIT_POLICY with
 * a sentence. */
err_t mount_pin(const char *path, int *ret_fd);

/* A detached mount of what `pin` shows; *ret_fd is to be closed. */
err_t mount_clone(int pin, const struct mount_how *how, int *ret_fd);

/* Puts a detached mount on `place` (a folder, or a file for a file), which must be root's. */
err_t mount_put(int tree, const char *place);

/* Takes every mount on `place` away (MNT_DETACH, links not followed). None there is fine. */
err_t mount_off(const char *place);

/* Takes away every mount at or below `dir`, deepest first. */
err_t mount_off_below(const char *dir);

#endif
