#include "warden/programs.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/proc.h"
#include "cage/half.h"
#include "warden/account.h"

#include <errno.h>
#include <fts.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Of the agent's range, and no room's (names.h). */
enum { FETCHER = 45000, FETCH_TIMEOUT_MS = 20 * 60 * 1000 };

struct program {
    const char *name, *machine, *package, *version, *integrity, *entry;
};

static const struct program programs[] = {
#define PROGRAM(name, machine, package, version, integrity, entry)                                           \
    {name, machine, package, version, integrity, entry},
#define FOR(word, name)
#include "warden/programs.def"
#undef PROGRAM
#undef FOR
};

static const struct {
    const char *word, *name;
} needs[] = {
#define PROGRAM(name, machine, package, version, integrity, entry)
#define FOR(word, name) {word, name},
#include "warden/programs.def"
#undef PROGRAM
#undef FOR
};

static const char *name_for(const char *harness) {
    for (size_t i = 0; i < COUNT(needs); i++)
        if (!strcmp(harness, needs[i].word))
            return needs[i].name;
    return NULL;
}

static const struct program *program_for(const char *name) {
    struct utsname host;
    uname(&host);
    for (size_t i = 0; name && i < COUNT(programs); i++)
        if (!strcmp(programs[i].name, name) && !strcmp(programs[i].machine, host.machine))
            return &programs[i];
    return NULL;
}

char *programs_title(const char *harness) {
    const struct program *p = program_for(name_for(harness));
    if (!p)
        return xstrdup(harness);
    return xasprintf("%s %.*s", harness, (int)strcspn(p->version, "-"), p->version);
}

/* ---- fetching ---- */

/* A project of one package for npm, with what it must be. */
static err_t write_lock(const struct program *p, const char *work, uid_t uid) {
    own_free char *package = xasprintf(
        "{\"name\":\"harness\",\"private\":true,\"dependencies\":{\"%s\":\"%s\"}}\n", p->package, p->version);
    own_free char *lock =
        xasprintf("{\"name\":\"harness\",\"lockfileVersion\":3,\"requires\":true,\"packages\":{"
                  "\"\":{\"name\":\"harness\",\"dependencies\":{\"%s\":\"%s\"}},"
                  "\"node_modules/%s\":{\"version\":\"%s\",\"integrity\":\"%s\"}}}\n",
                  p->package, p->version, p->package, p->version, p->integrity);
    own_free char *at = xasprintf("%s/package.json", work),
                  *lock_at = xasprintf("%s/package-lock.json", work);
    TRY(fs_write(at, package, strlen(package), uid, uid, 0600));
    return fs_write(lock_at, lock, strlen(lock), uid, uid, 0600);
}

static err_t run_npm(const char *work, uid_t uid) {
    own_free char *id = xasprintf("%u", (unsigned)uid), *home = xasprintf("HOME=%s", work),
                  *tmp = xasprintf("TMPDIR=%s", work), *cache = xasprintf("npm_config_cache=%s/.npm", work);
    const char *const argv[] = {"setpriv",
                                "--reuid",
                                id,
                                "--regid",
                                id,
                                "--clear-groups",
                                "--inh-caps=-all",
                                "--bounding-set=-all",
                                "--no-new-privs",
                                "npm",
                                "ci",
                                "--ignore-scripts",
                                "--no-audit",
                                "--no-fund",
                                "--no-update-notifier",
                                NULL};
    const char *const env[] = {"PATH=" PROC_PATH, "LC_ALL=C.UTF-8", home, tmp, cache, NULL};
    struct proc_spec spec = {.argv = argv, .dir = work, .env = env, .timeout_ms = FETCH_TIMEOUT_MS};
    return proc_must(&spec);
}

/* ---- making it root's ---- */

/* What is neither a folder nor a plain file of one name has no place in it. */
static err_t settle_one(const FTSENT *entry) {
    const struct stat *st = entry->fts_statp;
    bool folder = entry->fts_info == FTS_D, file = entry->fts_info == FTS_F && st->st_nlink == 1;
    if (!folder && !file)
        return unlink(entry->fts_accpath) ? err_sys(errno, "take %s away", entry->fts_path) : NULL;
    mode_t mode = folder || st->st_mode & 0111 ? 0755 : 0644;
    if (lchown(entry->fts_accpath, 0, 0) || chmod(entry->fts_accpath, mode))
        return err_sys(errno, "make %s root's", entry->fts_path);
    return NULL;
}

