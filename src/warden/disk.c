#include "warden/disk.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/own.h"
#include "base/paths.h"
#include "cage/cgroup.h"
#include "warden/account.h"
#include "warden/bare.h"
#include "warden/from_manager.h"
#include "warden/warden.h"

#include <inttypes.h>
#include <unistd.h>

enum { LOOK_S = 2, IDLE_BYTES = 256 << 10 };

enum disk_step disk_step(uint64_t free, uint64_t reserve, bool frozen) {
    if (!frozen)
        return free < reserve ? DISK_FREEZE : DISK_LEAVE;
    return free >= reserve + reserve / 10 ? DISK_THAW : DISK_LEAVE;
}

/* The rooms whose programs write. */
static const enum room fillers[] = {ROOM_HARNESS, ROOM_EXECUTOR};

static uid_t uid_of(const struct box *b, enum room room) {
    return b->conf.uid_base + room_uid(room);
}

err_t disk_freeze(const struct ward *x, bool frozen) {
    if (x->box->conf.mode != MODE_BARE)
        return cgroup_freeze("", x->made.pid, frozen);
    uid_t uid = uid_of(x->box, (enum room)x->kind);
    return x->kind == WARD_HARNESS ? account_stop(uid, uid, frozen) : bare_freeze(x, frozen);
}

/* Every room that is there, whatever becomes of the other; the first error. */
static err_t set_frozen(const struct box *b, bool frozen) {
    err_t first = NULL;
    for (size_t i = 0; i < COUNT(fillers); i++) {
        const struct ward *x = &b->ward[fillers[i]];
        if (!x->made.pid || (frozen && x->state != WARD_READY))
            continue;
        err_t e = disk_freeze(x, frozen);
        if (first)
            err_free(e);
        else
            first = e;
    }
    return first;
}

/* A box at this look. */
struct sight {
    struct box *b;
    uint64_t free;
    char path[120];                /* where so little is free, shortened */
    struct account_written *wrote; /* by each of the fillers; NULL: not asked */
};

/* The least that is free on what its programs can write. */
static void see(struct box *b, struct sight *ret) {
    own_free char *own = path_of(DIR_LIB "/agents/%s", b->conf.name);
    const char *const paths[] = {b->conf.project, own};
    *ret = (struct sight){.b = b, .free = UINT64_MAX};
    for (size_t i = 0; i < COUNT(paths); i++) {
        uint64_t free_bytes, size;
        own_err err_t e = fs_space(paths[i], &free_bytes, &size);
        if (e || free_bytes >= ret->free)
            continue;
        ret->free = free_bytes;
        snprintf(ret->path, sizeof ret->path, "%s", paths[i]);
    }
}

/* Does it write? Asked at each look while less than four reserves are free, so that there is something to compare with. */
static bool writes(const struct sight *s) {
    if (access("/proc/self/io", R_OK))
        return true; /* a kernel that does not tell */
    bool any = false;
    for (size_t i = 0; i < COUNT(fillers); i++) {
        uint64_t *kept = &s->b->written[fillers[i]], was = *kept;
        *kept = 1 + s->wrote[i].bytes;
        any = any || (was && *kept > was + IDLE_BYTES);
    }
    return any;
}

/* One that cannot be frozen is said too, once, and not tried again until there is room. */
static void freeze(const struct sight *s) {
    struct box *b = s->b;
    own_err err_t e = set_frozen(b, true);
    memset(b->written, 0, sizeof b->written);
    snprintf(b->frozen, sizeof b->frozen,
             "%s: %" PRIu64 " MiB are free at %s, the reserve is %" PRIu64 " MiB; make room there",
             e ? "nearly full, and it could not be frozen" : "frozen", s->free >> 20, s->path,
             b->w->conf.disk_reserve >> 20);
    log_warn("harness and executor of %s: %s%s%s", b->conf.name, b->frozen, e ? ": " : "", err_text(e));
    char report[384];
    snprintf(report, sizeof report, "harness and executor of %s: %s", b->conf.name, b->frozen);
    tell_report(b, report);
    box_tell(b);
}

static void thaw(struct box *b) {
    own_err err_t e = set_frozen(b, false);
    b->frozen[0] = 0;
    log_info("harness and executor of %s: there is room again, they go on%s%s", b->conf.name, e ? ": " : "",
             err_text(e));
    tell_report(b, "there is room on the disk again: harness and executor go on");
    box_tell(b);
}

static void judge(const struct sight *s) {
    struct box *b = s->b;
    uint64_t reserve = b->w->conf.disk_reserve;
    bool filling = s->wrote && writes(s);
    switch (disk_step(s->free, reserve, *b->frozen != 0)) {
    case DISK_FREEZE:
        if (filling || s->free < reserve / 2)
            freeze(s);
        break;
    case DISK_THAW:
        thaw(b);
        break;
    case DISK_LEAVE:
        break;
    }
}

static bool may_fill(const struct box *b) {
    bool ready = false;
    for (size_t i = 0; i < COUNT(fillers); i++)
        ready = ready || b->ward[fillers[i]].state == WARD_READY;
    return ready && b->started;
}

void disk_look(struct warden *w) {
    size_t boxes = 0, seen = 0, asked = 0;
    for (struct box *b = w->boxes; b; b = b->next)
        boxes++;
    if (!boxes || w->ending)
        return;
    own_free struct sight *sights = xcalloc(boxes, sizeof *sights);
    own_free struct account_written *wrote = xcalloc(boxes * COUNT(fillers), sizeof *wrote);
    for (struct box *b = w->boxes; b; b = b->next) {
        if (!may_fill(b))
            continue;
        struct sight *s = &sights[seen++];
        see(b, s);
        if (*b->frozen || s->free / 4 >= w->conf.disk_reserve)
            continue;
        s->wrote = &wrote[asked];
        for (size_t i = 0; i < COUNT(fillers); i++)
            wrote[asked++].uid = uid_of(b, fillers[i]);
    }
    if (asked)
        account_written(wrote, asked);
    for (size_t i = 0; i < seen; i++)
        judge(&sights[i]);
}

static void on_look(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    disk_look(arg);
}

void disk_init(struct warden *w) {
    struct event *looking = event_new(w->base, -1, EV_PERSIST, on_look, w);
    event_add(looking, &(struct timeval){LOOK_S, 0});
}

void disk_box_changed(struct box *b) {
    if (!*b->frozen)
        return;
    bool stays = b->state == BOX_RUNNING && b->started;
    err_free(set_frozen(b, stays)); /* gone with its room, or said to be impossible already */
    if (!stays)
        b->frozen[0] = 0;
}
