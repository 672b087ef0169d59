/*
 * A file from Telegram into an agent's in-tray. The agent takes it only whole, so one that is cut off on its way is nowhere: once
 * the agent has said so it may come again.
 */
#include "base/own.h"
#include "relay/telegram/files.h"

#include <errno.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <string.h>

enum { HELD_MAX = 128 * 1024, AWAY_MS = 2000 };

static const char too_large[] = "it is too large for Telegram, which gives bots files of up to 20 MB";

/* ---- what came, into the pipe ---- */

static void end_pipe(struct files *s) {
    event_del(s->ready);
    own_closep(&s->pipe);
    evbuffer_drain(s->held, evbuffer_get_length(s->held));
}

static void pass(struct files *s) {
    while (s->pipe >= 0 && evbuffer_get_length(s->held)) {
        int n = evbuffer_write(s->held, s->pipe);
        if (n < 0 && errno == EAGAIN) {
            event_add(s->ready, NULL);
            break;
        }
        if (n <= 0)
            end_pipe(s); /* nobody reads: the answer says why */
    }
    size_t held = evbuffer_get_length(s->held);
    if (!s->over)
        bot_hold(s->bot, held > HELD_MAX);
    else if (!held || s->end.end != BOT_DONE)
        end_pipe(s); /* the reader sees its end, and whether it is whole */
}

static const char *on_begin(void *ctx, uint64_t length) {
    struct files *s = ctx;
    struct msg m = {.type = MSG_front_put};
    static char why[256];
    m.front_put.agent = bytes_of(s->agent);
    m.front_put.name = bytes_of(s->name);
    m.front_put.size = length == UINT64_MAX ? s->size : length;
    if (length == UINT64_MAX && !s->size)
        return "Telegram does not say how large it is";
    if (m.front_put.size > FILE_IN_MAX)
        return too_large;
    own_err err_t e = files_begin(s);
    if (!e)
        e = files_ask(s, &m);
    snprintf(why, sizeof why, "%s", e ? err_text(e) : "");
    return e ? why : NULL;
}

static void on_piece(void *ctx, struct bytes piece) {
    struct files *s = ctx;
    if (s->pipe >= 0)
        evbuffer_add(s->held, piece.p, piece.len);
    pass(s);
}

/* ---- a try ---- */

static void on_file(void *ctx, const struct bot_answer *a) {
    struct files *s = ctx;
    const json_t *path = json_object_get(a->result, "file_path"),
                 *size = json_object_get(a->result, "file_size");
    struct bytes p = {json_string_value(path), json_string_length(path)};
    if (a->end != BOT_DONE) {
        files_over(s, a);
        return;
    }
    if (!p.p || !bot_path_ok(p)) {
        files_over(s, &(struct bot_answer){.end = BOT_REFUSED, .why = "Telegram does not say where it is"});
        return;
    }
    if (json_integer_value(size) > 0)
        s->size = (uint64_t)json_integer_value(size);
    s->flow = (struct http_flow){.ctx = s, .begin = on_begin, .piece = on_piece};
    bot_fetch(s->bot, p.p, &s->flow, files_over, s);
}

void file_in_start(struct files *s) {
    s->tries++;
    bot_call(s->bot, "getFile", json_pack("{s:s}", "file_id", s->file_id), on_file, s);
}

/* What Telegram did not give, or not whole: once more, where that may help. */
static void failed(struct files *s) {
    own_free char *why = xstrdup(s->end.why);
    if (s->end.end == BOT_SLOWER && ++s->slower <= FILE_SLOWER_MAX) {
        s->tries--;
        files_again(s, (s->end.retry_s + 1) * INT64_C(1000));
        return;
    }
    if (strstr(why, "file is too big") || strstr(why, too_large)) {
        files_end(s, too_large, NULL);
        return;
    }
    bool worth = s->end.end == BOT_AWAY || s->end.code == 404; /* 404: its path has expired */
    if (worth && s->tries < FILE_TRIES) {
        files_again(s, AWAY_MS * s->tries);
        return;
    }
    own_free char *text = xasprintf("it could not be had from Telegram: %s", why);
    files_end(s, text, NULL);
}

void file_in_step(struct files *s) {
    if (s->asked)
        pass(s);
    bool cut = s->over && s->end.end != BOT_DONE;
    if (s->answered && !s->status) {
        own_free char *then =
            *s->caption ? xasprintf("%s\n\n[file: %s]", s->caption, buf_text(&s->answer)) : NULL;
        files_end(s, NULL, then);
    } else if (cut && (!s->asked || s->answered)) {
        failed(s);
    } else if (s->answered) {
        own_free char *why = xstrdup(buf_text(&s->answer));
        files_end(s, why, NULL);
    }
}
