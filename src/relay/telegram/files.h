/*
 * Files both ways, one at a time over a line of their own, so that neither what is heard nor what is told waits for one. A file is
 * an act (verbs.def: FILES); what is said to an agent waits while files are on their way to it (act_next), /stop does not.
 *
 *   in    getFile; its head says how long it is; a pipe to the agent (front_put); each piece goes on as it comes (file_in.c)
 *   out   a pipe from the agent (front_get); with its first byte sendDocument, each piece as it comes (file_out.c)
 *
 * Nothing of a file is kept here but some pieces: who does not take holds the other side back. The act is noted as begun before the
 * agent, or Telegram, could have a whole file; one that was begun when we died is told as unknown, and not done again. Telegram may
 * be asked again for what did not come, or did not go, whole; it is not, once a file may be in the chat already.
 */
#ifndef TELEGRAM_FILES_H
#define TELEGRAM_FILES_H

#include "relay/telegram/inside.h"

enum {
    FILE_IN_MAX = 20 << 20, /* the Bot API's own */
    FILE_OUT_MAX = 50 << 20,
    FILE_TRIES = 3,
    FILE_SLOWER_MAX = 10, /* so often it may be told to wait */
    FILE_S = 600          /* one try */
};

struct files {
    struct front *f;
    struct bot *bot;
    struct asker *person; /* who sent it, or asks for it */
    struct event *again;  /* the next one, or the next try; while one goes on, its end */
    struct event *kick, *ready;

    /* the file in hand */
    bool busy, resting; /* resting: between two tries */
    bool out;
    int64_t id, who, chat;
    char room[NAME_MAX_BYTES], agent[NAME_MAX_BYTES];
    char *file_id, *name, *caption;
    uint64_t size; /* as Telegram told it; 0: not told */
    unsigned tries, slower;

    /* this try */
    struct http_flow flow;
    int pipe; /* our end */
    struct evbuffer *held;
    uint64_t passed;
    bool asked, answered; /* the fleet */
    uint64_t status;
    struct buf answer;
    bool sending, whole; /* sendDocument has begun; has all of it */
    bool over;           /* Telegram's line came to an end */
    struct {
        enum bot_end end;
        int code, retry_s;
        bool unsent;
        char why[256];
    } end;
};

/* For file_in.c and file_out.c. The file in hand: noted as begun; a pipe, of which theirs goes along with m, under our cookie. */
err_t files_begin(struct files *s);
err_t files_ask(struct files *s, struct msg *m);
/* In so many ms once more; this try is given up. */
void files_again(struct files *s, int64_t ms);
/* It is done with. why: what went wrong, NULL for nothing; then: what the agent is told now, NULL for nothing. */
void files_end(struct files *s, const char *why, const char *then);
/* Telegram's word at the end of a try; what kicks. */
void files_over(void *ctx, const struct bot_answer *a);
void files_kick(void *ctx);

/* A try; something came. From the loop. */
void file_in_start(struct files *s);
void file_in_step(struct files *s);
void file_out_start(struct files *s);
void file_out_step(struct files *s);

#endif
