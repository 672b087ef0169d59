/*
 * The durable outbox: one call at a time, in the order chores, then posts by chat, each chat in turn.
 *
 *   a post of                    next call                  then
 *   a forum, its topic unknown   createForumTopic           the topic is kept
 *   message 0                    sendMessage "·"            its number is kept: from here on every try is the same
 *   a message                    editMessageText, or        shown up to this revision; gone, unless it is edited again
 *                                editMessageMedia (a file)
 *   pinned, and not yet          pinChatMessage             gone through once
 *
 * 429 holds back its chat, or all chores, for as long as it says; an API that is away the whole line for longer and longer. What a chat
 * refuses for good is said in the log; a chat that is gone gives its posts to the owner's own.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "relay/telegram/inside.h"
#include "relay/telegram/pieces.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    BODY_UNITS = 4096, /* of one message */
    PIECES_MAX = 4,    /* more than that is a file */
    HELD_MAX = 64,
    CHATS_MAX = 64, /* looked at for the next call */
    TRIES_MAX = 3,
    AWAY_MAX_S = 60,
    GONE_S = 600, /* a chat that will not have us (blocked): asked again */
    RETRY_MAX_S = 3600,
    FULL_POSTS = 5000,
    FULL_BYTES = 32 << 20,
};

enum step { STEP_CHORE, STEP_TOPIC, STEP_PLACE, STEP_EDIT, STEP_PIN };

struct outbox {
    struct front *f;
    struct bot *bot;
    struct event *again;
    struct {
        int64_t chat, until_ms;
    } held[HELD_MAX]; /* by the monotonic clock; chat 0: the chores */
    int away_s;
    char away_why[256];
    int64_t last_chat;

    /* the call under way */
    enum step step;
    int64_t id, chat, rev, message;
    char agent[NAME_MAX_BYTES], kind[8];
};

static int64_t now_ms(void) {
    return clock_mono_ns() / 1000000;
}

static void wake_in(struct outbox *o, int64_t ms) {
    event_add(o->again, &(struct timeval){(time_t)(ms / 1000), (suseconds_t)(ms % 1000) * 1000});
}

static void hold_chat(struct outbox *o, int64_t chat, int seconds) {
    size_t at = 0;
    for (size_t i = 0; i < HELD_MAX; i++)
        if (o->held[i].chat == chat || o->held[i].until_ms < o->held[at].until_ms) {
            at = i;
            if (o->held[i].chat == chat)
                break;
        }
    o->held[at].chat = chat;
    o->held[at].until_ms = now_ms() + (int64_t)seconds * 1000 + 1; /* now_ms() is rounded down */
}

/* 0: it is not held. */
static int64_t held_for(const struct outbox *o, int64_t chat) {
    for (size_t i = 0; i < HELD_MAX; i++)
        if (o->held[i].chat == chat && o->held[i].until_ms > now_ms())
            return o->held[i].until_ms - now_ms();
    return 0;
}

void outbox_hold(struct front *f, int64_t chat, int seconds) {
    hold_chat(f->outbox, chat, seconds < RETRY_MAX_S ? seconds : RETRY_MAX_S);
}

int64_t outbox_held(const struct front *f, int64_t chat) {
    return held_for(f->outbox, chat);
}

/* ---- what is put in ---- */

err_t outbox_put(struct front *f, const char *slot, int64_t chat, const char *agent, const char *kind,
                 const char *body, const char *keys) {
    return db_do(f->db, TQ_post_put,
                 DB_VALUES(db_t(bytes_of(slot)), db_i((uint64_t)chat), db_t(bytes_of(agent)),
                           db_t(bytes_of(kind)), db_t(bytes_of(body)), db_t(bytes_of(keys))));
}

static err_t put_file(struct front *f, const char *slot, int64_t chat, const char *agent, struct bytes text) {
    own_buf struct buf safe = {0};
    pieces_tame(&safe, text);
    return outbox_put(f, slot, chat, agent, "file", buf_text(&safe), "");
}

