/*
 * What rooms are made with: podman, a runtime, nft, mounts, groups, ids, a workbench. Where it can be
 * tried, it is.
 */
#include "base/fs.h"
#include "base/ids.h"
#include "base/own.h"
#include "base/paths.h"
#include "base/proc.h"
#include "cage/image.h"
#include "cage/mount.h"
#include "cage/nft.h"
#include "cage/words.h"
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PODMAN_MAJOR = 4, PODMAN_MINOR = 3, NOFILE_LOW = 4096 };

/* Ids for a trial room: of no fleet's block (base/ids.h gives none so high out). */
#define TRIAL_UIDS 0xfff80000u

static enum standing not_tried(struct finding *f) {
    buf_adds(&f->found, "not tried: only root can");
    f->means = "this answer is a guess";
    f->mend = "sudo agent-cage doctor";
    return STANDS_NOTE;
}

static enum standing failed(struct finding *f, err_t e) {
    buf_adds(&f->found, err_text(e));
    err_free(e);
    return STANDS_LACKS;
}

static enum standing look_podman(const struct doctor *d, struct finding *f) {
    own_free char *path = proc_find("podman");
    if (!path) {
        buf_adds(&f->found, "podman is not installed");
        doctor_mend_by_package(f, "podman");
        return STANDS_LACKS;
    }
    if (*d->host_why) {
        buf_adds(&f->found, d->host_why);
        return STANDS_LACKS;
    }
    buf_printf(&f->found, "podman %s", d->host.podman);
    if (d->host.podman_major > PODMAN_MAJOR ||
        (d->host.podman_major == PODMAN_MAJOR && d->host.podman_minor >= PODMAN_MINOR))
        return STANDS_OK;
    f->means = "older than any that agent-cage was tried with (4.3)";
    f->mend = "upgrade podman, then look at the line `runtime`";
    return STANDS_NOTE;
}

/* A room as every room is, run and ended (0.3 s). */
static enum standing look_runtime(const struct doctor *d, struct finding *f) {
    if (!d->root)
        return not_tried(f);
    if (!*d->host.podman) {
        buf_adds(&f->found, "not tried: there is no podman");
        return STANDS_LACKS;
    }
    own_free char *exe = realpath("/proc/self/exe", NULL);
    own_free char *tree = NULL, *binary = xasprintf("%s/agent-cage", d->dir),
                  *images = xasprintf("%s/images", d->dir), *dir = xasprintf("%s/podman", d->dir);
    struct host h = d->host;
    err_t e = !exe || chmod(d->dir, 0711) < 0 ? err_sys(errno, "open %s to rooms", d->dir) : NULL;
    if (!e)
        e = fs_dir(images, 0, 0, 0755);
    if (!e)
        e = fs_dir(dir, 0, 0, 0700);
    if (!e)
        e = fs_copy(exe, binary, 0, 0, 0755);
    if (!e)
        e = image_tree(images, &tree);
    if (!e)
        e = host_probe_runtime(&h, d->fleet.runtime, tree, binary, dir, d->dir, TRIAL_UIDS);
    if (e)
        return failed(f, e);
    buf_printf(&f->found, "a room was made and ended by %s", *h.runtime ? h.runtime : "podman's own choice");
    return STANDS_OK;
}

static enum standing look_network(const struct doctor *d, struct finding *f) {
    if (!*d->host.podman) {
        buf_adds(&f->found, "not looked for: there is no podman");
        return STANDS_NOTE;
    }
    if (!d->root)
        return not_tried(f);
    for (unsigned i = 0; i < d->host.nnets; i++)
        buf_printf(&f->found, "%s%s", i ? ", " : "podman's bridge is ", d->host.nets[i].subnet);
    if (d->host.nnets)
        return STANDS_OK;
    buf_adds(&f->found, "podman has no default network");
    return STANDS_NOTE;
}

/* podman's network program, netavark, writes its rules with it; since podman 5 it can with nft. */
static enum standing look_iptables(const struct doctor *d, struct finding *f) {
    if (d->host.iptables) {
        buf_adds(&f->found, "iptables is there for podman's networks");
        return STANDS_OK;
    }
    buf_adds(&f->found, "iptables is not installed");
    if (d->host.podman_major >= 5)
        return STANDS_OK;
    doctor_mend_by_package(f, "iptables");
    return STANDS_LACKS;
}

