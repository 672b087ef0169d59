/*
 * A line to the Bot API: one call at a time over one connection. The token stands in a request's path and nowhere else: no
 * error names a path, and a description that repeats it is not shown.
 */
#ifndef TELEGRAM_BOT_H
#define TELEGRAM_BOT_H

#include "base/buf.h"
#include "http/client.h"
#include "proto/msg.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum bot_end {
    BOT_DONE,
    BOT_REFUSED, /* the API says no: code, why */
    BOT_SLOWER,  /* 429: not before retry_s */
    BOT_AWAY, /* no answer, half an answer, or one of a server that is ill; whether it was done is not known */
    BOT_TOO_BIG /* the answer was not read whole */
};

struct bot_answer {
    enum bot_end end;
    const json_t *result; /* BOT_DONE; borrowed */
    int code, retry_s;
    bool unsent;          /* BOT_AWAY: nothing of it reached the API */
    int64_t moved_to;     /* the chat's new id, 0: it has not moved */
    int64_t first_update; /* BOT_TOO_BIG: the id of the first update in it, -1: not seen */
    char why[256];        /* one line, harmless */
};
typedef void bot_fn(void *ctx, const struct bot_answer *a);

struct bot;

/* Is it one? DIGITS:SECRET. Quotes nothing. */
err_t bot_token_check(const char *token, size_t n);

/* `api` outlives it. */
struct bot *bot_new(struct event_base *base, struct dialer *dialer, const struct upstream *api,
                    const char *token);
void bot_free(struct bot *b); /* also inside its own callback */

enum { BOT_ANSWER_MAX = 256 * 1024, BOT_WAIT_S = 30 };

/* args is taken. on_end comes once, from the loop. Only when !bot_busy(). */
void bot_call(struct bot *b, const char *method, json_t *args, bot_fn *on_end, void *ctx);

/* getUpdates: an answer of answer_max at most, which may be wait_s in coming. */
void bot_listen(struct bot *b, json_t *args, size_t answer_max, int wait_s, bot_fn *on_end, void *ctx);

/* editMessageMedia with a file in it: args name it as attach://file. `name` is plain: letters, digits, dots, dashes. An error:
 * nothing was asked, and on_end does not come. */
err_t bot_put_file(struct bot *b, json_t *args, const char *name, struct bytes file, bot_fn *on_end,
                   void *ctx);
bool bot_busy(const struct bot *b);

/* The path of a file, as getFile tells it, is letters, digits, "/_-." and no ".."; else it is asked for nothing. */
bool bot_path_ok(struct bytes path);

/* The file at such a path, a piece at a time (http/client.h). BOT_DONE without a result: it came whole. Its other answers are the
 * API's; code is HTTP's status also where it does not say one. */
void bot_fetch(struct bot *b, const char *path, const struct http_flow *flow, bot_fn *on_end, void *ctx);
void bot_hold(struct bot *b, bool held);

/*
 * sendDocument; the file's bytes come by bot_put() until bot_put_end(). args as in bot_call(); `name` is one that file_check()
 * lets through. An error: nothing was asked.
 */
err_t bot_send_file(struct bot *b, json_t *args, const char *name, const struct http_flow *flow,
                    bot_fn *on_end, void *ctx);
void bot_put(struct bot *b, struct bytes piece);
void bot_put_end(struct bot *b);
bool bot_full(const struct bot *b);

#endif
