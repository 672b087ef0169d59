/* down: the orderly end of the fleet, wherever its `up` runs. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/paths.h"
#include "cli/self.h"
#include "cli/verb.h"
#include "up/fleet_lock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

enum { LOOK_MS = 50, SAY_MS = 2000, PATIENCE_MS = 180000 };

typedef err_t look_fn(pid_t *ret_pid);

static err_t await_end(pid_t warden, look_fn *holder) {
    int64_t from = clock_boot_ms(), said = from;
    for (;;) {
        pid_t pid;
        /* cppcheck-suppress returnDanglingLifetime ; an error holds no pointer into this frame */
        TRY(holder(&pid));
        if (pid != warden)
            return NULL;
        int64_t now = clock_boot_ms();
        if (now - from > PATIENCE_MS)
            return err_new(EXIT_FAILED, "process %d did not end within %d s; its log says why", (int)warden,
                           PATIENCE_MS / 1000);
        if (now - said >= SAY_MS) {
            said = now;
            fprintf(stderr, "waiting for the rooms to end (%d s)\n", (int)((now - from) / 1000));
        }
        poll(NULL, 0, LOOK_MS);
    }
}

/* No warden yet: `up` may be at its preparations. */
static err_t end_preparing(void) {
    pid_t pid;
    TRY(fleet_lock_up(&pid));
    if (!pid) {
        printf("no fleet is up on this machine%s%s\n", *paths_root() ? " below " : "", paths_root());
        return NULL;
    }
    fprintf(stderr, "`%s up` (process %d) is still preparing; it is ended\n", self_name(), (int)pid);
    if (kill(pid, SIGTERM) < 0 && errno != ESRCH)
        return err_sys(errno, "end process %d", (int)pid);
    TRY(await_end(pid, fleet_lock_up));
    printf("it has ended; no fleet is up on this machine\n");
    return NULL;
}

enum { FAREWELLS_MAX = 16 << 20 };

/* What the sealed sessions that ended with it left; escaped by the warden. */
static void say_farewells(const char *path) {
    own_buf struct buf text = {0};
    own_err err_t none = fs_read(path, FAREWELLS_MAX, &text);
    if (!none)
        self_print_plain(stdout, buf_text(&text));
    unlink(path);
}

err_t verb_down(const struct call *call, int *ret_status) {
    (void)call, (void)ret_status;
    if (geteuid() != 0)
        return err_new(EXIT_POLICY, "a fleet is ended by root: run `sudo agent-cage down`");
    pid_t pid;
    TRY(fleet_lock_holder(&pid));
    if (!pid)
        return end_preparing();
    own_free char *farewells = path_of(PATH_FAREWELLS);
    unlink(farewells); /* of an end that nobody asked for here */
    if (kill(pid, SIGTERM) < 0 && errno != ESRCH)
        return err_sys(errno, "end the warden, process %d", (int)pid);
    TRY(await_end(pid, fleet_lock_holder));
    say_farewells(farewells);
    printf("the fleet is down\n");
    return NULL;
}
