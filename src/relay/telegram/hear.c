/*
 * What is said to the bot. Each update is one transaction: what it means is kept, and the mark moves behind it. Updates are
 * taken in the order of their numbers; one below the mark was taken already.
 *
 *   who, where                                   what becomes of it
 *   a stranger, in private                       a code to pair by, else one constant answer an hour
 *   a stranger, in a linked group                nothing
 *   anybody, in a group that nobody linked       only /link of somebody paired; else we leave
 *   somebody paired, a text or caption like a    deleted, with why; also one that is forwarded, was edited into a message,
 *   credential                                   or came with what is not taken
 *   somebody paired, forwarded or edited text    never a command, never passed on
 *   somebody paired, /code CODE                  deleted, and an order
 *   somebody paired, /WORD                       a row of commands.def
 *   somebody paired, a file of any kind          into the agent's in-tray, its caption to the agent behind it; else as other text
 *   somebody paired, other text                  for the room's agent, or "which agent?"
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "proto/file_name.h"
#include "proto/pasted.h"
#include "relay/telegram/inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum whose { NOBODY, NAMED, ROOMS };
enum { WHICH_MS = 10 * 60 * 1000, CHOICES_MAX = 8, ACTS_MAX = 1000, BATCH_MAX = 200, BUSY_S = 5 };
enum { REST_MAX = 513 }; /* messages.def: an order's argument, and its NUL */

/* An update as it is being acted on. */
struct heard {
    struct front *f;
    struct update u;
    struct place here;
};

static const struct command {
    const char *name, *verb;
    enum whose whose;
    const char *args, *help;
} commands[] = {
#define COMMAND(name, verb, whose, args, help) {#name, #verb, whose, args, help},
#include "relay/telegram/commands.def"
#undef COMMAND
};

static err_t reply(const struct heard *h, const char *text) {
    own_free char *slot = xasprintf("re:%" PRId64, h->u.id);
    return outbox_say(h->f, slot, h->u.chat, h->here.agent, "", bytes_of(text));
}

/* What was said is to leave the chat (in a group the bot must be an administrator for that). */
static err_t unsay(const struct heard *h) {
    return outbox_chore(
        h->f, "deleteMessage",
        json_pack("{s:I, s:I}", "chat_id", (json_int_t)h->u.chat, "message_id", (json_int_t)h->u.message));
}

/* ---- what needs no manager ---- */

static err_t heard_list(struct heard *h, const char *agent, const char *body) {
    (void)agent, (void)body;
    own_buf struct buf text = {0};
    for (size_t i = 0; i < h->f->nknown; i++)
        buf_printf(&text, "▪ %s — %s\n", h->f->known[i].name, h->f->known[i].state);
    return reply(h, text.len ? buf_text(&text)
                             : "▪ there is no agent yet: `agent-cage new NAME` on the host makes one");
}

static err_t heard_link(struct heard *h, const char *agent, const char *body) {
    (void)agent;
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s", body);
    if (h->u.alone)
        return reply(h, "▪ /link is said in a group: it makes the group a room of the fleet.");
    if (*name && !tell_known(h->f, name))
        return reply(h, "▪ there is no agent of that name; /list shows them");
    TRY(place_link(h->f, &h->u, name));
    log_info("telegram: group %" PRId64 " is linked%s%s", h->u.chat, *name ? " to " : "", name);
    tell_strips(h->f);
    return reply(h,
                 *name ? "▪ This group is the agent's room now: plain text here is for it."
                 : h->u.forum
                     ? "▪ This group is the fleet's now: each agent gets a topic of its own."
                     : "▪ This group is the fleet's now. With topics turned on (and the right to manage them "
                       "for the bot), /link again gives each agent a topic of its own.");
}

static err_t heard_unlink(struct heard *h, const char *agent, const char *body) {
    (void)agent, (void)body;
    if (h->u.alone)
        return reply(h, "▪ /unlink is said in a group.");
    TRY(place_unlink(h->f, h->u.chat));
    return place_leave(h->f, h->u.chat);
}

