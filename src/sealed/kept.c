#include "sealed/kept.h"

#include "base/fs.h"
#include "base/names.h"
#include "base/own.h"
#include "cage/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static err_t store_path(const struct ground *g, const struct project *p, char **ret) {
    struct stat st;
    if (fstat(p->fd, &st))
        return err_sys(errno, "the project");
    own_free char *all = xasprintf("%s/kept", g->lib);
    TRY(fs_dir(all, geteuid(), getegid(), 0700));
    *ret = xasprintf("%s/%x-%x-%llx", all, major(st.st_dev), minor(st.st_dev), (unsigned long long)st.st_ino);
    return NULL;
}

static err_t make_store(const struct kept *k, const struct project *p, const char *path) {
    struct stat st;
    own_free char *upper = xasprintf("%s/upper", k->store), *work = xasprintf("%s/work", k->store),
                  *name = xasprintf("%s/path", k->store);
    if (fstat(p->fd, &st))
        return err_sys(errno, "the project");
    TRY(fs_dir(k->store, 0, 0, 0700));
    TRY(fs_dir(work, 0, 0, 0700));
    if (access(upper, F_OK)) /* the layer's top is the project's own folder to the room */
        TRY(fs_dir(upper, p->uid, p->gid, st.st_mode & 0777));
    return fs_write(name, path, strlen(path), 0, 0, 0600);
}

/* A mount of `source` at `place`, in which the owner is the room's uid (and root root: overlayfs's own folder). */
static err_t put_layer(const struct ground *g, const struct project *p, uint32_t uid_base, int source,
                       const char *place, bool ro) {
    own_fd int userns = -1, tree = -1;
    struct mount_how how = {.ro = ro, .userns = -1};
    uint32_t to = uid_base + room_uid(ROOM_EXECUTOR);
    struct mount_ids uids[] = {{0, 0, 1}, {p->uid, to, 1}}, gids[] = {{0, 0, 1}, {p->gid, to, 1}};
    if (!g->rootless) {
        size_t ngids = p->gid ? 2 : 1;
        if (!p->gid)
            gids[0] = (struct mount_ids){0, to, 1};
        TRY(mount_userns(uids, 2, gids, ngids, &userns));
        how.userns = userns;
    }
    TRY(fs_dir(place, 0, 0, 0755));
    TRY(err_wrap(mount_clone(source, &how, &tree), "the project's layers"));
    return mount_put(tree, place);
}

static err_t put_overlay(const struct ground *g, const char *lower, const char *layers, const char *place) {
    own_free char *options =
        xasprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work,%s", lower, layers, layers,
                  g->rootless ? "userxattr" : "redirect_dir=off,index=off,metacopy=off");
    if (strpbrk(lower, ":,\\") || strpbrk(layers, ",\\"))
        return err_new(EXIT_FAILED, "%s holds a colon or a comma, which overlayfs cannot be given", lower);
    TRY(fs_dir(place, 0, 0, 0755));
    if (mount("overlay", place, "overlay", MS_NOSUID | MS_NODEV, options))
        return err_sys(
            errno,
            "no overlay can be put over this project (its file system must be one like ext4, xfs, btrfs)");
    return NULL;
}

err_t kept_open(const struct ground *g, const struct project *p, const char *path, uint32_t uid_base,
                const char *folder, struct kept *ret) {
    struct kept k = {.place = -1};
    own_fd int store = -1;
    own_free char *lower = xasprintf("%s/lower", folder), *layers = xasprintf("%s/layers", folder),
                  *merged = xasprintf("%s/merged", folder), *name = NULL;
    TRY(store_path(g, p, &name));
    k.store = name;
    TRY(make_store(&k, p, path));
    store = open(k.store, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (store < 0)
        return err_sys(errno, "open %s", k.store);
    TRY(put_layer(g, p, uid_base, p->fd, lower, true));
    TRY(put_layer(g, p, uid_base, store, layers, false));
    TRY(put_overlay(g, lower, layers, merged));
    k.place = open(merged, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (k.place < 0)
        return err_sys(errno, "open %s", merged);
    k.store = TAKE(name);
    *ret = k;
    return NULL;
}

void kept_close(struct kept *k) {
    own_closep(&k->place);
    free(k->store);
    k->store = NULL;
}

err_t kept_off(const char *folder) {
    return mount_off_below(folder);
}

err_t store_open(const struct ground *g, const struct project *p, struct store *ret) {
    struct store s = {.upper = -1};
    TRY(store_path(g, p, &s.path));
    own_free char *upper = xasprintf("%s/upper", s.path);
    s.upper = open(upper, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s.upper < 0 && errno != ENOENT) {
        err_t e = err_sys(errno, "open %s", upper);
        store_close(&s);
        return e;
    }
    *ret = s;
    return NULL;
}

void store_close(struct store *s) {
    own_closep(&s->upper);
    free(s->path);
    s->path = NULL;
}

err_t store_drop(const struct store *s) {
    return fs_remove(s->path);
}
