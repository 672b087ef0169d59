/* What the warden's files share: the fleet as it is now. One loop, one thread; whatever blocks is a worker's. */
#ifndef WARDEN_WARDEN_H
#define WARDEN_WARDEN_H

#include "base/conf.h"
#include "cage/host.h"
#include "warden/box.h"
#include "warden/switchboard.h"
#include "warden/ward.h"

struct operators;

struct warden {
    struct event_base *base;
    struct conf_fleet conf;
    struct host host;
    struct ward relay, manager;
    struct box *boxes;            /* by name */
    struct link *manager_link;    /* manager_warden, its lower end; NULL while there is none */
    struct pair pair[LINK_COUNT]; /* the links that are not of one box */
    struct event *relink;
    struct event *rules; /* rules.h */
    struct operators *operators;
    bool ending; /* the orderly end is under way: nothing is started any more */
};

/* A ward's state changed. Tells whoever waits for it (from main.c: the end of the fleet, op_ping). */
void warden_changed(struct warden *w);

/* Relay and manager are up. */
bool warden_up(const struct warden *w);

/* Begins the orderly end: every ward unwanted; the loop ends when all are absent. */
void warden_end(struct warden *w);

#endif
