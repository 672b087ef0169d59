/* Rooms of a pod: a spec from the plan, then cage/cage.h does the rest. */
#include "base/own.h"
#include "base/paths.h"
#include "base/proc.h"
#include "cage/cage.h"
#include "cage/image.h"
#include "cage/place.h"
#include "cage/project.h"
#include "proto/upstream.h"
#include "sealed/session.h"
#include "warden/belongings.h"
#include "warden/programs.h"
#include "warden/farewell.h"
#include "warden/move_in.h"
#include "warden/start.h"
#include "warden/warden.h"
#include "warden/worker.h"

#include <poll.h>
#include <stdlib.h>

enum { ASK_TRIES = 8, ASK_MS = 40, PODMAN_MS = 10000 };

/* What the pure layers of cage/ borrow while a room is made. */
struct pod {
    char *binary, *shell, *ca, *workbench, *tree, *programs, *stage, *state, *shim, *dir;
    struct project project;
    struct outbox_place outbox;
    struct cage_folder outbox_folder;
    struct cage_spec spec;
    struct place place;
};

static void pod_free(struct pod *p) {
    spec_free(&p->spec);
    project_close(&p->project);
    outbox_place_close(&p->outbox);
    place_free(&p->place);
    free(p->binary);
    free(p->shell);
    free(p->ca);
    free(p->workbench);
    free(p->tree);
    free(p->programs);
    free(p->stage);
    free(p->state);
    free(p->shim);
    free(p->dir);
}
#define own_pod __attribute__((cleanup(pod_free)))

static void on_image(void *ctx, const char *line) {
    worker_say(*(int *)ctx, "workbench: %s", line);
}

static void on_program(void *ctx, const char *line) {
    worker_say(*(int *)ctx, "%s", line);
}

static void fill_paths(struct pod *p, const struct ward *d) {
    const char *name = d->box->conf.name;
    p->binary = path_of(DIR_LIB "/bin/agent-cage");
    p->shell = path_of(DIR_LIB "/bin/shim");
    p->ca = *d->box->conf.upstream ? ward_ca(d) : NULL;
    p->stage = path_of(DIR_RUN "/stage");
    p->state = path_of(DIR_LIB "/agents/%s", name);
    p->shim = path_of(DIR_RUN "/shim/%s", name);
    p->dir = path_of(DIR_RUN "/podman/%s.%s", name, ward_kind_name(d->kind));
}

static struct cage_plan plan_of(const struct ward *d, const struct pod *p) {
    const struct conf_agent *c = &d->box->conf;
    return (struct cage_plan){
        .prefix = d->w->conf.prefix,
        .fleet = *paths_root() ? paths_root() : "/",
        .agent = c->name,
        .mode = c->mode,
        .net = c->net,
        .upstream = *c->upstream != 0,
        .uid_base = c->uid_base,
        .memory = c->memory,
        .cpus = c->cpus,
        .pids = c->pids,
        .binary = p->binary,
        .shell = p->shell,
        .ca = p->ca && *p->ca ? p->ca : NULL,
        .workbench = p->workbench,
        .tree = p->tree,
        .programs = p->programs,
        .stage = p->stage,
        .state = p->state,
        .shim = p->shim,
        .project = p->project.fd,
        .project_uid = p->project.uid,
        .project_gid = p->project.gid,
        .outbox = p->outbox.fd >= 0 ? &p->outbox_folder : NULL,
    };
}

/* What the rules of this room must know. */
static err_t place_of(const struct ward *d, struct pod *p) {
    struct upstream u;
    TRY(place_read(&d->w->host, p->spec.net, &p->place));
    if (p->spec.net == NET_OPEN || p->spec.net == NET_UPSTREAM)
        place_own_port(&p->place, (uint16_t)d->w->conf.web);
    if (p->spec.net != NET_UPSTREAM)
        return NULL;
    TRY(upstream_of(d->box->conf.upstream, &u));
    place_upstream(&p->place, u.numeric ? u.host : NULL, u.port);
    return NULL;
}

static void nothing_open(struct pod *p) {
    p->project.fd = p->outbox.fd = p->outbox.parent = -1;
}

