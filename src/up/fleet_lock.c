#include "up/fleet_lock.h"
#include "base/own.h"
#include "base/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int lock_fd = -1;

static err_t open_lock(int *ret_fd) {
    own_free char *path = path_of(PATH_WARDEN_LOCK);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(errno, "open %s", path);
    *ret_fd = fd;
    return NULL;
}

err_t fleet_lock(void) {
    own_fd int fd = -1;
    TRY(open_lock(&fd));
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_SETLK, &l) < 0) {
        pid_t pid = 0;
        TRY(fleet_lock_holder(&pid));
        return err_new(EXIT_FAILED, "this fleet has a warden already, process %d", (int)pid);
    }
    if (ftruncate(fd, 0) < 0 || dprintf(fd, "%d\n", (int)getpid()) < 0)
        return err_sys(errno, "write the lock");
    lock_fd = TAKE_FD(fd);
    return NULL;
}

static err_t holder_of(const char *path, pid_t *ret_pid) {
    *ret_pid = 0;
    own_fd int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? NULL : err_sys(errno, "open %s", path);
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_GETLK, &l) < 0)
        return err_sys(errno, "look at the lock of %s", path);
    *ret_pid = l.l_type == F_UNLCK ? 0 : l.l_pid;
    return NULL;
}

err_t fleet_lock_holder(pid_t *ret_pid) {
    own_free char *path = path_of(PATH_WARDEN_LOCK);
    return holder_of(path, ret_pid);
}

err_t fleet_lock_up(pid_t *ret_pid) {
    own_free char *path = path_of(PATH_UP_LOCK);
    return holder_of(path, ret_pid);
}

bool fleet_lock_ended(void) {
    own_free char *path = path_of(PATH_WARDEN_LOCK);
    struct stat st;
    return lstat(path, &st) < 0 || st.st_size == 0;
}

void fleet_lock_end(void) {
    if (ftruncate(lock_fd, 0) < 0)
        return; /* `up` then takes this for a crash and starts another */
}
