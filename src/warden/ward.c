#include "warden/ward.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "warden/control.h"
#include "warden/death.h"
#include "warden/sealed_token.h"
#include "warden/start.h"
#include "warden/switchboard.h"
#include "warden/tally.h"
#include "warden/warden.h"
#include "warden/worker.h"

#include <assert.h>

static int64_t mono_ms(void) {
    return clock_mono_ns() / 1000000;
}

static void arm(struct ward *d, int64_t ms) {
    if (ms < 1)
        ms = 1;
    event_add(d->timer, &(struct timeval){ms / 1000, ms % 1000 * 1000});
}

static void on_timer(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    ward_event(arg, WARD_TIMER);
}

/* ---- workers -------------------------------------------------------------------------------------------- */

static err_t run_start(void *job, int report) {
    struct ward *d = job;
    struct ward_made made = {0};
    TRY(d->adopted ? adopt_ward(d, &made) : start_ward(d, &made, report));
    worker_result(report, &made, sizeof made);
    return NULL;
}

static err_t run_clear(void *job, int report) {
    struct ward *d = job;
    struct ward_exit how = d->exit;
    err_t stays = clear_ward(d, d->died && !how.known ? &how : NULL);
    if (stays && d->clear_tries + 1 < WARD_CLEAR_TRIES)
        return stays;
    own_err err_t lost = tally_keep(d, !stays);
    if (lost)
        worker_say(report, "what it reached is not kept: %s", err_text(lost));
    worker_result(report, &how, sizeof how);
    return stays;
}

static void on_started(void *ctx, const struct err *why, const void *result, size_t n) {
    struct ward *d = ctx;
    d->worker = NULL;
    if (!why && n == sizeof d->made) {
        memcpy(&d->made, result, n);
        tally_hold(d);
    } else
        snprintf(d->why, sizeof d->why, "%s", why ? err_text(why) : "no result");
    ward_event(d, why ? WARD_FAILED : WARD_STARTED);
}

static void on_cleared(void *ctx, const struct err *why, const void *result, size_t n) {
    struct ward *d = ctx;
    d->worker = NULL;
    if (!why && n == sizeof d->exit && !d->exit.known)
        memcpy(&d->exit, result, n);
    if (why)
        log_error("%s: not all of it could be removed: %s", ward_title(d), err_text(why));
    if (why && ++d->clear_tries < WARD_CLEAR_TRIES) {
        arm(d, WARD_START_MS);
        return;
    }
    tally_let_go(d);
    ward_event(d, WARD_CLEARED);
}

static void on_line(void *ctx, const char *text) {
    log_info("%s: %s", ward_title(ctx), text);
}

static const struct worker_ops start_ops = {.run = run_start, .on_line = on_line, .on_end = on_started};
static const struct worker_ops clear_ops = {
    .run = run_clear, .keep = tally_held, .on_line = on_line, .on_end = on_cleared};

/* ---- actions: what a cell of the matrix does on its way to the next state -------------------------------- */

static void do_start(struct ward *d, enum ward_state from) {
    (void)from;
    d->adopted = false;
    d->started_ms = mono_ms();
    d->made = (struct ward_made){0};
    d->exit = (struct ward_exit){0};
    d->worker = worker_start(d->w->base, &start_ops, d, d);
}

static void do_connect(struct ward *d, enum ward_state from) {
    (void)from;
    own_err err_t e = control_connect(d);
    if (e)
        snprintf(d->why, sizeof d->why, "%s", err_text(e));
    arm(d, e ? 1 : WARD_HELLO_MS);
}

static void do_go(struct ward *d, enum ward_state from) {
    (void)from;
    switchboard_up(d);
    if (d->adopted)
        log_info("%s is taken over, process %d", ward_title(d), (int)d->made.pid);
    else
        control_go(d);
    sealed_token_give(d);
    if (d->box) /* the relay and the manager have nothing to become ready for */
        arm(d, WARD_HELLO_MS);
}

static void do_clear(struct ward *d, enum ward_state from) {
    (void)from;
    control_end(d);
    switchboard_down(d);
    d->worker = worker_start(d->w->base, &clear_ops, d, d);
}

/* One that was found and is not fit to be taken over is no death. */
static void do_death(struct ward *d, enum ward_state from) {
    if (d->adopted && (from == WARD_STARTING || from == WARD_HELLO))
        log_info("%s is made anew: %s", ward_title(d), d->why);
    else
        death_note(d);
    do_clear(d, from);
}

static void do_late(struct ward *d, enum ward_state from) {
    if (d->control) /* else why says already that it could not be reached */
        snprintf(d->why, sizeof d->why, "it did not %s within %d s",
                 from == WARD_HELLO ? "say hello" : "become ready", WARD_HELLO_MS / 1000);
    do_death(d, from);
}

static void do_stop(struct ward *d, enum ward_state from) {
    (void)from;
    control_stop(d, WARD_GRACE_MS);
    arm(d, WARD_GRACE_MS + 500);
}

static void do_wait(struct ward *d, enum ward_state from) {
    (void)from;
    d->clear_tries = 0;
    if (d->died)
        death_judge(d);
    size_t deaths = death_recent(d);
    int64_t gap = deaths > 1 ? WARD_START_MS << (deaths - 2) : WARD_START_MS;
    arm(d, d->started_ms ? d->started_ms + gap - mono_ms() : 1);
    if (deaths >= WARD_DEATHS_MAX && d->wanted)
        ward_event(d, WARD_TOO_MANY);
}

