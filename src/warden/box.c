#include "warden/box.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "warden/disk.h"
#include "warden/from_manager.h"
#include "warden/from_operator.h"
#include "warden/model_door.h"
#include "warden/programs.h"
#include "warden/rules.h"
#include "warden/start.h"
#include "warden/state.h"
#include "warden/wish.h"
#include "warden/warden.h"

#include <assert.h>
#include <stdlib.h>

static const char *const state_names[] = {
    [BOX_STOPPED] = "stopped",   [BOX_STARTING] = "starting", [BOX_RUNNING] = "running",
    [BOX_STOPPING] = "stopping", [BOX_FAILING] = "failing",
};
static_assert(COUNT(state_names) == BOX_STATES, "every state has its name");

/* ---- the table ------------------------------------------------------------------------------------------- */

struct box *box_find(struct warden *w, const char *name) {
    struct box *b = w->boxes;
    while (b && strcmp(b->conf.name, name))
        b = b->next;
    return b;
}

struct box *box_add(struct warden *w, struct conf_agent *conf) {
    struct box **place = &w->boxes;
    while (*place && strcmp((*place)->conf.name, conf->name) < 0)
        place = &(*place)->next;
    if (*place && !strcmp((*place)->conf.name, conf->name))
        return NULL;
    struct box *b = xcalloc(1, sizeof *b);
    *b = (struct box){.next = *place, .w = w, .conf = *conf, .model_door = -1, .state = BOX_STOPPED};
    *conf = (struct conf_agent){0};
    b->started = wish_read(b->conf.name);
    if (b->started) /* nobody may think that it is stopped: it may live, and is looked for */
        b->state = BOX_STARTING;
    b->since_wall_ms = clock_wall_ms();
    for (int room = 0; room < ROOM_COUNT; room++)
        ward_init(&b->ward[room], w, b, (enum ward_kind)room);
    *place = b;
    tell_agent(b);
    return b;
}

void box_remove(struct box *b) {
    for (struct box **p = &b->w->boxes; *p; p = &(*p)->next)
        if (*p == b) {
            *p = b->next;
            break;
        }
    tell_gone(b->w, b->conf.name);
    for (int room = 0; room < ROOM_COUNT; room++)
        ward_drop(&b->ward[room]);
    model_door_close(b);
    farewell_drop(b);
    conf_agent_free(&b->conf);
    free(b);
}

void boxes_load(struct warden *w) {
    own_names char **names = NULL;
    own_err err_t e = conf_agent_names(&names);
    if (e)
        log_error("%s", err_text(e));
    for (size_t i = 0; names && names[i]; i++) {
        struct conf_agent conf = {0};
        own_err err_t bad = conf_agent_read(names[i], &conf);
        if (bad) {
            log_error("agent %s is left out: %s", names[i], err_text(bad));
            continue;
        }
        box_add(w, &conf);
    }
}

void boxes_find(struct warden *w) {
    for (struct box *b = w->boxes; b; b = b->next) {
        for (int room = 0; room < ROOM_COUNT; room++)
            ward_find(&b->ward[room], b->started);
        box_changed(b);
    }
}

/* ---- orders ---------------------------------------------------------------------------------------------- */

static void release(struct box *b, bool for_running, const struct err *why, const char *text) {
    struct box_waiter **p = &b->waiters;
    while (*p) {
        struct box_waiter *wait = *p;
        if (wait->for_running != for_running) {
            p = &wait->next;
            continue;
        }
        *p = wait->next;
        wait->done(wait->ctx, why, text);
        free(wait);
    }
}

static void want_all(struct box *b) {
    b->closed = false;
    for (int room = 0; room < ROOM_COUNT; room++)
        ward_want(&b->ward[room], true);
}