/* Nobody else can change it any more: its owner's processes were ended, and its parent folder is root's alone. */
static err_t settle(const char *work) {
    char *const roots[] = {(char *)(uintptr_t)work, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    if (!walk)
        return err_sys(errno, "walk %s", work);
    err_t e = NULL;
    FTSENT *entry = NULL;
    while (!e && (errno = 0, entry = fts_read(walk)))
        if (entry->fts_info != FTS_DP)
            e = settle_one(entry);
    if (!e && errno)
        e = err_sys(errno, "walk %s", work);
    fts_close(walk);
    return e;
}

static err_t drop_leftovers(const char *work) {
    static const char *const names[] = {".npm", "package.json", "package-lock.json"};
    for (size_t i = 0; i < COUNT(names); i++) {
        own_free char *path = xasprintf("%s/%s", work, names[i]);
        TRY(fs_remove(path));
    }
    return NULL;
}

static err_t link_entry(const struct program *p, const char *work) {
    own_free char *to = xasprintf("node_modules/%s/%s", p->package, p->entry);
    own_free char *file = xasprintf("%s/%s", work, to), *link = xasprintf("%s/%s", work, p->name);
    struct stat st;
    if (lstat(file, &st) || !S_ISREG(st.st_mode) || !(st.st_mode & 0100))
        return err_new(EXIT_FAILED, "the package %s %s has no program %s", p->package, p->version, p->entry);
    return symlink(to, link) ? err_sys(errno, "make %s", link) : NULL;
}

static err_t fetch(const struct program *p, const char *work, uid_t uid) {
    TRY(fs_dir(work, uid, uid, 0700));
    TRY(write_lock(p, work, uid));
    err_t e = err_wrap(run_npm(work, uid), "npm could not fetch %s %s", p->package, p->version);
    err_t alive = account_kill_all(uid, uid);
    if (e) {
        err_free(alive);
        return e;
    }
    TRY(alive);
    TRY(drop_leftovers(work));
    TRY(settle(work));
    return link_entry(p, work);
}

/* ---- its place ---- */

static bool is_there(const char *path) {
    struct stat st;
    return !lstat(path, &st) && S_ISDIR(st.st_mode) && !st.st_uid;
}

static err_t fetch_beside(const struct program *p, const char *dir, const char *place, uid_t uid) {
    own_free char *fresh = xasprintf("%s/.new-%d", dir, getpid());
    own_free char *work = xasprintf("%s/work", fresh);
    own_free char *npm = proc_find("npm");
    if (!npm)
        return err_new(EXIT_NOTFOUND,
                       "%s comes from npm, which this host does not have: install Debian's npm package "
                       "(it is not needed afterwards)",
                       p->name);
    TRY(fs_remove(fresh));
    TRY(fs_dir(fresh, 0, 0, 0711));
    err_t e = fetch(p, work, uid);
    if (!e && rename(work, place))
        e = err_sys(errno, "put %s in its place", place);
    own_err err_t left = fs_remove(fresh);
    return e ? e : TAKE(left);
}

err_t programs_get(const struct conf_fleet *fleet, const struct conf_agent *agent, programs_progress *tell,
                   void *ctx, char **ret) {
    const char *name = name_for(agent->harness);
    const struct program *p = program_for(name);
    *ret = NULL;
    if (!name) { /* the operator's own, for zcode and acp:CMD */
        own_free char *local = xasprintf("%s/local", fleet->harness_dir);
        if (strcmp(agent->harness, "shell") && is_there(local))
            *ret = TAKE(local);
        return NULL;
    }
    if (!p)
        return err_new(EXIT_NOTFOUND, "there is no %s for a machine of this kind", name);
    own_free char *place = xasprintf("%s/%s-%s", fleet->harness_dir, p->name, p->version);
    own_fd int locked = -1;
    if (!is_there(place)) {
        TRY(fs_dirs(fleet->harness_dir));
        TRY(half_lock(fleet->harness_dir, &locked));
    }
    if (!is_there(place)) { /* nobody fetched it while we waited */
        if (half_sweep(fleet->harness_dir))
            tell(ctx, "removed what a fetch that was interrupted had left");
        own_free char *line = xasprintf("fetching %s %s from npm…", p->name, p->version);
        tell(ctx, line);
        TRY(fetch_beside(p, fleet->harness_dir, place, agent->uid_base + FETCHER));
        tell(ctx, "it is there, root's and read-only");
    }
    *ret = TAKE(place);
    return NULL;
}
