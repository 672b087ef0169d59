#include "warden/death.h"
#include "base/clock.h"
#include "base/log.h"
#include "warden/box.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static int64_t mono_ms(void) {
    return clock_mono_ns() / 1000000;
}

size_t death_recent(const struct ward *d) {
    size_t n = 0;
    for (size_t i = 0; i < WARD_DEATHS_MAX; i++)
        n += d->deaths[i] && mono_ms() - d->deaths[i] < WARD_DEATHS_MS;
    return n;
}

void death_note(struct ward *d) {
    d->died = true;
    log_warn("%s died: %s", ward_title(d), d->why);
    if (d->box)
        box_died(d->box, (enum room)d->kind);
}

void death_judge(struct ward *d) {
    const struct ward_exit *x = &d->exit;
    char how[64] = "how is not known";
    if (x->known && WIFSIGNALED(x->status))
        snprintf(how, sizeof how, "signal %d", WTERMSIG(x->status));
    else if (x->known)
        snprintf(how, sizeof how, "exit status %d", WEXITSTATUS(x->status));
    log_info("%s had ended: %s", ward_title(d), how);
    bool killed = x->known && WIFSIGNALED(x->status) && WTERMSIG(x->status) == SIGKILL;
    d->died = false;
    d->exit = (struct ward_exit){0};
    if (killed)
        return;
    memmove(&d->deaths[1], &d->deaths[0], sizeof d->deaths - sizeof d->deaths[0]);
    d->deaths[0] = mono_ms();
}

void ward_exited(struct ward *d, pid_t pid, int status) {
    if (pid == d->made.pid)
        d->exit = (struct ward_exit){true, status};
}