static err_t join_session(const struct ward *d, struct pod *p) {
    own_free char *dir = farewell_session(d->box->conf.name), *home = NULL;
    uid_t owner;
    TRY(sealed_session_home(p->project.uid, &home, &owner));
    const struct sealed_session s = {.dir = dir,
                                     .agent = d->box->conf.name,
                                     .home = home,
                                     .owner = owner,
                                     .tray = d->box->conf.uid_base + room_uid(ROOM_AGENT)};
    TRY(err_wrap(sealed_session_begin(&s, &p->project, &p->outbox), "the sealed session"));
    p->outbox_folder = (struct cage_folder){p->outbox.fd, p->outbox.uid, p->outbox.gid};
    return NULL;
}

/* Enough to take the room over or away, whatever became of its workbench and its project. */
static err_t outline(const struct ward *d, struct pod *p) {
    nothing_open(p);
    fill_paths(p, d);
    struct cage_plan plan = plan_of(d, p);
    TRY(spec_outline(&plan, (enum room)d->kind, &p->spec));
    return place_of(d, p);
}

static err_t whole(const struct ward *d, int *report, struct pod *p) {
    const struct warden *w = d->w;
    nothing_open(p);
    fill_paths(p, d);
    TRY(image_workbench(w->conf.image_dir, on_image, report, &p->workbench));
    TRY(image_tree(w->conf.image_dir, &p->tree));
    TRY(project_again(d->box->conf.project, d->box->conf.mode, &p->project));
    TRY(belongings_trays(&d->box->conf)); /* an agent of an earlier release has none */
    if (d->box->conf.mode == MODE_SEALED) {
        TRY(move_in_finished(d->box->conf.name));
        TRY(join_session(d, p)); /* before any room that sees the project, or its in-tray */
    }
    if (d->kind == WARD_HARNESS)
        TRY(programs_get(&w->conf, &d->box->conf, on_program, report, &p->programs));
    struct cage_plan plan = plan_of(d, p);
    TRY(spec_room(&plan, (enum room)d->kind, &p->spec));
    return place_of(d, p);
}

err_t pod_start(struct ward *d, const int *fds, size_t nfds, struct ward_made *ret, int report) {
    own_pod struct pod p = {0};
    TRY(whole(d, &report, &p));
    if (p.spec.keep != nfds)
        return err_new(EXIT_FAILED, "the %s wants %u descriptors, not %zu", ward_kind_name(d->kind),
                       p.spec.keep, nfds);
    struct cage cage;
    TRY(cage_start(&p.spec, &d->w->host, &p.place.nft, p.dir, fds, &cage));
    *ret = (struct ward_made){cage.pid, cage.netns};
    cage_close(&cage);
    return NULL;
}

err_t pod_adopt(struct ward *d, struct ward_made *ret) {
    own_pod struct pod p = {0};
    TRY(outline(d, &p));
    struct cage cage;
    TRY(cage_adopt(&p.spec, &d->w->host, &p.place.nft, p.dir, &cage));
    *ret = (struct ward_made){cage.pid, cage.netns};
    cage_close(&cage);
    return NULL;
}

err_t pod_refresh(struct ward *d) {
    own_pod struct pod p = {0};
    TRY(outline(d, &p));
    struct cage cage = {.pid = d->made.pid, .pidfd = -1};
    return cage_refresh(&p.spec, &cage, &p.place.nft);
}

/* podman hears of the end from its monitor, a moment after we do. */
static void ask_how(const struct pod *p, struct ward_exit *ret) {
    for (int i = 0; i < ASK_TRIES; i++, poll(NULL, 0, ASK_MS)) {
        own_buf struct buf out = {0};
        const char *argv[] = {"podman",           "inspect",
                              "--type=container", "--format={{.State.Running}} {{.State.ExitCode}}",
                              p->spec.name,       NULL};
        struct proc_spec spec = {.argv = argv, .dir = p->dir, .timeout_ms = PODMAN_MS, .out = &out};
        int code;
        own_err err_t e = proc_must(&spec);
        if (e)
            return;
        if (sscanf(buf_text(&out), "false %d", &code) != 1)
            continue;
        *ret = (struct ward_exit){true, code > 128 ? code - 128 : code << 8}; /* as waitpid(2) has it */
        return;
    }
}

err_t pod_clear(struct ward *d, struct ward_exit *how) {
    own_pod struct pod p = {0};
    TRY(outline(d, &p));
    if (how)
        ask_how(&p, how);
    TRY(cage_stop(&p.spec, &d->w->host, p.dir));
    if (d->kind != WARD_EXECUTOR)
        return NULL;
    return cgroup_remove(&d->w->host.cgroup, d->w->conf.prefix, d->box->conf.name);
}
