#include "agent/questions.h"
#include "agent/from_manager.h"
#include "agent/to_harness.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/own.h"
#include "proto/ask_digest.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 200 };

struct question {
    struct questions *all;
    uint64_t theirs;    /* the harness's number */
    struct msg ask;     /* a MSG_desk_ask, owned; its number 0: this place is free */
    struct event *late; /* NULL while free */
};

struct questions {
    struct agent *a;
    uint64_t wait_ms, last;
    struct question open[QUESTIONS_MAX];
};

/* Kept in the events: what was asked, and what was said to it. */
static void note(struct questions *q, const struct msg_desk_ask *ask, const char *fmt, const char *who,
                 const char *choice) {
    char name[SHOWN_MAX];
    const uint8_t *d = (const uint8_t *)ask->digest.p;
    escape_into(name, sizeof name, ESCAPE_LINE, ask->name.p, ask->name.len);
    own_free char *said = xasprintf(fmt, who, choice);
    own_free char *text = xasprintf("%s: it had asked for %s (%02x%02x%02x%02x)", said,
                                    *name ? name : "a permission", d[0], d[1], d[2], d[3]);
    desk_note(q->a, text);
}

static void free_place(struct question *one) {
    event_free(TAKE(one->late));
    msg_free(&one->ask);
    one->ask = (struct msg){0};
}

/* Tells harness, chats and history. text: for the chats, why or what. */
static void settle(struct question *one, const char *who, uint64_t choice, const char *text) {
    const struct msg_desk_ask *ask = &one->ask.desk_ask;
    struct questions *q = one->all;
    to_harness_answer(q->a, ask->id, one->theirs, choice);
    desk_asked(q->a, ask, who, choice, text);
    note(q, ask, *who ? "%s answered: %s" : "declined%s, %s", who, text);
    free_place(one);
}

static void on_late(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct question *one = arg;
    char span[CLOCK_SPAN_MAX], text[80];
    clock_span(span, (int64_t)one->all->wait_ms);
    snprintf(text, sizeof text, "nobody answered within %s", span);
    settle(one, "", 0, text);
}

static struct question *place(struct questions *q) {
    for (size_t i = 0; i < QUESTIONS_MAX; i++)
        if (!q->open[i].late)
            return &q->open[i];
    return NULL;
}

/* The question with its digest, as a message of its own. */
static err_t made(struct questions *q, const struct msg_turn_ask *m, struct msg *ret) {
    uint8_t digest[ASK_DIGEST];
    TRY(ask_digest(m->name, m->text, m->choices, digest));
    uint64_t now = (uint64_t)clock_wall_ms();
    q->last = q->last < now * 1000 ? now * 1000 : q->last + 1;
    struct msg ask = {.type = MSG_desk_ask};
    ask.desk_ask = (struct msg_desk_ask){.id = m->id,
                                         .question = q->last,
                                         .name = m->name,
                                         .text = m->text,
                                         .choices = m->choices,
                                         .digest = {(const char *)digest, sizeof digest},
                                         .until_wall_ms = now + q->wait_ms};
    own_buf struct buf b = {0};
    unsigned flags;
    TRY(msg_encode(&ask, &b));
    return msg_decode(b.p, b.len, ret, &flags);
}

void questions_ask(struct questions *q, const struct msg_turn_ask *m) {
    struct question *one = place(q);
    struct msg ask = {0};
    own_err err_t e = one ? made(q, m, &ask) : err_new(EXIT_POLICY, "too many questions at once");
    if (e) {
        own_free char *text = xasprintf("a question of the harness was declined: %s", err_text(e));
        to_harness_answer(q->a, m->id, m->question, 0);
        desk_note(q->a, text);
        return;
    }
    struct timeval tv = {(time_t)(q->wait_ms / 1000), (suseconds_t)(q->wait_ms % 1000) * 1000};
    *one = (struct question){
        .all = q, .theirs = m->question, .ask = ask, .late = event_new(q->a->base, -1, 0, on_late, one)};
    event_add(one->late, &tv);
    desk_ask(q->a, &one->ask);
}

static struct question *find(struct questions *q, const struct msg_desk_answer *m) {
    for (size_t i = 0; i < QUESTIONS_MAX; i++) {
        struct question *one = &q->open[i];
        const struct bytes *d = &one->ask.desk_ask.digest;
        if (one->late && one->ask.desk_ask.question == m->question && d->len == m->digest.len &&
            !memcmp(d->p, m->digest.p, d->len))
            return one;
    }
    return NULL;
}

void questions_answer(struct questions *q, const struct msg_desk_answer *m) {
    struct question *one = find(q, m);
    if (!one) {
        desk_order_end(q->a, m->cookie, EXIT_NOTFOUND,
                       "that question is not open any more, or it was another one");
        return;
    }
    const struct list *choices = &one->ask.desk_ask.choices;
    if (m->choice > choices->n) {
        desk_order_end(q->a, m->cookie, EXIT_USAGE, "that question has no such choice");
        return;
    }
    char said[SHOWN_MAX] = "declined";
    if (!m->who.len)
        snprintf(said, sizeof said, "nobody was there to answer");
    else if (m->choice)
        escape_into(said, sizeof said, ESCAPE_LINE, choices->v[m->choice - 1].p,
                    choices->v[m->choice - 1].len);
    settle(one, m->who.p, m->who.len ? m->choice : 0, said); /* where nobody reads, nobody said yes */
    desk_order_end(q->a, m->cookie, EXIT_OK, said);
}

void questions_over(struct questions *q, const char *why) {
    for (size_t i = 0; i < QUESTIONS_MAX; i++) {
        if (!q->open[i].late)
            continue;
        desk_asked(q->a, &q->open[i].ask.desk_ask, "", 0, why);
        free_place(&q->open[i]);
    }
}

void questions_say(struct questions *q) {
    for (size_t i = 0; i < QUESTIONS_MAX; i++)
        if (q->open[i].late)
            desk_ask(q->a, &q->open[i].ask);
}

struct questions *questions_new(struct agent *a, uint64_t wait_ms) {
    struct questions *q = xcalloc(1, sizeof *q);
    *q = (struct questions){.a = a, .wait_ms = wait_ms};
    return q;
}

void questions_free(struct questions *q) {
    if (!q)
        return;
    for (size_t i = 0; i < QUESTIONS_MAX; i++)
        if (q->open[i].late)
            free_place(&q->open[i]);
    free(q);
}
