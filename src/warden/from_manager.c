#include "warden/from_manager.h"
#include "base/log.h"
#include "base/own.h"
#include "warden/heads.h"
#include "warden/programs.h"
#include "warden/state.h"
#include "warden/warden.h"
#include "wire/link.h"

#include <stdlib.h>

/* An order that is under way, for the answer. */
struct asked {
    struct warden *w;
    struct link *link; /* the one that it came on: a later one did not ask */
    uint64_t cookie;
};

static void say(struct warden *w, const struct msg *m) {
    own_err err_t e = w->manager_link ? link_send(w->manager_link, m) : NULL;
    if (e)
        log_warn("manager: %s", err_text(e));
}

void tell_agent(const struct box *b) {
    char why[256];
    box_why(b, why);
    own_free char *title = programs_title(b->conf.harness);
    struct msg m = {.type = MSG_has_agent};
    m.has_agent.agent = bytes_of(b->conf.name);
    m.has_agent.mode = bytes_of(mode_name(b->conf.mode));
    m.has_agent.harness = bytes_of(title);
    m.has_agent.project = bytes_of(b->conf.project);
    m.has_agent.net = bytes_of(net_name(b->conf.net));
    m.has_agent.state = bytes_of(box_state_name(b));
    m.has_agent.why = bytes_of(why);
    m.has_agent.since_wall_ms = (uint64_t)b->since_wall_ms;
    say(b->w, &m);
}

void tell_gone(struct warden *w, const char *name) {
    struct msg m = {.type = MSG_has_gone};
    m.has_gone.agent = bytes_of(name);
    say(w, &m);
}

void tell_report(const struct box *b, const char *text) {
    struct msg m = {.type = MSG_has_report};
    m.has_report.agent = bytes_of(b->conf.name);
    m.has_report.text = bytes_of(text);
    say(b->w, &m);
}

static void answer(struct warden *w, uint64_t cookie, int status, const char *text) {
    struct msg m = {.type = MSG_ret_order};
    m.ret_order.cookie = cookie;
    m.ret_order.status = (uint64_t)status;
    m.ret_order.text = bytes_of(text);
    say(w, &m);
}

static void on_ask_state(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct warden *w = ctx;
    struct msg r = {.type = MSG_ret_state};
    state_of(w, box_find(w, m->ask_state.agent.p), &r.ret_state);
    r.ret_state.cookie = m->ask_state.cookie;
    r.ret_state.agent = m->ask_state.agent;
    say(w, &r);
}

static void on_order_done(void *ctx, const struct err *why, const char *text) {
    struct asked *a = ctx;
    if (a->w->manager_link && a->w->manager_link == a->link)
        answer(a->w, a->cookie, why ? why->status : EXIT_OK, why ? err_text(why) : text);
    free(a);
}

static const char *const orders[] = {[BOX_START] = "start", [BOX_STOP] = "stop", [BOX_RESTART] = "restart"};

static void on_ask_order(void *ctx, struct link *l, struct msg *m) {
    struct warden *w = ctx;
    uint64_t cookie = m->ask_order.cookie;
    size_t order = 0;
    while (order < COUNT(orders) && strcmp(orders[order], m->ask_order.order.p))
        order++;
    own_err err_t bad = name_check(m->ask_order.agent.p);
    struct box *b = bad ? NULL : box_find(w, m->ask_order.agent.p);
    if (bad) {
        answer(w, cookie, bad->status, err_text(bad));
    } else if (order == COUNT(orders)) {
        answer(w, cookie, EXIT_USAGE, "orders are start, stop and restart");
    } else if (w->ending) {
        answer(w, cookie, EXIT_FAILED, "the fleet is going down");
    } else if (!b || b->leaving) {
        own_err err_t e = err_new(
            EXIT_NOTFOUND, "there is no agent '%s' any more: `agent-cage ls` lists those that there are",
            m->ask_order.agent.p);
        answer(w, cookie, e->status, err_text(e));
    } else {
        struct asked *a = xmalloc(sizeof *a);
        *a = (struct asked){w, l, cookie};
        box_order(b, (enum box_order)order, on_order_done, a);
    }
}

static void on_ask_keep_head(void *ctx, struct link *l, struct msg *m) {
    (void)ctx, (void)l;
    own_err err_t e = heads_keep(m->ask_keep_head.seq, m->ask_keep_head.hash.p, m->ask_keep_head.hash.len);
    if (e)
        log_error("audit: %s", err_text(e));
}

static void on_end(void *ctx, struct link *l, err_t why) {
    struct warden *w = ctx;
    if (why)
        log_warn("manager: %s", err_text(why));
    if (w->manager_link == l)
        from_manager_close(w);
    else
        link_free(l);
    switchboard_lost(&w->manager, LINK_manager_warden, "");
}

static link_fn *const handlers[MSG_COUNT] = {
    [MSG_ask_state] = on_ask_state,
    [MSG_ask_order] = on_ask_order,
    [MSG_ask_keep_head] = on_ask_keep_head,
};
static const struct link_ops ops = {.on = handlers, .on_end = on_end};

void from_manager_open(struct warden *w, int fd) {
    from_manager_close(w);
    w->manager_link = link_new(w->base, fd, LINK_manager_warden, false, &ops, w);
    uint64_t n = 0;
    for (const struct box *b = w->boxes; b; b = b->next, n++)
        tell_agent(b);
    struct msg m = {.type = MSG_has_all};
    m.has_all.agents = n;
    say(w, &m);
}

void from_manager_close(struct warden *w) {
    link_free(w->manager_link);
    w->manager_link = NULL;
}