static err_t heard_help(struct heard *h, const char *agent, const char *body) {
    (void)agent, (void)body;
    own_buf struct buf text = {0};
    buf_adds(
        &text,
        "▪ In an agent's room plain text goes to the agent; elsewhere the bot asks which. A file of up to "
        "20 MB goes into the agent's in-tray, and its caption to the agent once it is there.\n\n");
    for (size_t i = 0; i < COUNT(commands); i++)
        buf_printf(&text, "/%s%s%s — %s\n", commands[i].name, *commands[i].args ? " " : "", commands[i].args,
                   commands[i].help);
    return reply(h, buf_text(&text));
}

static err_t heard_admit(struct heard *h, const char *agent, const char *body) {
    (void)agent;
    int64_t person = strtoll(body, NULL, 10);
    own_free char *slot = xasprintf("welcome:%" PRId64, h->u.id);
    TRY(pair_admit(h->f, person));
    return outbox_say(h->f, slot, person, "", "",
                      bytes_of("▪ You are paired: this bot obeys you now. /help says how."));
}

static err_t heard_nothing(struct heard *h, const char *agent, const char *body) {
    (void)h, (void)agent, (void)body;
    return NULL;
}

static const struct {
    const char *verb;
    err_t (*run)(struct heard *h, const char *agent, const char *body);
} here_verbs[] = {
#define VERB_TELLS(name)
#define VERB_ORDERS(name)
#define VERB_ASKS(name)
#define VERB_ANSWERS(name)
#define VERB_FILES(name)
#define VERB_HERE(name) {#name, heard_##name},
#define VERB(name, way, order) VERB_##way(name)
#include "relay/telegram/verbs.def"
#undef VERB
};

/* ---- acts ---- */

static err_t act(struct heard *h, const char *verb, const char *agent, const char *body) {
    const struct verb_row *row = verb_row(verb);
    if (!row)
        return NULL;
    if (row->way == ACT_TELLS)
        TRY(tell_elsewhere(h->f, &h->u, &h->here, agent, body));
    if (row->way != ACT_HERE)
        return act_add(h->f, &h->u, &h->here, verb, agent, body);
    for (size_t i = 0; i < COUNT(here_verbs); i++)
        if (!strcmp(here_verbs[i].verb, verb))
            return here_verbs[i].run(h, agent, body);
    return NULL;
}

static err_t ask_which(struct heard *h, const char *verb, const char *body) {
    struct front *f = h->f;
    struct choice choices[CHOICES_MAX];
    size_t n = 0;
    for (; n < f->nknown && n < CHOICES_MAX; n++)
        choices[n] = (struct choice){f->known[n].name, verb, f->known[n].name, body};
    own_free char *slot = xasprintf("which:%" PRId64, h->u.id);
    const char *text = f->nknown > CHOICES_MAX
                           ? "▪ Which agent? (For one that is not here say its name, or write in its room.)"
                           : "▪ Which agent?";
    return press_ask(f, slot, &h->here, h->u.from, text, choices, n, clock_wall_ms() + WHICH_MS);
}

/* For the one agent that is meant, or the question which that is. */
static err_t act_on_agent(struct heard *h, const char *verb, const char *agent, const char *body) {
    struct front *f = h->f;
    if (*agent)
        return act(h, verb, agent, body);
    if (!f->nknown)
        return reply(h, "▪ there is no agent yet: `agent-cage new NAME` on the host makes one");
    return f->nknown == 1 ? act(h, verb, f->known[0].name, body) : ask_which(h, verb, body);
}

/* ---- commands ---- */

static const struct command *command_of(const char *word, size_t n) {
    for (size_t i = 0; i < COUNT(commands); i++)
        if (strlen(commands[i].name) == n && !memcmp(commands[i].name, word, n))
            return &commands[i];
    return NULL;
}

/* "/stop@our_bot demo": the command, what follows it. False: it is for another bot, or no command of ours. */
static bool take_command(const struct heard *h, const struct command **ret, char rest[REST_MAX]) {
    const char *p = h->u.text.p + 1;
    size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz_");
    *ret = command_of(p, n);
    p += n;
    if (*p == '@') {
        size_t k = strcspn(++p, " \n");
        if (strlen(h->f->me) != k || strncasecmp(p, h->f->me, k))
            return false;
        p += k;
    }
    p += strspn(p, " \n");
    snprintf(rest, REST_MAX, "%s", p);
    size_t len = strlen(rest);
    while (len && (rest[len - 1] == ' ' || rest[len - 1] == '\n'))
        rest[--len] = 0;
    return *ret && (!*p || p[-1] == ' ' || p[-1] == '\n');
}

