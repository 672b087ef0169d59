/*
 * A file of an agent's outbox into the chat where it was asked for. sendDocument is not idempotent: it is called again only while
 * Telegram cannot have had all of the last one.
 */
#include "base/own.h"
#include "relay/telegram/files.h"

#include <errno.h>
#include <event2/buffer.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 65536, AWAY_MS = 2000 };

static const char too_large[] =
    "it is too large for Telegram, which takes files of up to 50 MB from bots: the page has it, and on "
    "the host `agent-cage get`";

void file_out_start(struct files *s) {
    struct msg m = {.type = MSG_front_get};
    m.front_get.agent = bytes_of(s->agent);
    m.front_get.name = bytes_of(s->name);
    s->tries++;
    own_err err_t e = files_ask(s, &m);
    if (e)
        files_end(s, err_text(e), NULL);
    else
        event_add(s->ready, NULL);
}

/* Where it was asked for: also the topic, if it is one. */
static err_t where(const struct files *s, json_t **ret) {
    uint64_t thread = 0;
    if (*s->room && s->chat < 0)
        TRY(db_number(s->f->db, TQ_topic, DB_VALUES(db_i((uint64_t)s->chat), db_t(bytes_of(s->room))), 0,
                      &thread));
    own_free char *caption = xasprintf("▪ %s", s->agent);
    *ret = json_pack("{s:I, s:s, s:b}", "chat_id", (json_int_t)s->chat, "caption", caption,
                     "disable_content_type_detection", 1);
    if (thread)
        json_object_set_new(*ret, "message_thread_id", json_integer((json_int_t)thread));
    return NULL;
}

static err_t begin(struct files *s) {
    json_t *args;
    TRY(where(s, &args));
    err_t e = files_begin(s);
    if (e) {
        json_decref(args);
        return e;
    }
    s->flow = (struct http_flow){.ctx = s, .room = files_kick};
    s->sending = true;
    return bot_send_file(s->bot, args, s->name, &s->flow, files_over, s);
}

/* False: the file is done with, or this try is. */
static bool put(struct files *s, struct bytes piece) {
    int64_t held = s->sending ? 0 : outbox_held(s->f, s->chat);
    if (held) {
        s->tries--;
        files_again(s, held);
        return false;
    }
    s->passed += piece.len;
    if (s->passed > FILE_OUT_MAX) {
        files_end(s, too_large, NULL);
        return false;
    }
    own_err err_t e = s->sending ? NULL : begin(s);
    if (e) {
        files_end(s, err_text(e), NULL);
        return false;
    }
    bot_put(s->bot, piece);
    return true;
}

/* What is in the pipe now, as far as Telegram takes it. False as in put(). */
static bool pass(struct files *s) {
    char piece[PIECE];
    while (s->pipe >= 0 && !bot_full(s->bot)) {
        ssize_t n = read(s->pipe, piece, sizeof piece);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            event_add(s->ready, NULL);
            return true;
        }
        if (n > 0 && !put(s, (struct bytes){piece, (size_t)n}))
            return false;
        if (n <= 0) {
            event_del(s->ready);
            own_closep(&s->pipe);
        }
    }
    return true;
}

/* Telegram has answered, or is away. */
static void over(struct files *s) {
    own_free char *why = xstrdup(s->end.end == BOT_DONE ? "Telegram answered too early" : s->end.why);
    if (s->end.code == 413) {
        files_end(s, too_large, NULL);
        return;
    }
    bool sure = !s->whole || s->end.unsent; /* that it is not in the chat */
    if (s->end.end == BOT_DONE && s->whole) {
        files_end(s, NULL, NULL);
    } else if (s->end.end == BOT_SLOWER && ++s->slower <= FILE_SLOWER_MAX) {
        int seconds = s->end.retry_s < 1 ? 1 : s->end.retry_s;
        outbox_hold(s->f, s->chat, seconds);
        s->tries--;
        files_again(s, seconds * INT64_C(1000) + 2);
    } else if (s->end.end == BOT_AWAY && sure && s->tries < FILE_TRIES) {
        files_again(s, AWAY_MS * s->tries);
    } else {
        own_free char *text =
            s->end.end == BOT_REFUSED || s->end.end == BOT_SLOWER || sure
                ? xasprintf("it was not sent: %s", why)
                : xasprintf("it is not known whether it was sent: %s. /get sends it again.", why);
        files_end(s, text, NULL);
    }
}

void file_out_step(struct files *s) {
    if (s->over) {
        over(s);
        return;
    }
    if (!s->whole && !pass(s))
        return;
    if (s->answered && s->status) {
        own_free char *why = xstrdup(buf_text(&s->answer));
        files_end(s, why, NULL);
    } else if (s->answered && s->pipe < 0 && !s->sending) {
        files_end(s, "it is empty: Telegram takes no file without a byte", NULL);
    } else if (s->answered && s->pipe < 0 && !s->whole) {
        s->whole = true;
        bot_put_end(s->bot);
    }
}
