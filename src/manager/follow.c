#include "manager/follow.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "manager/asked.h"
#include "manager/events.h"
#include "manager/room.h"
#include "proto/after.h"

struct follow {
    enum follow_what what;
    uint64_t cookie;
    char *agent;
    uint64_t at;   /* the last seq that was given */
    uint64_t left; /* how many may still be given */
    uint64_t before;
    bool follow;
    bool behind; /* there may be something to give */
    bool asked;  /* the open questions are to be given, once it is not behind */
    struct follow *next;
};

struct follows {
    struct manager *m;
    struct follow *first;
    unsigned n;
    struct event *more; /* a page was given, there is another: after other links had their turn */
};

static void pump(struct follows *f);

static void on_more(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    pump(arg);
}

struct follows *follows_new(struct manager *m) {
    struct follows *f = xcalloc(1, sizeof *f);
    f->m = m;
    f->more = event_new(m->base, -1, 0, on_more, f);
    return f;
}

static void drop(struct follows *f, struct follow *one) {
    struct follow **at = &f->first;
    while (*at != one)
        at = &(*at)->next;
    *at = one->next;
    f->n--;
    free(one->agent);
    free(one);
}

void follow_stop_all(struct follows *f) {
    while (f->first)
        drop(f, f->first);
}

void follows_free(struct follows *f) {
    if (!f)
        return;
    follow_stop_all(f);
    event_free(f->more);
    free(f);
}

/* ---- giving ---- */

struct giving {
    struct manager *m;
    struct follow *to;
};

/* True: it went into the link's queue. */
static bool pass(struct giving *g, const struct msg *m) {
    if (!g->m->relay || link_full(g->m->relay))
        return false;
    own_err err_t e = link_send(g->m->relay, m);
    if (e)
        return false;
    g->to->left--;
    return true;
}

static struct msg event_msg(uint64_t cookie, const struct event *e) {
    struct msg m = {.type = MSG_ret_event};
    m.ret_event = (struct msg_ret_event){.cookie = cookie,
                                         .seq = e->seq,
                                         .agent = e->agent,
                                         .id = e->id,
                                         .kind = e->kind,
                                         .who = e->who,
                                         .wall_ms = e->wall_ms,
                                         .status = e->status,
                                         .span_ms = e->span_ms,
                                         .text = e->text,
                                         .call = e->call,
                                         .name = e->name,
                                         .tokens = e->tokens,
                                         .tools = e->tools,
                                         .question = e->question,
                                         .digest = e->digest,
                                         .until_wall_ms = e->until_wall_ms,
                                         .choices = e->choices};
    return m;
}

static bool give_event(void *ctx, const struct event *e) {
    struct giving *g = ctx;
    if (g->to->before && e->seq >= g->to->before) {
        g->to->left = 0;
        return false;
    }
    struct msg m = event_msg(g->to->cookie, e);
    return pass(g, &m);
}

static bool give_row(void *ctx, const struct audit_row *r, struct bytes hash) {
    struct giving *g = ctx;
    struct msg m = {.type = MSG_ret_row};
    m.ret_row = (struct msg_ret_row){.cookie = g->to->cookie,
                                     .seq = r->seq,
                                     .agent = r->agent,
                                     .who = r->who,
                                     .argv = r->argv,
                                     .cwd = r->cwd,
                                     .start_wall_ms = r->start_wall_ms,
                                     .span_us = r->span_us,
                                     .how = r->how,
                                     .status = r->status,
                                     .output = r->output,
                                     .hash = hash};
    return pass(g, &m);
}

/* One page to one reader. */
static err_t give_page(struct follows *f, struct follow *one) {
    struct giving g = {f->m, one};
    uint64_t limit = one->left < FOLLOW_PAGE ? one->left : FOLLOW_PAGE;
    struct bytes agent = bytes_of(one->agent);
    if (one->what == FOLLOW_EVENTS)
        return events_after(f->m->db, agent, limit, give_event, &g, &one->at, &one->behind);
    return audit_after(f->m->db, agent, limit, give_row, &g, &one->at, &one->behind);
}

/* Behind the last row, for who lists one agent and does not follow: its commands that run now. */
static err_t give_running(struct follows *f, struct follow *one) {
    struct giving g = {f->m, one};
    if (one->what != FOLLOW_ROWS || one->follow || !one->left || !*one->agent)
        return NULL;
    return audit_running(f->m->db, bytes_of(one->agent), give_row, &g);
}