static void do_hold(struct ward *d, enum ward_state from) {
    (void)from;
    log_error("%s is held: it died %d times within a minute, at last: %s", ward_title(d), WARD_DEATHS_MAX,
              d->why);
    event_del(d->timer);
    if (!d->box)
        arm(d, WARD_PATIENCE_MS);
}

static void do_forgive(struct ward *d, enum ward_state from) {
    memset(d->deaths, 0, sizeof d->deaths);
    do_start(d, from);
}

/* ---- the matrix ------------------------------------------------------------------------------------------ */

struct cell {
    void (*act)(struct ward *d, enum ward_state from);
    enum ward_state next;
};

static const struct cell matrix[][WARD_EVENTS] = {
    [WARD_ABSENT] = {[WARD_WANT] = {do_start, WARD_STARTING}},
    [WARD_STARTING] = {[WARD_STARTED] = {do_connect, WARD_HELLO}, [WARD_FAILED] = {do_death, WARD_CLEARING}},
    [WARD_HELLO] = {[WARD_GREETED] = {do_go, WARD_GOING},
                    [WARD_UNWANT] = {do_clear, WARD_CLEARING},
                    [WARD_LOST] = {do_death, WARD_CLEARING},
                    [WARD_TIMER] = {do_late, WARD_CLEARING}},
    [WARD_GOING] = {[WARD_TOLD] = {NULL, WARD_READY},
                    [WARD_UNWANT] = {do_stop, WARD_STOPPING},
                    [WARD_LOST] = {do_death, WARD_CLEARING},
                    [WARD_TIMER] = {do_late, WARD_CLEARING}},
    [WARD_READY] = {[WARD_UNWANT] = {do_stop, WARD_STOPPING}, [WARD_LOST] = {do_death, WARD_CLEARING}},
    [WARD_STOPPING] = {[WARD_LOST] = {do_clear, WARD_CLEARING}, [WARD_TIMER] = {do_clear, WARD_CLEARING}},
    [WARD_CLEARING] = {[WARD_CLEARED] = {do_wait, WARD_BACKOFF},
                       [WARD_TIMER] = {do_clear, WARD_CLEARING}}, /* it could not be removed: again */
    [WARD_BACKOFF] = {[WARD_TIMER] = {do_start, WARD_STARTING},
                      [WARD_UNWANT] = {NULL, WARD_ABSENT},
                      [WARD_TOO_MANY] = {do_hold, WARD_HELD}},
    [WARD_HELD] = {[WARD_WANT] = {do_forgive, WARD_STARTING},
                   [WARD_TIMER] = {do_start, WARD_STARTING},
                   [WARD_UNWANT] = {NULL, WARD_ABSENT}},
};
static_assert(COUNT(matrix) == WARD_STATES, "every state has its row");

/* ---- the machine ----------------------------------------------------------------------------------------- */

/* Where it stands against what is wanted: the event that brings it on, if one does. */
static void settle(struct ward *d) {
    if (d->wanted && d->state == WARD_ABSENT)
        ward_event(d, WARD_WANT);
    else if (!d->wanted && matrix[d->state][WARD_UNWANT].next)
        ward_event(d, WARD_UNWANT);
}

static void tell(struct ward *d) {
    if (d->box)
        box_changed(d->box);
    warden_changed(d->w);
}

void ward_event(struct ward *d, enum ward_event event) {
    const struct cell *cell = &matrix[d->state][event];
    enum ward_state from = d->state;
    if (!cell->next)
        return;
    event_del(d->timer);
    d->state = cell->next;
    if (cell->act)
        cell->act(d, from);
    if (d->state == cell->next) {
        settle(d);
        tell(d);
    }
}

void ward_init(struct ward *d, struct warden *w, struct box *box, enum ward_kind kind) {
    *d = (struct ward){.w = w, .box = box, .kind = kind, .state = WARD_ABSENT, .netns = -1};
    d->timer = event_new(w->base, -1, 0, on_timer, d);
}

void ward_want(struct ward *d, bool wanted) {
    d->wanted = wanted;
    ward_event(d, wanted ? WARD_WANT : WARD_UNWANT);
}

void ward_find(struct ward *d, bool wanted) {
    d->wanted = wanted;
    if (control_there(d)) {
        d->adopted = true;
        d->state = WARD_STARTING;
        d->worker = worker_start(d->w->base, &start_ops, d, d);
    } else if (wanted) {
        d->state = WARD_CLEARING; /* what a crash of the whole machine left */
        d->worker = worker_start(d->w->base, &clear_ops, d, d);
    }
}

void ward_lost(struct ward *d, const char *why) {
    snprintf(d->why, sizeof d->why, "%s", why);
    ward_event(d, WARD_LOST);
}

const char *ward_kind_name(enum ward_kind kind) {
    return kind == WARD_RELAY ? "relay" : kind == WARD_MANAGER ? "manager" : room_name((enum room)kind);
}

const char *ward_title(const struct ward *d) {
    static char title[64];
    snprintf(title, sizeof title, "%s%s%s", ward_kind_name(d->kind), d->box ? " of " : "",
             d->box ? d->box->conf.name : "");
    return title;
}

bool ward_up(const struct ward *d) {
    return d->state == WARD_GOING || d->state == WARD_READY;
}

bool ward_works(const struct ward *d) {
    return ward_up(d) || d->state == WARD_STOPPING;
}

void ward_drop(struct ward *d) {
    worker_forget(d->worker);
    worker_forget(d->refresh);
    d->worker = d->refresh = NULL;
    control_end(d);
    tally_let_go(d);
    event_free(d->timer);
}