bool box_leave(struct box *b) {
    static const enum room order[] = {ROOM_HARNESS, ROOM_EXECUTOR, ROOM_AGENT};
    static_assert(COUNT(order) == ROOM_COUNT, "every room has its turn");
    for (size_t i = 0; i < COUNT(order); i++) {
        struct ward *d = &b->ward[order[i]];
        if (d->wanted)
            ward_want(d, false);
        if (ward_works(d))
            return false;
    }
    return !farewell_pending(b);
}

static bool all_in(const struct box *b, enum ward_state state) {
    for (int room = 0; room < ROOM_COUNT; room++)
        if (b->ward[room].state != state)
            return false;
    return true;
}

static void on_due(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    box_changed(arg);
}

void box_order(struct box *b, enum box_order order, box_done *done, void *ctx) {
    bool up = order != BOX_STOP;
    own_err err_t other = err_new(EXIT_FAILED, "another order for %s came", b->conf.name);
    release(b, !up, other, "");
    if (done) {
        struct box_waiter *wait = xcalloc(1, sizeof *wait);
        *wait = (struct box_waiter){b->waiters, up, done, ctx};
        b->waiters = wait;
    }
    if (b->state == BOX_FAILING) {
        b->ran = false;
        b->died = 0;
    }
    b->started = up;
    b->said_failing = false;
    own_err err_t e = wish_write(b->conf.name, up);
    if (e)
        log_error("%s: the order will not outlive the warden: %s", b->conf.name, err_text(e));
    b->again = order == BOX_RESTART && !all_in(b, WARD_ABSENT);
    b->ordered_again = b->again;
    if (up && !b->again)
        want_all(b);
    else
        box_leave(b);
    event_base_once(b->w->base, -1, EV_TIMEOUT, on_due, b, &(struct timeval){0});
}

/* ---- what the wards say together ------------------------------------------------------------------------- */

static enum box_state state_now(const struct box *b) {
    bool wanted = b->started || b->again;
    for (int room = 0; room < ROOM_COUNT; room++)
        if (b->ward[room].state == WARD_HELD)
            return BOX_FAILING;
    if (all_in(b, WARD_ABSENT))
        return wanted && !b->w->ending ? BOX_STARTING : b->closing ? BOX_STOPPING : BOX_STOPPED;
    if (!b->started || b->w->ending)
        return BOX_STOPPING;
    return all_in(b, WARD_READY) ? BOX_RUNNING : BOX_STARTING;
}

static void write_report(struct box *b) {
    char who[64] = "";
    for (int room = 0; room < ROOM_COUNT; room++)
        if (b->died >> room & 1)
            snprintf(who + strlen(who), sizeof who - strlen(who), "%s%s", *who ? ", " : "",
                     room_name((enum room)room));
    char what[128];
    if (*who && b->ran)
        snprintf(what, sizeof what, "healed (%s had died)", who);
    else
        snprintf(what, sizeof what, "%s", b->ordered_again ? "restarted" : "started");
    static const char *const networks[NET_COUNT + 1] = {[NET_OPEN] = "network open",
                                                        [NET_NONE] = "network none",
                                                        [NET_SEALED] =
                                                            "network sealed: the internet and nothing local",
                                                        [NET_COUNT] = "no sandbox, network as the host's"};
    own_free char *title = programs_title(b->conf.harness);
    uint32_t uid = room_uid(ROOM_EXECUTOR) + (b->conf.mode == MODE_BARE ? b->conf.uid_base : 0);
    own_free char *outbox = farewell_outbox(b);
    snprintf(b->report, sizeof b->report, "%s %s %s · executor broker as uid %u · harness %s · %s%s",
             mode_name(b->conf.mode), b->conf.name, what, uid, title,
             networks[b->conf.mode == MODE_BARE ? NET_COUNT : b->conf.net], outbox);
}

/* An order's answer, and what a session's end had to say before it. */
static void release_saying(struct box *b, bool for_running, const char *text) {
    char both[sizeof b->farewell + sizeof b->report];
    static_assert(sizeof both <= 4096, "both fit into ret_order's text");
    snprintf(both, sizeof both, "%s%s%s", b->farewell, *b->farewell ? "\n" : "", text);
    b->farewell[0] = 0;
    release(b, for_running, NULL, both);
}

