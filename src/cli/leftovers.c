/*
 * One table of kinds, each with the function that finds its things and the one that removes one. Finding
 * asks who is alive last: what was made before a configuration was written belongs to an agent that is
 * marked as half made.
 */
#include "cli/leftovers.h"
#include "base/fs.h"
#include "base/ids.h"
#include "base/lockin.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/paths.h"
#include "base/proc.h"
#include "cage/cgroup.h"
#include "cage/half.h"
#include "cage/mount.h"
#include "cage/podman.h"
#include "sealed/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GONE_ROUNDS = 100, ROUND_US = 20000 };

/* ---- who is alive ---- */

/* An agent with a configuration, or one that the warden is making or removing at this moment. */
static bool is_living(const char *agent) {
    own_free char *conf = path_of(DIR_ETC "/agents/%s.conf", agent),
                  *half = path_of(DIR_LIB "/warden/half/%s", agent);
    return access(conf, F_OK) == 0 || access(half, F_OK) == 0;
}

/* Adds it when it is named after an agent of the past. `what` becomes the list's. */
static void add(struct leftovers *l, enum leftover_kind kind, const char *agent, char *what) {
    if (*agent && (!name_ok(agent) || is_living(agent))) {
        free(what);
        return;
    }
    l->v = xrealloc(l->v, l->n + 1, sizeof *l->v);
    struct leftover *one = &l->v[l->n++];
    *one = (struct leftover){.kind = kind, .what = what};
    snprintf(one->agent, sizeof one->agent, "%s", agent);
}

/* ---- containers ---- */

static err_t find_containers(const struct doctor *d, struct leftovers *l) {
    struct podman_container *all = NULL;
    size_t n = 0;
    if (!*d->host.podman)
        return NULL;
    TRY(podman_list(&d->host, d->dir, paths_root(), &all, &n));
    for (size_t i = 0; i < n; i++)
        if (*all[i].agent)
            add(l, LEFT_CONTAINER, all[i].agent, xstrdup(all[i].name));
    free(all);
    return NULL;
}

static err_t remove_container(const struct doctor *d, const struct leftover *l) {
    return podman_rm(&d->host, d->dir, l->what);
}

/* ---- processes: of a uid of the fleet's block that is in no living agent's range ---- */

struct ranges {
    uint32_t base[1024];
    size_t n;
};

/* The ranges of sealed runs, which have no agent. */
static void sealed_ranges(struct ranges *r) {
    for (unsigned n = 0; r->n < COUNT(r->base); n++) {
        own_free char *path = path_of(DIR_LIB "/sealed/uid-%u", n), *line = NULL;
        own_err err_t none = fs_read_line(path, &line);
        uint64_t v;
        own_err err_t no_number = none ? NULL : parse_u64(line, UINT32_MAX, &v);
        if (none)
            return;
        if (!no_number)
            r->base[r->n++] = (uint32_t)v;
    }
}

/* The ranges in use: each agent's, and the one in which the warden tries runtimes. False: it cannot be told. */
static bool living_ranges(struct ranges *r) {
    own_names char **names = NULL;
    own_free char *spare = path_of(DIR_LIB "/warden/spare-uid"), *line = NULL;
    own_err err_t e = conf_agent_names(&names);
    for (char **n = e ? NULL : names; n && *n; n++) {
        own_conf_agent struct conf_agent a = {0};
        own_err err_t unreadable = conf_agent_read(*n, &a);
        if (unreadable || r->n == COUNT(r->base))
            return false;
        r->base[r->n++] = a.uid_base;
    }
    uint64_t v;
    own_err err_t none = fs_read_line(spare, &line);
    own_err err_t no_number = none ? NULL : parse_u64(line, UINT32_MAX, &v);
    if (!none && !no_number && r->n < COUNT(r->base))
        r->base[r->n++] = (uint32_t)v;
    sealed_ranges(r);
    return !e;
}

static bool in_use(const struct ranges *r, uid_t uid) {
    for (size_t i = 0; i < r->n; i++)
        if (uid >= r->base[i] && uid - r->base[i] < UIDS_EACH)
            return true;
    return false;
}

static bool anything_half_made(void) {
    own_free char *path = path_of(DIR_LIB "/warden/half");
    DIR *dir = opendir(path);
    bool any = false;
    for (struct dirent *e; dir && (e = readdir(dir));)
        any |= name_ok(e->d_name);
    if (dir)
        closedir(dir);
    return any;
}

