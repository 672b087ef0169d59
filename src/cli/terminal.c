#include "cli/terminal.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios saved;
static int saved_fd = -1;

err_t terminal_pair(const char *ptmx, int like, int *ret_master, int *ret_slave) {
    own_fd int master = open(ptmx ? ptmx : "/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    const int unlocked = 0;
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlocked) < 0)
        return err_sys(errno, "make a terminal");
    /* By descriptor, not by a name in some /dev/pts: ioctl_tty(2), TIOCGPTPEER. */
    own_fd int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return err_sys(errno, "open the other end of a terminal");
    struct termios settings;
    if (tcgetattr(like, &settings) == 0)
        tcsetattr(slave, TCSANOW, &settings);
    terminal_size(like, master);
    *ret_master = TAKE_FD(master);
    *ret_slave = TAKE_FD(slave);
    return NULL;
}

void terminal_size(int like, int master) {
    struct winsize size;
    if (ioctl(like, TIOCGWINSZ, &size) == 0)
        ioctl(master, TIOCSWINSZ, &size);
}

void terminal_restore(void) {
    if (saved_fd < 0)
        return;
    tcsetattr(saved_fd, TCSADRAIN, &saved);
    saved_fd = -1;
}

static err_t set(int fd, void (*change)(struct termios *t)) {
    if (tcgetattr(fd, &saved) < 0)
        return err_sys(errno, "settings of the terminal");
    static bool registered;
    if (!registered && atexit(terminal_restore) == 0)
        registered = true;
    struct termios changed = saved;
    change(&changed);
    saved_fd = fd;
    if (tcsetattr(fd, TCSADRAIN, &changed) < 0) {
        saved_fd = -1;
        return err_sys(errno, "change the terminal's settings");
    }
    return NULL;
}

static void silent(struct termios *t) {
    t->c_lflag &= ~(tcflag_t)ECHO;
}

err_t terminal_raw(int fd) {
    return set(fd, cfmakeraw);
}

static void on_end(int signo) {
    terminal_restore();
    _exit(128 + signo);
}

err_t terminal_silent(int fd) {
    signal(SIGINT, on_end);
    signal(SIGTERM, on_end);
    return set(fd, silent);
}
