#include "cage/host.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/proc.h"
#include "cage/cage.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool have_program(const char *name) {
    own_free char *path = proc_find(name);
    return path != NULL;
}

/* "podman version 4.3.1" */
static err_t read_podman(struct host *h) {
    own_buf struct buf out = {0};
    const char *const argv[] = {"podman", "--version", NULL};
    if (!have_program("podman"))
        return NULL;
    TRY(proc_must(&(struct proc_spec){.argv = argv, .out = &out, .timeout_ms = 20000}));
    if (sscanf(buf_text(&out), "podman version %31s", h->podman) != 1)
        return err_new(EXIT_FAILED, "podman --version says nothing that is known");
    sscanf(h->podman, "%u.%u", &h->podman_major, &h->podman_minor);
    return NULL;
}

static void copy(char *to, size_t size, json_t *from) {
    snprintf(to, size, "%s", json_string_value(from) ? json_string_value(from) : "");
}

/* The subnets and gateways of podman's default bridge, as netavark's "subnets" list has them. */
static err_t read_network(struct host *h) {
    own_buf struct buf out = {0};
    const char *const argv[] = {"podman", "network", "inspect", "podman", NULL};
    if (!h->podman[0])
        return NULL;
    int status;
    TRY(proc_run(&(struct proc_spec){.argv = argv, .out = &out, .timeout_ms = 20000}, &status));
    json_t *root = status ? NULL : json_loadb(buf_text(&out), out.len, 0, NULL), *each;
    size_t i;
    json_array_foreach(json_object_get(json_array_get(root, 0), "subnets"), i, each) {
        if (h->nnets == HOST_NETS_MAX)
            break;
        copy(h->nets[h->nnets].subnet, sizeof h->nets->subnet, json_object_get(each, "subnet"));
        copy(h->nets[h->nnets].gateway, sizeof h->nets->gateway, json_object_get(each, "gateway"));
        h->nnets++;
    }
    json_decref(root);
    return NULL;
}

/* Asks with descriptors that are none: EBADF is a kernel that knows the call and the flag, ENOSYS and EINVAL one that
 * does not. */
static bool knows_idmap(void) {
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = INT32_MAX};
    return syscall(SYS_mount_setattr, -1, "", 0x1000 /* AT_EMPTY_PATH */, &attr, sizeof attr) < 0 &&
           errno == EBADF;
}

static uint64_t hard_limit(int which) {
    struct rlimit r;
    return getrlimit(which, &r) || r.rlim_max == RLIM_INFINITY ? 1u << 20 : r.rlim_max;
}

static bool can_limit_swap(const struct host *h) {
    return h->cgroup.kind == CGROUP_V2 || !access("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", F_OK);
}

/* Is uid 0 of this user namespace an ordinary user? Its map then says "0 <uid> 1" (user_namespaces(7)). */
bool host_below_a_user(void) {
    own_buf struct buf map = {0};
    own_err err_t e = fs_read("/proc/self/uid_map", 1 << 16, &map);
    unsigned inside, outside;
    return !e && sscanf(buf_text(&map), "%u %u", &inside, &outside) == 2 && inside == 0 && outside != 0;
}

const char *host_user_net(unsigned major, unsigned minor, bool pasta, bool slirp4netns) {
    if (pasta && (major > 4 || (major == 4 && minor >= 4)))
        return "pasta";
    return slirp4netns ? "slirp4netns" : "";
}

/* podman is asked for its version only where that decides. */
static err_t read_user_net(struct host *h) {
    bool pasta = have_program("pasta");
    if (pasta)
        TRY(read_podman(h));
    snprintf(h->user_net, sizeof h->user_net, "%s",
             host_user_net(h->podman_major, h->podman_minor, pasta, have_program("slirp4netns")));
    return NULL;
}

/* An ordinary user's podman speaks to systemd through the session's bus; without one it makes groups by itself. */
static bool user_bus(void) {
    const char *dir = getenv("XDG_RUNTIME_DIR");
    own_free char *bus = xasprintf("%s/bus", dir ? dir : "");
    return dir && !access(bus, F_OK);
}