/* The real uid of a living process; false for one that is none, or a zombie. */
static bool uid_of(const char *pid, uid_t *ret) {
    own_free char *path = xasprintf("/proc/%s/status", pid);
    own_buf struct buf text = {0};
    own_err err_t e = fs_read(path, 1 << 16, &text);
    const char *line = e ? NULL : strstr(buf_text(&text), "\nUid:\t");
    if (!line || strstr(buf_text(&text), "\nState:\tZ"))
        return false;
    *ret = (uid_t)strtoul(line + 6, NULL, 10);
    return true;
}

static err_t find_processes(const struct doctor *d, struct leftovers *l) {
    struct ranges *r = xcalloc(1, sizeof *r);
    DIR *proc = living_ranges(r) && !anything_half_made() ? opendir("/proc") : NULL;
    for (struct dirent *e; proc && (e = readdir(proc));) {
        uid_t uid;
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && uid_of(e->d_name, &uid) &&
            ids_ours(d->fleet.prefix, uid) && !in_use(r, uid))
            add(l, LEFT_PROCESS, "", xstrdup(e->d_name));
    }
    if (proc)
        closedir(proc);
    free(r);
    return NULL;
}

/* The uid is looked at again, on a descriptor of the process: its number may be another's by now. */
static err_t remove_process(const struct doctor *d, const struct leftover *l) {
    uint64_t pid;
    uid_t uid;
    TRY(parse_u64(l->what, INT32_MAX, &pid));
    own_fd int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (!uid_of(l->what, &uid) || !ids_ours(d->fleet.prefix, uid))
        return NULL;
    if (fd < 0 ? kill((pid_t)pid, SIGKILL) : (int)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0))
        return errno == ESRCH ? NULL : err_sys(errno, "kill %s", l->what);
    for (int i = 0; i < GONE_ROUNDS && uid_of(l->what, &uid); i++)
        usleep(ROUND_US);
    return uid_of(l->what, &uid) ? err_new(EXIT_FAILED, "it does not end") : NULL;
}

/* ---- mounts and folders: NAME or NAME.room in folders of the fleet ---- */

static const struct place {
    const char *dir;
    bool mounts; /* things are mounted below it */
    bool dotted; /* entries are NAME.room; without a dot they are the fleet's own parts */
} places[] = {
    {DIR_RUN "/mnt", true, false},          {DIR_RUN "/stage", true, true},
    {DIR_RUN "/shim", false, false},        {DIR_RUN "/podman", false, true},
    {DIR_RUN "/ctl", false, true},          {DIR_RUN "/pid", false, true},
    {DIR_LIB "/warden/wish", false, false}, {DIR_LIB "/agents", false, false},
};

/* "demo" of "demo" or of "demo.harness". False when it names no agent. */
static bool agent_of(const struct place *p, const char *entry, char ret[AGENT_NAME_MAX + 1]) {
    size_t n = strcspn(entry, ".");
    if (n > AGENT_NAME_MAX || p->dotted != (entry[n] == '.'))
        return false;
    if (!strncmp(entry, "seccomp-", 8) && !strcmp(entry + n, ".json"))
        return false; /* a profile, which rooms share */
    memcpy(ret, entry, n);
    ret[n] = 0;
    return name_ok(ret);
}

static void find_in_place(const struct place *p, struct leftovers *l, bool mounts) {
    own_free char *path = path_of("%s", p->dir);
    own_buf struct buf info = {0};
    DIR *dir = opendir(path);
    if (mounts)
        err_free(fs_read("/proc/self/mountinfo", 64 << 20, &info));
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char agent[AGENT_NAME_MAX + 1];
        if (!agent_of(p, e->d_name, agent))
            continue;
        own_free char *below = xasprintf("%s/%s", path, e->d_name), *in_table = xasprintf(" %s/", below),
                      *itself = xasprintf(" %s ", below);
        if (!mounts)
            add(l, LEFT_FOLDER, agent, xstrdup(below));
        else if (strstr(buf_text(&info), in_table) || strstr(buf_text(&info), itself))
            add(l, LEFT_MOUNT, agent, xstrdup(below));
    }
    if (dir)
        closedir(dir);
}

static err_t find_mounts(const struct doctor *d, struct leftovers *l) {
    (void)d;
    for (size_t i = 0; i < COUNT(places); i++)
        if (places[i].mounts)
            find_in_place(&places[i], l, true);
    return NULL;
}

