#include "cage/half.h"
#include "base/fs.h"
#include "base/own.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

enum { AGAIN_MS = 100 };

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

/* Who is at work there: the number in the name of what is made, if that process lives; 0: unknown. */
static pid_t maker(const char *dir) {
    own_words struct words made = {0};
    list(dir, &made);
    for (size_t i = 0; i < made.n; i++) {
        const char *number = strrchr(made.w[i], '-') + 1;
        long pid = strtol(number, NULL, 10);
        if (pid > 1 && pid <= INT_MAX && (!kill((pid_t)pid, 0) || errno == EPERM))
            return (pid_t)pid;
    }
    return 0;
}

err_t half_lock_until(const char *dir, int stop, half_waits *waits, void *ctx, int *ret) {
    own_free char *path = xasprintf("%s/.lock", dir);
    own_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(errno, "open %s", path);
    bool said = false;
    while (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_sys(errno, "lock %s", path);
        if (!said)
            waits(ctx, maker(dir));
        said = true;
        struct pollfd p = {stop, POLLIN, 0};
        if (poll(&p, 1, AGAIN_MS) > 0)
            return NULL;
    }
    *ret = TAKE_FD(fd);
    return NULL;
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
