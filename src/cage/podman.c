#include "cage/podman.h"

#include "base/fs.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/proc.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUN_TIMEOUT_MS = 60000, ASK_TIMEOUT_MS = 30000 };

#define LABEL "org.agent-cage."

static void global_args(const struct host *h, struct words *w) {
    words_add(w, "podman");
    if (h->runtime[0])
        words_addf(w, "--runtime=%s", h->runtime);
    if (!h->systemd)
        words_add(w, "--cgroup-manager=cgroupfs");
    words_add(w, "--events-backend=none");
}

/* What every room has, whatever its spec says. */
static void fixed_args(struct words *w) {
    static const char *const args[] = {
        "run",
        "--detach",
        /* Standard input is a pipe that says nothing: crun 1.8 makes a /dev/null there, the host's own node, the
           property of the cage's root. */
        "--interactive",
        "--cap-drop=all",
        "--security-opt=no-new-privileges",
        "--read-only",
        "--read-only-tmpfs=false", /* podman's own tmpfs have no size and no noexec */
        "--cgroupns=private",
        "--ipc=private",     /* pid, mount, uts: private by default, --pid=private is unknown */
        "--ulimit=core=0:0", /* else the host's core handler runs for it */
        "--no-hosts",
        "--no-healthcheck",
        "--passwd=false",
        "--systemd=false",
        "--sdnotify=ignore",
        "--http-proxy=false", /* else the host's proxy variables go in */
        "--restart=no",
        "--log-driver=none",
        "--umask=0022",
        /* Beyond podman's own masks: what tells about the host and nobody in a cage needs. */
        "--security-opt=mask=/proc/interrupts:/proc/kallsyms:/proc/config.gz:/proc/modules:/proc/slabinfo:"
        "/proc/vmallocinfo:/sys/devices/virtual/dmi:/sys/kernel/debug:/sys/kernel/tracing:/sys/kernel/"
        "security:"
        "/sys/fs/bpf",
    };
    for (size_t i = 0; i < COUNT(args); i++)
        words_add(w, args[i]);
}

