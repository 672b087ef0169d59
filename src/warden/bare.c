#include "warden/bare.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/paths.h"
#include "cage/mount.h"
#include "cage/project.h"
#include "warden/belongings.h"
#include "warden/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* The owner's ids are shown as the room's; an owner that has them already needs no map. */
static err_t mapped(int pin, uid_t uid, gid_t gid, const struct ward *d, struct mount_how how,
                    int *ret_tree) {
    uid_t self = d->box->conf.uid_base + room_uid((enum room)d->kind);
    own_fd int userns = -1;
    if (uid != self || gid != self) {
        struct mount_ids uids = {uid, self, 1}, gids = {gid, self, 1};
        TRY(mount_userns(&uids, 1, &gids, 1, &userns));
    }
    how.userns = userns;
    return mount_clone(pin, &how, ret_tree);
}

err_t bare_project(const struct ward *d, bool noexec, int *ret_tree) {
    struct project p;
    TRY(project_open(d->box->conf.project, d->box->conf.mode, &p));
    err_t e = mapped(p.fd, p.uid, p.gid, d, (struct mount_how){.noexec = noexec}, ret_tree);
    project_close(&p);
    return err_wrap(e, "show the project");
}

/* A folder of another room's. */
static err_t others(const struct ward *d, const char *folder, enum room of, struct mount_how how,
                    int *ret_tree) {
    const struct conf_agent *c = &d->box->conf;
    own_free char *path = path_of(DIR_LIB "/agents/%s/%s", c->name, folder);
    uid_t owner = c->uid_base + room_uid(of);
    own_fd int pin = -1;
    TRY(mount_pin(path, &pin));
    return err_wrap(mapped(pin, owner, owner, d, how, ret_tree), "show the %s folder", folder);
}

err_t bare_scratch(const struct ward *d, bool noexec, int *ret_tree) {
    return others(d, "scratch", ROOM_EXECUTOR, (struct mount_how){.noexec = noexec}, ret_tree);
}

err_t bare_inbox(const struct ward *d, int *ret_tree) {
    return others(d, "inbox", ROOM_AGENT, (struct mount_how){.ro = true, .noexec = true}, ret_tree);
}

err_t bare_outbox(const struct ward *d, bool noexec, int *ret_tree) {
    return others(d, "outbox", ROOM_EXECUTOR, (struct mount_how){.noexec = noexec}, ret_tree);
}

static char *mnt_of(const struct ward *d) {
    return path_of(DIR_RUN "/mnt/%s", d->box->conf.name);
}

static err_t executor_mounts(const struct ward *d, const char *mnt) {
    own_fd int project = -1, scratch = -1, inbox = -1, outbox = -1;
    TRY(bare_project(d, false, &project));
    TRY(bare_scratch(d, false, &scratch));
    TRY(bare_inbox(d, &inbox));
    TRY(bare_outbox(d, false, &outbox));
    const struct {
        int tree;
        const char *name;
    } rows[] = {{project, "project"}, {scratch, "scratch"}, {inbox, "inbox"}, {outbox, "outbox"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        own_free char *place = xasprintf("%s/%s", mnt, rows[i].name);
        TRY(mount_put(rows[i].tree, place));
    }
    return NULL;
}

err_t bare_mounts(const struct ward *d) {
    const struct conf_agent *c = &d->box->conf;
    gid_t gid = c->uid_base + room_uid(ROOM_EXECUTOR);
    static const char *const names[] = {"project", "scratch", "inbox", "outbox"};
    own_free char *mnt = mnt_of(d);
    TRY(belongings_trays(c)); /* an agent of an earlier release has none */
    if (d->kind == WARD_EXECUTOR)
        TRY(mount_off_below(mnt));
    TRY(fs_dir(mnt, 0, gid, 0710));
    for (size_t i = 0; i < COUNT(names); i++) { /* places to mount on, in the harness's own world too */
        own_free char *place = xasprintf("%s/%s", mnt, names[i]);
        if (d->kind == WARD_EXECUTOR)
            TRY(fs_dir(place, 0, 0, 0755));
        else if (mkdir(place, 0755) < 0 &&
                 errno != EEXIST) /* and leaves alone what the executor's may have mounted */
            return err_sys(errno, "make %s", place);
    }
    return d->kind == WARD_EXECUTOR ? executor_mounts(d, mnt) : NULL;
}

err_t bare_mounts_off(const struct ward *d) {
    own_free char *mnt = mnt_of(d);
    return mount_off_below(
        mnt); /* the folders stay: removing one would take the harness's mount there away */
}

err_t bare_unshare_pids(void) {
    if (unshare(CLONE_NEWNS | CLONE_NEWPID) < 0)
        return err_sys(errno, "make namespaces");
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return err_sys(errno, "keep its mounts to itself");
    return NULL;
}

err_t bare_own_proc(void) {
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return err_sys(errno, "mount /proc");
    return NULL;
}

struct cgroup_host bare_groups(const struct ward *d) {
    struct cgroup_host h = d->w->host.cgroup;
    if (d->box && d->box->conf.mode == MODE_BARE && h.kind == CGROUP_V2)
        h.kind = CGROUP_HYBRID;
    return h;
}

err_t bare_freeze(const struct ward *d, bool frozen) {
    const struct warden *w = d->w;
    if (!w->host.cgroup.v2[0])
        return err_new(EXIT_FAILED, "this host has no cgroup v2 to freeze a bare executor with");
    own_free char *path =
        xasprintf("%s/%sagent-cage/%s/cgroup.freeze", w->host.cgroup.v2, w->conf.prefix, d->box->conf.name);
    own_fd int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || write(fd, frozen ? "1" : "0", 1) != 1)
        return err_sys(errno, "write %s", path);
    return NULL;
}
