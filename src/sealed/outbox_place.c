#include "sealed/outbox_place.h"

#include "base/ids.h"
#include "base/own.h"
#include "base/parse.h"
#include "cage/host.h"
#include "cage/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUTBOXES "agent-cage-outbox"

static const char note[] = "What lies in these folders was made by code that nobody vouches for. It is text "
                           "to be looked at, not to be trusted:\n"
                           "do not open links in it by hand and do not run it. Reading it safely: agent-cage "
                           "outbox ls, cat, pack.\n";

err_t absolute_path(const char *path, char **ret) {
    if (*path == '/') {
        *ret = xstrdup(path);
        return NULL;
    }
    own_free char *here = getcwd(NULL, 0);
    if (!here)
        return err_sys(errno, "the folder that we are in");
    while (path[0] == '.' && path[1] == '/')
        path += 2 + strspn(path + 2, "/");
    bool same = !path[0] || !strcmp(path, ".");
    *ret = same ? xstrdup(here) : xasprintf("%s/%s", strcmp(here, "/") ? here : "", path);
    return NULL;
}

enum { ANYBODY = -1 };

/* Under sudo "~" is the home of whoever typed it, and must be theirs; else the caller says where it is. */
static char *home_of_caller(uid_t *ret_owner) {
    const char *sudo = geteuid() || host_below_a_user() ? NULL : getenv("SUDO_UID"), *home = getenv("HOME");
    uint64_t uid = 0;
    own_err err_t e = sudo ? parse_u64(sudo, UINT32_MAX, &uid) : NULL;
    own_free char *theirs = sudo && !e && uid ? ids_home((uid_t)uid) : NULL;
    if (theirs) {
        *ret_owner = (uid_t)uid;
        char *real = realpath(theirs, NULL);
        return real ? real : TAKE(theirs);
    }
    *ret_owner = (uid_t)ANYBODY;
    return xstrdup(home && *home == '/' ? home : "/root");
}

err_t outbox_home(char **ret) {
    uid_t owner;
    own_free char *home = home_of_caller(&owner);
    *ret = xasprintf("%s/" OUTBOXES, home);
    return NULL;
}

/* While a folder of somebody's is changed we have their rights and no others: they could put links there. */
static err_t become(const struct stat *owner) {
    if (setegid(owner->st_gid) || seteuid(owner->st_uid))
        return err_sys(errno, "take the rights of uid %u", (unsigned)owner->st_uid);
    return NULL;
}

static void become_root(void) {
    if (seteuid(0) || setegid(0))
        abort();
}

static err_t open_folder(int at, const char *name, int *ret) {
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(errno, "the outbox %s cannot be opened", name);
    *ret = fd;
    return NULL;
}

static err_t folder_in(int at, const char *name, int *ret) {
    if (mkdirat(at, name, 0700) && errno != EEXIST)
        return err_sys(errno, "the outbox %s cannot be made", name);
    return open_folder(at, name, ret);
}

static void put_note(int at) {
    own_fd int fd = openat(at, "README", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd >= 0 && write(fd, note, sizeof note - 1) < 0)
        return; /* it is said at the end of each run too */
}

/* `home` is a descriptor of the folder in which we act, as its owner. */
static err_t make_as_owner(int home, const char *wanted_name, const char *session, struct outbox_place *ret) {
    struct stat st;
    if (fstat(home, &st))
        return err_sys(errno, "look at the outbox's folder");
    TRY(become(&st));
    err_t e = NULL;
    if (wanted_name)
        e = folder_in(home, wanted_name, &ret->fd);
    else if (!(e = folder_in(home, OUTBOXES, &ret->parent))) {
        put_note(ret->parent);
        e = folder_in(ret->parent, session, &ret->fd);
    }
    become_root();
    return e;
}

