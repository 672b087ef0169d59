/*
 * What the files of the Telegram front share.
 *
 * Theory. Two lines to the Bot API, one that listens (poll.c) and one that speaks (outbox.c), and one file of memory between
 * them and the manager.
 *
 *   In   What an update means is kept in the same transaction in which the mark moves behind it (hear.c); the next getUpdates
 *        confirms by that mark. What the manager is to do is kept as an act (act.c): text is said under a key made of the
 *        update's number, so saying it again after a crash is taken once; an order is noted as begun before it is given, and
 *        one that was begun when we died is not given again but told as unknown.
 *   Out  An event becomes a post in the same transaction in which the mark of events moves behind it (tell.c). A post is
 *        a placeholder first, then edited into what it says: sendMessage can double a dot, never a message (outbox.c).
 *
 * Files go both ways over a third line, a piece at a time; the theory of that is in files.h.
 *
 * Who may command is known by number (people), where by the links that those people made (groups). What is the bot's own word
 * begins with "▪"; what an agent said stands below its name. Nothing is ever sent as markup.
 */
#ifndef TELEGRAM_INSIDE_H
#define TELEGRAM_INSIDE_H

#include "relay/front.h"
#include "relay/telegram/bot.h"
#include "relay/telegram/memory.h"
#include "relay/telegram/update.h"

#include <jansson.h>

enum { AGENTS_MAX = 512, NAME_MAX_BYTES = 32 };

/* Cookies of our questions; those of acts count up from COOKIE_ACT. */
enum { COOKIE_EVENTS = 1, COOKIE_LIST = 2, COOKIE_STRIPS = 3, COOKIE_ACT = 16 };

/* An agent as it was last told. */
struct known {
    char name[NAME_MAX_BYTES], state[NAME_MAX_BYTES];
};

/* A chat, or a topic in it, as a room. */
struct place {
    int64_t chat;
    char agent[NAME_MAX_BYTES]; /* "": the fleet's */
    bool forum, main;           /* main: the owner's own chat */
};
struct acting;
struct files;
struct outbox;
struct poll;
struct tell;

struct front {
    const struct front_row *row;
    struct event_base *base;
    struct router *router;
    struct dialer *dialer;
    struct upstream api;
    char *dir;   /* the relay's folder */
    char *token; /* NULL: not set up, and nothing runs */
    char me[64]; /* our user name, once getMe told */
    struct db *db;
    struct poll *poll;
    struct acting *acting;
    struct files *files;
    struct outbox *outbox;
    struct tell *tell;
    char fault[256]; /* why it could not start */
    struct known known[AGENTS_MAX];
    size_t nknown;
    bool listed; /* known[] was told since we began */
};

/* ---- poll.c ---- */
struct poll *poll_new(struct front *f);
void poll_free(struct poll *p);
void poll_go(struct front *f);                 /* what was heard is done with: listen on */
void poll_later(struct front *f, int seconds); /* the same updates again, later */
void poll_state(const struct front *f, struct buf *out);

/* ---- hear.c: what is said to us ---- */
void hear(struct front *f, json_t *batch); /* takes it; poll_go() or poll_later() when done */

/* ---- act.c: what the manager is to do about it ---- */
enum { ACT_TELLS, ACT_ORDERS, ACT_ANSWERS, ACT_ASKS, ACT_FILES, ACT_HERE };
struct verb_row {
    const char *name;
    int way;
    const char *order;
};
const struct verb_row *verb_row(const char *name); /* NULL: there is none */
struct acting *acting_new(struct front *f);
void acting_free(struct acting *a);
/* In a transaction. act_go() after it. */
err_t act_add(struct front *f, const struct update *u, const struct place *here, const char *verb,
              const char *agent, const char *body);
void act_go(struct front *f);

/* ---- files.c: files both ways ---- */
struct files *files_new(struct front *f);
void files_free(struct files *s);
void files_go(struct front *f); /* after a commit that added such an act */
/* What is kept of a file that was sent here. An error: it is not taken, and why. */
err_t files_told(const struct update *u, char **ret_body);

/* ---- outbox.c ---- */
struct outbox *outbox_new(struct front *f);
void outbox_free(struct outbox *o);
void outbox_go(struct front *f); /* after a commit that put something */
void outbox_state(const struct front *f, struct buf *out);
void outbox_hold(struct front *f, int64_t chat, int seconds); /* the chat was told to wait */
int64_t outbox_held(const struct front *f, int64_t chat);     /* for so many ms more; 0: it is not */
bool outbox_full(struct front *f);     /* so much waits that no more events are taken */
bool outbox_has_room(struct front *f); /* an eighth less than that, at most */

/* A message, or a new state of the one in this slot; kind as in schema.def. In a transaction. keys: "" or an inline keyboard. */
err_t outbox_put(struct front *f, const char *slot, int64_t chat, const char *agent, const char *kind,
                 const char *body, const char *keys);
/* A text of any length: pieces in slots SLOT:0 …, or a file where it would be too many. label: before each, "" for none. */
err_t outbox_say(struct front *f, const char *slot, int64_t chat, const char *agent, const char *label,
                 struct bytes text);
err_t outbox_chore(struct front *f, const char *method, json_t *args); /* takes args; in a transaction */

/* ---- places.c: which chat is whose ---- */
/* Where an agent's ("": the fleet's) messages go. EXIT_NOTFOUND: nobody is paired. */
err_t place_of(struct front *f, const char *agent, struct place *ret);
/* The room in which an update was written; ret->chat 0: it is nobody's. */
err_t place_here(struct front *f, const struct update *u, struct place *ret);
err_t place_link(struct front *f, const struct update *u, const char *agent);
err_t place_unlink(struct front *f, int64_t chat); /* what waits for it goes to the owner's chat */
err_t place_wait(struct front *f, int64_t chat, bool forum, int64_t span_ms); /* for /link */
err_t place_leave(struct front *f, int64_t chat);
err_t place_sweep(struct front *f); /* leaves groups that nobody linked in time */
enum { PLACE_LINK_MS = 10 * 60 * 1000, PLACE_MOVED_MS = 24 * 3600 * 1000 };

/* ---- pair.c: who may command ---- */
err_t pair_open(struct front *f, struct buf *ret); /* a fresh code; what to do with it */
/* Text of a stranger in a private chat. *ret_reply: what to answer, NULL for nothing. In a transaction. */
err_t pair_try(struct front *f, const struct update *u, const char **ret_reply);
err_t pair_admit(struct front *f, int64_t person);
err_t pair_known(struct front *f, int64_t person, bool *ret);

/* ---- press.c: buttons ---- */
struct choice {
    const char *label, *act, *agent, *body;
};
/* A post with one button a choice, good for one press by this person (0: by anybody paired) until then. In a transaction. */
err_t press_ask(struct front *f, const char *slot, const struct place *where, int64_t person,
                const char *text, const struct choice *choices, size_t n, int64_t until_ms);

/* ---- tell.c: what happens in the fleet ---- */
struct tell *tell_new(struct front *f);
void tell_free(struct tell *t);
void tell_go(struct front *f);     /* begins to follow, once somebody is paired */
void tell_room(struct front *f);   /* the outbox has room again */
void tell_strips(struct front *f); /* the strips are to be brought up to date */
/* What somebody said here for an agent whose room is elsewhere shows there too, above its report. In a transaction. */
err_t tell_elsewhere(struct front *f, const struct update *u, const struct place *here, const char *agent,
                     const char *body);
const struct known *tell_known(const struct front *f, const char *name);

#endif
