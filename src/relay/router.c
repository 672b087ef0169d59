/*
 * A question's life:
 *
 *   waiting   not sent, no manager (or a fresh one is awaited): until_ns ends it with relay_end 125
 *   sent      the manager has it; answers come back; relay_end or the end of its command ends it
 *   paused    a stream whose asker does not read: the manager was told to forget it, so that one slow reader
 * costs nobody else anything; when there is room it is asked again, behind the last row that was taken
 *
 * When the link to the manager is lost, what was sent waits again if it may be said twice, else it ends
 * there. The other way round, a manager that does not read makes the router hold every asker, so nothing
 * piles up here.
 */
#include "relay/router.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "relay/front.h"
#include "proto/file_name.h"
#include "proto/pasted.h"
#include "relay/question.h"
#include "relay/to_manager.h"

#include <stdlib.h>

enum { SLOTS = 256, SWEEP_MS = 250 };

struct asker {
    struct router *router;
    const struct front_row *front;
    char *who;
    const struct asker_ops *ops;
    void *ctx;
    struct question *questions;
    size_t n;
    struct asker *next;
};

struct router {
    struct to_manager *manager;
    struct event *sweep;
    uint64_t last_cookie; /* starts at the wall clock in ns: a restarted relay never reuses one that a manager
                             remembers */
    struct asker *askers;
    struct question *slots[SLOTS]; /* by cookie */
    bool held;
};

static struct question **slot_of(struct router *r, uint64_t cookie) {
    struct question **at = &r->slots[cookie % SLOTS];
    while (*at && (*at)->cookie != cookie)
        at = &(*at)->chain;
    return at;
}

static void unslot(struct router *r, struct question *q) {
    struct question **at = slot_of(r, q->cookie);
    if (*at)
        *at = q->chain;
}

/* A fresh cookie, in the question and in what is kept of it. */
static void give_cookie(struct router *r, struct question *q) {
    if (q->cookie)
        unslot(r, q);
    q->cookie = ++r->last_cookie;
    q->kept.fleet_list.cookie = q->cookie;
    q->chain = r->slots[q->cookie % SLOTS];
    r->slots[q->cookie % SLOTS] = q;
}

static void drop(struct question *q) {
    struct asker *a = q->asker;
    struct question **at = &a->questions;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    a->n--;
    unslot(a->router, q);
    question_free(q);
}

static void answer_end(struct asker *a, uint64_t theirs, int status, const char *text) {
    struct msg m = {.type = MSG_relay_end};
    m.relay_end.cookie = theirs;
    m.relay_end.status = (uint64_t)status;
    m.relay_end.text = bytes_of(text);
    a->ops->answer(a->ctx, &m);
}

static void end_question(struct question *q, int status, const char *text) {
    struct asker *a = q->asker;
    uint64_t theirs = q->theirs;
    drop(q);
    answer_end(a, theirs, status, text);
}

static void forget(struct router *r, const struct question *q) {
    if (!q->sent || q->paused)
        return;
    struct msg m = {.type = MSG_fleet_forget};
    m.fleet_forget.cookie = q->cookie;
    err_free(to_manager_send(r->manager, &m)); /* a link that is over has forgotten already */
}

static void hold_all(struct router *r, bool hold) {
    if (r->held == hold)
        return;
    r->held = hold;
    for (struct asker *a = r->askers; a; a = a->next)
        a->ops->hold(a->ctx, hold);
}

static void wait_for_manager(struct router *r, struct question *q) {
    q->sent = false;
    q->until_ns = clock_mono_ns() + (int64_t)ROUTER_WAIT_MS * 1000000;
    if (!evtimer_pending(r->sweep, NULL)) {
        struct timeval tv = {.tv_usec = SWEEP_MS * 1000};
        evtimer_add(r->sweep, &tv);
    }
}

/* Sends it now or lets it wait; it may be gone afterwards. */
static void send_or_wait(struct router *r, struct question *q) {
    if (!to_manager_up(r->manager)) {
        wait_for_manager(r, q);
        return;
    }
    own_err err_t e = to_manager_send(r->manager, &q->kept);
    if (!e) {
        question_sent(q);
        hold_all(r, to_manager_full(r->manager));
    } else if (e->status == EXIT_USAGE) /* over a bound of the manager's table */
        end_question(q, EXIT_USAGE, err_text(e));
    else
        wait_for_manager(r, q);
}

static void on_answer(void *ctx, struct msg *m) {
    struct router *r = ctx;
    enum msg_type as = question_answer(m->type);
    struct question *q = *slot_of(r, m->ret_end.cookie);
    if (!q || q->paused || as == MSG_none)
        return; /* its asker has left, or will ask again for what it has not taken */
    struct asker *a = q->asker;
    question_moves(q, m);
    bool ends = question_ends(m->type);
    m->type = as; /* the structs are the same: question.c asserts it */
    m->relay_end.cookie = q->theirs;
    if (ends)
        drop(q);
    if (a->ops->answer(a->ctx, m) || ends || !q->kind->stream || q->complete)
        return;
    forget(r, q);
    q->paused = true;
}

static void on_up(void *ctx) {
    struct router *r = ctx;
    for (struct asker *a = r->askers; a; a = a->next)
        for (struct question *q = a->questions, *next; q; q = next) {
            next = q->next;
            if (!q->sent && !q->paused)
                send_or_wait(r, q);
        }
}

static void on_down(void *ctx) {
    struct router *r = ctx;
    log_warn("the manager is gone; waiting for it");
    hold_all(r, false);
    for (struct asker *a = r->askers; a; a = a->next)
        for (struct question *q = a->questions, *next; q; q = next) {
            next = q->next;
            if (q->complete)
                end_question(q, EXIT_OK, "");
            else if (!question_again(q))
                end_question(q, EXIT_FAILED, q->kind->lost);
            else if (!q->paused) {
                give_cookie(r, q);
                wait_for_manager(r, q);
            }
        }
}

