#include "base/lockin.h"
#include "base/own.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- ids and capabilities, both halves ---- */

/* Inheritable, permitted and effective by capset, ambient and bounding by prctl (capabilities(7)). */
static err_t drop_capabilities(void) {
    if (cap_reset_ambient() < 0 && errno != EINVAL) /* EINVAL: a kernel before 4.3 has no such set */
        return err_sys(errno, "clear ambient capabilities");
    for (cap_value_t c = 0; cap_get_bound(c) >= 0; c++)
        if (cap_get_bound(c) == 1 && cap_drop_bound(c) < 0)
            return err_sys(errno, "drop capability %d from the bounding set", (int)c);
    return NULL;
}

static err_t clear_capabilities(void) {
    cap_t none = cap_init();
    int failed = none ? cap_set_proc(none) : -1, why = errno;
    cap_free(none);
    return failed ? err_sys(why, "clear capabilities") : NULL;
}

/* By what the kernel says, and by trying to become root again. */
static err_t prove_ids(uid_t uid, gid_t gid) {
    uid_t u[3];
    gid_t g[3];
    if (getresuid(&u[0], &u[1], &u[2]) < 0 || getresgid(&g[0], &g[1], &g[2]) < 0)
        return err_sys(errno, "read the ids");
    for (int i = 0; i < 3; i++)
        if (u[i] != uid || g[i] != gid || u[i] == 0 || g[i] == 0)
            return err_new(EXIT_FAILED, "still has uid %u, gid %u instead of %u, %u", (unsigned)u[i],
                           (unsigned)g[i], (unsigned)uid, (unsigned)gid);
    const gid_t root = 0;
    if (setresuid((uid_t)-1, 0, (uid_t)-1) == 0 || setresgid((gid_t)-1, 0, (gid_t)-1) == 0 ||
        setgroups(1, &root) == 0)
        return err_new(EXIT_FAILED, "could get root's ids back");
    return NULL;
}

err_t lockin_become(uid_t uid, gid_t gid, const gid_t *groups, size_t ngroups) {
    if (uid == 0 || gid == 0 || uid == (uid_t)-1 || gid == (gid_t)-1)
        return err_new(EXIT_USAGE, "no part runs as uid %u, gid %u", (unsigned)uid, (unsigned)gid);
    TRY(drop_capabilities()); /* while there is CAP_SETPCAP */
    if (prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0)
        return err_sys(errno, "keep no capabilities");
    if (setgroups(ngroups, groups) < 0)
        return err_sys(errno, "set the groups");
    if (setresgid(gid, gid, gid) < 0)
        return err_sys(errno, "become gid %u", (unsigned)gid);
    if (setresuid(uid, uid, uid) < 0)
        return err_sys(errno, "become uid %u", (unsigned)uid);
    TRY(clear_capabilities());
    return prove_ids(uid, gid);
}

/* ---- the part's own steps ---- */

static err_t step_descriptors(struct lockin_run *run) {
    if (run->spec->nfds > 0)
        fds_close_from(run->spec->nfds, NULL, 0);
    run->status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    return run->status < 0 ? err_sys(errno, "open /proc/self/status") : NULL;
}

static err_t step_ids(struct lockin_run *run) {
    (void)run;
    if (getuid() == 0 || geteuid() == 0)
        return err_new(EXIT_FAILED, "it must not run as root: the warden starts it under its own account");
    return prove_ids(getuid(), getgid());
}

static err_t limit(int what, const char *name, rlim_t most) {
    struct rlimit l;
    if (getrlimit(what, &l) < 0)
        return err_sys(errno, "read the limit %s", name);
    if (l.rlim_max > most)
        l.rlim_max = most;
    l.rlim_cur = l.rlim_max;
    return setrlimit(what, &l) < 0 ? err_sys(errno, "set the limit %s", name) : NULL;
}

static err_t step_limits(struct lockin_run *run) {
    TRY(limit(RLIMIT_CORE, "core", 0));
    if (run->spec->calls == LOCKIN_SPAWNER)
        return NULL;
    TRY(limit(RLIMIT_NPROC, "nproc", 0));
    return limit(RLIMIT_NOFILE, "nofile", run->spec->nofile ? run->spec->nofile : LOCKIN_NOFILE);
}

