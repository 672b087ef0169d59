#include "cli/secret.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

err_t secret_take(int fd, bool a_line, char *room, size_t size, size_t *ret) {
    size_t n = 0;
    while (n < size) {
        ssize_t k = read(fd, room + n, size - n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return err_sys(errno, "read the credential");
        n += (size_t)k;
        if (!k || (a_line && n && room[n - 1] == '\n')) {
            *ret = n;
            return NULL;
        }
    }
    return err_new(EXIT_USAGE, "that is no credential: it is longer than %zu bytes", size - 1);
}

err_t secret_read(const char *path, char *room, size_t size, size_t *ret) {
    if (!strcmp(path, "-"))
        return secret_take(STDIN_FILENO, false, room, size, ret);
    own_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(errno, "open %s", path);
    return secret_take(fd, false, room, size, ret);
}
