/*
 * The terminal chat from inside. One thread, one poll: the line editor waits in chat_step() for a key, so answers and
 * events are shown while a line is typed. Commands ask and return at once; their answers come to a function later.
 */
#ifndef CLI_CHAT_CHAT_H
#define CLI_CHAT_CHAT_H

#include "base/buf.h"
#include "base/names.h"
#include "cli/client.h"
#include "cli/render.h"

#include <stdbool.h>
#include <stdint.h>

struct chat;
struct line;
struct shell;

/* An answer to a question of the chat; relay_end is the last. data is the text that was given with the question. */
typedef void chat_answer(struct chat *c, const char *data, const struct msg *m);

struct ask {
    uint64_t cookie; /* 0: to be asked again when there is a connection */
    chat_answer *answer;
    char *data;
    char *key, *agent; /* of a message that is said, else NULL: it may be said again */
    struct ask *next;
};

/* What was shown of a message's live output, so that its report need not repeat it. */
struct live {
    uint64_t id;
    char agent[AGENT_NAME_MAX + 1];
    struct buf seen; /* all of it, while it is small */
    size_t shown;    /* bytes of seen that are on the screen: whole lines */
    bool whole;      /* seen is all that came */
};

/* A question of a harness that is open. Its choices have numbers of their own: none means two things in one chat. */
struct asked {
    uint64_t question, id; /* 0: a free place */
    char agent[AGENT_NAME_MAX + 1];
    char digest[32];
    size_t digest_len, first, n; /* the number of its first choice, and how many there are */
};

struct agent_name {
    char name[AGENT_NAME_MAX + 1];
};

enum { ASKED_MAX = 16, LIVE_MAX = 8, LIVE_BYTES = 65536, AGENTS_MAX = 1024, SHOW_MOST = 20480 };

struct chat {
    struct client client; /* fd -1: the fleet is away */
    int signals;
    bool tty, quit, entering;      /* entering: the room that the person asked for with the call */
    char room[AGENT_NAME_MAX + 1]; /* "" : the fleet's */
    struct render render;
    struct line *line;
    struct ask *asks;
    struct agent_name agents[AGENTS_MAX]; /* as last listed: for completion and choices */
    size_t nagents;
    char *choosing;         /* the line that waits for "which agent?"; NULL: none */
    uint64_t place, events; /* cookies of two questions: where to begin, and what comes */
    uint64_t last_seq;      /* of the last event */
    bool placed;            /* and it is where to follow from */
    struct buf
        last_note; /* the text of the last note that was shown: an order's report need not come twice */
    struct live live[LIVE_MAX];
    struct asked asked[ASKED_MAX];
    size_t last_choice;
    uint64_t own[64]; /* messages said here whose report has not come */
    size_t nown;
    struct buf
        late; /* numbers of messages that ended while one is being said here, whose number is not known yet */
    struct shell *shell;                        /* /sh that runs; NULL: none */
    int64_t away_since, try_at, interrupted_at; /* monotonic ms; 0: not */
    err_t over;                                 /* why it ends, owned */
    bool of_up;                                 /* the fleet ends with it, so Ctrl-C does not leave it */
};

/* ---- chat.c: the loop ---- */

/* Waits for anything and deals with it. keys: also for standard input. True: there is something to read there. */
bool chat_step(struct chat *c, bool keys);

/* ---- talk.c: the connection ---- */

/* Asks; m's cookie is filled in; data (may be NULL) is copied. Without a connection it is said that there is none. */
void chat_ask(struct chat *c, struct msg *m, chat_answer *answer, const char *data);

/* Says a text to an agent; kept until it is known to be taken. */
void chat_say(struct chat *c, const char *agent, const char *text);

/* Connects (the first time too) and follows the events. */
err_t chat_connect(struct chat *c);

/* Something is there to read, or the connection is to be tried again. */
void chat_heard(struct chat *c);
void chat_try(struct chat *c);

/* A message ended, whoever said it. */
void chat_ended(struct chat *c, uint64_t id);

/* Nothing that was asked here is open, and every message said here has ended. */
bool chat_settled(const struct chat *c);
void chat_drop_asks(struct chat *c);

/* ---- news.c: events ---- */

void chat_event(struct chat *c, const struct msg_relay_event *e);

/* ---- asked.c: questions of harnesses ---- */

/* An event "question" or "answer", or the end of a message. */
void chat_asked(struct chat *c, const struct msg_relay_event *e);

/* Is this line the number of a choice that is open? Then it is answered. */
bool chat_answers(struct chat *c, const char *text);

/* Does a question wait that came in this room? */
bool chat_is_asked(const struct chat *c);

/* ---- show.c: words for the person ---- */

/* Text made by us of escaped parts; goes above the line that is being typed. */
void chat_show(struct chat *c, const char *text);
void chat_tell(struct chat *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The text of a relay_end with a status, or nothing; true: there was one. */
bool chat_failed(struct chat *c, const struct msg *m);

/* ---- words.c: what a line means ---- */

/* Text for the room's agent, a command, or the answer to "which agent?". */
void chat_line(struct chat *c, const char *text);

/* "which agent?"; the answer runs `text` again for the agent. With one agent only it is that one. */
void chat_choose(struct chat *c, const char *text);

enum command_whose { NOBODY, NAMED, ROOMS };

/* agent: as `whose` says, else ""; rest: what follows, without blanks around it. */
typedef void command_fn(struct chat *c, const char *agent, const char *rest);

struct command {
    const char *name;
    enum command_whose whose;
    const char *args, *help;
    command_fn *run;
};
extern const struct command commands[]; /* ended by a NULL name */

#define COMMAND(name, whose, args, help) command_fn chat_do_##name;
#include "cli/chat/commands.def"
#undef COMMAND

/* ---- agents.c ---- */

/* Asks for the list; each message of the answer goes to chat_listed() first, which keeps the names and is true when all are
 * there (an error is shown, then it never is). */
void chat_list(struct chat *c, chat_answer *answer, const char *data);
bool chat_listed(struct chat *c, const struct msg *m);

/* Shows the state strip of an agent. */
void chat_strip(struct chat *c, const char *agent);

/* ---- sh.c ---- */

int shell_fd(const struct shell *s); /* to be polled */
void shell_heard(struct chat *c);
void shell_interrupt(struct chat *c);
void shell_end(struct chat *c);

#endif