/* Real rules in a namespace of our own, read back and compared, as for every room. */
static err_t try_rules(void) {
    own_fd int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (home < 0)
        return err_sys(errno, "open this network namespace");
    if (unshare(CLONE_NEWNET) < 0)
        return err_sys(errno, "make a network namespace");
    own_fd int made = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (setns(home, CLONE_NEWNET) < 0)
        return err_sys(errno, "leave the network namespace");
    return made < 0 ? err_sys(errno, "open a network namespace")
                    : nft_apply(made, NET_OPEN, &(struct nft_place){0});
}

static enum standing look_nft(const struct doctor *d, struct finding *f) {
    own_free char *path = proc_find("nft");
    if (!path) {
        buf_adds(&f->found, "nft is not installed");
        doctor_mend_by_package(f, "nftables");
        return STANDS_LACKS;
    }
    if (!d->root)
        return not_tried(f);
    err_t e = try_rules();
    if (e)
        return failed(f, e);
    buf_adds(&f->found, "rules were loaded into a network namespace and read back");
    return STANDS_OK;
}

/* One idmapped mount of the folder, taken away with its descriptor. */
static err_t try_idmap(const char *path) {
    own_fd int pin = -1, users = -1, tree = -1;
    const struct mount_ids ids = {0, 100000, 1};
    TRY(mount_pin(path, &pin));
    TRY(mount_userns(&ids, 1, &ids, 1, &users));
    return mount_clone(pin, &(struct mount_how){.userns = users}, &tree);
}

static enum standing look_idmap(const struct doctor *d, struct finding *f) {
    if (!d->root)
        return not_tried(f);
    own_free char *lib = path_of(DIR_LIB), *srv = path_of("/srv");
    const char *const places[] = {lib, d->fleet.image_dir, srv, "/home"};
    own_words struct words tried = {0};
    enum standing worst = STANDS_OK;
    for (size_t i = 0; i < COUNT(places); i++) {
        own_free char *near = doctor_nearest(places[i]), *real = realpath(near, NULL);
        if (!real || words_has(&tried, real))
            continue;
        own_err err_t e = try_idmap(real);
        buf_printf(&f->found, "%s%s %s", tried.n ? ", " : "", real, e ? "cannot" : "can");
        words_add(&tried, real);
        if (e && worst == STANDS_OK)
            worst = i < 2 ? STANDS_LACKS : STANDS_NOTE; /* a home's projects can lie elsewhere */
    }
    return worst;
}

/* Is this controller there to limit with? v2 lists it, v1 has it in /proc/cgroups. */
static bool has_controller(const struct cgroup_host *h, const char *name) {
    own_buf struct buf text = {0};
    own_free char *path =
        h->kind == CGROUP_V2 ? xasprintf("%s/cgroup.controllers", h->v2) : xstrdup("/proc/cgroups");
    own_err err_t e = fs_read(path, 1 << 16, &text);
    size_t n = strlen(name);
    for (const char *p = e ? NULL : strstr(buf_text(&text), name); p; p = strstr(p + 1, name)) {
        bool whole = (p == text.p || strchr(" \n", p[-1])) && strchr(" \t\n", p[n]);
        const char *end = p + strcspn(p, "\n");
        if (whole && (h->kind == CGROUP_V2 || end[-1] == '1')) /* v1: the last column is `enabled` */
            return true;
    }
    return false;
}

static enum standing look_cgroups(const struct doctor *d, struct finding *f) {
    static const char *const wanted[] = {"memory", "pids", "cpu"};
    const struct cgroup_host *h = &d->host.cgroup;
    buf_printf(&f->found, "%s%s", cgroup_kind_name(h->kind), h->kill ? ", cgroup.kill" : "");
    if (h->kind == CGROUP_NONE)
        return STANDS_LACKS;
    unsigned missing = 0;
    for (size_t i = 0; i < COUNT(wanted); i++)
        if (!has_controller(h, wanted[i]))
            buf_printf(&f->found, "%s%s", missing++ ? ", " : "; without ", wanted[i]);
    if (missing)
        return STANDS_NOTE;
    if (h->kill)
        return STANDS_OK;
    f->means = "a command's tree is ended process by process, which a fork storm slows down";
    f->mend = "Linux 5.14 or later with a v2 hierarchy: boot with systemd.unified_cgroup_hierarchy=1";
    return STANDS_NOTE;
}