err_t outbox_say(struct front *f, const char *slot, int64_t chat, const char *agent, const char *label,
                 struct bytes text) {
    own_buf struct buf safe = {0};
    pieces_tame(&safe, text);
    struct bytes rest = {safe.p, safe.len};
    size_t head = pieces_units(bytes_of(label)) + 8; /* " (1)\n" */
    if (pieces_units(rest) > (BODY_UNITS - head - PIECES_FENCE_MAX) * PIECES_MAX)
        return put_file(f, slot, chat, agent, text);
    char fence[PIECES_FENCE_MAX] = "";
    for (unsigned i = 0; rest.len; i++) {
        own_buf struct buf piece = {0};
        own_free char *each = xasprintf("%s:%u", slot, i);
        bool more = i || pieces_units(rest) > BODY_UNITS - head;
        if (*label)
            buf_printf(&piece, more ? "%s (%u)\n" : "%s\n", label, i + 1);
        pieces_next(&rest, BODY_UNITS - head, fence, &piece);
        TRY(outbox_put(f, each, chat, agent, "once", buf_text(&piece), ""));
    }
    return NULL;
}

err_t outbox_chore(struct front *f, const char *method, json_t *args) {
    own_free char *text = json_dumps(args, JSON_COMPACT);
    json_decref(args);
    return db_do(f->db, TQ_chore_add, DB_VALUES(db_t(bytes_of(method)), db_t(bytes_of(text))));
}

static err_t due(struct front *f, uint64_t *ret_posts, uint64_t *ret_bytes) {
    bool row;
    *ret_posts = *ret_bytes = 0;
    TRY(db_first(f->db, TQ_posts_due, NULL, 0, &row));
    *ret_posts = db_col_u(f->db, TQ_posts_due, 0);
    *ret_bytes = db_col_u(f->db, TQ_posts_due, 1);
    db_done(f->db, TQ_posts_due);
    return NULL;
}

bool outbox_full(struct front *f) {
    uint64_t posts, bytes;
    own_err err_t e = due(f, &posts, &bytes);
    return e || posts > FULL_POSTS || bytes > FULL_BYTES;
}

bool outbox_has_room(struct front *f) {
    uint64_t posts, bytes;
    own_err err_t e = due(f, &posts, &bytes);
    return !e && posts <= FULL_POSTS / 8 * 7 && bytes <= FULL_BYTES / 8 * 7;
}

void outbox_state(const struct front *f, struct buf *out) {
    uint64_t posts = 0, bytes;
    err_free(due((struct front *)(uintptr_t)f, &posts, &bytes));
    buf_printf(out, " · %" PRIu64 " %s", posts, posts == 1 ? "message waits" : "messages wait");
    if (f->outbox->away_s)
        buf_printf(out, "\ncannot send: %s", f->outbox->away_why);
}

/* ---- one call ---- */

static err_t on_done(struct outbox *o, const json_t *result) {
    struct db *db = o->f->db;
    int64_t number = 0;
    switch (o->step) {
    case STEP_CHORE:
        return db_do(db, TQ_chore_drop, DB_VALUES(db_i((uint64_t)o->id)));
    case STEP_TOPIC:
        number = json_integer_value(json_object_get(result, "message_thread_id"));
        return db_do(db, TQ_topic_put,
                     DB_VALUES(db_i((uint64_t)o->chat), db_t(bytes_of(o->agent)), db_i((uint64_t)number)));
    case STEP_PLACE:
        number = json_integer_value(json_object_get(result, "message_id"));
        return db_do(db, TQ_post_placed, DB_VALUES(db_i((uint64_t)number), db_i((uint64_t)o->id)));
    case STEP_EDIT:
        if (!strcmp(o->kind, "once") || !strcmp(o->kind, "file"))
            return db_do(db, TQ_post_drop, DB_VALUES(db_i((uint64_t)o->id)));
        return db_do(db, TQ_post_shown, DB_VALUES(db_i((uint64_t)o->rev), db_i((uint64_t)o->id)));
    case STEP_PIN:
        return db_do(db, TQ_post_pinned, DB_VALUES(db_i((uint64_t)o->id)));
    }
    return NULL;
}

/* What a refusal means for this step; the texts are the Bot API's own. */
static const struct refusal {
    const char *says;
    enum {
        AS_DONE,  /* it is as we want it */
        ANEW,     /* the message is gone: another one */
        NO_TOPIC, /* the topic is gone: another one */
        NO_CHAT,  /* it will not have us */
    } means;
} refusals[] = {
    {"message is not modified", AS_DONE},   {"message to edit not found", ANEW},
    {"message can't be edited", ANEW},      {"MESSAGE_ID_INVALID", ANEW},
    {"message thread not found", NO_TOPIC}, {"TOPIC_DELETED", NO_TOPIC},
    {"TOPIC_ID_INVALID", NO_TOPIC},         {"chat not found", NO_CHAT},
};

