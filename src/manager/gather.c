#include "manager/gather.h"
#include "base/log.h"
#include "base/own.h"
#include "manager/room.h"

#include <stdlib.h>

struct list_of {
    struct gathered *first, **last;
    size_t n, bytes;
};

struct gather {
    struct manager *m;
    struct list_of fresh, stuck;
    struct event *due, *retry;
};

static void empty(struct list_of *l) {
    *l = (struct list_of){.last = &l->first};
}

static void append(struct list_of *l, struct gathered *g) {
    g->next = NULL;
    *l->last = g;
    l->last = &g->next;
    l->n++;
    l->bytes += g->bytes;
}

static void drop(struct gathered *g) {
    msg_free(&g->msg);
    err_free(g->e);
    free(g);
}

/* ---- storing ---- */

static err_t store_all(struct manager *m, struct gathered *first, enum db_strength strength) {
    TRY(db_begin(m->db, strength));
    for (struct gathered *g = first; g; g = g->next)
        g->e = g->kind->store(m, g);
    return db_end(m->db, NULL);
}

static void store_each(struct manager *m, struct gathered *first) {
    for (struct gathered *g = first; g; g = g->next) {
        err_free(g->e);
        g->e = g->kind->store(m, g);
    }
}

static void store(struct manager *m, struct gathered *first) {
    enum db_strength strength = QUICK;
    for (struct gathered *g = first; g; g = g->next)
        if (g->kind->strength == LASTING)
            strength = LASTING;
    own_err err_t whole = first->next ? store_all(m, first, strength) : NULL;
    if (whole || !first->next)
        store_each(m, first);
}

/* It waits, and whoever said it is not listened to until then. */
static void stick(struct gather *all, struct gathered *g) {
    if (!g->waited)
        log_warn("%s: %s", g->agent->name, err_text(g->e));
    g->waited = true;
    append(&all->stuck, g);
    if (!event_pending(all->retry, EV_TIMEOUT, NULL))
        event_add(all->retry, &(struct timeval){GATHER_RETRY_MS / 1000, GATHER_RETRY_MS % 1000 * 1000});
}

static void settle(struct gather *all, struct gathered *g) {
    if (g->kind->must && g->e && g->e->status != EXIT_USAGE) {
        stick(all, g);
        return;
    }
    g->kind->stored(all->m, g);
    drop(g);
}

void gather_now(struct manager *m) {
    struct gather *all = m->gather;
    struct gathered *first = all->fresh.first;
    if (!first)
        return;
    empty(&all->fresh);
    event_del(all->due);
    store(m, first);
    for (struct gathered *g = first, *next; g; g = next) {
        next = g->next;
        settle(all, g);
    }
    if (all->stuck.first)
        agent_holds(m);
    follow_wake(m->follows, FOLLOW_EVENTS);
}

static void on_due(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct gather *all = arg;
    gather_now(all->m);
}

static void on_retry(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct gather *all = arg;
    gather_now(all->m);
    struct gathered *first = all->stuck.first;
    if (!first)
        return;
    empty(&all->stuck);
    for (struct gathered *g = first, *next; g; g = next) {
        next = g->next;
        append(&all->fresh, g);
    }
    gather_now(all->m);
    if (all->stuck.first)
        return;
    log_info("what waited is stored");
    agent_holds(all->m);
}

/* ---- gathering ---- */

void gather_add(struct manager *m, const struct gather_kind *kind, struct agent *a, struct msg *msg,
                size_t bytes) {
    struct gather *all = m->gather;
    struct gathered *g = xcalloc(1, sizeof *g);
    *g = (struct gathered){.kind = kind, .msg = *msg, .agent = a, .bytes = bytes};
    msg->arena = NULL;
    if (!all->fresh.first) /* behind all that is ready now */
        event_active(all->due, EV_TIMEOUT, 0);
    append(&all->fresh, g);
    if (all->fresh.n >= GATHER_MAX || all->fresh.bytes >= GATHER_BYTES)
        gather_now(m);
}

void gather_before(struct manager *m, const struct agent *a) {
    for (const struct gathered *g = m->gather->fresh.first; g; g = g->next)
        if (g->agent == a) {
            gather_now(m);
            return;
        }
}

bool gather_stuck(const struct manager *m, const struct agent *a) {
    for (const struct gathered *g = m->gather->stuck.first; g; g = g->next)
        if (g->agent == a)
            return true;
    return false;
}

void gather_drop(struct manager *m, const struct agent *a) {
    struct list_of was = m->gather->stuck;
    empty(&m->gather->stuck);
    for (struct gathered *g = was.first, *next; g; g = next) {
        next = g->next;
        if (g->agent == a)
            drop(g);
        else
            append(&m->gather->stuck, g);
    }
}

struct gather *gather_new(struct manager *m) {
    struct gather *all = xcalloc(1, sizeof *all);
    all->m = m;
    empty(&all->fresh);
    empty(&all->stuck);
    all->due = event_new(m->base, -1, 0, on_due, all);
    all->retry = evtimer_new(m->base, on_retry, all);
    return all;
}

static void free_list(struct gathered *first) {
    for (struct gathered *g = first, *next; g; g = next) {
        next = g->next;
        drop(g);
    }
}

void gather_free(struct gather *all) {
    if (!all)
        return;
    free_list(all->fresh.first);
    free_list(all->stuck.first);
    event_free(all->due);
    event_free(all->retry);
    free(all);
}
