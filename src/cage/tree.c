#include "cage/tree.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/names.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static const struct piece {
    const char *path;
    enum { FOLDER, EMPTY_FILE, LINK } kind;
    const char *to; /* LINK */
    bool whole_only;
    mode_t mode; /* FOLDER; 0: 0755 */
} pieces[] = {
    {"/dev", FOLDER},
    {"/proc", FOLDER},
    {"/sys", FOLDER},
    {"/etc", FOLDER},
    {"/run", FOLDER},
    {"/tmp", FOLDER},
    {"/var", FOLDER},
    {"/home", FOLDER},
    {"/home/cage", FOLDER, .mode = 01777}, /* a tmpfs on it gets this mode from runc, whatever it was told */
    {"/cage", FOLDER},
    {"/cage/agent-cage", EMPTY_FILE},
    {"/cage/ca.crt", EMPTY_FILE},
    {"/cage/shim", FOLDER, NULL, true},
    {"/cage/harness", FOLDER, NULL, true},
    {"/project", FOLDER, NULL, true},
    {"/scratch", FOLDER, NULL, true},
    {"/outbox", FOLDER, NULL, true},
    {"/inbox", FOLDER},
    {"/run/lock", FOLDER, NULL, true},
    {"/run/secrets", FOLDER},
    {"/run/.containerenv", EMPTY_FILE},
    {"/etc/mtab", LINK, "/proc/mounts"},
    {"/etc/hostname", EMPTY_FILE},
    {"/etc/resolv.conf", EMPTY_FILE},
    {"/etc/machine-id", EMPTY_FILE},
};

/* Here no link is followed either: the tree's packages may have put one in the place. */
static err_t furnish_one(const char *root, const struct piece *p) {
    own_free char *path = xasprintf("%s%s", root, p->path);
    struct stat st;
    if (p->kind == FOLDER) {
        bool there = !lstat(path, &st) && S_ISDIR(st.st_mode);
        /* an ordinary user takes root's tree as it is */
        bool right = there && (!p->mode || (st.st_mode & 07777) == p->mode || st.st_uid != geteuid());
        return right ? NULL : fs_dir(path, 0, 0, p->mode ? p->mode : 0755);
    }
    if (p->kind == EMPTY_FILE)
        return fs_write(path, "", 0, 0, 0, 0644);
    if (unlink(path) && errno != ENOENT)
        return err_sys(errno, "%s cannot be replaced", path);
    return symlink(p->to, path) ? err_sys(errno, "%s cannot be made", path) : NULL;
}

err_t tree_places(const char *root) {
    for (size_t i = 0; i < COUNT(pieces); i++)
        if (pieces[i].kind == FOLDER)
            TRY(furnish_one(root, &pieces[i]));
    return NULL;
}

/* The rooms' users, by their rooms' names, behind the accounts that the tree has. */
static err_t add_accounts(const char *root, bool group) {
    own_free char *path = xasprintf("%s/etc/%s", root, group ? "group" : "passwd");
    own_buf struct buf text = {0};
    own_err err_t none = fs_read(path, 1 << 20, &text); /* the near-empty tree has no such file yet */
    for (enum room r = 0; r < ROOM_COUNT; r++) {
        const char *name = room_name(r);
        uint32_t id = room_uid(r);
        if (group)
            buf_printf(&text, "%s:x:%u:\n", name, id);
        else
            buf_printf(&text, "%s:x:%u:%u::/home/cage:/bin/bash\n", name, id, id);
    }
    return fs_write(path, text.p, text.len, 0, 0, 0644);
}

err_t tree_furnish(const char *root, bool whole) {
    for (size_t i = 0; i < COUNT(pieces); i++)
        if (whole || !pieces[i].whole_only)
            TRY(furnish_one(root, &pieces[i]));
    own_free char *hosts = xasprintf("%s/etc/hosts", root);
    static const char text[] = "127.0.0.1 localhost\n::1 localhost\n";
    TRY(fs_write(hosts, text, sizeof text - 1, 0, 0, 0644));
    TRY(add_accounts(root, false));
    return add_accounts(root, true);
}

err_t tree_folders_real(const char *root) {
    static const char *const folders[] = {"", "/dev", "/proc", "/sys", "/etc", "/run"};
    for (size_t i = 0; i < COUNT(folders); i++) {
        own_free char *path = xasprintf("%s%s", root, folders[i]);
        struct stat st;
        if (lstat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid || st.st_mode & 022)
            return err_new(EXIT_FAILED,
                           "%s is not a folder that is root's alone; a room is not made of such a tree",
                           path[0] ? path : "/");
    }
    return NULL;
}

/* Calls f for every entry of the tree; links are not followed. */
static err_t each_entry(const char *root, err_t (*f)(const char *path, const struct stat *st)) {
    char *const roots[] = {(char *)(uintptr_t)root, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    if (!walk)
        return err_sys(errno, "%s cannot be walked", root);
    err_t e = NULL;
    FTSENT *entry = NULL;
    while (!e && (errno = 0, entry = fts_read(walk))) {
        if (entry->fts_info == FTS_DP)
            continue;
        if (entry->fts_info == FTS_NS || entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
            e = err_sys(entry->fts_errno, "%s cannot be looked at", entry->fts_path);
        else
            e = f(entry->fts_path, entry->fts_statp);
    }
    if (!e && errno)
        e = err_sys(errno, "%s cannot be walked", root);
    fts_close(walk);
    return e;
}

static bool has_capability(const char *path) {
    return lgetxattr(path, "security.capability", NULL, 0) > 0;
}

static err_t disarm_one(const char *path, const struct stat *st) {
    if (S_ISREG(st->st_mode) && st->st_mode & S_ISUID)
        return unlink(path) ? err_sys(errno, "%s cannot be removed", path) : NULL;
    if (!S_ISLNK(st->st_mode) && st->st_mode & (S_ISUID | S_ISGID) && chmod(path, st->st_mode & 01777))
        return err_sys(errno, "the set-id bits of %s cannot be taken", path);
    if (S_ISREG(st->st_mode) && has_capability(path) && lremovexattr(path, "security.capability"))
        return err_sys(errno, "the capability of %s cannot be taken", path);
    /* Device nodes: an engine brings a room's own /dev. */
    if ((S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)) && unlink(path))
        return err_sys(errno, "the device %s cannot be removed", path);
    return NULL;
}

static err_t judge_one(const char *path, const struct stat *st) {
    if (!S_ISLNK(st->st_mode) && st->st_mode & (S_ISUID | S_ISGID))
        return err_new(EXIT_FAILED, "%s has a set-id bit", path);
    if (S_ISREG(st->st_mode) && has_capability(path))
        return err_new(EXIT_FAILED, "%s has a file capability", path);
    if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
        return err_new(EXIT_FAILED, "%s is a device", path);
    if (st->st_uid >= UIDS_EACH || st->st_gid >= UIDS_EACH)
        return err_new(EXIT_FAILED, "%s belongs to %u:%u, which no room can show", path, st->st_uid,
                       st->st_gid);
    return NULL;
}

err_t tree_disarm(const char *root) {
    return each_entry(root, disarm_one);
}

err_t tree_disarmed(const char *root) {
    return each_entry(root, judge_one);
}
