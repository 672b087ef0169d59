/*
 * What happens in the fleet, as posts: kept events once each, by the mark of events; what is live as strips that are edited.
 * One question follows all events of all agents from the mark on, through restarts of the manager and of this relay.
 */
#include "base/clock.h"
#include "base/escape.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/names.h"
#include "base/own.h"
#include "proto/after.h"
#include "proto/strip.h"
#include "relay/telegram/inside.h"
#include "relay/telegram/pieces.h"
#include "relay/telegram/turns.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { STRIPS_SOON_S = 5, STRIPS_S = 300, LIST_S = 60, AGAIN_S = 2, ASK_UNITS = 3000 };

struct tell {
    struct front *f;
    struct asker *asker;
    struct turns *turns;
    struct event *follow, *strips, *lists, *next;
    bool following, full, listing;
    bool round, anew; /* the agents' states are being asked for, and are to be once more behind that */
    struct known fresh[AGENTS_MAX];
    size_t nfresh, next_strip; /* of the agents whose state is asked for next */
};

/* In so many seconds, unless it comes sooner anyway. */
static void in(struct event *e, int seconds) {
    struct timeval at, now;
    evutil_gettimeofday(&now, NULL);
    if (!event_pending(e, EV_TIMEOUT, &at) || at.tv_sec > now.tv_sec + seconds)
        event_add(e, &(struct timeval){seconds, 0});
}

const struct known *tell_known(const struct front *f, const char *name) {
    for (size_t i = 0; i < f->nknown; i++)
        if (!strcmp(f->known[i].name, name))
            return &f->known[i];
    return NULL;
}

void tell_strips(struct front *f) {
    if (!f->tell)
        return;
    in(f->tell->lists, 0);
    in(f->tell->strips, STRIPS_SOON_S);
}

/* ---- kept events ---- */

static bool is(struct bytes b, const char *word) {
    return b.len == strlen(word) && !memcmp(b.p, word, b.len);
}

static void add_footer(struct buf *out, const struct msg_relay_event *e) {
    char span[CLOCK_SPAN_MAX], tokens[STRIP_SIZE_MAX];
    clock_span(span, (int64_t)e->span_ms);
    strip_tokens(tokens, e->tokens);
    buf_printf(out, "%s\n◷ %s", out->len ? "\n" : "", span);
    if (e->tokens)
        buf_printf(out, " · %s tok", tokens);
    if (e->tools)
        buf_printf(out, " · %" PRIu64 " tool call%s", e->tools, e->tools == 1 ? "" : "s");
    if (e->status)
        buf_printf(out, " · exit %" PRId64, e->status);
}

static err_t tell_report(struct front *f, const struct msg_relay_event *e, const char *slot) {
    struct place at;
    TRY(place_of(f, e->agent.p, &at));
    own_buf struct buf text = {0};
    own_free char *label = xasprintf("%s:", e->agent.p);
    buf_add(&text, e->text.p, e->text.len);
    while (text.len && text.p[text.len - 1] == '\n')
        text.p[--text.len] = 0;
    if (!text.len)
        buf_adds(&text, "(no output)");
    add_footer(&text, e);
    return outbox_say(f, slot, at.chat, e->agent.p, label, (struct bytes){text.p, text.len});
}

static err_t say_said(struct front *f, const char *slot, const struct place *at, const char *who,
                      const char *agent, struct bytes text) {
    own_free char *label = at->main ? xasprintf("▪ %s to %s:", who, agent) : xasprintf("▪ %s:", who);
    return outbox_say(f, slot, at->chat, agent, label, text);
}

static err_t tell_said(struct front *f, const struct msg_relay_event *e, const char *slot) {
    struct place at;
    TRY(place_of(f, e->agent.p, &at));
    if (e->who.len >= 9 && !memcmp(e->who.p, "telegram:", 9))
        return NULL; /* the chat has it, and see tell_elsewhere() */
    char who[80];
    escape_into(who, sizeof who, ESCAPE_LINE, e->who.p, e->who.len);
    return say_said(f, slot, &at, who, e->agent.p, e->text);
}

err_t tell_elsewhere(struct front *f, const struct update *u, const struct place *here, const char *agent,
                     const char *body) {
    struct place at;
    TRY(place_of(f, agent, &at));
    if (at.chat == here->chat && (!at.forum || !strcmp(here->agent, agent)))
        return NULL;
    own_free char *slot = xasprintf("said:%" PRId64, u->id), *who = xasprintf("telegram:%" PRId64, u->from);
    return say_said(f, slot, &at, who, agent, bytes_of(body));
}