err_t host_look(struct host *ret) {
    struct host h = {.nft = have_program("nft"),
                     .mmdebstrap = have_program("mmdebstrap"),
                     .iptables = have_program("iptables")};
    TRY(cgroup_detect("", &h.cgroup));
    h.systemd = !access("/run/systemd/system", F_OK);
    h.selinux = !access("/sys/fs/selinux/enforce", F_OK);
    h.idmap = knows_idmap();
    h.swap_limit = can_limit_swap(&h);
    h.nofile = hard_limit(RLIMIT_NOFILE);
    h.nproc = hard_limit(RLIMIT_NPROC);
    h.rootless = host_below_a_user();
    if (h.rootless) {
        h.systemd = h.systemd && user_bus();
        TRY(read_user_net(&h));
    }
    *ret = h;
    return NULL;
}

err_t host_read(struct host *ret) {
    struct host h;
    TRY(host_look(&h));
    TRY(read_podman(&h));
    TRY(read_network(&h));
    *ret = h;
    return NULL;
}

err_t host_read_plain(struct host *ret) {
    struct host h;
    TRY(host_look(&h));
    TRY(read_podman(&h));
    *ret = h;
    return NULL;
}

/* A room as every room is, but that it runs our binary's --version and ends. */
static err_t probe_spec(bool rootless, const char *tree, const char *binary, const char *stage,
                        uint32_t uid_base, struct cage_spec *s) {
    *s = (struct cage_spec){
        .room = ROOM_AGENT, .mode = MODE_POD, .uid_base = uid_base, .uid = room_uid(ROOM_AGENT)};
    s->name = xasprintf("agent-cage-probe-%d", getpid());
    s->hostname = xstrdup("probe");
    s->agent = xstrdup("probe");
    s->fleet = xstrdup("probe");
    s->rootfs = xstrdup(tree);
    s->stage = xasprintf("%s/probe-%d", stage, getpid());
    s->shm = 1 << 20;
    s->nofile = s->nproc = 64;
    s->pids = 64;
    s->memory = 64 << 20;
    s->net = NET_NONE;
    s->seccomp = SECCOMP_AGENT;
    s->rootless = rootless;
    spec_mount(s, binary, "/cage/agent-cage")->ro = true;
    words_add(&s->argv, "/cage/agent-cage");
    words_add(&s->argv, "--version");
    return spec_check(s);
}

err_t host_probe_runtime(struct host *h, const char *wanted, const char *tree, const char *binary,
                         const char *dir, const char *stage, uint32_t uid_base) {
    /* crun, mostly podman's own choice, refuses hybrid control groups: there the one that takes them comes first. */
    const char *const usual[] = {wanted, "", "crun", "runc", "youki"};
    const char *const hybrid[] = {wanted, "runc", "", "crun", "youki"};
    const char *const *candidates = h->cgroup.kind == CGROUP_HYBRID ? hybrid : usual;
    own_spec struct cage_spec s = {0};
    own_buf struct buf said = {0};
    TRY(probe_spec(h->rootless, tree, binary, stage, uid_base, &s));
    size_t n = wanted[0] ? 1 : COUNT(usual); /* what the configuration names is not replaced by another */
    for (size_t i = wanted[0] ? 0 : 1; i < n; i++) {
        struct host try = *h;
        if (candidates[i][0] && candidates[i][0] != '/' && !have_program(candidates[i]))
            continue;
        snprintf(try.runtime, sizeof try.runtime, "%s", candidates[i]);
        own_err err_t e = cage_try(&s, &try, dir);
        if (!e) {
            *h = try;
            return NULL;
        }
        buf_printf(&said, "%s%s: %s", said.len ? "; " : "",
                   candidates[i][0] ? candidates[i] : "podman's own choice", err_text(e));
    }
    return err_new(EXIT_FAILED, "no container runtime starts a room here: %s", buf_text(&said));
}
