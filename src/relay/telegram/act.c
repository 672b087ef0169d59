#include "base/log.h"
#include "base/own.h"
#include "base/clock.h"
#include "proto/strip.h"
#include "relay/telegram/inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { RETRY_S = 2, RETRY_MAX = 150 };

static const struct verb_row verbs[] = {
#define VERB(name, way, order) {#name, ACT_##way, order},
#include "relay/telegram/verbs.def"
#undef VERB
};

struct acting {
    struct front *f;
    struct asker *person; /* who asks, "telegram:NUMBER" */
    int64_t person_id;
    uint64_t cookie; /* of the question that is open; 0: none is */
    uint64_t last_cookie;
    struct event *again;
    unsigned tries;

    /* the act under way */
    int64_t id, chat;
    char room[NAME_MAX_BYTES], agent[NAME_MAX_BYTES];
    const struct verb_row *verb;
    struct buf text; /* what came so far of an answer in many messages */
};

const struct verb_row *verb_row(const char *name) {
    for (size_t i = 0; i < COUNT(verbs); i++)
        if (!strcmp(verbs[i].name, name))
            return &verbs[i];
    return NULL;
}

err_t act_add(struct front *f, const struct update *u, const struct place *here, const char *verb,
              const char *agent, const char *body) {
    return db_do(f->db, TQ_act_add,
                 DB_VALUES(db_i((uint64_t)u->id), db_i((uint64_t)u->from), db_i((uint64_t)here->chat),
                           db_t(bytes_of(here->agent)), db_t(bytes_of(verb)), db_t(bytes_of(agent)),
                           db_t(bytes_of(body))));
}

static void retry(struct acting *a) {
    event_add(a->again, &(struct timeval){RETRY_S, 0});
}

static err_t over(struct acting *a, const char *text) {
    struct front *f = a->f;
    if (*text) {
        own_free char *slot = xasprintf("act:%" PRId64, a->id);
        TRY(outbox_say(f, slot, a->chat, a->room, "", bytes_of(text)));
    }
    return db_do(f->db, TQ_act_drop, DB_VALUES(db_i((uint64_t)a->id)));
}

/* The act is done with; text: what to answer, "" for nothing. */
static void end_act(struct acting *a, const char *text) {
    struct front *f = a->f;
    a->cookie = 0;
    a->tries = 0;
    own_err err_t e = db_begin(f->db, LASTING);
    if (!e)
        e = db_end(f->db, over(a, text));
    if (e) {
        log_warn("telegram: %s", err_text(e));
        retry(a);
        return;
    }
    outbox_go(f);
    if (a->verb && a->verb->way == ACT_ORDERS)
        tell_strips(f);
    event_active(a->again, EV_TIMEOUT,
                 0); /* the next one, from the loop: the router is not done with this one */
}

static void on_end(struct acting *a, const struct msg_relay_end *m) {
    bool again = a->verb->way == ACT_TELLS || a->verb->way == ACT_ASKS;
    bool away = m->status == EXIT_FAILED && again;
    if (away && ++a->tries < RETRY_MAX) { /* the same key: it is taken once */
        a->cookie = 0;
        retry(a);
        return;
    }
    own_buf struct buf text = {0};
    if (m->status)
        buf_printf(&text, "▪ %s: %s: %.*s", a->agent, a->verb->name, (int)m->text.len, m->text.p);
    else if (a->verb->way == ACT_ASKS)
        buf_adds(&text, buf_text(&a->text));
    else if (a->verb->way == ACT_ORDERS)
        buf_printf(&text, "▪ %s: %s%s%.*s", a->agent, a->verb->order, m->text.len ? ": " : "",
                   (int)m->text.len, m->text.p);
    end_act(a, buf_text(&text));
}

static bool on_answer(void *ctx, const struct msg *m) {
    struct acting *a = ctx;
    if (m->relay_end.cookie != a->cookie)
        return true;
    if (m->type == MSG_relay_status) {
        strip_agent(&a->text, &m->relay_status, clock_wall_ms());
        strip_host(&a->text, &m->relay_status);
    } else if (m->type == MSG_relay_end) {
        on_end(a, &m->relay_end);
    }
    return true;
}

static void on_hold(void *ctx, bool hold) {
    (void)ctx, (void)hold; /* one question at a time anyway */
}

static const struct asker_ops asker_ops = {on_answer, on_hold};

static void be(struct acting *a, int64_t person) {
    if (a->person && a->person_id == person)
        return;
    router_leave(TAKE(a->person));
    own_free char *who = xasprintf("telegram:%" PRId64, person);
    a->person = router_join(a->f->router, a->f->row, who, &asker_ops, a);
    a->person_id = person;
}

/* The same for every try of this act, and of no other bot's: "telegram:BOT:UPDATE". */
static void make_key(const struct acting *a, char key[64]) {
    int digits = (int)strspn(a->f->token, "0123456789");
    snprintf(key, 64, "telegram:%.*s:%" PRId64, digits, a->f->token, a->id);
}