static err_t tell_word(struct front *f, const struct msg_relay_event *e, const char *slot) {
    struct place at;
    TRY(place_of(f, e->agent.p, &at));
    bool note = is(e->kind, "note");
    own_free char *label = note ? xasprintf("▪ %s:", e->agent.p)
                                : xasprintf("▪ %s: a message ended as %s", e->agent.p, e->kind.p);
    return outbox_say(f, slot, at.chat, e->agent.p, label, e->text);
}

static const struct {
    const char *kind;
    err_t (*tell)(struct front *f, const struct msg_relay_event *e, const char *slot);
} kept[] = {{"queued", tell_said},  {"report", tell_report}, {"note", tell_word},
            {"refused", tell_word}, {"unknown", tell_word},  {"started", NULL}};

static int kept_kind(const struct msg_relay_event *e) {
    for (size_t i = 0; i < COUNT(kept); i++)
        if (is(e->kind, kept[i].kind))
            return (int)i;
    return -1;
}

static err_t put_event(struct front *f, const struct msg_relay_event *e, int kind) {
    uint64_t seen, from;
    TRY(memory_number(f->db, "seen", 0, &seen));
    TRY(memory_number(f->db, "from_ms", 0, &from));
    if (e->seq <= seen)
        return NULL;
    own_free char *slot = xasprintf("ev:%" PRIu64, e->seq);
    if (e->wall_ms >= from)
        TRY(kept[kind].tell(f, e, slot));
    if (!is(e->kind, "queued") && !is(e->kind, "started") && e->id)
        TRY(turns_end(f->tell->turns, e));
    return memory_set(f->db, "seen", e->seq);
}

/* ---- questions ---- */

static void ask_slot(char out[128], const struct msg_relay_event *e) {
    snprintf(out, 128, "ask:%s:%" PRIu64, e->agent.p, e->question);
}

static err_t ask_with(struct front *f, const struct msg_relay_event *e, const struct place *at,
                      const char *slot, const char *text, const char *digest) {
    struct choice choices[17] = {0};
    char *bodies[17] = {0}, *labels[17] = {0};
    size_t n = 0;
    for (; n < e->choices.n && n < 16; n++) {
        char label[64]; /* the text has it whole */
        escape_into(label, sizeof label, ESCAPE_LINE, e->choices.v[n].p, e->choices.v[n].len);
        bodies[n] = xasprintf("%" PRIu64 ":%s:%zu", e->question, digest, n + 1);
        labels[n] = xasprintf("%zu: %s", n + 1, label);
        choices[n] = (struct choice){labels[n], "answer", e->agent.p, bodies[n]};
    }
    bodies[n] = xasprintf("%" PRIu64 ":%s:0", e->question, digest);
    choices[n] = (struct choice){"Decline", "answer", e->agent.p, bodies[n]};
    err_t r = press_ask(f, slot, at, 0, text, choices, n + 1, (int64_t)e->until_wall_ms);
    for (size_t i = 0; i <= n; i++) {
        free(bodies[i]);
        free(labels[i]);
    }
    return r;
}

/* What a yes allows, and all of what may be chosen, by the numbers on the buttons. */
static void add_asked(struct buf *out, const struct msg_relay_event *e) {
    buf_add(out, e->text.p, e->text.len);
    buf_adds(out, "\n");
    for (size_t i = 0; i < e->choices.n && i < 16; i++) {
        buf_printf(out, "\n%zu: ", i + 1);
        escape_text(out, ESCAPE_LINE, e->choices.v[i].p, e->choices.v[i].len);
    }
}

/* It is shown whole: above the buttons, or, when it is long, in messages before them. */
static err_t put_question(struct front *f, const struct msg_relay_event *e) {
    char slot[128], digest[65] = "", name[160], span[CLOCK_SPAN_MAX];
    struct place at;
    bool there;
    ask_slot(slot, e);
    TRY(memory_has(f->db, TQ_post_has, DB_VALUES(db_t(bytes_of(slot))), &there));
    if (there)
        return NULL; /* told twice */
    TRY(place_of(f, e->agent.p, &at));
    hex_put(digest, e->digest.p, e->digest.len < 32 ? e->digest.len : 32);
    escape_into(name, sizeof name, ESCAPE_LINE, e->name.p, e->name.len);
    clock_span(span, (int64_t)e->until_wall_ms - clock_wall_ms());
    own_buf struct buf asked = {0}, what = {0}, text = {0};
    add_asked(&asked, e);
    pieces_tame(&what, (struct bytes){asked.p, asked.len});
    bool inside = pieces_units((struct bytes){what.p, what.len}) <= ASK_UNITS;
    if (!inside) {
        own_free char *long_slot = xasprintf("%s:text", slot),
                      *label = xasprintf("%s asks, below:", e->agent.p);
        TRY(outbox_say(f, long_slot, at.chat, e->agent.p, label, (struct bytes){asked.p, asked.len}));
    }
    buf_printf(&text, "◆ %s asks: %s\n\n%s\n\n▪ sha256 %.12s… · open for %s", e->agent.p, name,
               inside ? buf_text(&what) : "(its text is above)", digest, span);
    return ask_with(f, e, &at, slot, buf_text(&text), digest);
}

