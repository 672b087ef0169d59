/*
 * Long polling: one getUpdates at a time, confirmed by the next one, which asks from the mark on. What cannot be read is asked
 * for again, alone; an update that is too long to be read at all is passed over by its number.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "relay/telegram/inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    LONG_S = 50,     /* the API holds an empty answer back for so long */
    PATIENCE_S = 20, /* and may be late by that */
    BATCH = 50,
    BATCH_BYTES = 1 << 20,
    CONFLICT_S = 15,
    AWAY_MAX_S = 60,
};

struct poll {
    struct front *f;
    struct bot *bot;
    struct event *again;
    int64_t asked_ns;
    bool greeted, alone; /* alone: one update at a time, after trouble */
    int away_s;
    char why[256]; /* we are deaf; "" when not */
};

static void listen_on(struct poll *p);

static void deaf(struct poll *p, const char *why, int seconds) {
    if (strcmp(p->why, why))
        log_warn("telegram: deaf: %s", why);
    snprintf(p->why, sizeof p->why, "%s", why);
    event_add(p->again, &(struct timeval){seconds, 0});
}

static void away(struct poll *p, const char *why) {
    p->away_s = p->away_s ? p->away_s * 2 : 1;
    if (p->away_s > AWAY_MAX_S)
        p->away_s = AWAY_MAX_S;
    p->alone = true;
    deaf(p, why, p->away_s);
}

static void well(struct poll *p) {
    if (*p->why)
        log_info("telegram: listening again");
    p->why[0] = 0;
    p->away_s = 0;
}

/* An update over all bounds: the mark goes past it. */
static void pass_over(struct poll *p, int64_t id) {
    struct db *db = p->f->db;
    own_err err_t e = id < 0
                          ? err_new(EXIT_FAILED, "an answer is too long, and does not say which update it is")
                          : db_begin(db, LASTING);
    if (!e)
        e = db_end(db, memory_set(db, "mark", (uint64_t)id + 1));
    if (e) {
        away(p, err_text(e));
        return;
    }
    log_warn("telegram: update %" PRId64 " is too long to be read; it was passed over", id);
    listen_on(p);
}

/* A timer counts from the loop's turn, which is a little ago. */
static void slower(struct poll *p, const struct bot_answer *a) {
    deaf(p, a->why, a->retry_s + 1);
}

static void refused(struct poll *p, const struct bot_answer *a) {
    if (a->code == 409)
        deaf(p,
             strstr(a->why, "webhook") ? "the bot has a webhook, which another program set"
                                       : "another program listens with this bot's token",
             CONFLICT_S);
    else if (a->code == 401 || a->code == 404)
        deaf(p, "the bot's token is refused: run `agent-cage telegram setup` with a fresh one", AWAY_MAX_S);
    else
        away(p, a->why);
}

static void on_updates(void *ctx, const struct bot_answer *a) {
    struct poll *p = ctx;
    switch (a->end) {
    case BOT_DONE:
        well(p);
        p->alone = false;
        if (!json_array_size(a->result) && clock_mono_ns() - p->asked_ns < INT64_C(1000000000))
            event_add(p->again,
                      &(struct timeval){1, 0}); /* a server that does not hold an empty answer back */
        else
            hear(p->f, json_incref((json_t *)(uintptr_t)a->result));
        return;
    case BOT_TOO_BIG:
        if (p->alone) {
            pass_over(p, a->first_update);
        } else {
            p->alone = true;
            listen_on(p);
        }
        return;
    case BOT_SLOWER:
        slower(p, a);
        return;
    case BOT_REFUSED:
        refused(p, a);
        return;
    case BOT_AWAY:
        away(p, a->why);
        return;
    }
}

static void listen_on(struct poll *p) {
    uint64_t mark;
    own_err err_t e = memory_mark(p->f->db, &mark);
    if (e) {
        away(p, err_text(e));
        return;
    }
    int patience = *p->why ? 0 : LONG_S; /* deaf: whether it is over shows at once */
    json_t *args =
        json_pack("{s:i, s:i, s:[s,s,s,s]}", "timeout", patience, "limit", p->alone ? 1 : BATCH,
                  "allowed_updates", "message", "edited_message", "callback_query", "my_chat_member");
    if (mark)
        json_object_set_new(args, "offset", json_integer((json_int_t)mark));
    p->asked_ns = clock_mono_ns();
    bot_listen(p->bot, args, BATCH_BYTES, LONG_S + PATIENCE_S, on_updates, p);
}

static void on_greeted(void *ctx, const struct bot_answer *a) {
    struct poll *p = ctx;
    const char *name = json_string_value(json_object_get(a->result, "username"));
    if (a->end == BOT_REFUSED) {
        refused(p, a);
        return;
    }
    if (a->end == BOT_SLOWER) {
        slower(p, a);
        return;
    }
    if (a->end != BOT_DONE) {
        away(p, a->why);
        return;
    }
    well(p);
    p->greeted = true;
    bool plain =
        name && name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")] == 0;
    snprintf(p->f->me, sizeof p->f->me, "%s", plain ? name : "");
    log_info("telegram: listening as @%s", p->f->me);
    listen_on(p);
}

void poll_go(struct front *f) {
    struct poll *p = f->poll;
    if (!p || bot_busy(p->bot))
        return;
    if (p->greeted)
        listen_on(p);
    else
        bot_call(p->bot, "getMe", json_object(), on_greeted, p);
}

static void on_again(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct poll *p = arg;
    poll_go(p->f);
}

void poll_later(struct front *f, int seconds) {
    event_add(f->poll->again, &(struct timeval){seconds, 0});
}

void poll_state(const struct front *f, struct buf *out) {
    const struct poll *p = f->poll;
    if (*p->why)
        buf_printf(out, "deaf: %s", p->why);
    else if (!p->greeted)
        buf_adds(out, "connecting");
    else
        buf_printf(out, "listening as @%s", f->me);
}

struct poll *poll_new(struct front *f) {
    struct poll *p = xcalloc(1, sizeof *p);
    *p = (struct poll){.f = f, .bot = bot_new(f->base, f->dialer, &f->api, f->token)};
    p->again = evtimer_new(f->base, on_again, p);
    event_add(p->again, &(struct timeval){0, 0});
    return p;
}

void poll_free(struct poll *p) {
    if (!p)
        return;
    bot_free(p->bot);
    event_free(p->again);
    free(p);
}
