/*
 * --keep-clean: the room sees an overlay over the project, and nothing reaches the project until the person takes it. The
 * changes lie in the store of this project (by its inode) below ground.lib:
 *
 *   kept/DEV-INO/upper   the overlay's upper layer; a whiteout (device 0:0) is a deletion
 *   kept/DEV-INO/work    overlayfs's own
 *   kept/DEV-INO/path    where the project was
 *
 * Both layers are shown to the room through a map (root), so on disk all of it belongs to the project's owner. A second run
 * on the same project goes on where the first ended.
 */
#ifndef SEALED_KEPT_H
#define SEALED_KEPT_H

#include "base/buf.h"
#include "base/err.h"
#include "cage/project.h"
#include "sealed/ground.h"

#include <stdbool.h>

struct kept {
    int place;   /* O_PATH: the overlay; -1: this run has none */
    char *store; /* "" */
};

/* Mounts the overlay below the run's folder. */
err_t kept_open(const struct ground *g, const struct project *p, const char *path, uint32_t uid_base,
                const char *folder, struct kept *ret);
void kept_close(struct kept *k);

/* Takes away what kept_open() mounted below a run's folder. */
err_t kept_off(const char *folder);

/* The store of a project, for afterwards. */
struct store {
    char *path;
    int upper; /* the upper layer; -1 when there is no store */
};

err_t store_open(const struct ground *g, const struct project *p, struct store *ret);
void store_close(struct store *s);

/* Every change, one a line: "new", "changed", "deleted", what kind, how large; names escaped. */
err_t store_diff(const struct store *s, const struct project *p, struct buf *out);

/*
 * Brings one path ("." : everything) from the store into the project, with the rights of the project's owner: files as new
 * files beside their place, then renamed; deletions too; folders with all below. Links that lead out, devices, FIFOs and
 * sockets stay in the store and are said. *ret_taken: how many entries.
 */
err_t store_take(const struct store *s, const struct project *p, const char *path, struct buf *said,
                 uint64_t *ret_taken);

/* Removes the store. */
err_t store_drop(const struct store *s);

#endif