static err_t put_answer(struct front *f, const struct msg_relay_event *e) {
    char slot[128], who[80], how[160];
    struct place at;
    bool there;
    ask_slot(slot, e);
    TRY(memory_has(f->db, TQ_post_has, DB_VALUES(db_t(bytes_of(slot))), &there));
    if (!there)
        return NULL;
    TRY(place_of(f, e->agent.p, &at));
    escape_into(who, sizeof who, ESCAPE_LINE, e->who.p, e->who.len);
    escape_into(how, sizeof how, ESCAPE_LINE, e->text.p, e->text.len);
    own_free char *text = xasprintf("◆ %s asked. ▪ %s%s%s", e->agent.p, how, *who ? " · " : "", who);
    TRY(db_do(f->db, TQ_presses_drop, DB_VALUES(db_t(bytes_of(slot)))));
    TRY(outbox_put(f, slot, at.chat, e->agent.p, "asks", text, ""));
    return db_do(f->db, TQ_post_end, DB_VALUES(db_t(bytes_of(slot))));
}

/* ---- the stream ---- */

/* Kept, if it says anything: what makes no post moves no mark either, and means as little when it comes again. */
static err_t keep(struct front *f, const struct msg_relay_event *e, int kind) {
    if (kind >= 0 && !kept[kind].tell)
        return NULL;
    TRY(db_begin(f->db, QUICK));
    return db_end(f->db, is(e->kind, "question") ? put_question(f, e)
                         : is(e->kind, "answer") ? put_answer(f, e)
                                                 : put_event(f, e, kind));
}

static bool on_event(struct tell *t, const struct msg_relay_event *e) {
    struct front *f = t->f;
    int kind = kept_kind(e);
    if (!name_ok(e->agent.p))
        return true;
    if (kind < 0 && !is(e->kind, "question") && !is(e->kind, "answer")) {
        turns_live(t->turns, e);
        return true;
    }
    own_err err_t r = keep(f, e, kind);
    if (r) { /* the stream stands still, and comes again from the mark */
        log_warn("telegram: %s", err_text(r));
        t->full = true;
        in(t->follow, AGAIN_S);
        return false;
    }
    outbox_go(f);
    in(t->strips, STRIPS_SOON_S);
    if (!tell_known(f, e->agent.p))
        event_active(t->lists, EV_TIMEOUT, 0);
    t->full = outbox_full(f);
    return !t->full;
}

static void ask_events(struct tell *t) {
    uint64_t seen;
    own_err err_t e = memory_number(t->f->db, "seen", 0, &seen);
    if (e) {
        in(t->follow, AGAIN_S);
        return;
    }
    struct msg m = {.type = MSG_front_events};
    m.front_events.cookie = COOKIE_EVENTS;
    m.front_events.agent = bytes_of("");
    m.front_events.after =
        seen ? seen : after_last(1); /* put_event() leaves out what is older than the pairing */
    m.front_events.follow = 1;
    t->following = true;
    router_ask(t->asker, &m);
}

static void on_follow(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct tell *t = arg;
    if (t->following && t->full)
        tell_room(t->f);
    else if (!t->following)
        tell_go(t->f);
}

void tell_room(struct front *f) {
    struct tell *t = f->tell;
    if (!t || !t->full ||
        !outbox_has_room(f)) /* asking again is a page of events, most of them for nothing */
        return;
    t->full = false;
    router_room(t->asker);
}

static err_t first_time(struct front *f) {
    uint64_t from;
    TRY(memory_number(f->db, "from_ms", 0, &from));
    return from ? NULL : memory_set(f->db, "from_ms", (uint64_t)clock_wall_ms());
}

void tell_go(struct front *f) {
    struct tell *t = f->tell;
    uint64_t people;
    if (!t || t->following)
        return;
    own_err err_t e = db_number(f->db, TQ_people, NULL, 0, 0, &people);
    if (!e && people)
        e = first_time(f);
    if (e || !people)
        return;
    ask_events(t);
    tell_strips(f);
}

/* ---- agents and their strips ---- */