static err_t command(struct heard *h) {
    const struct command *c;
    char rest[REST_MAX];
    if (!take_command(h, &c, rest))
        return h->u.alone || !strchr(h->u.text.p, '@')
                   ? reply(h, "▪ that is no command of this bot; /help lists them")
                   : NULL;
    const char *verb = c->verb, *agent = h->here.agent, *body = rest;
    if (!strcmp(verb, "code")) {
        if (!*rest)
            return reply(h, "▪ which code? /code CODE, as the page of the log-in shows it");
        TRY(unsay(h));
    }
    if (!strcmp(verb, "get")) {
        own_err err_t e = *rest ? file_check(bytes_of(rest), 0)
                                : err_new(EXIT_USAGE, "which file? /get FILE, a name in the agent's outbox");
        own_free char *no = e ? xasprintf("▪ %s", err_text(e)) : NULL;
        if (no)
            return reply(h, no);
    }
    if (c->whose == NAMED && *rest) {
        if (!tell_known(h->f, rest))
            return reply(h, "▪ there is no agent of that name; /list shows them");
        agent = rest;
        body = "";
    } else if (c->whose == NAMED && !strcmp(verb, "stop") && *agent) {
        verb = "halt";
    }
    if (!h->here.chat && strcmp(verb, "link"))
        return reply(h, "▪ this group is not linked: /link NAME makes it an agent's room, /link the fleet's");
    return c->whose == NOBODY ? act(h, verb, "", body) : act_on_agent(h, verb, agent, body);
}

/* ---- text ---- */

static bool is_secret(const struct heard *h) {
    return pasted_credential(h->u.text.p, h->u.text.len);
}

/* It must not reach a model, nor stay in the chat or in our memory. */
static err_t refuse_secret(struct heard *h) {
    TRY(unsay(h));
    return reply(h, "▪ That looked like a credential. It was passed to nobody and is deleted here, but it "
                    "has been in the chat: "
                    "revoke it, and give a fresh one on the host with `agent-cage auth NAME`.");
}

static err_t from_stranger(struct heard *h) {
    const char *text = NULL;
    if (h->u.alone) {
        TRY(pair_try(h->f, &h->u, &text));
        return text ? reply(h, text) : NULL;
    }
    bool there;
    TRY(memory_has(h->f->db, TQ_group, DB_VALUES(db_i((uint64_t)h->u.chat)), &there));
    return there ? NULL : place_leave(h->f, h->u.chat);
}

static err_t take_file(struct heard *h) {
    own_free char *body = NULL;
    own_err err_t e = files_told(&h->u, &body);
    own_free char *no = e ? xasprintf("▪ The file was not taken: %s", err_text(e)) : NULL;
    return no ? reply(h, no) : act_on_agent(h, "file", h->here.agent, body);
}

static const char unlinked[] =
    "▪ this group is not linked: /link NAME makes it an agent's room, /link the fleet's";

static err_t on_message(struct heard *h) {
    bool known, there;
    TRY(pair_known(h->f, h->u.from, &known));
    TRY(place_here(h->f, &h->u, &h->here));
    if (!known)
        return from_stranger(h);
    TRY(memory_has(h->f->db, TQ_group, DB_VALUES(db_i((uint64_t)h->u.chat)), &there));
    if (!h->u.alone && !there) /* we were in it before we knew its people */
        TRY(place_wait(h->f, h->u.chat, h->u.forum, PLACE_LINK_MS));
    if (is_secret(h))
        return refuse_secret(h);
    if (h->u.kind == UPDATE_SECOND)
        return reply(
            h, "▪ What is forwarded, or comes through another bot, is not taken as yours: write it, or send "
               "the file, yourself.");
    if (h->u.kind == UPDATE_OUTSIDE)
        return reply(h, "▪ Only text and files are taken here.");
    if (h->u.kind == UPDATE_TEXT && h->u.text.p[0] == '/')
        return command(h);
    if (!h->here.chat)
        return reply(h, unlinked);
    if (h->u.kind == UPDATE_FILE)
        return take_file(h);
    return act_on_agent(h, "say", h->here.agent, h->u.text.p);
}