static void now_running(struct box *b) {
    bool adopted = !b->ran && !b->died;
    for (int room = 0; room < ROOM_COUNT; room++)
        adopted = adopted && b->ward[room].adopted;
    write_report(b);
    if (!b->ran)
        b->up_boot_ms = adopted ? state_started_ms(b->ward[ROOM_AGENT].made.pid) : clock_boot_ms();
    if (!adopted) {
        log_info("%s", b->report);
        tell_report(b, b->report);
    }
    b->ran = true;
    b->trial = false;
    b->ordered_again = false;
    b->died = 0;
    switchboard_settle(b->w);
    rules_due(b->w);
    release_saying(b, true, b->report);
}

static void now_failing(struct box *b) {
    if (b->said_failing)
        return;
    b->said_failing = true;
    char why[256], text[512];
    box_why(b, why);
    snprintf(text, sizeof text, "%s %s is failing: %s · order a start to try again", mode_name(b->conf.mode),
             b->conf.name, why);
    log_error("%s", text);
    tell_report(b, text);
    own_err err_t e = err_new(EXIT_FAILED, "%s", text);
    release(b, true, e, "");
}

static void now_stopped(struct box *b) {
    char text[128];
    snprintf(text, sizeof text, "%s %s stopped", mode_name(b->conf.mode), b->conf.name);
    log_info("%s", text);
    b->ran = false;
    b->died = 0;
    release_saying(b, false, text);
}

/* A new agent whose room does not start is not kept: whoever asked for it is told at once. */
static void end_trial(struct box *b) {
    char why[256];
    box_why(b, why);
    own_err err_t e = err_new(EXIT_FAILED, "%s", why);
    b->trial = false;
    b->said_failing = true;
    release(b, true, e, "");
}

void box_changed(struct box *b) {
    if (b->trial && b->died) {
        end_trial(b);
        return;
    }
    bool over = all_in(b, WARD_ABSENT) && (b->again || !b->started || b->w->ending);
    if (b->again && over && !b->w->ending && !farewell_pending(b)) {
        b->again = false;
        b->ran = false;
        b->died = 0;
        want_all(b);
        return;
    }
    if (!b->started || b->again || b->w->ending)
        box_leave(b);
    if (over)
        farewell_begin(b);
    enum box_state now = state_now(b), was = b->state;
    if (now != was) {
        b->state = now;
        b->since_wall_ms = clock_wall_ms();
        disk_box_changed(b);
    }
    static void (*const entered[BOX_STATES])(struct box * b) = {
        [BOX_RUNNING] = now_running, [BOX_FAILING] = now_failing, [BOX_STOPPED] = now_stopped};
    if (now != was && entered[now])
        entered[now](b);
    else if (now == BOX_RUNNING)
        release(b, true, NULL, "it runs already");
    else if (now == BOX_STOPPED)
        release(b, false, NULL, "it was stopped already");
    if (now != was) /* once the word beside the state is right too */
        tell_agent(b);
}

void box_tell(struct box *b) {
    tell_agent(b);
}

void box_died(struct box *b, enum room room) {
    b->died |= 1u << room;
    if (room == ROOM_AGENT)
        from_operator_agent_died(b->w, b->conf.name);
}

const char *box_state_name(const struct box *b) {
    return state_names[b->state];
}

void box_why(const struct box *b, char out[256]) {
    snprintf(out, 256, "%s", b->frozen);
    for (int room = 0; room < ROOM_COUNT && !*b->frozen; room++) {
        const struct ward *d = &b->ward[room];
        bool trouble = d->state == WARD_HELD || (b->died >> room & 1);
        if (trouble && *d->why)
            snprintf(out, 256, "its %s %s: %s", room_name((enum room)room),
                     d->state == WARD_HELD ? "died 5 times within a minute" : "died", d->why);
    }
}