static err_t no_chat(struct outbox *o, const char *why) {
    struct place main;
    own_err err_t none = place_of(o->f, "", &main);
    if (!none && o->chat < 0) {
        log_warn("telegram: a group will not have us: %s", why);
        return place_unlink(o->f, o->chat);
    }
    bool known;
    TRY(pair_known(o->f, o->chat, &known));
    if (!known) /* a stranger, who was answered */
        return db_do(o->f->db, TQ_post_drop, DB_VALUES(db_i((uint64_t)o->id)));
    hold_chat(o, o->chat, GONE_S); /* until it is open again */
    return NULL;
}

/* It cannot be had this way: after some tries it is let go, and that is said where it can be. */
static err_t give_up(struct outbox *o, const char *why, uint64_t tries) {
    struct db *db = o->f->db;
    log_warn("telegram: %s was refused: %s",
             o->step == STEP_PIN     ? "a pin"
             : o->step == STEP_TOPIC ? "a topic"
                                     : "a message",
             why);
    if (o->step == STEP_PIN)
        return db_do(db, TQ_post_pinned, DB_VALUES(db_i((uint64_t)o->id)));
    if (o->step == STEP_TOPIC) /* no right to make topics: it goes where the fleet's own goes */
        return db_do(db, TQ_topic_put, DB_VALUES(db_i((uint64_t)o->chat), db_t(bytes_of(o->agent)), db_i(0)));
    if (tries < TRIES_MAX) {
        hold_chat(o, o->chat, 2);
        return db_do(db, TQ_post_tried, DB_VALUES(db_i((uint64_t)o->id)));
    }
    return db_do(db, TQ_post_drop, DB_VALUES(db_i((uint64_t)o->id)));
}

static err_t on_refused(struct outbox *o, const struct bot_answer *a, uint64_t tries) {
    struct db *db = o->f->db;
    if (o->step == STEP_CHORE)
        return db_do(db, TQ_chore_drop, DB_VALUES(db_i((uint64_t)o->id)));
    if (a->moved_to) /* another id is another chat: until it is linked again */
        return place_unlink(o->f, o->chat);
    if (a->code == 403)
        return no_chat(o, a->why);
    for (size_t i = 0; i < COUNT(refusals); i++) {
        if (!strstr(a->why, refusals[i].says))
            continue;
        switch (refusals[i].means) {
        case AS_DONE:
            return on_done(o, NULL);
        case ANEW:
            TRY(db_do(db, TQ_post_tried, DB_VALUES(db_i((uint64_t)o->id))));
            return tries < TRIES_MAX ? db_do(db, TQ_post_placed, DB_VALUES(db_i(0), db_i((uint64_t)o->id)))
                                     : give_up(o, a->why, tries);
        case NO_TOPIC:
            TRY(db_do(db, TQ_post_placed, DB_VALUES(db_i(0), db_i((uint64_t)o->id))));
            return db_do(db, TQ_topic_drop, DB_VALUES(db_i((uint64_t)o->chat), db_t(bytes_of(o->agent))));
        case NO_CHAT:
            return no_chat(o, a->why);
        }
    }
    return give_up(o, a->why, tries);
}

static void stay_away(struct outbox *o, const char *why) {
    if (!o->away_s)
        log_warn("telegram: nothing can be sent: %s", why);
    snprintf(o->away_why, sizeof o->away_why, "%s", why);
    o->away_s = o->away_s ? o->away_s * 2 : 1;
    if (o->away_s > AWAY_MAX_S)
        o->away_s = AWAY_MAX_S;
    wake_in(o, (int64_t)o->away_s * 1000);
}

static err_t settle(struct outbox *o, const struct bot_answer *a) {
    uint64_t tries = 0;
    if (a->end == BOT_DONE)
        return on_done(o, a->result);
    if (o->step == STEP_EDIT || o->step == STEP_PLACE)
        TRY(db_number(o->f->db, TQ_post_tries, DB_VALUES(db_i((uint64_t)o->id)), 0, &tries));
    return on_refused(o, a, tries);
}

