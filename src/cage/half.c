#include "cage/half.h"
#include "base/fs.h"
#include "base/own.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/file.h>

/* The lock, if nobody makes anything; it is not made. */
static bool quiet(const char *dir, int *ret) {
    own_free char *path = xasprintf("%s/.lock", dir);
    own_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB))
        return false;
    *ret = TAKE_FD(fd);
    return true;
}

err_t half_lock(const char *dir, int *ret) {
    own_free char *path = xasprintf("%s/.lock", dir);
    return fs_lock(path, ret);
}

static void list(const char *path, struct words *ret) {
    DIR *dir = opendir(path);
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (!fnmatch(".new-[0-9]*", d->d_name, 0))
            words_addf(ret, "%s/%s", path, d->d_name);
    if (dir)
        closedir(dir);
}

void half_left(const char *dir, struct words *ret) {
    own_fd int held = -1;
    if (quiet(dir, &held))
        list(dir, ret);
}

err_t half_remove(const char *dir, const char *path) {
    own_fd int held = -1;
    if (!quiet(dir, &held))
        return err_new(EXIT_POLICY, "something is being made there now");
    return fs_remove(path);
}

size_t half_sweep(const char *dir) {
    own_words struct words left = {0};
    size_t gone = 0;
    list(dir, &left);
    for (size_t i = 0; i < left.n; i++) {
        own_err err_t e = fs_remove(left.w[i]);
        gone += !e;
    }
    return gone;
}
