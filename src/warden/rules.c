#include "warden/rules.h"
#include "base/log.h"
#include "base/own.h"
#include "cage/addresses.h"
#include "warden/start.h"
#include "warden/warden.h"
#include "warden/worker.h"

#include <event2/event.h>
#include <signal.h>

/* The kernel tells of one change in many steps. */
enum { SETTLE_MS = 300, LOOK_S = 60 };

static bool follows(const struct ward *d) {
    return d->box->conf.net == NET_SEALED && d->box->conf.mode != MODE_BARE && ward_up(d);
}

static err_t run_refresh(void *job, int report) {
    (void)report;
    return refresh_ward(job);
}

/* What the worker looked at may be gone, or be another room by now: only the one that it knew is ended. */
static void on_refreshed(void *ctx, const struct err *why, const void *result, size_t n) {
    (void)result, (void)n;
    struct ward *d = ctx;
    d->refresh = NULL;
    if (!why || !ward_up(d) || d->made.pid != d->refreshed)
        return;
    char text[256];
    snprintf(text, sizeof text, "its network rules do not follow this host's addresses: %.180s",
             err_text(why));
    ward_lost(d, text);
}

static const struct worker_ops refresh_ops = {.run = run_refresh, .on_end = on_refreshed};

static void look(struct warden *w) {
    for (struct box *b = w->boxes; b && !w->ending; b = b->next) {
        struct ward *d = &b->ward[ROOM_EXECUTOR];
        if (!follows(d) || d->refresh)
            continue;
        d->refreshed = d->made.pid;
        d->refresh = worker_start(w->base, &refresh_ops, d, d);
    }
}

static void on_due(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct warden *w = arg;
    event_add(w->rules, &(struct timeval){LOOK_S, 0});
    look(w);
}

void rules_due(struct warden *w) {
    event_add(w->rules, &(struct timeval){0, SETTLE_MS * 1000});
}

static void on_change(evutil_socket_t fd, short what, void *arg) {
    (void)what;
    if (addresses_changed(fd))
        rules_due(arg);
}

err_t rules_init(struct warden *w) {
    int watch;
    TRY(addresses_watch(&watch));
    w->rules = event_new(w->base, -1, 0, on_due, w);
    event_add(event_new(w->base, watch, EV_READ | EV_PERSIST, on_change, w), NULL);
    rules_due(w);
    return NULL;
}
