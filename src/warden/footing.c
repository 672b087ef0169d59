#include "warden/footing.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/paths.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

void footing_remove(void) {
    static const char *const rows[] = {"lock", "stage", "podman", "shim", "mnt", "pid", "ctl"};
    for (size_t i = 0; i < COUNT(rows); i++) {
        own_free char *path = path_of(DIR_RUN "/%s", rows[i]);
        err_free(fs_remove(path)); /* one with a mount below it stays, for `doctor` to say */
    }
}

static err_t make_folders(void) {
    static const struct {
        const char *path;
        mode_t mode;
    } rows[] = {
        {DIR_RUN, 0711},           {DIR_RUN "/ctl", 0700},         {DIR_RUN "/shim", 0700},
        {DIR_RUN "/mnt", 0711},    {DIR_RUN "/stage", 0711},       {DIR_RUN "/podman", 0700},
        {DIR_RUN "/lock", 0700},   {DIR_RUN "/pid", 0700},         {DIR_LIB "/agents", 0711},
        {DIR_LIB "/warden", 0700}, {DIR_LIB "/warden/wish", 0700}, {DIR_LIB "/warden/half", 0700},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        own_free char *path = path_of("%s", rows[i].path);
        TRY(fs_dir(path, 0, 0, rows[i].mode));
    }
    return NULL;
}

err_t footing_make(void) {
    umask(077);
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) < 0)
        return err_sys(errno, "limit core files");
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_sys(errno, "close /proc access");
    /* parts whose worker has ended become children of the warden, so that they are reaped */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return err_sys(errno, "adopt grandchildren");
    return make_folders();
}