static err_t find_folders(const struct doctor *d, struct leftovers *l) {
    (void)d;
    for (size_t i = 0; i < COUNT(places); i++)
        find_in_place(&places[i], l, false);
    return NULL;
}

static err_t remove_mount(const struct doctor *d, const struct leftover *l) {
    (void)d;
    return mount_off_below(l->what);
}

static err_t remove_folder(const struct doctor *d, const struct leftover *l) {
    (void)d;
    return fs_remove(l->what);
}

/* ---- control groups ---- */

/* Groups of the fleet's own: a pod's on a hybrid host (with v2 it is the container's and goes with it), a bare agent's. */
static bool has_groups(const struct doctor *d, struct cgroup_host *ret) {
    *ret = d->host.cgroup;
    ret->kind = CGROUP_HYBRID;
    return d->host.cgroup.kind == CGROUP_HYBRID || d->host.cgroup.kind == CGROUP_V2;
}

/* The fleet's group itself when there is none in it: that of the last agent takes it along, unless it was killed on the way. */
static err_t find_cgroups(const struct doctor *d, struct leftovers *l) {
    struct cgroup_host h;
    if (!has_groups(d, &h))
        return NULL;
    own_free char *path = xasprintf("%s/%sagent-cage", h.v2, d->fleet.prefix);
    DIR *dir = opendir(path);
    bool empty = dir;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_type != DT_DIR || e->d_name[0] == '.')
            continue;
        empty = false;
        if (name_ok(e->d_name))
            add(l, LEFT_CGROUP, e->d_name, xasprintf("%s/%s", path, e->d_name));
    }
    if (dir)
        closedir(dir);
    if (empty)
        add(l, LEFT_CGROUP, "", TAKE(path));
    return NULL;
}

static err_t remove_cgroup(const struct doctor *d, const struct leftover *l) {
    struct cgroup_host h;
    if (!has_groups(d, &h))
        return NULL;
    if (!*l->agent)
        return cgroup_remove_fleet(&h, d->fleet.prefix);
    own_fd int group = open(l->what, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (group >= 0)
        TRY(cgroup_kill(group));
    err_t e = NULL;
    for (int i = 0; i < GONE_ROUNDS; i++) { /* a group is busy until its dead are reaped */
        err_free(e);
        e = cgroup_remove(&h, d->fleet.prefix, l->agent);
        if (!e)
            return NULL;
        usleep(ROUND_US);
    }
    return e;
}

/* ---- accounts of bare agents ---- */

/* "demo" of "<prefix>cage-demo_h"; false for another's account. */
static bool account_of(const char *prefix, const char *account, char ret[AGENT_NAME_MAX + 1]) {
    own_free char *start = xasprintf("%scage-", prefix);
    if (strncmp(account, start, strlen(start)))
        return false;
    const char *name = account + strlen(start);
    size_t n = strcspn(name, "_");
    if (n > AGENT_NAME_MAX || (name[n] && strcmp(name + n, "_h") && strcmp(name + n, "_x")))
        return false;
    memcpy(ret, name, n);
    ret[n] = 0;
    return name_ok(ret);
}

static err_t find_accounts(const struct doctor *d, struct leftovers *l) {
    own_file FILE *f = fopen("/etc/passwd", "re");
    if (!f)
        return err_sys(errno, "open /etc/passwd");
    for (struct passwd *p; (p = fgetpwent(f));) {
        char agent[AGENT_NAME_MAX + 1];
        if (account_of(d->fleet.prefix, p->pw_name, agent) && ids_ours(d->fleet.prefix, p->pw_uid))
            add(l, LEFT_ACCOUNT, agent, xstrdup(p->pw_name));
    }
    return NULL;
}

static err_t remove_account(const struct doctor *d, const struct leftover *l) {
    (void)d;
    TRY(proc_call("userdel", l->what, NULL));
    err_free(proc_call("groupdel", l->what, NULL)); /* login.defs says whether userdel did it */
    return NULL;
}

/* ---- sealed runs that were killed ---- */

static err_t find_runs(const struct doctor *d, struct leftovers *l) {
    own_free char *run = path_of(DIR_RUN "/sealed");
    own_ground struct ground g = {0};
    own_words struct words left = {0};
    (void)d;
    if (access(run, F_OK))
        return NULL;
    TRY(ground_outline(&g));
    TRY(sealed_left(&g, &left));
    for (size_t i = 0; i < left.n; i++)
        add(l, LEFT_RUN, "", xstrdup(left.w[i]));
    return NULL;
}

static err_t remove_run(const struct doctor *d, const struct leftover *l) {
    own_ground struct ground g = {0};
    TRY(ground_outline(&g));
    snprintf(g.host.runtime, sizeof g.host.runtime, "%s", d->host.runtime);
    return sealed_clear(&g, l->what);
}

/* ---- images and vendors' programs that were being made ---- */

static err_t find_images(const struct doctor *d, struct leftovers *l) {
    own_words struct words left = {0};
    half_left(d->fleet.image_dir, &left);
    for (size_t i = 0; i < left.n; i++)
        add(l, LEFT_IMAGE, "", xstrdup(left.w[i]));
    return NULL;
}

static err_t remove_image(const struct doctor *d, const struct leftover *l) {
    return half_remove(d->fleet.image_dir, l->what);
}

static err_t find_harnesses(const struct doctor *d, struct leftovers *l) {
    own_words struct words left = {0};
    half_left(d->fleet.harness_dir, &left);
    for (size_t i = 0; i < left.n; i++)
        add(l, LEFT_HARNESS, "", xstrdup(left.w[i]));
    return NULL;
}

static err_t remove_harness(const struct doctor *d, const struct leftover *l) {
    return half_remove(d->fleet.harness_dir, l->what);
}

/* ---- folders of doctors that were killed: one that lives has its own locked ---- */

static bool take_lock(const char *path, int *ret) {
    own_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB))
        return false;
    *ret = TAKE_FD(fd);
    return true;
}

