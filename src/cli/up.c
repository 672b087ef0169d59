/* up: the fleet in the foreground. */
#include "base/escape.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/paths.h"
#include "cli/self.h"
#include "cli/verb.h"
#include "up/fleet_lock.h"
#include "up/prepare.h"
#include "up/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void say(void *ctx, const char *line) {
    (void)ctx;
    char safe[1024];
    fprintf(stderr, "%s\n", escape_into(safe, sizeof safe, ESCAPE_LINE, line, strlen(line)));
}

/* One `up` a fleet; held until this process ends. *ret_other: who holds it, when that is another `up`. */
static err_t lock_up(pid_t *ret_other) {
    own_free char *path = path_of(PATH_UP_LOCK), *dir = path_of(DIR_RUN);
    TRY(fs_dirs(dir));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(errno, "open %s", path);
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET}, who = l;
    if (fcntl(fd, F_SETLK, &l) == 0)
        return NULL;
    int why = errno;
    if (fcntl(fd, F_GETLK, &who) == 0 && who.l_type != F_UNLCK) {
        *ret_other = who.l_pid;
        return NULL;
    }
    return err_sys(why, "lock %s", path);
}

static bool has_demo(void) {
    own_free char *conf = path_of(DIR_ETC "/agents/demo.conf");
    return access(conf, F_OK) == 0;
}

err_t verb_up(const struct call *call, int *ret_status) {
    (void)ret_status;
    signal(SIGPIPE, SIG_IGN); /* who read our lines may leave; the fleet stays */
    struct supervise_how how = {
        .demo = call_option(call, "demo") != NULL,
        .chat = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO),
        .self = self_name(),
    };
    pid_t other = 0;
    if (geteuid() == 0)
        TRY(lock_up(&other));              /* before anything is prepared, so that `down` finds us */
    if (other && how.demo && has_demo()) { /* what was asked for is there */
        printf("This fleet is up already (process %d): `%s chat` talks to it, `%s down` ends it.\n",
               (int)other, self_name(), self_name());
        return NULL;
    }
    if (other)
        return err_new(EXIT_FAILED, "this fleet is up already (process %d)%s; `agent-cage down` ends it",
                       (int)other, how.demo ? " without demo, which `agent-cage new demo` makes" : "");
    TRY(prepare(say, NULL));
    return supervise(&how);
}
