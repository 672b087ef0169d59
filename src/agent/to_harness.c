#include "agent/to_harness.h"
#include "agent/from_manager.h"
#include "agent/model.h"
#include "agent/questions.h"
#include "agent/sessions.h"
#include "agent/signin.h"
#include "agent/turn.h"
#include "base/log.h"
#include "base/own.h"
#include "wire/link.h"

#include <stdlib.h>
#include <string.h>

struct to_harness {
    struct agent *a;
    struct link *link;
    bool busy, over; /* over: it failed, and its end is about to be told */
    struct buf said_world;
    uint64_t programs;
};

static void on_turn_output(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct to_harness *h = ctx;
    model_output(h->a, m->turn_output.id, m->turn_output.data.p, m->turn_output.data.len);
}

static void on_turn_event(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct to_harness *h = ctx;
    own_msg struct msg clean = {0};
    turn_event(h->a->turn, model_stars(h->a, m, &clean) ? &clean : m);
}

static void on_turn_programs(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct to_harness *h = ctx;
    h->programs = m->turn_programs.count;
    desk_state(h->a);
}

static void on_turn_ask(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct to_harness *h = ctx;
    own_msg struct msg clean = {0};
    turn_asks(h->a->turn, model_stars(h->a, m, &clean) ? &clean : m);
}

static void on_turn_end(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct to_harness *h = ctx;
    h->busy = false;
    model_output_end(h->a, m->turn_end.id);
    to_harness_world(h->a);
    turn_ended(h->a->turn, m->turn_end.id, m->turn_end.outcome.p, m->turn_end.status, m->turn_end.text.p);
}

static void on_login_pty(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct to_harness *h = ctx;
    signin_pty(h->a->signin, TAKE_FD(m->fds[0]));
}

static void on_login_end(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct to_harness *h = ctx;
    h->busy = false;
    signin_ended(h->a->signin, m->login_end.status, m->login_end.text.p, m->nfds ? m->fds[0] : -1);
    to_harness_world(h->a);
    turn_pump(h->a->turn);
}

static void on_end(void *ctx, struct link *l, err_t why) {
    (void)l;
    struct to_harness *h = ctx;
    if (why)
        log_warn("%s", err_text(why));
    to_harness_unlink(h->a);
}

static link_fn *const handlers[MSG_COUNT] = {
    [MSG_turn_output] = on_turn_output,     [MSG_turn_event] = on_turn_event,
    [MSG_turn_programs] = on_turn_programs, [MSG_turn_ask] = on_turn_ask,
    [MSG_turn_end] = on_turn_end,           [MSG_login_pty] = on_login_pty,
    [MSG_login_end] = on_login_end,
};
static const struct link_ops ops = {.on = handlers, .on_end = on_end};

struct to_harness *to_harness_new(struct agent *a) {
    struct to_harness *h = xcalloc(1, sizeof *h);
    h->a = a;
    return h;
}

void to_harness_free(struct to_harness *h) {
    if (!h)
        return;
    link_free(h->link);
    buf_free(&h->said_world);
    free(h);
}

static void drop(struct to_harness *h) {
    if (!h->link)
        return;
    link_free(TAKE(h->link));
    bool was_busy = h->busy;
    h->busy = h->over = false;
    h->programs = 0;
    buf_clear(&h->said_world);
    if (was_busy)
        signin_lost(h->a->signin);
    if (was_busy)
        turn_lost(h->a->turn);
}

void to_harness_link(struct agent *a, int fd) {
    struct to_harness *h = a->harness;
    drop(h);
    h->link = link_new(a->base, fd, LINK_agent_harness, true, &ops, h);
    if (a->gone)
        to_harness_go(a);
    else
        link_hold(h->link, true);
}

void to_harness_unlink(struct agent *a) {
    if (!a->harness->link)
        return;
    drop(a->harness);
    part_lost(a->part, LINK_agent_harness, "");
}

static err_t say_session(struct agent *a) {
    struct msg m = {.type = MSG_turn_session};
    m.turn_session.number = sessions_current(a->sessions);
    return link_send(a->harness->link, &m);
}

void to_harness_go(struct agent *a) {
    if (!a->harness->link)
        return;
    link_hold(a->harness->link, false);
    to_harness_world(a);
    err_free(say_session(a)); /* a link that is over says so itself */
    turn_pump(a->turn);
}

void to_harness_world(struct agent *a) {
    struct to_harness *h = a->harness;
    struct msg m;
    if (!a->gone || !to_harness_idle(a) || !model_world(a, &m))
        return;
    own_buf struct buf now = {0};
    own_err err_t e = msg_encode(&m, &now);
    if (e || (now.len == h->said_world.len && !memcmp(now.p, h->said_world.p, now.len)))
        return;
    own_err err_t over = link_send(h->link, &m);
    if (over)
        log_warn("%s", err_text(over));
    buf_free(&h->said_world);
    h->said_world = now;
    now = (struct buf){0};
}

bool to_harness_idle(const struct agent *a) {
    return a->harness->link && !a->harness->busy && !a->harness->over;
}

bool to_harness_start(struct agent *a, uint64_t id, const char *text) {
    struct msg m = {.type = MSG_turn_start};
    m.turn_start.id = id;
    m.turn_start.text = bytes_of(text);
    own_err err_t e = link_send(a->harness->link, &m);
    if (e)
        log_warn("%s", err_text(e));
    a->harness->over = e;
    a->harness->busy = !e;
    return !e;
}

void to_harness_login(struct agent *a, uint64_t id) {
    struct msg m = {.type = MSG_login_start};
    m.login_start.id = id;
    own_err err_t e = link_send(a->harness->link, &m);
    if (e) /* the link is over, and its end is about to be told */
        log_warn("%s", err_text(e));
    a->harness->busy = true;
}

void to_harness_stop(struct agent *a, uint64_t id) {
    if (!a->harness->link)
        return;
    struct msg m = {.type = MSG_turn_stop};
    m.turn_stop.id = id;
    err_free(link_send(a->harness->link,
                       &m)); /* fails when the link is over: then the turn is lost, which ends it too */
}

void to_harness_answer(struct agent *a, uint64_t id, uint64_t question, uint64_t choice) {
    if (!a->harness->link)
        return;
    struct msg m = {.type = MSG_turn_answer};
    m.turn_answer = (struct msg_turn_answer){.id = id, .question = question, .choice = choice};
    err_free(link_send(a->harness->link, &m)); /* fails when the link is over, and the turn with it */
}

err_t to_harness_session(struct agent *a) {
    model_fresh(a); /* the session's placeholder is said before it */
    return say_session(a);
}

uint64_t to_harness_programs(const struct agent *a) {
    return a->harness->programs;
}
