/* The three rooms of an agent, as one table and what fills it in. */
#include "cage/spec.h"

#include "base/own.h"
#include "base/proc.h"
#include "cage/shells.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MIB (1ull << 20)

/* What a room has when the plan does not say. The plan's limits are the executor's: commands run there. */
static const struct room_kind {
    uint64_t memory, pids, shm, nofile;
    enum seccomp_kind seccomp;
    unsigned keep; /* descriptors: the control listener, the shim's */
} kinds[ROOM_COUNT] = {
    [ROOM_AGENT] = {512 * MIB, 64, 1 * MIB, 4096, SECCOMP_AGENT, 1},
    [ROOM_HARNESS] = {4096 * MIB, 1024, 64 * MIB, 16384, SECCOMP_SEALED, 1},
    [ROOM_EXECUTOR] = {0, 2048, 256 * MIB, 16384, SECCOMP_POD, 2},
};

static void environment(struct cage_spec *s) {
    words_add(&s->env, "PATH=" PROC_PATH);
    words_add(&s->env, "HOME=/home/cage");
    words_add(&s->env, "LANG=C.UTF-8");
    words_add(&s->env, "TERM=dumb");
    if (s->room == ROOM_AGENT)
        return;
    words_add(&s->env, "SHELL=/bin/bash");
    words_addf(&s->env, "USER=%s", room_name(s->room));
    words_add(&s->env, "TMPDIR=/scratch");
}

static struct cage_mount *mount_state(struct cage_spec *s, const struct cage_plan *p, const char *folder,
                                      const char *dst) {
    own_free char *src = xasprintf("%s/%s", p->state, folder);
    return spec_mount(s, src, dst);
}

/* The project and the scratch folder belong to one uid on disk; each room sees them as its own. */
static void shared_folders(struct cage_spec *s, const struct cage_plan *p, bool noexec) {
    if (p->project >= 0) {
        struct cage_mount *m = spec_mount(s, "/project", "/project");
        *m = (struct cage_mount){.src = m->src,
                                 .dst = m->dst,
                                 .pin = p->project,
                                 .noexec = noexec,
                                 .map = CAGE_MAP_OWNER,
                                 .owner = p->project_uid,
                                 .group = p->project_gid};
    }
    struct cage_mount *m = mount_state(s, p, "scratch", "/scratch");
    m->noexec = noexec;
    m->map = CAGE_MAP_OWNER;
    m->owner = m->group = p->uid_base + room_uid(ROOM_EXECUTOR);
}

/*
 * Files of a person's: the agent room alone writes the in-tray, harness and executor see it as their own and cannot change
 * it; both fill the outbox. A sealed agent has both of its session (sealed/session.h), the outbox for its executor alone.
 */
static void file_folders(struct cage_spec *s, const struct cage_plan *p) {
    bool sealed = p->mode == MODE_SEALED;
    struct cage_mount *in = mount_state(s, p, sealed ? "session/inbox" : "inbox", "/inbox");
    in->noexec = true;
    if (s->room == ROOM_AGENT)
        return;
    in->ro = true;
    in->map = CAGE_MAP_OWNER;
    in->owner = in->group = p->uid_base + room_uid(ROOM_AGENT);
    if (sealed)
        return;
    struct cage_mount *out = mount_state(s, p, "outbox", "/outbox");
    out->noexec = s->room == ROOM_HARNESS;
    out->map = CAGE_MAP_OWNER;
    out->owner = out->group = p->uid_base + room_uid(ROOM_EXECUTOR);
}

static err_t agent_room(struct cage_spec *s, const struct cage_plan *p) {
    mount_state(s, p, "agent", "/home/cage")->noexec = true;
    file_folders(s, p);
    if (p->ca) {
        struct cage_mount *m = spec_mount(s, p->ca, CAGE_CA);
        m->ro = m->noexec = true;
    }
    return NULL;
}

