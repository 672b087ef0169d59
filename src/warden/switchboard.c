#include "warden/switchboard.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "warden/control.h"
#include "warden/from_manager.h"
#include "warden/model_door.h"
#include "warden/warden.h"
#include "wire/seq.h"

/* Both ends of a broken link say so; the second word must not end the link that answers the first. */
enum { LINK_AGAIN_MS = 1000, LINK_SECOND_WORD_MS = 200 };

static int64_t mono_ms(void) {
    return clock_mono_ns() / 1000000;
}

/* The ward that the table's word stands for, in this box (NULL: of the fleet); NULL when it is not a ward. */
static struct ward *owner(struct warden *w, struct box *b, const char *word) {
    if (!strcmp(word, "relay"))
        return &w->relay;
    if (!strcmp(word, "manager"))
        return &w->manager;
    for (int room = 0; b && room < ROOM_COUNT; room++)
        if (!strcmp(word, room_name((enum room)room)))
            return &b->ward[room];
    return NULL;
}

static bool is_room(const char *word) {
    return !strcmp(word, room_name(ROOM_AGENT)) || !strcmp(word, room_name(ROOM_HARNESS)) ||
           !strcmp(word, room_name(ROOM_EXECUTOR));
}

/* One for each box, or one for the fleet. */
static bool of_box(enum link_id id) {
    return is_room(link_rows[id].commander) || is_room(link_rows[id].obeyer);
}

static bool has_owner(enum link_id id, const char *word) {
    return !strcmp(link_rows[id].commander, word) || !strcmp(link_rows[id].obeyer, word);
}

static struct pair *pair_of(struct warden *w, struct box *b, enum link_id id) {
    return b ? &b->pair[id] : &w->pair[id];
}

/* The warden makes those that no client connects to by itself. */
static bool is_made_here(enum link_id id) {
    return link_rows[id].made != SOCKET;
}

/* The warden itself is the obeyer of manager_warden. */
static bool ends_up(struct warden *w, struct box *b, enum link_id id) {
    struct ward *down = owner(w, b, link_rows[id].commander), *up = owner(w, b, link_rows[id].obeyer);
    if (!down || !ward_up(down) || (up && !ward_up(up)))
        return false;
    if (id == LINK_harness_model)
        return model_door_wanted(b);
    return id != LINK_manager_agent || b->state == BOX_RUNNING;
}

static err_t make(struct warden *w, struct box *b, enum link_id id) {
    struct ward *commander = owner(w, b, link_rows[id].commander);
    struct ward *obeyer = owner(w, b, link_rows[id].obeyer);
    if (link_rows[id].made == LISTENER)
        return model_door_give(b);
    int ends[2];
    TRY(seq_pair(ends));
    own_fd int down = ends[0], up = ends[1];
    TRY(control_link(commander, id, id == LINK_manager_agent ? b->conf.name : "", down));
    if (obeyer)
        return control_link(obeyer, id, "", up);
    from_manager_open(w, TAKE_FD(up));
    return NULL;
}

static void try_make(struct warden *w, struct box *b, enum link_id id, int64_t *soonest) {
    struct pair *p = pair_of(w, b, id);
    int64_t now = mono_ms();
    if (p->made || w->ending || !ends_up(w, b, id))
        return;
    if (p->due_ms > now) {
        if (!*soonest || p->due_ms < *soonest)
            *soonest = p->due_ms;
        return;
    }
    own_err err_t e = make(w, b, id);
    p->made = true; /* an end that could not take it is about to be lost and comes again */
    p->due_ms = now + LINK_AGAIN_MS;
    if (e)
        log_warn("link %s%s%s: %s", link_rows[id].name, b ? " of " : "", b ? b->conf.name : "", err_text(e));
}

void switchboard_settle(struct warden *w) {
    int64_t soonest = 0;
    for (int id = 0; id < LINK_COUNT; id++) {
        if (!is_made_here((enum link_id)id))
            continue;
        if (!of_box((enum link_id)id))
            try_make(w, NULL, (enum link_id)id, &soonest);
        for (struct box *b = w->boxes; b && of_box((enum link_id)id); b = b->next)
            try_make(w, b, (enum link_id)id, &soonest);
    }
    if (soonest) {
        int64_t ms = soonest - mono_ms() + 1;
        event_add(w->relink, &(struct timeval){ms / 1000, ms % 1000 * 1000});
    }
}

static void on_relink(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    switchboard_settle(arg);
}

void switchboard_init(struct warden *w) {
    w->relink = event_new(w->base, -1, 0, on_relink, w);
}

/* A link that an adopted obeyer brought stands, unless its commander was made anew. */
static bool stands(struct warden *w, struct box *b, enum link_id id, const struct ward *d) {
    const struct ward *commander = owner(w, b, link_rows[id].commander);
    bool obeys = !strcmp(link_rows[id].obeyer, ward_kind_name(d->kind));
    if (!d->adopted)
        return false;
    if (!obeys)
        return pair_of(w, b, id)->made;
    return (d->links >> id & 1) && (commander->adopted || commander->state == WARD_ABSENT);
}

static void each_link(struct ward *d, void (*fn)(struct ward *d, struct box *b, enum link_id id)) {
    for (int id = 0; id < LINK_COUNT; id++) {
        enum link_id link = (enum link_id)id;
        if (!is_made_here(link) || !has_owner(link, ward_kind_name(d->kind)))
            continue;
        if (!of_box(link))
            fn(d, NULL, link);
        else if (d->box)
            fn(d, d->box, link);
        else
            for (struct box *b = d->w->boxes; b; b = b->next)
                fn(d, b, link);
    }
}

static void link_up(struct ward *d, struct box *b, enum link_id id) {
    struct pair *p = pair_of(d->w, b, id);
    p->made = stands(d->w, b, id, d);
    p->due_ms = 0;
}

static void link_down(struct ward *d, struct box *b, enum link_id id) {
    struct pair *p = pair_of(d->w, b, id);
    p->made = false;
    if (id == LINK_harness_model && d->kind == WARD_HARNESS)
        model_door_close(b);
    if (id == LINK_manager_agent && d->kind == WARD_AGENT && ward_up(&d->w->manager))
        control_unlink(&d->w->manager, id, b->conf.name);
}

void switchboard_up(struct ward *d) {
    each_link(d, link_up);
    switchboard_settle(d->w);
}

void switchboard_down(struct ward *d) {
    each_link(d, link_down);
}

void switchboard_lost(struct ward *d, enum link_id link, const char *peer) {
    if (!is_made_here(link) || !has_owner(link, ward_kind_name(d->kind)))
        return;
    struct box *b = d->box || !of_box(link) ? d->box : box_find(d->w, peer);
    if (of_box(link) && !b)
        return;
    struct pair *p = pair_of(d->w, b, link);
    int64_t soon = mono_ms() + LINK_SECOND_WORD_MS;
    if (!p->made)
        return; /* it is on its way already */
    p->made = false;
    if (p->due_ms < soon)
        p->due_ms = soon;
    switchboard_settle(d->w);
}
