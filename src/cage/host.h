/*
 * What this host has, as far as making cages depends on it. Read once at the warden's start; `doctor` shows
 * it. A host that lacks something makes a start fail with a sentence, never a weaker cage.
 */
#ifndef CAGE_HOST_H
#define CAGE_HOST_H

#include "base/err.h"
#include "cage/cgroup.h"

#include <stdbool.h>
#include <stdint.h>

enum { HOST_NETS_MAX = 8 };

struct host {
    char podman[32]; /* version, "" without podman */
    unsigned podman_major, podman_minor;
    char runtime[64];          /* what --runtime gets: a name or a path; "" while unknown */
    bool systemd;              /* it is PID 1; else cgroupfs is podman's cgroup manager */
    bool iptables;             /* the bridge of podman before 5 wants it beside nft */
    bool nft, mmdebstrap;      /* the programs are there */
    bool idmap;                /* mount_setattr(MOUNT_ATTR_IDMAP) answers; the file system matters too */
    bool selinux;              /* enforcing or permissive: labels would refuse the mapped trees */
    bool swap_limit;           /* the memory controller can limit swap */
    uint64_t nofile, nproc;    /* hard limits of this process: a room's limits must not exceed them */
    struct cgroup_host cgroup; /* kind and where the v2 hierarchy is */
    struct {                   /* podman's default bridge: the network that cages stand in */
        char subnet[64], gateway[64];
    } nets[HOST_NETS_MAX];
    unsigned nnets;
    bool rootless; /* uid 0 here is an ordinary user outside: we run in the user namespace of their podman */
    char user_net
        [16]; /* rootless: the program that joins a room to the network, "pasta" or "slirp4netns"; "" */
};

/* Is uid 0 here an ordinary user outside? */
bool host_below_a_user(void);

/* What joins an ordinary user's room to the network, of the programs that are there: pasta, which podman knows since 4.4,
 * else slirp4netns; "": neither can. */
const char *host_user_net(unsigned podman_major, unsigned podman_minor, bool pasta, bool slirp4netns);

/* Everything that costs no container: files, `podman --version`, `podman network inspect podman`. An error
 * only when /proc or /sys cannot be read; a missing program is a fact. */
err_t host_read(struct host *ret);

/* The part of it that needs no program to be run: all but podman's version and `nets`. */
err_t host_look(struct host *ret);

/* host_look() and podman's version: an ordinary user's podman, asked for more, makes folders and leaves a process. */
err_t host_read_plain(struct host *ret);

/*
 * Sets h->runtime to the first of: `wanted` (if not ""), podman's own choice, crun, runc, youki: the first
 * that really starts a room made as every room is (the near-empty tree `tree`, our `binary --version`).
 * `dir`: as podman_files.dir; `stage`: the parent of cage_spec.stage. Costs about 0.3 s each try. The error quotes
 * what each one said.
 */
err_t host_probe_runtime(struct host *h, const char *wanted, const char *tree, const char *binary,
                         const char *dir, const char *stage, uint32_t uid_base);

#endif
