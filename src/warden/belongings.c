#include "warden/belongings.h"
#include "base/fs.h"
#include "base/ids.h"
#include "base/own.h"
#include "base/paths.h"
#include "base/proc.h"
#include "cage/mount.h"
#include "warden/account.h"

#include <string.h>

enum { ACCOUNT_NAME_MAX = 32 }; /* useradd(8) */

static uid_t uid_in(const struct conf_agent *c, enum room room) {
    return c->uid_base + room_uid(room);
}

static char *half_path(const char *name) {
    return path_of(DIR_LIB "/warden/half/%s", name);
}

err_t belongings_mark(const char *name) {
    own_free char *path = half_path(name);
    return fs_write(path, "", 0, 0, 0, 0600);
}

err_t belongings_unmark(const char *name) {
    own_free char *path = half_path(name);
    return fs_remove(path);
}

/* What starting its rooms left in the run folder. */
static err_t drop_rooms(const char *name) {
    static const char *const folders[] = {"podman", "lock", "pid"};
    own_free char *world = path_of(DIR_RUN "/stage/%s.world", name);
    TRY(fs_remove(world));
    for (size_t i = 0; i < COUNT(folders); i++)
        for (int room = 0; room < ROOM_COUNT; room++) {
            own_free char *path = path_of(DIR_RUN "/%s/%s.%s", folders[i], name, room_name((enum room)room));
            TRY(fs_remove(path));
        }
    return NULL;
}

err_t belongings_drop_folders(const char *name) {
    own_free char *mnt = path_of(DIR_RUN "/mnt/%s", name), *shim = path_of(DIR_RUN "/shim/%s", name);
    own_free char *lib = path_of(DIR_LIB "/agents/%s", name);
    TRY(mount_off_below(mnt));
    TRY(fs_remove(mnt));
    TRY(fs_remove(shim));
    TRY(drop_rooms(name));
    return fs_remove(lib);
}

err_t belongings_trays(const struct conf_agent *c) {
    static const struct {
        const char *name;
        enum room owner;
    } trays[] = {{"inbox", ROOM_AGENT}, {"outbox", ROOM_EXECUTOR}};
    for (size_t i = 0; i < COUNT(trays); i++) {
        own_free char *path = path_of(DIR_LIB "/agents/%s/%s", c->name, trays[i].name);
        uid_t uid = uid_in(c, trays[i].owner);
        TRY(fs_dir(path, uid, uid, 0700));
    }
    return NULL;
}

err_t belongings_folders(const struct conf_agent *c) {
    own_free char *lib = path_of(DIR_LIB "/agents/%s", c->name);
    TRY(belongings_drop_folders(c->name)); /* what a crash left of an earlier agent of this name */
    TRY(fs_dir(lib, 0, 0, 0711));
    for (int room = 0; room < ROOM_COUNT; room++) {
        own_free char *dir = xasprintf("%s/%s", lib, room_name((enum room)room));
        uid_t uid = uid_in(c, (enum room)room);
        TRY(fs_dir(dir, uid, uid, 0700));
    }
    own_free char *scratch = xasprintf("%s/scratch", lib);
    uid_t uid = uid_in(c, ROOM_EXECUTOR);
    return fs_dir(scratch, uid, uid, 0700);
}

static char *account_name(const char *prefix, const char *agent, enum room room) {
    return xasprintf("%scage-%s%s", prefix, agent, room_suffix(room));
}

static err_t drop_account(const char *name) {
    uid_t uid;
    gid_t gid;
    own_err err_t none = ids_account(name, &uid, &gid);
    if (none)
        return none->status == EXIT_NOTFOUND ? NULL : TAKE(none);
    TRY(account_kill_all(uid, gid));
    TRY(proc_call("userdel", name, NULL));
    err_free(proc_call("groupdel", name, NULL)); /* login.defs says whether userdel did it */
    return NULL;
}

err_t belongings_drop_accounts(const char *prefix, const char *agent) {
    for (int room = 0; room < ROOM_COUNT; room++) {
        own_free char *name = account_name(prefix, agent, (enum room)room);
        TRY(drop_account(name));
    }
    return NULL;
}

static err_t make_account(const char *prefix, const struct conf_agent *c, enum room room) {
    own_free char *name = account_name(prefix, c->name, room);
    own_free char *home = path_of(DIR_LIB "/agents/%s/%s", c->name, room_name(room));
    own_free char *id = xasprintf("%u", (unsigned)uid_in(c, room));
    if (strlen(name) > ACCOUNT_NAME_MAX)
        return err_new(EXIT_USAGE, "the account name %s is longer than %d letters: take a shorter name", name,
                       ACCOUNT_NAME_MAX);
    TRY(drop_account(name));
    TRY(proc_call("groupadd", "-g", id, name, NULL));
    err_t e = proc_call("useradd", "-r", "-M", "-N", "-u", id, "-g", id, "-d", home, "-s",
                        "/usr/sbin/nologin", "-c", "agent-cage", name, NULL);
    if (e)
        err_free(proc_call("groupdel", name, NULL));
    return e;
}

err_t belongings_accounts(const char *prefix, const struct conf_agent *c) {
    for (int room = 0; room < ROOM_COUNT; room++)
        TRY(make_account(prefix, c, (enum room)room));
    return NULL;
}