/* Root's own folder is given to the project's owner; what somebody else has stays theirs. */
static err_t settle(int fd, uid_t uid, gid_t gid, struct outbox_place *ret) {
    struct stat st;
    if (fstat(fd, &st))
        return err_sys(errno, "look at the outbox");
    bool roots = !st.st_uid && !host_below_a_user();
    if (roots && (st.st_mode & 022))
        return err_new(EXIT_POLICY, "the outbox %s is root's and others may write there; choose another",
                       ret->path);
    if (roots && (fchown(fd, uid, gid) || fchmod(fd, 0700)))
        return err_sys(errno, "give the outbox to uid %u", (unsigned)uid);
    if (host_below_a_user() && st.st_uid)
        return err_new(EXIT_POLICY,
                       "the outbox %s is not yours: name a folder of your own, or none and a new one is made",
                       ret->path);
    ret->uid = roots ? uid : st.st_uid;
    ret->gid = roots ? gid : st.st_gid;
    return NULL;
}

/* The folder is opened once, and what is true of it is asked of that descriptor. One that must be somebody's (owner) is
 * reached by no link: whoever may put one there would have us act elsewhere. */
static err_t open_home(const char *path, uid_t owner, int *ret) {
    struct stat st;
    if (owner == (uid_t)ANYBODY) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return err_as(err_sys(errno, "the folder %s of the outbox", path), EXIT_NOTFOUND);
        *ret = fd;
        return NULL;
    }
    own_fd int fd = -1;
    TRY(mount_pin(path, &fd));
    if (fstat(fd, &st))
        return err_sys(errno, "look at the outbox's folder");
    if (!S_ISDIR(st.st_mode) || st.st_uid != owner)
        return err_new(EXIT_POLICY, "%s is no folder of uid %u: no outbox is made there", path,
                       (unsigned)owner);
    *ret = TAKE_FD(fd);
    return NULL;
}

/* name NULL: below the folder of all outboxes in `parent`. */
static err_t make(const char *parent, uid_t owner, const char *name, const char *session, uid_t uid,
                  gid_t gid, struct outbox_place *ret) {
    own_fd int at = -1;
    TRY(open_home(parent, owner, &at));
    TRY(make_as_owner(at, name, session, ret));
    return settle(ret->fd, uid, gid, ret);
}

static err_t whole(struct outbox_place *o, err_t e) {
    if (e)
        outbox_place_close(o);
    return e;
}

err_t outbox_make_in(const char *home, uid_t owner, const char *session, uid_t uid, gid_t gid,
                     struct outbox_place *ret) {
    *ret =
        (struct outbox_place){.fd = -1, .parent = -1, .path = xasprintf("%s/" OUTBOXES "/%s", home, session)};
    return whole(ret, make(home, owner, NULL, session, uid, gid, ret));
}

err_t outbox_make(const char *wanted, const char *session, uid_t uid, gid_t gid, struct outbox_place *ret) {
    if (!wanted) {
        uid_t owner;
        own_free char *home = home_of_caller(&owner);
        return outbox_make_in(home, owner, session, uid, gid, ret);
    }
    own_free char *above = xstrdup(wanted), *last = xstrdup(wanted);
    *ret = (struct outbox_place){.fd = -1, .parent = -1, .path = xstrdup(wanted)};
    return whole(ret, make(dirname(above), (uid_t)ANYBODY, basename(last), session, uid, gid, ret));
}

static err_t reopen(struct outbox_place *o) {
    own_free char *above = xstrdup(o->path), *last = xstrdup(o->path);
    struct stat st;
    TRY(mount_pin(dirname(above), &o->parent));
    TRY(open_folder(o->parent, basename(last), &o->fd));
    if (fstat(o->fd, &st))
        return err_sys(errno, "look at the outbox");
    if (!st.st_uid)
        return err_new(EXIT_POLICY, "the outbox %s has become root's", o->path);
    o->uid = st.st_uid;
    o->gid = st.st_gid;
    return NULL;
}

err_t outbox_open(const char *path, struct outbox_place *ret) {
    *ret = (struct outbox_place){.fd = -1, .parent = -1, .path = xstrdup(path)};
    return whole(ret, reopen(ret));
}

void outbox_forget(const struct outbox_place *o) {
    const char *slash = o->path ? strrchr(o->path, '/') : NULL;
    if (o->parent >= 0 && slash && unlinkat(o->parent, slash + 1, AT_REMOVEDIR))
        return; /* it holds something */
}

void outbox_place_close(struct outbox_place *o) {
    own_closep(&o->fd);
    own_closep(&o->parent);
    free(o->path);
    *o = (struct outbox_place){.fd = -1, .parent = -1};
}