static void on_room(void *ctx) {
    hold_all(ctx, false);
}

static const struct to_manager_ops manager_ops = {on_answer, on_up, on_down, on_room};

static const char *too_late(const struct question *q) {
    return q->tried ? "the manager went away and has not come back: whether it took the message is not known"
                    : "the manager is restarting; try again";
}

/* Ends what has waited too long. */
static void on_sweep(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct router *r = arg;
    int64_t now = clock_mono_ns();
    bool waiting = false;
    for (struct asker *a = r->askers; a; a = a->next)
        for (struct question *q = a->questions, *next; q; q = next) {
            next = q->next;
            if (q->sent || q->paused)
                continue;
            if (q->until_ns <= now)
                end_question(q, EXIT_FAILED, too_late(q));
            else
                waiting = true;
        }
    struct timeval tv = {.tv_usec = SWEEP_MS * 1000};
    if (waiting)
        evtimer_add(r->sweep, &tv);
}

struct router *router_new(struct event_base *base, struct part *part) {
    struct router *r = xcalloc(1, sizeof *r);
    r->last_cookie = (uint64_t)clock_wall_ms() * 1000000;
    r->sweep = evtimer_new(base, on_sweep, r);
    r->manager = to_manager_new(base, part, &manager_ops, r);
    return r;
}

void router_free(struct router *r) {
    if (!r)
        return;
    while (r->askers)
        router_leave(r->askers);
    to_manager_free(r->manager);
    event_free(r->sweep);
    free(r);
}

void router_manager(struct router *r, int fd) {
    to_manager_attach(r->manager, fd);
}

struct asker *router_join(struct router *r, const struct front_row *front, const char *who,
                          const struct asker_ops *ops, void *ctx) {
    struct asker *a = xcalloc(1, sizeof *a);
    *a = (struct asker){
        .router = r, .front = front, .who = xstrdup(who), .ops = ops, .ctx = ctx, .next = r->askers};
    r->askers = a;
    if (r->held)
        ops->hold(ctx, true);
    return a;
}

void router_leave(struct asker *a) {
    if (!a)
        return;
    struct router *r = a->router;
    while (a->questions) {
        forget(r, a->questions);
        drop(a->questions);
    }
    struct asker **at = &r->askers;
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    free(a->who);
    free(a);
}

void router_room(struct asker *a) {
    for (struct question *q = a->questions, *next; q; q = next) {
        next = q->next;
        if (!q->paused)
            continue;
        q->paused = false;
        give_cookie(a->router, q);
        send_or_wait(a->router, q);
    }
}

static struct question *by_theirs(struct asker *a, uint64_t theirs) {
    struct question *q = a->questions;
    while (q && q->theirs != theirs)
        q = q->next;
    return q;
}

/* A signal for a command that this asker started; for one that has ended meanwhile it is late, not wrong. */
static void pass_signal(struct asker *a, const struct msg *m) {
    struct question *q = by_theirs(a, m->front_signal.cookie);
    if (!q || q->kind->fleet != MSG_fleet_exec || !q->sent)
        return;
    struct msg s = {.type = MSG_fleet_signal};
    s.fleet_signal.cookie = q->cookie;
    s.fleet_signal.signo = m->front_signal.signo;
    err_free(to_manager_send(a->router->manager, &s)); /* a link that is over ends the command anyway */
}

/* Why it cannot be asked; NULL: it can. */
static const char *refusal(struct asker *a, const struct msg *m) {
    if (by_theirs(a, m->front_list.cookie))
        return "a question with this cookie is open";
    if (a->n >= a->front->questions_max)
        return "too many questions at once: wait for answers";
    if (m->type == MSG_front_say && m->front_say.text.len > a->front->text_max)
        return "the message is too long for this front";
    return NULL;
}

/* Before anything of it is kept. An order's agent too: `/auth CREDENTIAL` has it there. */
static bool holds_credential(const struct msg *m) {
    struct bytes texts[2] = {0};
    if (m->type == MSG_front_say) {
        texts[0] = m->front_say.text;
    } else if (m->type == MSG_front_order) {
        texts[0] = m->front_order.arg;
        texts[1] = m->front_order.agent;
    }
    for (size_t i = 0; i < COUNT(texts); i++)
        if (texts[i].len && pasted_credential(texts[i].p, texts[i].len))
            return true;
    return false;
}

/* Of a file that is sent or fetched; NULL: it is none, or well named and not too large. */
static err_t file_refusal(const struct msg *m) {
    if (m->type == MSG_front_put)
        return file_check(m->front_put.name, m->front_put.size);
    return m->type == MSG_front_get ? file_check(m->front_get.name, 0) : NULL;
}

void router_ask(struct asker *a, const struct msg *m) {
    if (m->type == MSG_front_signal) {
        pass_signal(a, m);
        return;
    }
    const char *no = refusal(a, m);
    if (no) {
        answer_end(a, m->front_list.cookie, EXIT_USAGE, no);
        return;
    }
    if (holds_credential(m)) {
        answer_end(a, m->front_list.cookie, EXIT_POLICY, PASTED_WHY);
        return;
    }
    struct question *q;
    own_err err_t e = file_refusal(m);
    if (!e)
        e = question_new(m, a->who, &q);
    if (e) {
        answer_end(a, m->front_list.cookie, e->status, err_text(e));
        return;
    }
    q->asker = a;
    q->next = a->questions;
    a->questions = q;
    a->n++;
    give_cookie(a->router, q);
    send_or_wait(a->router, q);
}