static void ask_tells(const struct acting *a, const char *body, const char *key, struct msg *m) {
    m->type = MSG_front_say;
    m->front_say = (struct msg_front_say){a->cookie, bytes_of(key), bytes_of(a->agent), bytes_of(body)};
}

static void ask_orders(const struct acting *a, const char *body, const char *key, struct msg *m) {
    (void)key;
    m->type = MSG_front_order;
    m->front_order =
        (struct msg_front_order){a->cookie, bytes_of(a->verb->order), bytes_of(a->agent), bytes_of(body)};
}

static void ask_asks(const struct acting *a, const char *body, const char *key, struct msg *m) {
    (void)body, (void)key;
    m->type = MSG_front_status;
    m->front_status = (struct msg_front_status){a->cookie, bytes_of(a->agent)};
}

/* QUESTION:DIGEST:CHOICE, as tell.c wrote it. */
static void ask_answers(const struct acting *a, const char *body, const char *key, struct msg *m) {
    static char digest[32];
    (void)key;
    char *at;
    m->type = MSG_front_answer;
    m->front_answer.cookie = a->cookie;
    m->front_answer.agent = bytes_of(a->agent);
    m->front_answer.question = strtoull(body, &at, 10);
    size_t n = 0;
    for (at += *at == ':'; n < sizeof digest && at[0] && at[1] && at[0] != ':'; at += 2) {
        char two[3] = {at[0], at[1], 0};
        digest[n++] = (char)strtoul(two, NULL, 16);
    }
    m->front_answer.digest = (struct bytes){digest, n};
    m->front_answer.choice = *at == ':' ? strtoull(at + 1, NULL, 10) : 0;
}

static void ask(struct acting *a, const char *body) {
    static void (*const ways[])(const struct acting *, const char *, const char *,
                                struct msg *) = {[ACT_TELLS] = ask_tells,
                                                 [ACT_ORDERS] = ask_orders,
                                                 [ACT_ANSWERS] = ask_answers,
                                                 [ACT_ASKS] = ask_asks};
    struct msg m = {0};
    char key[64];
    make_key(a, key);
    a->cookie = ++a->last_cookie;
    buf_clear(&a->text);
    ways[a->verb->way](a, body, key, &m);
    router_ask(a->person, &m);
}

/* False: there is none, or none may be begun now. */
static err_t take_next(struct acting *a, struct buf *body, bool *ret_begun, bool *ret) {
    struct db *db = a->f->db;
    TRY(db_first(db, TQ_act_next, NULL, 0, ret));
    if (*ret) {
        struct bytes b = db_col(db, TQ_act_next, 6);
        a->id = (int64_t)db_col_u(db, TQ_act_next, 0);
        be(a, (int64_t)db_col_u(db, TQ_act_next, 1));
        a->chat = (int64_t)db_col_u(db, TQ_act_next, 2);
        snprintf(a->room, sizeof a->room, "%s", db_col(db, TQ_act_next, 3).p);
        a->verb = verb_row(db_col(db, TQ_act_next, 4).p);
        snprintf(a->agent, sizeof a->agent, "%s", db_col(db, TQ_act_next, 5).p);
        *ret_begun = db_col_u(db, TQ_act_next, 7);
        buf_add(body, b.p, b.len);
    }
    db_done(db, TQ_act_next);
    return NULL;
}

static err_t begin(struct acting *a) {
    if (a->verb->way != ACT_ORDERS && a->verb->way != ACT_ANSWERS)
        return NULL;
    TRY(db_begin(a->f->db, LASTING));
    return db_end(a->f->db, db_do(a->f->db, TQ_act_begin, DB_VALUES(db_i((uint64_t)a->id))));
}

void act_go(struct front *f) {
    struct acting *a = f->acting;
    own_buf struct buf body = {0};
    bool there = false, begun = false;
    if (!a || a->cookie)
        return;
    own_err err_t e = take_next(a, &body, &begun, &there);
    if (!e && there && !begun && a->verb)
        e = begin(a);
    if (e) {
        log_warn("telegram: %s", err_text(e));
        retry(a);
    } else if (there && begun) {
        own_free char *text =
            xasprintf("▪ %s: it is not known whether the order \"%s\" was carried out: the relay died "
                      "in between. It is not given again.",
                      a->agent, a->verb ? a->verb->name : "");
        end_act(a, text);
    } else if (there && !a->verb) {
        end_act(a, "");
    } else if (there) {
        ask(a, buf_text(&body));
    }
}

static void on_again(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct acting *a = arg;
    act_go(a->f);
}

struct acting *acting_new(struct front *f) {
    struct acting *a = xcalloc(1, sizeof *a);
    *a = (struct acting){.f = f, .last_cookie = COOKIE_ACT};
    a->again = evtimer_new(f->base, on_again, a);
    event_add(a->again, &(struct timeval){0, 0});
    return a;
}

void acting_free(struct acting *a) {
    if (!a)
        return;
    router_leave(a->person);
    event_free(a->again);
    buf_free(&a->text);
    free(a);
}
