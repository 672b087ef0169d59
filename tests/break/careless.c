/*
 * OB-OPEN: the collector without what makes it one, for tests/unit/sealed/collector.c, which must see it: a plain open by path, which
 * follows links, leaves the folder and waits, and no look at what was opened. Nothing of this is in the product.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    PATIENCE_S = 3
}; /* longer than any test lets the right one take: who waits for ever would never be red */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
int __real_fstat64(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st);

static int opened = -1;

static void wake(int signo) {
    (void)signo;
}

/* A FIFO, a lease: open(2) is interrupted in the end. */
static int open_plainly(int dir, const char *path, int flags) {
    struct sigaction on = {.sa_handler = wake}, was;
    sigaction(SIGALRM, &on, &was);
    alarm(PATIENCE_S);
    int fd = openat(dir, path, flags & ~(O_NONBLOCK | O_NOFOLLOW)), e = errno;
    alarm(0);
    sigaction(SIGALRM, &was, NULL);
    errno = e == EINTR ? ETIMEDOUT : e;
    return fd;
}

long __wrap_syscall(long number, ...) {
    long a[6];
    va_list args;
    va_start(args, number);
    for (size_t i = 0; i < sizeof a / sizeof *a; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (number != SYS_openat2)
        return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    const struct open_how *how = (const struct open_how *)a[2];
    opened = open_plainly((int)a[0], (const char *)a[1], (int)how->flags);
    return opened;
}

/* Whatever it is, it is a small file of one name. */
int __wrap_fstat64(int fd, struct stat *st) {
    int done = __real_fstat64(fd, st);
    if (!done && fd == opened && !S_ISDIR(st->st_mode)) {
        st->st_mode = S_IFREG | (st->st_mode & 07777);
        st->st_nlink = 1;
        st->st_size = 0;
    }
    return done;
}
