#include "warden/control.h"
#include "base/log.h"
#include "base/own.h"
#include "base/paths.h"
#include "cage/spec.h"
#include "warden/bare.h"
#include "warden/from_operator.h"
#include "warden/start.h"
#include "warden/switchboard.h"
#include "warden/warden.h"
#include "wire/seq.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

char *control_path(const struct ward *d) {
    if (!d->box)
        return path_of(DIR_RUN "/ctl/%s", ward_kind_name(d->kind));
    return path_of(DIR_RUN "/ctl/%s.%s", d->box->conf.name, ward_kind_name(d->kind));
}

bool control_there(const struct ward *d) {
    own_free char *path = control_path(d);
    return access(path, F_OK) == 0;
}

static void on_part_hello(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct ward *d = ctx;
    d->links = m->part_hello.links;
    if (m->part_hello.fingerprint != msg_fingerprint())
        ward_lost(d, "it speaks another version of the protocol");
    else if (d->adopted && !m->part_hello.gone)
        ward_lost(d, "it had been left half-started");
    else
        ward_event(d, WARD_GREETED);
}

static void on_part_ready(void *ctx, struct link *l, struct msg *m) {
    (void)l, (void)m;
    ward_event(ctx, WARD_TOLD);
}

static void on_part_secret_end(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct ward *d = ctx;
    const struct msg_part_secret_end *q = &m->part_secret_end;
    if (d->kind == WARD_AGENT)
        from_operator_auth_end(d->box, q->cookie, q->status, q->text.p);
}

static void on_part_lost(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    if (m->part_lost.link < LINK_COUNT)
        switchboard_lost(ctx, (enum link_id)m->part_lost.link, m->part_lost.peer.p);
}

static void on_part_note(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct ward *d = ctx;
    enum log_level level = m->part_note.level <= LOG_ERROR ? (enum log_level)m->part_note.level : LOG_ERROR;
    log_at(&d->notes, level, "%s: %s", ward_title(d), m->part_note.text.p);
}

static void on_end(void *ctx, struct link *l, err_t why) {
    struct ward *d = ctx;
    char text[ERR_TEXT_MAX];
    snprintf(text, sizeof text, "%s", why ? err_text(why) : "its process ended");
    link_free(l);
    d->control = NULL;
    ward_lost(d, text);
}

static link_fn *const handlers[MSG_COUNT] = {
    [MSG_part_hello] = on_part_hello,
    [MSG_part_ready] = on_part_ready,
    [MSG_part_secret_end] = on_part_secret_end,
    [MSG_part_lost] = on_part_lost,
    [MSG_part_note] = on_part_note,
};
static const struct link_ops ops = {.on = handlers, .on_end = on_end};

err_t control_connect(struct ward *d) {
    own_free char *path = control_path(d);
    int fd;
    TRY(seq_connect(path, &fd));
    control_end(d);
    d->control = link_new(d->w->base, fd, LINK_warden_part, true, &ops, d);
    return NULL;
}

void control_end(struct ward *d) {
    link_free(d->control);
    d->control = NULL;
}

/* A message that cannot be sent means that the connection is over; its end is told from the loop. */
static void say(struct ward *d, const struct msg *m) {
    own_err err_t e = d->control ? link_send(d->control, m) : NULL;
    if (e)
        log_warn("%s: %s", ward_title(d), err_text(e));
}

/* Where a room finds things, as it sees them itself. */
struct places {
    char *project, *scratch, *home, *ca;
    char *tray, *inbox, *outbox; /* files */
};

static struct places places_of(const struct ward *d) {
    if (!d->box)
        return (struct places){xstrdup(""), xstrdup(""), path_of(DIR_LIB "/%s", ward_kind_name(d->kind)),
                               xstrdup(""), xstrdup(""), xstrdup(""),
                               xstrdup("")};
    const char *name = d->box->conf.name;
    if (d->box->conf.mode != MODE_BARE)
        return (struct places){xstrdup("/project"), xstrdup("/scratch"), xstrdup("/home/cage"),
                               xstrdup(CAGE_CA),    xstrdup("/inbox"),   xstrdup("/inbox"),
                               xstrdup("/outbox")};
    return (struct places){path_of(DIR_RUN "/mnt/%s/project", name),
                           path_of(DIR_RUN "/mnt/%s/scratch", name),
                           path_of(DIR_LIB "/agents/%s/%s", name, ward_kind_name(d->kind)),
                           ward_ca(d),
                           path_of(DIR_LIB "/agents/%s/inbox", name),
                           path_of(DIR_RUN "/mnt/%s/inbox", name),
                           path_of(DIR_RUN "/mnt/%s/outbox", name)};
}

