/*
 * Files and folders, made by root beside people who would like to be root: nothing here follows a symbolic
 * link in the last part of a path, and what was made is checked through its descriptor.
 */
#ifndef BASE_FS_H
#define BASE_FS_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The folder `path` with exactly this owner and mode (07777 bits), made or put right; its parent must exist.
 * Something else there (a link, a file) is an error. Only for folders whose parent only root can write.
 */
err_t fs_dir(const char *path, uid_t uid, gid_t gid, mode_t mode);

/* Makes the missing parts of `path` as root's, 0755, `path` itself included; those that exist are left alone.
 */
err_t fs_dirs(const char *path);

/* Replaces or makes a file in one step: a new one beside it with owner and mode, fsync, rename, fsync of the
 * folder. */
err_t fs_write(const char *path, const void *p, size_t n, uid_t uid, gid_t gid, mode_t mode);

/* The whole of a regular file, at most max bytes (more is an error); EXIT_NOTFOUND when it is not there. Also
 * for /proc and /sys, whose files say no size. */
err_t fs_read(const char *path, size_t max, struct buf *out);

/* As fs_read, into the caller's room and nowhere else: for a secret, which the caller wipes. */
err_t fs_read_into(const char *path, char *room, size_t size, size_t *ret);

/* As fs_read, one line without its newline; the caller frees. */
err_t fs_read_line(const char *path, char **ret);

/*
 * Removes a file or a whole tree, whatever it holds; a link is removed, never followed; depth is bounded by
 * nothing but memory. What is not there is fine. Does not cross onto another file system: a mount below is an
 * error (EXIT_FAILED) before anything in it is touched.
 */
err_t fs_remove(const char *path);

/*
 * Opens `path` (relative) below the folder `dir`, never through a link and never out of it: openat2(2) with
 * RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS|RESOLVE_NO_MAGICLINKS, on kernels without it part by part with
 * O_NOFOLLOW
 * (".." is refused). O_CLOEXEC is added. The errno is kept in the error.
 */
err_t fs_open_beneath(int dir, const char *path, int flags, mode_t mode, int *ret_fd);

/* The file `path`, made if it is not there, locked against all who ask for it so; waits for it. Closing it unlocks. */
err_t fs_lock(const char *path, int *ret_fd);

/* Copies a regular file's bytes to a new file with this owner and mode, in one step as fs_write does. */
err_t fs_copy(const char *from, const char *to, uid_t uid, gid_t gid, mode_t mode);

/* Bytes that an unprivileged writer could still put on the file system of `path`, and its size. */
err_t fs_space(const char *path, uint64_t *ret_free, uint64_t *ret_size);

#endif
