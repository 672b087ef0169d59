#include "warden/fleet_log.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "base/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int log_fd = -1;

static err_t open_it(void) {
    own_free char *path = path_of(PATH_LOG);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(errno, "open %s", path);
    own_closep(&log_fd);
    log_fd = fd;
    return NULL;
}

/* The old one is kept; the relay's and the manager's standard error goes on into it until they start anew. */
static void turn_over(void) {
    struct stat st;
    if (fstat(log_fd, &st) < 0 || st.st_size < FLEET_LOG_MAX)
        return;
    own_free char *path = path_of(PATH_LOG), *old = path_of(PATH_LOG ".1");
    if (rename(path, old) == 0)
        err_free(open_it());
}

static void write_line(void *ctx, enum log_level level, const char *text) {
    (void)ctx;
    static const char *const mark[] = {"debug ", "", "warning ", "error "};
    char when[CLOCK_ISO_MAX], line[LOG_LINE_MAX + 64];
    clock_iso(when, clock_wall_ms());
    int n = snprintf(line, sizeof line, "%s %s%s\n", when, mark[level], text);
    turn_over();
    if (n > 0 && log_fd >= 0)
        (void)!write(log_fd, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

err_t fleet_log_open(void) {
    TRY(open_it());
    log_to(write_line, NULL);
    return NULL;
}