static err_t harness_room(struct cage_spec *s, const struct cage_plan *p) {
    shared_folders(s, p, true);
    mount_state(s, p, "harness", "/home/cage")->noexec = true;
    file_folders(s, p);
    struct cage_mount *m = spec_mount(s, p->shim, "/cage/shim");
    m->ro = m->noexec = true;
    if (p->programs)
        spec_mount(s, p->programs, "/cage/harness")->ro = true;
    own_words struct words shells = {0};
    TRY(shells_find(p->workbench, &shells));
    if (s->nmounts + shells.n > CAGE_MOUNTS_MAX)
        return err_new(EXIT_FAILED, "the workbench has %zu shells, more than a harness room can have mounts",
                       shells.n);
    for (size_t i = 0; i < shells.n; i++)
        spec_mount(s, p->shell ? p->shell : p->binary, shells.w[i])->ro = true;
    spec_tmpfs(s, "/tmp", 64 * MIB, true);
    return NULL;
}

static void outbox(struct cage_spec *s, const struct cage_folder *f) {
    struct cage_mount *m = spec_mount(s, "/outbox", "/outbox");
    m->pin = f->fd;
    m->map = CAGE_MAP_OWNER;
    m->owner = f->uid;
    m->group = f->gid;
}

static err_t executor_room(struct cage_spec *s, const struct cage_plan *p) {
    shared_folders(s, p, false);
    if (p->outbox)
        outbox(s, p->outbox);
    mount_state(s, p, "executor", "/home/cage");
    file_folders(s, p);
    spec_tmpfs(s, "/tmp", 1024 * MIB, false);
    spec_tmpfs(s, "/var/tmp", 256 * MIB, false);
    spec_tmpfs(s, "/run/lock", 1 * MIB, true);
    return NULL;
}

static void limits(struct cage_spec *s, const struct cage_plan *p) {
    const struct room_kind *k = &kinds[s->room];
    bool own = s->room == ROOM_EXECUTOR;
    s->memory = own ? p->memory : k->memory;
    s->cpus = own ? p->cpus : 0;
    s->pids = own && p->pids ? p->pids : k->pids;
    s->shm = k->shm;
    s->nofile = k->nofile;
    s->nproc = s->pids;
    s->keep = k->keep;
    s->seccomp = p->mode == MODE_SEALED && k->seccomp == SECCOMP_POD ? SECCOMP_SEALED : k->seccomp;
}

/* What names the room and says its network; nothing here looks at a tree or at the project. */
err_t spec_outline(const struct cage_plan *p, enum room room, struct cage_spec *ret) {
    TRY(name_check(p->agent));
    struct cage_spec s = {.room = room, .mode = p->mode, .uid_base = p->uid_base, .uid = room_uid(room)};
    s.name = xasprintf("%scage-%s.%s", p->prefix, p->agent, room_name(room));
    s.hostname = xstrdup(p->agent);
    s.agent = xstrdup(p->agent);
    s.fleet = xstrdup(p->fleet[0] ? p->fleet : "/");
    s.stage = xasprintf("%s/%s.%s", p->stage, p->agent, room_name(room));
    s.net = room == ROOM_EXECUTOR ? p->net : room == ROOM_AGENT && p->upstream ? NET_UPSTREAM : NET_NONE;
    limits(&s, p);
    *ret = s;
    return NULL;
}

err_t spec_room(const struct cage_plan *p, enum room room, struct cage_spec *ret) {
    static err_t (*const rooms[ROOM_COUNT])(struct cage_spec *, const struct cage_plan *) = {
        [ROOM_AGENT] = agent_room, [ROOM_HARNESS] = harness_room, [ROOM_EXECUTOR] = executor_room};
    own_spec struct cage_spec s = {0};
    TRY(spec_outline(p, room, &s));
    s.rootfs = xstrdup(room == ROOM_AGENT ? p->tree : p->workbench);
    environment(&s);
    words_add(&s.argv, "/cage/agent-cage");
    words_add(&s.argv, room_name(room));
    words_add(&s.argv, p->agent);
    spec_mount(&s, p->binary, "/cage/agent-cage")->ro = true;
    TRY(rooms[room](&s, p));
    TRY(spec_check(&s));
    *ret = s;
    s = (struct cage_spec){0};
    return NULL;
}
