#include "warden/start.h"
#include "base/fs.h"
#include "base/ids.h"
#include "base/own.h"
#include "base/paths.h"
#include "warden/control.h"
#include "warden/disk.h"
#include "warden/warden.h"
#include "warden/web_door.h"
#include "warden/worker.h"
#include "wire/seq.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static bool is_pod(const struct ward *d) {
    return d->box && d->box->conf.mode != MODE_BARE;
}

static err_t lock(const struct ward *d) {
    own_free char *name =
        xasprintf("%s%s%s", d->box ? d->box->conf.name : "", d->box ? "." : "", ward_kind_name(d->kind));
    return worker_lock(name);
}

err_t ward_uid(const struct ward *d, uid_t *ret_uid, gid_t *ret_gid) {
    if (d->box) {
        *ret_uid = *ret_gid = d->box->conf.uid_base + room_uid((enum room)d->kind);
        return NULL;
    }
    own_free char *account = xasprintf("%scage_%s", d->w->conf.prefix, ward_kind_name(d->kind));
    return ids_account(account, ret_uid, ret_gid);
}

char *ward_ca(const struct ward *d) {
    static const char *const usual[] = {"/etc/ssl/certs/ca-certificates.crt",
                                        "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                        "/etc/ssl/cert.pem"};
    if (*d->w->conf.ca_file)
        return xstrdup(d->w->conf.ca_file);
    for (size_t i = 0; i < COUNT(usual); i++)
        if (access(usual[i], R_OK) == 0)
            return xstrdup(usual[i]);
    return xstrdup("");
}

/* The second listener: the relay's door for fronts, the executor's for shims. NULL: this ward has none. */
static char *door_path(const struct ward *d) {
    if (d->kind == WARD_RELAY)
        return path_of(PATH_RELAY_SOCKET);
    if (d->kind == WARD_EXECUTOR)
        return path_of(DIR_RUN "/shim/%s/shim.sock", d->box->conf.name);
    return NULL;
}

/* A shim's door belongs to the harness: nobody else may knock, whatever the executor checks. */
static err_t make_door(const struct ward *d, const char *path, int *ret_fd) {
    if (d->kind != WARD_EXECUTOR)
        return seq_listen(path, 0600, ret_fd);
    own_fd int fd = -1;
    TRY(seq_listen(path, 0600, &fd));
    uid_t harness = d->box->conf.uid_base + room_uid(ROOM_HARNESS);
    if (lchown(path, harness, harness) < 0)
        return err_sys(errno, "owner of %s", path);
    *ret_fd = TAKE_FD(fd);
    return NULL;
}

/* The folder of the door is there whichever room comes first. */
static err_t make_porch(const struct ward *d) {
    if (!d->box)
        return NULL;
    own_free char *dir = path_of(DIR_RUN "/shim/%s", d->box->conf.name);
    return fs_dir(dir, 0, 0, 0755);
}

err_t start_ward(struct ward *d, struct ward_made *ret, int report) {
    TRY(lock(d));
    own_free char *control = control_path(d), *door = door_path(d);
    own_fd int listener = -1, door_fd = -1;
    TRY(seq_listen(control, 0600, &listener));
    TRY(make_porch(d));
    if (door)
        TRY(make_door(d, door, &door_fd));
    own_fd int web = -1;
    if (d->kind == WARD_RELAY)
        TRY(web_door_open(d->w, report, &web));
    int fds[] = {listener, door_fd, web};
    size_t nfds = web >= 0 ? 3 : door ? 2 : 1;
    return is_pod(d) ? pod_start(d, fds, nfds, ret, report) : account_start(d, fds, nfds, ret);
}

err_t adopt_ward(struct ward *d, struct ward_made *ret) {
    TRY(lock(d));
    TRY(is_pod(d) ? pod_adopt(d, ret) : account_adopt(d, ret));
    if (d->kind == WARD_HARNESS ||
        d->kind == WARD_EXECUTOR) { /* frozen by the last warden, it could not even say hello */
        d->made = *ret;
        err_free(disk_freeze(d, false));
    }
    return NULL;
}

err_t refresh_ward(struct ward *d) {
    TRY(lock(d));
    return is_pod(d) ? pod_refresh(d) : NULL;
}

err_t clear_ward(struct ward *d, struct ward_exit *how) {
    TRY(lock(d));
    TRY(is_pod(d) ? pod_clear(d, how) : account_clear(d));
    own_free char *control = control_path(d), *door = door_path(d);
    if (door && unlink(door) < 0 && errno != ENOENT)
        return err_sys(errno, "remove %s", door);
    if (unlink(control) < 0 && errno != ENOENT)
        return err_sys(errno, "remove %s", control);
    return NULL;
}