static void on_called(void *ctx, const struct bot_answer *a) {
    struct outbox *o = ctx;
    if (a->end == BOT_AWAY || a->end == BOT_TOO_BIG ||
        (a->end == BOT_REFUSED && (a->code == 401 || a->code == 404))) {
        stay_away(o, a->why);
        return;
    }
    o->away_s = 0;
    if (a->end == BOT_SLOWER) {
        int s = a->retry_s < 1 ? 1 : a->retry_s > RETRY_MAX_S ? RETRY_MAX_S : a->retry_s;
        hold_chat(o, o->step == STEP_CHORE ? 0 : o->chat, s);
    } else {
        own_err err_t e = db_begin(o->f->db, QUICK);
        if (!e)
            e = db_end(o->f->db, settle(o, a));
        if (e) {
            stay_away(o, err_text(e));
            return;
        }
    }
    outbox_go(o->f);
    tell_room(o->f);
}

static void call(struct outbox *o, enum step step, const char *method, json_t *args) {
    o->step = step;
    bot_call(o->bot, method, args, on_called, o);
}

/* ---- what is next ---- */

static err_t next_chore(struct outbox *o, bool *ret_busy) {
    struct db *db = o->f->db;
    bool row;
    TRY(db_first(db, TQ_chore_next, NULL, 0, &row));
    if (row) {
        char method[64];
        snprintf(method, sizeof method, "%s", db_col(db, TQ_chore_next, 1).p);
        o->id = (int64_t)db_col_u(db, TQ_chore_next, 0);
        struct bytes args = db_col(db, TQ_chore_next, 2);
        json_t *j = json_loadb(args.p, args.len, 0, NULL);
        call(o, STEP_CHORE, method, j ? j : json_object());
    }
    db_done(db, TQ_chore_next);
    *ret_busy = row;
    return NULL;
}

static json_t *to_chat(const struct outbox *o) {
    return json_pack("{s:I}", "chat_id", (json_int_t)o->chat);
}

static void place_post(struct outbox *o, int64_t thread, bool quiet) {
    json_t *args = to_chat(o);
    if (thread)
        json_object_set_new(args, "message_thread_id", json_integer(thread));
    json_object_set_new(args, "text", json_string("·"));
    json_object_set_new(args, "disable_notification", json_boolean(quiet));
    call(o, STEP_PLACE, "sendMessage", args);
}

static err_t edit_file(struct outbox *o, struct bytes body) {
    json_t *args = to_chat(o);
    json_object_set_new(args, "message_id", json_integer(o->message));
    json_object_set_new(args, "media",
                        json_pack("{s:s, s:s, s:s}", "type", "document", "media", "attach://file", "caption",
                                  "the whole report"));
    own_free char *name = xasprintf("%s.txt", *o->agent ? o->agent : "fleet");
    o->step = STEP_EDIT;
    return bot_put_file(o->bot, args, name, body, on_called, o);
}

static void edit_text(struct outbox *o, struct bytes body, struct bytes keys) {
    json_t *args = to_chat(o);
    json_object_set_new(args, "message_id", json_integer(o->message));
    json_object_set_new(args, "text", json_stringn(body.p, body.len));
    json_object_set_new(args, "link_preview_options", json_pack("{s:b}", "is_disabled", 1));
    json_t *markup = keys.len ? json_loadb(keys.p, keys.len, 0, NULL) : NULL;
    if (markup)
        json_object_set_new(args, "reply_markup", markup);
    call(o, STEP_EDIT, "editMessageText", args);
}

static void pin_post(struct outbox *o) {
    json_t *args = to_chat(o);
    json_object_set_new(args, "message_id", json_integer(o->message));
    json_object_set_new(args, "disable_notification", json_true());
    call(o, STEP_PIN, "pinChatMessage", args);
}

/* The topic of the post's agent in its chat. -1: it is being made now. */
static err_t thread_of(struct outbox *o, int64_t *ret) {
    struct db *db = o->f->db;
    uint64_t forum, thread;
    bool row;
    *ret = 0;
    if (!*o->agent || o->chat > 0)
        return NULL;
    TRY(db_first(db, TQ_group, DB_VALUES(db_i((uint64_t)o->chat)), &row));
    forum = row && !db_col(db, TQ_group, 0).len ? db_col_u(db, TQ_group, 1) : 0;
    db_done(db, TQ_group);
    if (!forum)
        return NULL;
    TRY(db_number(db, TQ_topic, DB_VALUES(db_i((uint64_t)o->chat), db_t(bytes_of(o->agent))), UINT64_MAX,
                  &thread));
    *ret = (int64_t)thread;
    if (*ret < 0) {
        json_t *args = to_chat(o);
        json_object_set_new(args, "name", json_string(o->agent));
        call(o, STEP_TOPIC, "createForumTopic", args);
    }
    return NULL;
}