static err_t step_memory(struct lockin_run *run) {
    (void)run;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
        return err_sys(errno, "make the process undumpable");
    return NULL;
}

static err_t step_capabilities(struct lockin_run *run) {
    (void)run;
    TRY(drop_capabilities());
    return clear_capabilities();
}

static err_t step_privileges(struct lockin_run *run) {
    (void)run;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return err_sys(errno, "set no_new_privs");
    return NULL;
}

const struct lockin_step lockin_steps[LOCKIN_STEPS] = {
    {"descriptors", step_descriptors},
    {"ids", step_ids},
    {"limits", step_limits},
    {"memory", step_memory},
    {"capabilities", step_capabilities},
    {"privileges", step_privileges},
    {"files", lockin_files},
    {"calls", lockin_calls},
};

err_t lockin(const struct lockin_spec *spec, struct buf *lacks) {
    struct lockin_run run = {spec, lacks, -1};
    err_t e = NULL;
    for (size_t i = 0; i < LOCKIN_STEPS && !e; i++)
        e = err_wrap(lockin_steps[i].run(&run), "%s locks itself in, %s", spec->part, lockin_steps[i].name);
    if (!e)
        e = err_wrap(lockin_prove(spec, run.status), "%s locked itself in", spec->part);
    own_closep(&run.status);
    return e;
}

/* ---- the proof ---- */

/* "1000\t1000\t1000\t1000": all the same, and not 0. */
static bool one_id(const char *value, const char *want) {
    (void)want;
    unsigned long v[4];
    for (size_t i = 0; i < COUNT(v); i++) {
        char *end;
        v[i] = strtoul(value, &end, 10);
        value = end;
    }
    return v[0] && v[0] == v[1] && v[0] == v[2] && v[0] == v[3];
}

/* A container engine lists the room's own group there too. */
static bool own_group(const char *value, const char *want) {
    (void)want;
    char *end;
    for (;; value = end) {
        value += strspn(value, " \t");
        if (!*value)
            return true;
        if (strtoul(value, &end, 10) != getgid() || end == value)
            return false;
    }
}

static bool is(const char *value, const char *want) {
    return !strcmp(value, want);
}

static const struct proof {
    const char *field;
    bool (*holds)(const char *value, const char *want);
    const char *want;
    bool spawner; /* also of a spawner */
} proofs[] = {
    {"Uid", one_id, "one that is not 0", true},
    {"Gid", one_id, "one that is not 0", true},
    {"Groups", own_group, "none but its own", false},
    {"CapInh", is, "0000000000000000", true},
    {"CapPrm", is, "0000000000000000", true},
    {"CapEff", is, "0000000000000000", true},
    {"CapBnd", is, "0000000000000000", true},
    {"CapAmb", is, "0000000000000000", true},
    {"NoNewPrivs", is, "1", true},
    {"Seccomp", is, "2", false},
};

/* The value of a field in the text of the file, cut out; NULL: it is not there. The caller frees. */
static char *field(const char *text, const char *name) {
    size_t n = strlen(name);
    for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (!strncmp(p, name, n) && p[n] == ':') {
            p += n + 1 + strspn(p + n + 1, " \t");
            return xstrndup(p, strcspn(p, "\n"));
        }
    return NULL;
}

err_t lockin_prove(const struct lockin_spec *spec, int status) {
    char text[8192];
    ssize_t n = pread(status, text, sizeof text - 1, 0);
    if (n <= 0)
        return err_sys(n ? errno : EIO, "read /proc/self/status");
    text[n] = 0;
    for (size_t i = 0; i < COUNT(proofs); i++) {
        const struct proof *p = &proofs[i];
        if (!p->spawner && spec->calls == LOCKIN_SPAWNER)
            continue;
        own_free char *value = field(text, p->field);
        if (!value || !p->holds(value, p->want))
            return err_new(EXIT_FAILED, "the kernel says %s: %s, which must be %s", p->field,
                           value ? value : "nothing", p->want);
    }
    return NULL;
}