static err_t find_doctors(const struct doctor *d, struct leftovers *l) {
    (void)d;
    own_free char *run = path_of("/run"), *start = path_of(DOCTOR_DIR);
    DIR *dir = opendir(run);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        own_free char *path = xasprintf("%s/%s", run, e->d_name);
        own_fd int lock = -1;
        if (!strncmp(path, start, strlen(start)) && take_lock(path, &lock))
            add(l, LEFT_DOCTOR, "", xstrdup(path));
    }
    if (dir)
        closedir(dir);
    return NULL;
}

/* Under its lock: the doctor that has just made it sees that it lost it, and makes another. */
static err_t remove_doctor(const struct doctor *d, const struct leftover *l) {
    own_fd int lock = -1;
    (void)d;
    return take_lock(l->what, &lock) ? fs_remove(l->what) : NULL;
}

/* ---- all of them, in the order in which they can go ---- */

static const struct {
    const char *word;
    err_t (*find)(const struct doctor *d, struct leftovers *l);
    err_t (*remove)(const struct doctor *d, const struct leftover *one);
} kinds[LEFT_KINDS] = {
    [LEFT_CONTAINER] = {"container", find_containers, remove_container},
    [LEFT_PROCESS] = {"process", find_processes, remove_process},
    [LEFT_MOUNT] = {"mount", find_mounts, remove_mount},
    [LEFT_CGROUP] = {"control group", find_cgroups, remove_cgroup},
    [LEFT_ACCOUNT] = {"account", find_accounts, remove_account},
    [LEFT_FOLDER] = {"folder", find_folders, remove_folder},
    [LEFT_RUN] = {"sealed run", find_runs, remove_run},
    [LEFT_IMAGE] = {"half-made image", find_images, remove_image},
    [LEFT_HARNESS] = {"half-fetched program", find_harnesses, remove_harness},
    [LEFT_DOCTOR] = {"folder", find_doctors, remove_doctor},
};

const char *leftover_word(enum leftover_kind kind) {
    return kinds[kind].word;
}

err_t leftovers_find(const struct doctor *d, struct leftovers *ret) {
    if (*d->conf_why) /* whose is unknown without the prefix */
        return err_new(EXIT_FAILED, "leftovers cannot be told apart: %s", d->conf_why);
    *ret = (struct leftovers){0};
    err_t e = NULL;
    for (size_t k = 0; k < LEFT_KINDS && !e; k++)
        e = kinds[k].find(d, ret);
    if (e)
        leftovers_free(ret);
    return e;
}

err_t leftover_remove(const struct doctor *d, const struct leftover *l) {
    if (*l->agent && is_living(l->agent))
        return err_new(EXIT_POLICY, "there is an agent %s now", l->agent);
    return kinds[l->kind].remove(d, l);
}

void leftovers_free(struct leftovers *l) {
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i].what);
    own_freep(&l->v);
    l->n = 0;
}
