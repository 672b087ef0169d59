/* This fleet's own state: its configuration, whether it runs, what agents left behind. */
#include "base/own.h"
#include "base/paths.h"
#include "cli/doctor.h"
#include "cli/leftovers.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static enum standing look_conf(const struct doctor *d, struct finding *f) {
    own_free char *path = path_of(PATH_CONF);
    if (*d->conf_why) {
        buf_adds(&f->found, d->conf_why);
        return STANDS_LACKS;
    }
    if (access(path, F_OK) < 0)
        buf_printf(&f->found, "%s is not there: defaults", path);
    else
        buf_printf(&f->found, "%s", path);
    return STANDS_OK;
}

static enum standing only_root(struct finding *f, const char *means) {
    buf_adds(&f->found, "not looked for: only root can");
    f->means = means;
    f->mend = "sudo agent-cage doctor";
    return STANDS_NOTE;
}

static enum standing look_agents(const struct doctor *d, struct finding *f) {
    if (!d->root)
        return only_root(f, "they may be well or not");
    own_names char **names = NULL;
    unsigned good = 0, bad = 0;
    own_err err_t listed = conf_agent_names(&names);
    if (listed) {
        buf_adds(&f->found, err_text(listed));
        return STANDS_LACKS;
    }
    for (char **n = names; *n; n++) {
        own_conf_agent struct conf_agent a = {0};
        own_err err_t e = conf_agent_read(*n, &a);
        if (e)
            buf_printf(&f->found, "%s%s", bad++ ? "; " : "", err_text(e));
        else
            good++;
    }
    if (!bad)
        buf_printf(&f->found, "%u", good);
    return bad ? STANDS_LACKS : STANDS_OK;
}

static enum standing look_warden(const struct doctor *d, struct finding *f) {
    if (!d->root)
        return only_root(f, "the fleet may run or not");
    own_free char *path = path_of(PATH_WARDEN_LOCK);
    own_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct flock held = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fd >= 0 && fcntl(fd, F_GETLK, &held) == 0 && held.l_type != F_UNLCK)
        buf_printf(&f->found, "running, its warden is process %d", (int)held.l_pid);
    else
        buf_adds(&f->found, "not running");
    return STANDS_OK;
}

static enum standing look_leftovers(const struct doctor *d, struct finding *f) {
    if (!d->root)
        return only_root(f, "there may be some");
    own_leftovers struct leftovers left = {0};
    own_err err_t e = leftovers_find(d, &left);
    if (e)
        buf_adds(&f->found, err_text(e));
    else if (!left.n)
        buf_adds(&f->found, "none");
    for (size_t i = 0; i < left.n; i++)
        buf_printf(&f->found, "%s%s %s", i ? ", " : "", leftover_word(left.v[i].kind), left.v[i].what);
    return e || left.n ? STANDS_NOTE : STANDS_OK;
}

const struct check doctor_fleet_checks[] = {
    {"configuration", look_conf, "the fleet does not start", "correct that line"},
    {"agents", look_agents, "those agents do not start",
     "correct that line, or `agent-cage rm` the agent and make it again"},
    {"fleet", look_warden, "", ""},
    {"leftovers", look_leftovers, "agents that are gone, or work that was killed, left these behind",
     "agent-cage doctor --clean"},
    {0},
};
