/*
 * The trees that rooms have as their root. Both are plain folders below image_dir, named by the hash of what
 * they were made from, root's and unchangeable in use (rooms see them read-only).
 */
#ifndef CAGE_IMAGE_H
#define CAGE_IMAGE_H

#include "base/err.h"

#include "cage/words.h"

#include <stdbool.h>

/* One line about what goes on, for people; called at least every few seconds. */
typedef void image_progress(void *ctx, const char *line);

/* The hash of the workbench's recipe (64 hexadecimal digits; a static string). */
const char *image_workbench_hash(void);

/* Where the workbench is, or will be; nothing is looked at. The caller frees. */
char *image_place(const char *image_dir);

/* Whether the workbench is there already; then image_workbench() costs nothing. */
bool image_have_workbench(const char *image_dir);

/*
 * The workbench: <image_dir>/<hash>/root, made by mmdebstrap if it is not there yet (a minute or two,
 * network; 1 GB). Made beside its place, checked, then renamed: a tree at its place is whole. The caller
 * frees *ret. Who else makes it is waited for, which is said. SIGINT, SIGTERM and SIGHUP end both with the error 128+N; what is
 * half made here is removed, the other's stays. When the process is killed, all that it started ends with it.
 */
err_t image_workbench(const char *image_dir, image_progress *progress, void *ctx, char **ret);

/* The agent room's tree: empty folders and files to mount on, no program at all. */
err_t image_tree(const char *image_dir, char **ret);

/*
 * What must hold for any tree before a room is made of it: /dev, /proc, /sys are real folders (a runtime
 * follows a link there and writes outside), no set-uid or set-gid file, no file capability, no device, no id
 * above 65535.
 */
err_t image_check(const char *root);

#endif
