#include "warden/web_door.h"
#include "base/own.h"
#include "warden/warden.h"
#include "warden/worker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 64 };

static err_t open_nothing(int *ret_fd) {
    *ret_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    return *ret_fd < 0 ? err_sys(errno, "open /dev/null") : NULL;
}

err_t web_door_open(const struct warden *w, int report, int *ret_fd) {
    if (!w->conf.web)
        return open_nothing(ret_fd);
    own_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(errno, "a socket for the web page");
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((in_port_t)w->conf.web),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1; /* connections of the last relay that still close do not keep the port */
    (void)!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, BACKLOG) < 0) {
        own_err err_t e = err_sys(errno, "port %u of 127.0.0.1", (unsigned)w->conf.web);
        worker_say(report, "no web page: %s; `web = PORT` in agent-cage.conf chooses another", err_text(e));
        return open_nothing(ret_fd);
    }
    *ret_fd = TAKE_FD(fd);
    return NULL;
}