static void on_lists(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct tell *t = arg;
    in(t->lists, LIST_S);
    if (t->listing)
        return;
    struct msg m = {.type = MSG_front_list};
    m.front_list.cookie = COOKIE_LIST;
    t->listing = true;
    t->nfresh = 0;
    router_ask(t->asker, &m);
}

static void on_agent(struct tell *t, const struct msg_relay_agent *a) {
    if (t->nfresh == AGENTS_MAX || !name_ok(a->agent.p))
        return;
    struct known *k = &t->fresh[t->nfresh++];
    snprintf(k->name, sizeof k->name, "%s", a->agent.p);
    escape_into(k->state, sizeof k->state, ESCAPE_LINE, a->state.p, a->state.len);
}

static void on_list_end(struct tell *t, bool good) {
    struct front *f = t->f;
    t->listing = false;
    if (!good) {
        in(t->lists, AGAIN_S);
        return;
    }
    f->listed = true;
    bool changed = f->nknown != t->nfresh || memcmp(f->known, t->fresh, t->nfresh * sizeof *t->fresh) != 0;
    memcpy(f->known, t->fresh, t->nfresh * sizeof *t->fresh);
    f->nknown = t->nfresh;
    if (changed)
        in(t->strips, 0);
}

/* From the loop: an answer may come inside router_ask(). */
static void on_next(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct tell *t = arg;
    if (t->next_strip >= t->f->nknown) {
        in(t->strips, t->anew ? STRIPS_SOON_S : STRIPS_S);
        t->round = t->anew = false;
        return;
    }
    struct msg m = {.type = MSG_front_status};
    m.front_status.cookie = COOKIE_STRIPS;
    m.front_status.agent = bytes_of(t->f->known[t->next_strip++].name);
    router_ask(t->asker, &m);
}

static void on_strips(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct tell *t = arg;
    uint64_t people;
    if (t->round) {
        t->anew = true;
        return;
    }
    own_err err_t e = db_number(t->f->db, TQ_people, NULL, 0, 0, &people);
    if (e || !people)
        return;
    t->round = true;
    t->next_strip = 0;
    event_active(t->next, EV_TIMEOUT, 0);
}

static err_t put_strip(struct front *f, const struct msg_relay_status *s) {
    struct place at;
    own_buf struct buf text = {0};
    own_free char *slot = xasprintf("strip:%s", s->agent.p);
    TRY(place_of(f, s->agent.p, &at));
    strip_agent(&text, s, clock_wall_ms());
    strip_host(&text, s);
    return outbox_put(f, slot, at.chat, s->agent.p, "pinned", buf_text(&text), "");
}

static void on_status(struct tell *t, const struct msg_relay_status *s) {
    own_err err_t e = db_begin(t->f->db, QUICK);
    if (!e)
        e = db_end(t->f->db, put_strip(t->f, s));
    if (e)
        log_warn("telegram: %s", err_text(e));
    outbox_go(t->f);
}

/* ---- answers ---- */

static bool on_answer(void *ctx, const struct msg *m) {
    struct tell *t = ctx;
    switch (m->relay_end.cookie) {
    case COOKIE_EVENTS:
        if (m->type == MSG_relay_event)
            return on_event(t, &m->relay_event);
        t->following = false;
        in(t->follow, AGAIN_S);
        break;
    case COOKIE_LIST:
        if (m->type == MSG_relay_agent)
            on_agent(t, &m->relay_agent);
        else
            on_list_end(t, !m->relay_end.status);
        break;
    default:
        if (m->type == MSG_relay_status)
            on_status(t, &m->relay_status);
        else
            event_active(t->next, EV_TIMEOUT, 0);
    }
    return true;
}

static void on_hold(void *ctx, bool hold) {
    (void)ctx, (void)hold; /* three questions at most */
}

static const struct asker_ops asker_ops = {on_answer, on_hold};

struct tell *tell_new(struct front *f) {
    struct tell *t = xcalloc(1, sizeof *t);
    t->f = f;
    t->asker = router_join(f->router, f->row, "telegram", &asker_ops, t);
    t->turns = turns_new(f);
    t->follow = evtimer_new(f->base, on_follow, t);
    t->strips = evtimer_new(f->base, on_strips, t);
    t->lists = evtimer_new(f->base, on_lists, t);
    t->next = evtimer_new(f->base, on_next, t);
    in(t->follow, 0);
    in(t->lists, 0);
    return t;
}

void tell_free(struct tell *t) {
    if (!t)
        return;
    router_leave(t->asker);
    turns_free(t->turns);
    event_free(t->follow);
    event_free(t->strips);
    event_free(t->lists);
    event_free(t->next);
    free(t);
}
