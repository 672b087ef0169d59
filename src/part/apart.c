#include "part/apart.h"
#include "base/lockin.h"
#include "base/names.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { PLACES = 5 };

bool apart(const struct msg_part_go *go) {
    return !strcmp(go->mode.p, mode_name(MODE_SEALED)) && strcmp(go->harness.p, "shell") != 0;
}

static err_t mount_of(const char *path, uint64_t *ret) {
    struct statx st;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &st) < 0)
        return err_sys(errno, "look at %s", path);
    if (!(st.stx_mask & STATX_MNT_ID))
        return err_new(EXIT_FAILED, "this kernel does not tell mounts apart (Linux 5.8 does)");
    *ret = st.stx_mnt_id;
    return NULL;
}

static bool holds(const char *dir, struct bytes path) {
    size_t n = strlen(dir);
    return !strncmp(path.p, dir, n) && (!path.p[n] || path.p[n] == '/');
}

/* Of the places of its own those that are no part of a shared mount, and hold none. */
static err_t own_places(const struct msg_part_go *go, const char *ret[PLACES + 1]) {
    const char *const places[PLACES] = {go->home.p, "/tmp", "/var/tmp", "/run", "/dev/shm"};
    uint64_t project, scratch, id;
    TRY(mount_of(go->project.p, &project));
    TRY(mount_of(go->scratch.p, &scratch));
    size_t n = 0;
    for (size_t i = 0; i < PLACES; i++) {
        own_err err_t e = mount_of(places[i], &id);
        if (!e && id != project && id != scratch && !holds(places[i], go->project) &&
            !holds(places[i], go->scratch))
            ret[n++] = places[i];
    }
    ret[n] = NULL;
    return NULL;
}

err_t apart_sockets(const struct msg_part_go *go) {
    const char *own[PLACES + 1];
    if (!apart(go))
        return NULL;
    TRY(own_places(go, own));
    return lockin_sockets(own);
}

err_t apart_tmpdir(const struct msg_part_go *go, char **ret) {
    own_free char *dir = apart(go) ? xasprintf("%s/.tmp", go->home.p) : xstrdup(go->scratch.p);
    if (apart(go) && mkdir(dir, 0700) < 0 && errno != EEXIST)
        return err_sys(errno, "make %s", dir);
    *ret = TAKE(dir);
    return NULL;
}
