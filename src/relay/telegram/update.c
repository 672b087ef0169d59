#include "relay/telegram/update.h"
#include "base/escape.h"

#include <string.h>

enum { FILE_ID_MAX = 512 };

static bool number(const json_t *object, const char *key, int64_t *ret) {
    const json_t *v = json_object_get(object, key);
    if (!json_is_integer(v))
        return false;
    *ret = json_integer_value(v);
    return true;
}

static bool text(const json_t *object, const char *key, size_t max, struct bytes *ret) {
    const json_t *v = json_object_get(object, key);
    if (!json_is_string(v))
        return false;
    struct bytes b = {json_string_value(v), json_string_length(v)};
    if (!b.len || b.len > max || memchr(b.p, 0, b.len) || !utf8_valid(b.p, b.len))
        return false;
    *ret = b;
    return true;
}

/* Where and who; both must be numbers. */
static bool place(const json_t *chat, const json_t *from, struct update *u) {
    struct bytes type;
    if (!number(chat, "id", &u->chat) || !number(from, "id", &u->from) || !text(chat, "type", 16, &type))
        return false;
    bool alone = !strcmp(type.p, "private");
    if (!alone && strcmp(type.p, "group") && strcmp(type.p, "supergroup"))
        return false; /* channels have no people in them */
    u->alone = alone;
    u->forum = json_is_true(json_object_get(chat, "is_forum"));
    return true;
}

/* Words that somebody else wrote, or a machine. */
static bool second_hand(const json_t *m) {
    static const char *const signs[] = {
        "forward_origin",      "forward_from",         "forward_from_chat", "forward_date",
        "forward_sender_name", "is_automatic_forward", "via_bot",           "sender_chat",
        "sender_business_bot", "guest_bot_caller_user"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (json_object_get(m, signs[i]))
            return true;
    return json_is_true(json_object_get(json_object_get(m, "from"), "is_bot"));
}

static bool take_file(const json_t *file, const char *name, struct update *u) {
    int64_t size;
    const json_t *told = json_object_get(file, "file_name");
    if (!text(file, "file_id", FILE_ID_MAX, &u->file_id))
        return false;
    u->name = json_is_string(told) ? (struct bytes){json_string_value(told), json_string_length(told)}
                                   : bytes_of(name);
    u->size = number(file, "file_size", &size) && size > 0 ? (uint64_t)size : 0;
    return true;
}

/* The largest of its sizes. */
static const json_t *picture(const json_t *photo) {
    const json_t *best = NULL, *one;
    int64_t most = -1;
    size_t i;
    json_array_foreach(photo, i, one) {
        int64_t w = 0, h = 0;
        number(one, "width", &w);
        number(one, "height", &h);
        bool sane = w >= 0 && h >= 0 && w <= INT32_MAX && h <= INT32_MAX;
        if (sane && w * h > most) {
            most = w * h;
            best = one;
        }
    }
    return best;
}

/* What a message can carry that is a file, and what it is called where Telegram does not say. An animation is told as a document
 * too, a live photo as a photo (Bot API, Message). */
static const struct {
    const char *key, *name;
} files[] = {{"document", "file"},          {"photo", "photo.jpg"}, {"video", "video.mp4"},
             {"video_note", "video.mp4"},   {"audio", "audio"},     {"voice", "voice.ogg"},
             {"animation", "animation.mp4"}};

/* Other kinds of messages of people; what is not listed is the service's own word. */
static const char *const outside[] = {"sticker", "paid_media", "story", "contact", "location",
                                      "venue",   "poll",       "dice",  "game",    "checklist"};

static bool find_file(const json_t *m, struct update *u) {
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const json_t *v = json_object_get(m, files[i].key);
        if (take_file(json_is_array(v) ? picture(v) : v, files[i].name, u))
            return true;
    }
    return false;
}

/* A file that cannot be read, something with a caption of which we know nothing, or what is no file. */
static bool is_outside(const json_t *m, const struct update *u) {
    bool is = u->text.len;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        is |= json_object_get(m, files[i].key) != NULL;
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        is |= json_object_get(m, outside[i]) != NULL;
    return is;
}

/* Who wrote what, and where. False: not a person in a chat. */
static bool take_words(const json_t *m, struct update *u) {
    if (!place(json_object_get(m, "chat"), json_object_get(m, "from"), u) ||
        (u->alone && u->chat != u->from) || !number(m, "message_id", &u->message))
        return false;
    if (json_is_true(json_object_get(m, "is_topic_message")))
        number(m, "message_thread_id", &u->thread);
    if (!text(m, json_object_get(m, "text") ? "text" : "caption", UPDATE_TEXT_MAX, &u->text))
        u->text = bytes_of("");
    return true;
}

static void take_message(const json_t *m, struct update *u) {
    if (number(m, "migrate_to_chat_id", &u->moved_to)) {
        if (number(json_object_get(m, "chat"), "id", &u->chat))
            u->kind = UPDATE_MIGRATED;
        return;
    }
    if (!take_words(m, u))
        return;
    if (json_object_get(m, "text"))
        u->kind = !u->text.len ? UPDATE_OTHER : second_hand(m) ? UPDATE_SECOND : UPDATE_TEXT;
    else if (find_file(m, u))
        u->kind = second_hand(m) ? UPDATE_SECOND : UPDATE_FILE;
    else if (is_outside(m, u))
        u->kind = UPDATE_OUTSIDE;
}

static void take_edited(const json_t *m, struct update *u) {
    if (take_words(m, u))
        u->kind = UPDATE_EDITED;
}

static void take_press(const json_t *q, struct update *u) {
    const json_t *m = json_object_get(q, "message");
    if (json_object_get(q, "inline_message_id") || json_object_get(q, "game_short_name") ||
        !place(json_object_get(m, "chat"), json_object_get(q, "from"), u) ||
        !number(m, "message_id", &u->message) || !text(q, "id", 64, &u->press))
        return;
    u->kind = UPDATE_PRESS;
    if (!text(q, "data", 64, &u->data))
        u->data = bytes_of("");
}

static void take_member(const json_t *m, struct update *u) {
    struct bytes status;
    const json_t *now = json_object_get(m, "new_chat_member");
    int64_t chat, from;
    if (!number(json_object_get(m, "chat"), "id", &chat) || !text(now, "status", 16, &status))
        return;
    bool in = !strcmp(status.p, "member") || !strcmp(status.p, "administrator") ||
              (!strcmp(status.p, "restricted") && json_is_true(json_object_get(now, "is_member")));
    u->chat = chat;
    u->from = number(json_object_get(m, "from"), "id", &from) ? from : 0;
    u->alone = chat > 0; /* ids of groups and channels are below 0 */
    u->forum = json_is_true(json_object_get(json_object_get(m, "chat"), "is_forum"));
    if (!u->alone)
        u->kind = in ? UPDATE_JOINED : UPDATE_LEFT;
}

bool update_parse(const json_t *json, struct update *ret) {
    static const struct {
        const char *key;
        void (*take)(const json_t *, struct update *);
    } kinds[] = {{"message", take_message},
                 {"edited_message", take_edited},
                 {"callback_query", take_press},
                 {"my_chat_member", take_member}};
    struct update u = {0};
    if (!number(json, "update_id", &u.id) || u.id < 0 || u.id > INT64_MAX / 2)
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const json_t *v = json_object_get(json, kinds[i].key);
        if (json_is_object(v)) {
            kinds[i].take(v, &u);
            break;
        }
    }
    *ret = u;
    return true;
}