/* The executor's commands each get a sub-group of this; without one it has its own, weaker means. */
static int group_of(const struct ward *d) {
    if (d->kind != WARD_EXECUTOR)
        return -1;
    int fd = -1;
    uid_t uid = d->box->conf.uid_base + room_uid(ROOM_EXECUTOR);
    struct cgroup_host groups = bare_groups(d);
    own_err err_t e = cgroup_delegate(&groups, d->w->conf.prefix, d->box->conf.name, d->made.pid, uid, &fd);
    if (e)
        log_warn("%s: no group for its commands: %s", ward_title(d), err_text(e));
    return fd;
}

/* What the agent must know of its model; nobody else needs to. */
static void add_model(const struct ward *d, struct msg_part_go *go, const char *ca) {
    const struct conf_agent *c = &d->box->conf;
    go->upstream = bytes_of(c->upstream);
    go->credential =
        bytes_of(c->mode == MODE_SEALED ? "sealed-token" : c->credential); /* whatever a file says */
    go->budget = bytes_of(c->budget);
    go->prices = bytes_of(d->w->conf.prices);
    go->ca = bytes_of(ca);
}

void control_go(struct ward *d) {
    struct places at = places_of(d);
    own_fd int group = group_of(d);
    struct msg m = {.type = MSG_part_go};
    m.part_go.model = m.part_go.upstream = m.part_go.credential = m.part_go.budget = m.part_go.prices =
        m.part_go.ca = bytes_of("");
    if (d->box) {
        const struct conf_agent *c = &d->box->conf;
        m.part_go.agent = bytes_of(c->name);
        m.part_go.mode = bytes_of(mode_name(c->mode));
        m.part_go.harness = bytes_of(c->harness);
        m.part_go.model = bytes_of(c->model);
        if (d->kind == WARD_AGENT)
            add_model(d, &m.part_go, at.ca);
        m.part_go.peer_uid = room_uid(ROOM_HARNESS) + (c->mode == MODE_BARE ? c->uid_base : 0);
    } else {
        m.part_go.agent = m.part_go.mode = m.part_go.harness = bytes_of("");
    }
    m.part_go.project = bytes_of(at.project);
    m.part_go.scratch = bytes_of(at.scratch);
    m.part_go.home = bytes_of(at.home);
    m.part_go.tray = bytes_of(at.tray);
    m.part_go.inbox = bytes_of(at.inbox);
    m.part_go.outbox = bytes_of(at.outbox);
    m.part_go.output_max = d->w->conf.output_max;
    m.part_go.ask_ms = d->w->conf.ask_ms;
    m.part_go.idle_ms = d->w->conf.idle_ms;
    m.part_go.silence_ms = d->w->conf.silence_ms;
    m.part_go.reserve = d->w->conf.disk_reserve;
    if (group >= 0)
        m.fds[m.nfds++] = group;
    say(d, &m);
    free(at.project);
    free(at.scratch);
    free(at.home);
    free(at.ca);
    free(at.tray);
    free(at.inbox);
    free(at.outbox);
}

err_t control_secret(struct ward *d, uint64_t cookie, struct bytes kind, struct bytes credential) {
    if (!d->control || !ward_up(d))
        return err_new(EXIT_FAILED, "%s does not run now: start it first", d->box->conf.name);
    struct msg m = {.type = MSG_part_secret};
    m.part_secret = (struct msg_part_secret){.cookie = cookie, .kind = kind, .credential = credential};
    return link_send(d->control, &m);
}

void control_budget(struct ward *d) {
    struct msg m = {.type = MSG_part_budget};
    m.part_budget.budget = bytes_of(d->box->conf.budget);
    if (ward_up(d))
        say(d, &m);
}

void control_stop(struct ward *d, uint64_t grace_ms) {
    struct msg m = {.type = MSG_part_stop};
    m.part_stop.grace_ms = grace_ms;
    say(d, &m);
}

err_t control_link(struct ward *d, enum link_id link, const char *peer, int fd) {
    if (!d->control)
        return err_new(EXIT_FAILED, "%s is not there", ward_title(d));
    struct msg m = {.type = MSG_part_link, .fds = {fd}, .nfds = 1};
    m.part_link.link = link;
    m.part_link.peer = bytes_of(peer);
    return link_send(d->control, &m);
}

void control_unlink(struct ward *d, enum link_id link, const char *peer) {
    struct msg m = {.type = MSG_part_unlink};
    m.part_unlink.link = link;
    m.part_unlink.peer = bytes_of(peer);
    say(d, &m);
}