static err_t on_edited(struct heard *h) {
    bool known;
    TRY(pair_known(h->f, h->u.from, &known));
    TRY(place_here(h->f, &h->u, &h->here));
    return known && is_secret(h) ? refuse_secret(h) : NULL;
}

/* ---- buttons ---- */

struct pressed {
    bool good;
    char slot[128], verb[16], agent[NAME_MAX_BYTES];
    struct buf body;
};

static err_t find_press(struct heard *h, struct pressed *p) {
    struct db *db = h->f->db;
    bool row;
    TRY(db_first(db, TQ_press, DB_VALUES(db_t(h->u.data)), &row));
    if (row) {
        int64_t chat = (int64_t)db_col_u(db, TQ_press, 1), person = (int64_t)db_col_u(db, TQ_press, 2);
        struct bytes body = db_col(db, TQ_press, 5);
        snprintf(p->slot, sizeof p->slot, "%s", db_col(db, TQ_press, 0).p);
        snprintf(p->verb, sizeof p->verb, "%s", db_col(db, TQ_press, 3).p);
        snprintf(p->agent, sizeof p->agent, "%s", db_col(db, TQ_press, 4).p);
        buf_add(&p->body, body.p, body.len);
        p->good = chat == h->u.chat && (!person || person == h->u.from) &&
                  db_col_u(db, TQ_press, 6) > (uint64_t)clock_wall_ms();
    }
    db_done(db, TQ_press);
    return NULL;
}

/* The message that was pressed must be the one in that slot; it loses its buttons and shows what was chosen. */
static err_t close_question(struct heard *h, struct pressed *p) {
    struct db *db = h->f->db;
    bool row;
    own_buf struct buf text = {0};
    TRY(db_first(db, TQ_post_at, DB_VALUES(db_i((uint64_t)h->u.chat), db_i((uint64_t)h->u.message)), &row));
    p->good = row && !strcmp(db_col(db, TQ_post_at, 0).p, p->slot);
    if (p->good)
        buf_printf(&text, "%s\n▪ → %s", db_col(db, TQ_post_at, 1).p,
                   *p->agent && strcmp(p->verb, "answer") ? p->agent : "answered");
    db_done(db, TQ_post_at);
    if (!p->good)
        return NULL;
    TRY(db_do(db, TQ_presses_drop, DB_VALUES(db_t(bytes_of(p->slot)))));
    TRY(outbox_put(h->f, p->slot, h->u.chat, "", "asks", buf_text(&text), ""));
    /* How a harness's question ended is said in its place (tell.c): it stays until then, or until it is swept. */
    return strcmp(p->verb, "answer") ? db_do(db, TQ_post_end, DB_VALUES(db_t(bytes_of(p->slot)))) : NULL;
}

static err_t on_press(struct heard *h) {
    struct pressed p = {0};
    bool known;
    TRY(pair_known(h->f, h->u.from, &known));
    TRY(place_here(h->f, &h->u, &h->here));
    err_t e = known && h->here.chat ? find_press(h, &p) : NULL;
    if (!e && p.good)
        e = close_question(h, &p);
    if (!e)
        e = outbox_chore(h->f, "answerCallbackQuery",
                         json_pack("{s:s, s:s}", "callback_query_id", h->u.press.p, "text",
                                   p.good ? "" : "This button has expired."));
    if (!e && p.good)
        e = act(h, p.verb, p.agent, buf_text(&p.body));
    buf_free(&p.body);
    return e;
}

/* ---- groups ---- */

static err_t on_joined(struct heard *h) {
    bool known, there;
    TRY(pair_known(h->f, h->u.from, &known));
    TRY(memory_has(h->f->db, TQ_group, DB_VALUES(db_i((uint64_t)h->u.chat)), &there));
    if (there)
        return NULL;
    if (known)
        return place_wait(h->f, h->u.chat, h->u.forum, PLACE_LINK_MS);
    log_warn("telegram: left a group to which a stranger added the bot");
    return place_leave(h->f, h->u.chat);
}