static void give_live(struct follows *f, struct follow *one, const struct event *live) {
    struct event e = *live;
    e.seq = one->at;
    e.wall_ms = (uint64_t)clock_wall_ms();
    struct msg m = event_msg(one->cookie, &e);
    err_free(link_send(f->m->relay, &m)); /* a link that ended says so itself */
}

static void give_asked(void *ctx, const struct event *e) {
    const struct giving *g = ctx;
    give_live(g->m->follows, g->to, e);
}

/* A page to each who is behind, and an end to each who has it all. */
static void pump(struct follows *f) {
    bool more = false;
    for (struct follow *one = f->first, *next; one; one = next) {
        next = one->next;
        if (!f->m->relay || link_full(f->m->relay))
            return;
        err_t e = one->behind && one->left ? give_page(f, one) : NULL;
        bool over = e || !one->left || (!one->behind && !one->follow);
        uint64_t cookie = one->cookie;
        if (over && !e)
            e = give_running(f, one);
        if (over)
            drop(f, one);
        else
            more |= one->behind;
        if (!over && one->asked && !one->behind) {
            one->asked = false;
            asked_give(f->m, one->agent, give_asked, &(struct giving){f->m, one});
        }
        if (e)
            relay_fail(f->m, cookie, e);
        else if (over)
            relay_end(f->m, cookie, EXIT_OK, 0, "");
    }
    if (more && !link_full(f->m->relay))
        event_active(f->more, EV_TIMEOUT, 0);
}

/* ---- asking ---- */

/* Where a reader starts. */
static err_t start_at(struct db *db, const struct follow_ask *ask, uint64_t *ret) {
    uint64_t n;
    *ret = ask->after;
    if (!after_is_last(ask->after, &n))
        return NULL;
    return ask->what == FOLLOW_EVENTS ? events_back(db, ask->agent, ask->before, n, ret)
                                      : audit_back(db, ask->agent, n, ret);
}

err_t follow_start(struct follows *f, const struct follow_ask *ask) {
    if (f->n >= FOLLOWS_MAX)
        return err_new(EXIT_POLICY, "%d readers follow the fleet already: end one of them", FOLLOWS_MAX);
    uint64_t at;
    TRY(start_at(f->m->db, ask, &at));
    struct follow *one = xcalloc(1, sizeof *one);
    *one = (struct follow){.what = ask->what,
                           .cookie = ask->cookie,
                           .agent = xstrndup(ask->agent.p, ask->agent.len),
                           .at = at,
                           .before = ask->before,
                           .left = ask->limit ? ask->limit : UINT64_MAX,
                           .follow = ask->follow,
                           .behind = true,
                           .asked = ask->follow && ask->what == FOLLOW_EVENTS};
    struct follow **last = &f->first;
    while (*last)
        last = &(*last)->next;
    *last = one;
    f->n++;
    pump(f);
    return NULL;
}

bool follow_stop(struct follows *f, uint64_t cookie) {
    for (struct follow *one = f->first; one; one = one->next)
        if (one->cookie == cookie) {
            drop(f, one);
            return true;
        }
    return false;
}

void follow_wake(struct follows *f, enum follow_what what) {
    for (struct follow *one = f->first; one; one = one->next)
        one->behind |= one->what == what;
    pump(f);
}

void follow_room(struct follows *f) {
    pump(f);
}

static bool reads(const struct follow *one, struct bytes agent) {
    bool all = !*one->agent || (strlen(one->agent) == agent.len && !memcmp(one->agent, agent.p, agent.len));
    return all && one->what == FOLLOW_EVENTS && one->follow;
}

bool follow_reads(const struct follows *f, const char *agent) {
    bool any = !f->m->relay;
    for (const struct follow *one = f->first; one && !any; one = one->next)
        any = reads(one, bytes_of(agent));
    return any;
}

void follow_live(struct follows *f, const struct event *live) {
    for (struct follow *one = f->first; one; one = one->next) {
        if (!reads(one, live->agent))
            continue;
        if (one->behind || !f->m->relay || link_full(f->m->relay))
            one->asked |= live->question != 0;
        else
            give_live(f, one, live);
    }
}