static enum standing look_ids(const struct doctor *d, struct finding *f) {
    uint64_t n = 0;
    err_t e = ids_reserved(d->fleet.prefix, &n);
    if (e)
        return failed(f, e);
    if (n)
        buf_printf(&f->found, "%llu ids are reserved for %scage", (unsigned long long)n, d->fleet.prefix);
    else
        buf_printf(&f->found, "none reserved yet; the first agent takes a block above %u", IDS_FIRST);
    return STANDS_OK;
}

static enum standing look_workbench(const struct doctor *d, struct finding *f) {
    if (image_have_workbench(d->fleet.image_dir)) {
        buf_printf(&f->found, "the workbench stands in %s", d->fleet.image_dir);
        return STANDS_OK;
    }
    if (d->host.mmdebstrap) {
        buf_adds(&f->found, "mmdebstrap is there to make it");
        return STANDS_OK;
    }
    buf_adds(&f->found, "there is none, and no mmdebstrap to make it with");
    doctor_mend_by_package(f, "mmdebstrap");
    return STANDS_LACKS;
}

static enum standing look_limits(const struct doctor *d, struct finding *f) {
    buf_printf(&f->found, "at most %llu open files and %llu processes a room",
               (unsigned long long)d->host.nofile, (unsigned long long)d->host.nproc);
    return d->host.nofile >= NOFILE_LOW && d->host.nproc >= NOFILE_LOW ? STANDS_OK : STANDS_NOTE;
}

/* Root opens it whatever its mode; an ordinary user's program that makes the network of a sealed run does not. */
static enum standing look_tun(const struct doctor *d, struct finding *f) {
    struct stat st;
    own_fd int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        buf_printf(&f->found, "/dev/net/tun: %s", strerrordesc_np(errno));
        return STANDS_NOTE;
    }
    bool everybody = (st.st_mode & 06) == 06;
    if (d->root && !everybody)
        buf_printf(&f->found, "/dev/net/tun has mode %04o: it opens for root, not for everybody",
                   (unsigned)(st.st_mode & 07777));
    else
        buf_adds(&f->found, "/dev/net/tun opens");
    return d->root && !everybody ? STANDS_NOTE : STANDS_OK;
}

const struct check doctor_engine_checks[] = {
    {"podman", look_podman, "no pod can be made; bare agents can", "make `podman info` work for this user"},
    {"runtime", look_runtime, "no pod can be made",
     "install another runtime (crun or runc) and name it in agent-cage.conf: runtime = runc"},
    {"network", look_network, "pods with --net open have no network", "podman network create podman"},
    {"iptables", look_iptables, "pods with --net open cannot be made: netavark needs it", ""},
    {"nft", look_nft, "no room can be made: its network would be open",
     "modprobe nf_tables nft_reject_inet nft_ct"},
    {"idmapped mounts", look_idmap, "rooms or projects on a file system that cannot are refused",
     "Linux 5.12 or later, and ext4, xfs, btrfs or tmpfs (overlayfs from 5.19 on) where agents and projects "
     "are"},
    {"cgroups", look_cgroups, "a room's limits (--memory, --pids, --cpus) do not hold",
     "boot with cgroup_enable=memory systemd.unified_cgroup_hierarchy=1"},
    {"uid ranges", look_ids, "no agent can be made",
     "make the lines of this fleet in /etc/subuid and /etc/subgid the same"},
    {"workbench", look_workbench, "no pod can be made", ""},
    {"limits", look_limits, "builds in a room may run out of files or processes",
     "raise the hard limits in /etc/security/limits.conf"},
    {"tun", look_tun, "sealed runs by ordinary users have no network",
     "modprobe tun && chmod 666 /dev/net/tun"},
    {0},
};