static err_t on_left(struct heard *h) {
    return place_unlink(h->f, h->u.chat);
}

static err_t on_migrated(struct heard *h) {
    struct place main;
    struct update u = {.chat = h->u.chat};
    TRY(place_here(h->f, &u, &h->here));
    if (!h->here.chat)
        return NULL;
    TRY(place_unlink(h->f, h->u.chat));
    TRY(place_wait(h->f, h->u.moved_to, false, PLACE_MOVED_MS));
    TRY(place_of(h->f, "", &main));
    own_free char *slot = xasprintf("re:%" PRId64, h->u.id);
    return outbox_say(
        h->f, slot, main.chat, "", "",
        bytes_of("▪ A linked group has another number now. That is another group until somebody paired says "
                 "/link there again."));
}

/* ---- one update ---- */

static err_t (*const kinds[UPDATE_KINDS])(struct heard *h) = {
    [UPDATE_TEXT] = on_message,    [UPDATE_SECOND] = on_message, [UPDATE_FILE] = on_message,
    [UPDATE_OUTSIDE] = on_message, [UPDATE_EDITED] = on_edited,  [UPDATE_PRESS] = on_press,
    [UPDATE_JOINED] = on_joined,   [UPDATE_LEFT] = on_left,      [UPDATE_MIGRATED] = on_migrated,
};

static err_t take(struct heard *h) {
    struct db *db = h->f->db;
    uint64_t mark;
    TRY(memory_mark(db, &mark));
    if ((uint64_t)h->u.id < mark)
        return NULL;
    if (kinds[h->u.kind])
        TRY(kinds[h->u.kind](h));
    TRY(memory_set(db, "mark", (uint64_t)h->u.id + 1));
    return memory_set(db, "mark_ms", (uint64_t)clock_wall_ms());
}

static err_t hear_one(struct front *f, const json_t *json) {
    struct heard h = {.f = f};
    if (!update_parse(json, &h.u)) {
        log_warn("telegram: an update without a number was passed over");
        return NULL;
    }
    TRY(db_begin(f->db, LASTING));
    return db_end(f->db, take(&h));
}

struct one {
    const json_t *json;
    json_int_t id;
};

static int by_id(const void *a, const void *b) {
    const struct one *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static err_t hear_all(struct front *f, json_t *batch) {
    struct one in_order[BATCH_MAX];
    size_t n = 0, i;
    json_t *json;
    json_array_foreach(batch, i, json) {
        if (n < BATCH_MAX)
            in_order[n++] = (struct one){json, json_integer_value(json_object_get(json, "update_id"))};
    }
    qsort(in_order, n, sizeof(struct one), by_id);
    for (i = 0; i < n; i++)
        TRY(hear_one(f, in_order[i].json));
    return NULL;
}

static err_t sweep(struct front *f) {
    TRY(db_begin(f->db, QUICK));
    err_t e = place_sweep(f);
    if (!e)
        e = db_do(f->db, TQ_presses_late, DB_VALUES(db_i((uint64_t)clock_wall_ms())));
    if (!e) /* their messages stay in the chat, with buttons that have expired */
        e = db_do(f->db, TQ_posts_asked, NULL, 0);
    return db_end(f->db, e);
}

void hear(struct front *f, json_t *batch) {
    uint64_t waiting = 0;
    if (!f->listed && json_array_size(batch)) { /* whose room is whose cannot be told yet */
        json_decref(batch);
        poll_later(f, 1);
        return;
    }
    own_err err_t e = hear_all(f, batch);
    json_decref(batch);
    if (!e)
        e = db_number(f->db, TQ_acts, NULL, 0, 0, &waiting);
    if (!e)
        e = sweep(f);
    if (e)
        log_warn("telegram: what was said is asked for again: %s", err_text(e));
    outbox_go(f);
    act_go(f);
    files_go(f);
    tell_go(f);
    if (e || waiting > ACTS_MAX)
        poll_later(f, BUSY_S);
    else
        poll_go(f);
}
