/*
 * Buttons. What a button does stands in our memory under a random name, and the button carries that name alone: bound to chat,
 * message (by its slot), person, act and time, good for one press. All buttons of a message go with the first that is pressed.
 */
#include "base/hex.h"
#include "base/own.h"
#include "relay/telegram/inside.h"

err_t press_ask(struct front *f, const char *slot, const struct place *where, int64_t person,
                const char *text, const struct choice *choices, size_t n, int64_t until_ms) {
    json_t *rows = json_array();
    err_t e = NULL;
    for (size_t i = 0; i < n && !e; i++) {
        char key[HEX_KEY];
        const struct choice *c = &choices[i];
        e = hex_key(key);
        if (!e)
            e = db_do(f->db, TQ_press_add,
                      DB_VALUES(db_t(bytes_of(key)), db_t(bytes_of(slot)), db_i((uint64_t)where->chat),
                                db_i((uint64_t)person), db_t(bytes_of(c->act)), db_t(bytes_of(c->agent)),
                                db_t(bytes_of(c->body)), db_i((uint64_t)until_ms)));
        json_array_append_new(rows, json_pack("[{s:s, s:s}]", "text", c->label, "callback_data", key));
    }
    json_t *markup = json_pack("{s:o}", "inline_keyboard", rows);
    own_free char *keys = json_dumps(markup, JSON_COMPACT);
    json_decref(markup);
    return e ? e : outbox_put(f, slot, where->chat, where->agent, "asks", text, keys);
}
