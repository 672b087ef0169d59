#include "sealed/room.h"

#include "base/own.h"

#include <string.h>

#define MIB (1ull << 20)

/* As an executor's; a run that needs more is an agent's work. */
static const struct {
    uint64_t memory, cpus, pids, shm, nofile;
} limits = {4096 * MIB, 2000, 2048, 256 * MIB, 16384};

static const char *const environment[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/home/cage",
    "LANG=C.UTF-8",
    "TERM=dumb",
    "SHELL=/bin/bash",
    "USER=executor",
    "LOGNAME=executor",
    "TMPDIR=/tmp",
};

static const struct {
    const char *dst;
    uint64_t size;
    bool noexec;
} memory[] = {{"/home/cage", 1024 * MIB, false},
              {"/tmp", 1024 * MIB, false},
              {"/var/tmp", 256 * MIB, false},
              {"/run/lock", 1 * MIB, true}};

static struct cage_mount *pinned(struct cage_spec *s, int pin, const char *dst, uid_t owner, gid_t group) {
    struct cage_mount *m = spec_mount(s, dst, dst);
    m->pin = pin;
    m->map = s->rootless ? CAGE_MAP_NONE : CAGE_MAP_OWNER;
    m->owner = owner;
    m->group = group;
    return m;
}

static void identity(struct cage_spec *s, const struct sealed_plan *p) {
    s->room = ROOM_EXECUTOR;
    s->mode = MODE_SEALED;
    s->name = xasprintf("%ssealed-%s", p->ground->conf.prefix, p->session);
    s->hostname = xstrdup("sealed");
    s->agent = xstrdup(p->session);
    s->fleet = xstrdup(p->ground->label);
    s->rootfs = xstrdup(p->ground->workbench);
    s->stage = xstrdup(p->stage);
    s->uid_base = p->uid_base;
    s->uid = room_uid(ROOM_EXECUTOR);
    s->rootless = p->ground->rootless;
    s->once = true;
}

static void bounds(struct cage_spec *s) {
    s->memory = limits.memory;
    s->cpus = limits.cpus;
    s->pids = s->nproc = limits.pids;
    s->shm = limits.shm;
    s->nofile = limits.nofile;
    s->net = NET_SEALED;
    s->seccomp = SECCOMP_SEALED;
}

err_t sealed_room(const struct sealed_plan *p, struct cage_spec *ret) {
    own_spec struct cage_spec s = {0};
    identity(&s, p);
    bounds(&s);
    for (size_t i = 0; i < COUNT(environment); i++)
        words_add(&s.env, environment[i]);
    words_add(&s.argv, "/cage/agent-cage");
    words_add(&s.argv, "sealed-init");
    s.keep = 1;
    struct cage_mount *binary = spec_mount(&s, "/cage/agent-cage", "/cage/agent-cage");
    binary->ro = true;
    binary->pin = p->binary;
    struct cage_mount *project = pinned(&s, p->project, "/project", p->uid, p->gid);
    if (p->project_as_it_is)
        project->map = CAGE_MAP_NONE;
    pinned(&s, p->outbox, "/outbox", p->outbox_uid, p->outbox_gid);
    for (size_t i = 0; i < COUNT(memory); i++)
        spec_tmpfs(&s, memory[i].dst, memory[i].size, memory[i].noexec);
    TRY(spec_check(&s));
    *ret = s;
    s = (struct cage_spec){0};
    return NULL;
}
