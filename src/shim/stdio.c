#include "shim/stdio.h"
#include "base/fd_kind.h"
#include "base/flags.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

enum { PIPE_BYTES = 256 * 1024 };

/* A file of the scratch folder by the kernel's own name of it, on the folder's own file system. */
static bool in_scratch(int fd, const struct stat *st) {
    const char *dir = getenv("TMPDIR");
    if (!dir || dir[0] != '/')
        dir = "/scratch";
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    char link[32], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    struct stat top;
    if (n < 2 || len <= (ssize_t)n || memcmp(path, dir, n) != 0 || path[n] != '/')
        return false;
    return stat(dir, &top) == 0 && S_ISDIR(top.st_mode) && top.st_dev == st->st_dev;
}

/* What the executor takes (executor/given.c); of files only those that the command's room has too. */
static bool passable(int fd, const struct stat *st, int flags) {
    return fd_kind_passes(st, flags) && (!S_ISREG(st->st_mode) || in_scratch(fd, st));
}

/*
 * `echo x > /dev/stderr` opens the pipe anew by its mode, which is 0600 for whoever made it; the command runs
 * under another uid. It may do by name what it may do by descriptor, and no more.
 */
static void open_by_name(int fd, const struct stat *st, int flags) {
    mode_t more = (flags & O_ACCMODE) == O_RDONLY ? 0044 : 0022;
    if (S_ISFIFO(st->st_mode) && st->st_uid == geteuid())
        (void)fchmod(fd, (st->st_mode | more) & 07777);
}

/* Are 1 and 2 one open file? Then they stay one pipe, and what is written to them stays in order. */
static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && fcntl(1, F_GETFL) == fcntl(2, F_GETFL) &&
           lseek(1, 0, SEEK_CUR) == lseek(2, 0, SEEK_CUR);
}

static err_t copy_through(struct stdio *io, int fd) {
    int ends[2];
    struct stat st;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(errno, "pipe");
    int ours = fd == 0 ? ends[1] : ends[0];
    io->give[fd] = fd == 0 ? ends[0] : ends[1];
    io->mine[fd] = true;
    (void)fcntl(ours, F_SETPIPE_SZ, PIPE_BYTES);
    (void)fcntl(ours, F_SETFL, O_NONBLOCK);
    if (fstat(ours, &st) == 0)
        open_by_name(io->give[fd], &st, fd == 0 ? O_RDONLY : O_WRONLY);
    pump_open(&io->pumps[io->npumps++], fd == 0 ? fd : ours, fd == 0 ? ours : fd, fd != 0);
    return NULL;
}

/* A closed one becomes /dev/null: else the next thing that we open would be taken for it. */
static err_t fill_closed(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd)
            return err_sys(errno, "open /dev/null");
    return NULL;
}

/*
 * A terminal belongs to one session. Ours gives it up, if it leads it, so that the command's session can have
 * it: then Ctrl-C, Ctrl-Z and job control work there as they would here. The hang-up that this sends us is
 * not meant for the command.
 */
static bool give_up_terminal(int fd) {
    if (tcgetsid(fd) != getpid())
        return false;
    struct sigaction old, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGHUP, &ignore, &old);
    bool free = ioctl(fd, TIOCNOTTY) == 0;
    sigaction(SIGHUP, &old, NULL);
    return free;
}

err_t stdio_open(struct stdio *io) {
    struct stat st[3];
    *io = (struct stdio){.flags = {-1, -1, -1}};
    TRY(fill_closed());
    for (int fd = 0; fd < 3; fd++) {
        int flags = fcntl(fd, F_GETFL);
        if (flags < 0 || fstat(fd, &st[fd]) < 0)
            return err_sys(errno, "descriptor %d", fd);
        if (passable(fd, &st[fd], flags)) {
            io->give[fd] = fd;
            io->flags[fd] = flags;
            open_by_name(fd, &st[fd], flags);
            if (S_ISCHR(st[fd].st_mode)) /* /dev/null is of no session */
                io->tty = io->tty || give_up_terminal(fd);
        } else if (fd == 2 && io->mine[1] && io->npumps && same_file(&st[1], &st[2])) {
            io->give[2] = io->give[1];
        } else {
            TRY(copy_through(io, fd));
        }
    }
    return NULL;
}

void stdio_sent(struct stdio *io) {
    for (int fd = 0; fd < 3; fd++)
        if (io->mine[fd])
            own_closep(&io->give[fd]);
}

void stdio_restore(const struct stdio *io) {
    for (int fd = 0; fd < 3; fd++)
        flags_restore(fd, io->flags[fd]);
}