static void identity_args(const struct cage_spec *s, struct words *w) {
    words_addf(w, "--name=%s", s->name);
    words_addf(w, "--hostname=%s", s->hostname);
    words_addf(w, "--label=" LABEL "fleet=%s", s->fleet);
    words_addf(w, "--label=" LABEL "agent=%s", s->agent);
    words_addf(w, "--label=" LABEL "room=%s", room_name(s->room));
    words_addf(w, "--label=" LABEL "generation=%d", CAGE_GENERATION);
    if (s->rootless)
        words_addf(w, "--userns=keep-id:uid=%u,gid=%u", s->uid, s->uid);
    else {
        words_addf(w, "--uidmap=0:%u:%d", s->uid_base, UIDS_EACH);
        words_addf(w, "--gidmap=0:%u:%d", s->uid_base, UIDS_EACH);
    }
    words_addf(w, "--user=%u:%u", s->uid, s->uid);
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

bool podman_limits(const struct cage_spec *s, const struct host *h) {
    return !s->rootless || h->cgroup.kind == CGROUP_V2;
}

static void engine_limit_args(const struct cage_spec *s, const struct host *h, struct words *w) {
    words_addf(w, "--pids-limit=%" PRId64, s->pids ? (int64_t)s->pids : -1);
    if (s->memory)
        words_addf(w, "--memory=%" PRIu64 "b", s->memory);
    if (s->memory && h->swap_limit)
        words_addf(w, "--memory-swap=%" PRIu64 "b", s->memory);
    if (s->cpus)
        words_addf(w, "--cpus=%" PRIu64 ".%03u", s->cpus / 1000, (unsigned)(s->cpus % 1000));
}

static void limit_args(const struct cage_spec *s, const struct host *h, struct words *w) {
    uint64_t nofile = least(s->nofile, h->nofile), nproc = least(s->nproc, h->nproc);
    words_addf(w, "--ulimit=nofile=%" PRIu64 ":%" PRIu64, nofile, nofile);
    words_addf(w, "--ulimit=nproc=%" PRIu64 ":%" PRIu64, nproc, nproc);
    words_addf(w, "--shm-size=%" PRIu64 "b", s->shm);
    if (podman_limits(s, h))
        engine_limit_args(s, h, w);
    if (s->room == ROOM_EXECUTOR) /* when the host itself runs out, commands go first */
        words_add(w, "--oom-score-adj=500");
}

static void mount_args(const struct cage_spec *s, struct words *w) {
    for (size_t i = 0; i < s->nmounts; i++) {
        const struct cage_mount *m = &s->mounts[i];
        own_free char *src = spec_source(s, i);
        words_addf(w, "--volume=%s:%s:%s,nosuid,nodev,%s,bind,private", src, m->dst, m->ro ? "ro" : "rw",
                   m->noexec ? "noexec" : "exec");
    }
    for (size_t i = 0; i < s->ntmpfs; i++)
        words_addf(w, "--tmpfs=%s:rw,nosuid,nodev,%s,size=%" PRIu64 ",mode=1777,notmpcopyup", s->tmpfs[i].dst,
                   s->tmpfs[i].noexec ? "noexec" : "exec", s->tmpfs[i].size);
}

static void network_args(const struct cage_spec *s, const struct host *h, struct words *w) {
    words_addf(w, "--network=%s", s->net == NET_NONE ? "none" : s->rootless ? h->user_net : "bridge");
    if (s->net == NET_SEALED) {
        words_add(w, "--dns=1.1.1.1");
        words_add(w, "--dns=9.9.9.9");
        words_add(w, "--dns-search=.");
    }
}

void podman_run_args(const struct cage_spec *s, const struct host *h, const struct podman_files *f,
                     struct words *w) {
    global_args(h, w);
    fixed_args(w);
    identity_args(s, w);
    limit_args(s, h, w);
    words_addf(w, "--security-opt=seccomp=%s", f->seccomp);
    if (h->selinux) /* mapped trees carry no container label; the filters above do the work */
        words_add(w, "--security-opt=label=disable");
    words_addf(w, "--pidfile=%s", f->pidfile);
    if (s->once)
        words_add(w, "--rm");
    if (s->keep)
        words_addf(w, "--preserve-fds=%u", s->keep);
    network_args(s, h, w);
    mount_args(s, w);
    for (size_t i = 0; i < s->env.n; i++)
        words_addf(w, "--env=%s", s->env.w[i]);
    words_add(w, "--rootfs");
    own_free char *root = spec_root_source(s);
    words_add(w, root);
    for (size_t i = 0; i < s->argv.n; i++)
        words_add(w, s->argv.w[i]);
}

static err_t read_pid(const char *path, pid_t *ret) {
    own_free char *line = NULL;
    uint64_t pid;
    TRY(err_wrap(fs_read_line(path, &line), "podman left no pid"));
    TRY(err_wrap(parse_u64(line, INT32_MAX, &pid), "podman's pid file"));
    *ret = (pid_t)pid;
    return NULL;
}

err_t podman_run(const struct cage_spec *s, const struct host *h, const struct podman_files *f,
                 const int *fds, pid_t *ret) {
    own_words struct words w = {0};
    podman_run_args(s, h, f, &w);
    struct proc_spec p = {
        .argv = words_argv(&w), .dir = f->dir, .nkeep = s->keep, .timeout_ms = RUN_TIMEOUT_MS};
    if (s->keep > PROC_KEEP_MAX)
        return err_new(EXIT_FAILED, "a room cannot be given %u descriptors", s->keep);
    for (unsigned i = 0; i < s->keep; i++)
        p.keep[i] = fds[i];
    if (unlink(f->pidfile) && errno != ENOENT)
        return err_sys(errno, "%s cannot be removed", f->pidfile);
    err_t e = proc_must(&p);
    e = e ? e : read_pid(f->pidfile, ret);
    if (!e)
        return NULL;
    err_free(podman_rm(h, f->dir, s->name)); /* the first error is the one to tell */
    if (s->net != NET_NONE && !s->rootless && !h->iptables)
        e = err_wrap(e, "iptables is not installed and podman's bridge may need it");
    return err_wrap(e, "the room %s does not start", s->name);
}

err_t podman_rm(const struct host *h, const char *dir, const char *name) {
    own_words struct words w = {0};
    global_args(h, &w);
    words_add(&w, "rm");
    words_add(&w, "--force");
    words_add(&w, "--ignore");
    words_add(&w, "--volumes");
    words_add(&w, "--time=0");
    words_add(&w, name);
    struct proc_spec p = {.argv = words_argv(&w), .dir = dir, .timeout_ms = RUN_TIMEOUT_MS};
    return err_wrap(proc_must(&p), "the container %s cannot be removed", name);
}

err_t podman_pid_of(const char *name, const char *says, pid_t *ret) {
    int pid = 0, generation = 0;
    if (sscanf(says, "%d %d", &pid, &generation) < 1 || pid < 0)
        return err_new(EXIT_FAILED, "podman inspect %s says nothing that is known", name);
    if (!pid)
        return err_new(EXIT_NOTFOUND, "the container %s does not run", name);
    if (generation != CAGE_GENERATION)
        return err_new(EXIT_FAILED, "it was made by rules of generation %d, and %d is in force", generation,
                       CAGE_GENERATION);
    *ret = pid;
    return NULL;
}

err_t podman_pid(const struct host *h, const char *dir, const char *name, pid_t *ret) {
    own_words struct words w = {0};
    own_buf struct buf out = {0};
    global_args(h, &w);
    words_add(&w, "inspect");
    words_add(&w, "--type=container");
    words_add(&w, "--format={{.State.Pid}} {{index .Config.Labels \"" LABEL "generation\"}}");
    words_add(&w, name);
    struct proc_spec p = {.argv = words_argv(&w), .dir = dir, .out = &out, .timeout_ms = ASK_TIMEOUT_MS};
    int status;
    TRY(proc_run(&p, &status));
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return err_new(EXIT_NOTFOUND, "there is no container %s", name);
    return podman_pid_of(name, buf_text(&out), ret);
}

static const char *label(json_t *container, const char *name) {
    const char *v = json_string_value(json_object_get(json_object_get(container, "Labels"), name));
    return v ? v : "";
}

static void container_of(json_t *o, struct podman_container *c) {
    *c = (struct podman_container){0};
    const char *name = json_string_value(json_array_get(json_object_get(o, "Names"), 0));
    const char *state = json_string_value(json_object_get(o, "State"));
    snprintf(c->name, sizeof c->name, "%s", name ? name : "");
    snprintf(c->agent, sizeof c->agent, "%s", label(o, LABEL "agent"));
    snprintf(c->room, sizeof c->room, "%s", label(o, LABEL "room"));
    c->running = state && !strcmp(state, "running");
    c->pid = c->running ? (pid_t)json_integer_value(json_object_get(o, "Pid")) : 0;
    uint64_t generation = 0;
    err_free(
        parse_u64(label(o, LABEL "generation"), INT32_MAX, &generation)); /* unreadable: 0, older than any */
    c->generation = (int)generation;
}

err_t podman_list(const struct host *h, const char *dir, const char *fleet, struct podman_container **ret,
                  size_t *ret_n) {
    own_words struct words w = {0};
    own_buf struct buf out = {0};
    global_args(h, &w);
    words_add(&w, "ps");
    words_add(&w, "--all");
    words_addf(&w, "--filter=label=" LABEL "fleet=%s", fleet[0] ? fleet : "/");
    words_add(&w, "--format=json");
    struct proc_spec p = {.argv = words_argv(&w), .dir = dir, .out = &out, .timeout_ms = ASK_TIMEOUT_MS};
    TRY(err_wrap(proc_must(&p), "podman's containers cannot be listed"));
    json_t *list = json_loadb(buf_text(&out), out.len, 0, NULL);
    if (!json_is_array(list)) {
        json_decref(list);
        return err_new(EXIT_FAILED, "podman ps printed something that is no list");
    }
    *ret_n = json_array_size(list);
    *ret = xcalloc(*ret_n + 1, sizeof **ret);
    for (size_t i = 0; i < *ret_n; i++)
        container_of(json_array_get(list, i), &(*ret)[i]);
    json_decref(list);
    return NULL;
}