static err_t post_call(struct outbox *o, bool pinned) {
    struct db *db = o->f->db;
    struct bytes body = db_col(db, TQ_posts_next, 8), keys = db_col(db, TQ_posts_next, 9);
    int64_t thread = 0;
    bool strip = !strcmp(o->kind, "pinned") || !strcmp(o->kind, "strip");
    if (!o->message) {
        TRY(thread_of(o, &thread));
        if (thread >= 0)
            place_post(o, thread, strip);
    } else if (!strcmp(o->kind, "pinned") && !pinned) {
        pin_post(o);
    } else if (!strcmp(o->kind, "file")) {
        TRY(edit_file(o, body));
    } else {
        edit_text(o, body, keys);
    }
    return NULL;
}

static err_t next_post_of(struct outbox *o, int64_t chat, bool *ret_busy) {
    struct db *db = o->f->db;
    bool row;
    TRY(db_first(db, TQ_posts_next, DB_VALUES(db_i((uint64_t)chat)), &row));
    err_t e = NULL;
    if (row) {
        o->chat = o->last_chat = chat;
        o->id = (int64_t)db_col_u(db, TQ_posts_next, 0);
        snprintf(o->agent, sizeof o->agent, "%s", db_col(db, TQ_posts_next, 2).p);
        o->message = (int64_t)db_col_u(db, TQ_posts_next, 3);
        o->rev = (int64_t)db_col_u(db, TQ_posts_next, 4);
        snprintf(o->kind, sizeof o->kind, "%s", db_col(db, TQ_posts_next, 6).p);
        e = post_call(o, db_col_u(db, TQ_posts_next, 7));
    }
    db_done(db, TQ_posts_next);
    *ret_busy = row && !e;
    return e;
}

/* The first chat behind this one in which something is due. */
static err_t chat_behind(struct outbox *o, int64_t chat, int64_t *ret_chat, bool *ret_row) {
    struct db *db = o->f->db;
    TRY(db_first(db, TQ_posts_chat, DB_VALUES(db_i((uint64_t)chat)), ret_row));
    *ret_chat = *ret_row ? (int64_t)db_col_u(db, TQ_posts_chat, 0) : 0;
    db_done(db, TQ_posts_chat);
    return NULL;
}

/*
 * The chats behind `at`, up to `end`, until one has a call to make. *wait: for how long something is held at least, 0: nothing
 * is.
 */
static err_t next_post_behind(struct outbox *o, int64_t at, int64_t end, int64_t *wait, bool *ret_busy) {
    for (int looks = 0; !*ret_busy && looks < CHATS_MAX; looks++) {
        bool there;
        TRY(chat_behind(o, at, &at, &there));
        if (!there || at > end)
            return NULL;
        int64_t held = held_for(o, at);
        if (!held)
            TRY(next_post_of(o, at, ret_busy));
        else if (!*wait || held < *wait)
            *wait = held;
    }
    return NULL;
}

/* Each chat in turn: those behind the last one first. wait: for so long something else is held; 0: nothing is. */
static err_t next_post(struct outbox *o, int64_t wait) {
    bool busy = false;
    int64_t last = o->last_chat;
    TRY(next_post_behind(o, last, INT64_MAX, &wait, &busy));
    if (!busy)
        TRY(next_post_behind(o, INT64_MIN, last, &wait, &busy));
    if (!busy && wait)
        wake_in(o, wait);
    return NULL;
}

static err_t next(struct outbox *o) {
    bool busy = false;
    int64_t held = held_for(o, 0);
    if (!held)
        TRY(next_chore(o, &busy));
    return busy ? NULL : next_post(o, held);
}

void outbox_go(struct front *f) {
    struct outbox *o = f->outbox;
    if (!o || bot_busy(o->bot) || (o->away_s && event_pending(o->again, EV_TIMEOUT, NULL)))
        return;
    own_err err_t e = next(o);
    if (e)
        stay_away(o, err_text(e));
}

static void on_again(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct outbox *o = arg;
    outbox_go(o->f);
}

struct outbox *outbox_new(struct front *f) {
    struct outbox *o = xcalloc(1, sizeof *o);
    *o = (struct outbox){.f = f, .bot = bot_new(f->base, f->dialer, &f->api, f->token)};
    o->again = evtimer_new(f->base, on_again, o);
    wake_in(o, 0);
    return o;
}

void outbox_free(struct outbox *o) {
    if (!o)
        return;
    bot_free(o->bot);
    event_free(o->again);
    free(o);
}
