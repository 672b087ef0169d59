/*
 * One update of the Bot API, read strictly out of JSON that anybody may have caused. Only what the front acts on is told
 * apart; everything else is UPDATE_OTHER, which is passed over. Numbers alone say who and where. Pure.
 */
#ifndef TELEGRAM_UPDATE_H
#define TELEGRAM_UPDATE_H

#include "proto/msg.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum update_kind {
    UPDATE_OTHER,
    UPDATE_TEXT,   /* a new message with text, written by `from` itself */
    UPDATE_SECOND, /* one that is forwarded, or came through another bot: never a command, never passed on */
    UPDATE_FILE, /* a file of any kind (update.c lists them), sent by `from` itself; text is its caption, maybe empty */
    UPDATE_OUTSIDE, /* a new message of a kind that is not taken: a sticker, a place; text is its caption, maybe empty */
    UPDATE_EDITED, /* a message that somebody changed; text is what it says now, maybe empty: never a command, never passed on */
    UPDATE_PRESS,    /* a button of a message of ours */
    UPDATE_JOINED,   /* we were added to a group, by `from` */
    UPDATE_LEFT,     /* we were taken out of it */
    UPDATE_MIGRATED, /* the group has another id now */
    UPDATE_KINDS
};

struct update {
    int64_t id;
    enum update_kind kind;
    int64_t chat, from, thread, message, moved_to;
    bool alone; /* a private chat */
    bool forum;
    struct bytes text;          /* of a message; valid UTF-8 without NUL. Points into the JSON */
    struct bytes file_id, name; /* of a file; name may be anything */
    uint64_t size;              /* 0: not told */
    struct bytes press;         /* a press's own id */
    struct bytes data;          /* of the button */
};

enum { UPDATE_TEXT_MAX = 65536 };

/* False: it has no id of its own, so it cannot even be passed over. */
bool update_parse(const json_t *json, struct update *ret);

#endif
