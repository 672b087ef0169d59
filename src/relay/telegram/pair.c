/*
 * Who may command. Root makes a code on the host (40 random bits, good for ten minutes, five tries, one use); whoever sends it
 * to the bot in a private chat is paired. When somebody is paired already, that one is asked first.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "relay/telegram/inside.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

enum { CODE_LEN = 8, CODE_MS = 10 * 60 * 1000, CODE_TRIES = 5, STRANGER_MS = 3600 * 1000, PEOPLE_MAX = 8 };

static const char letters[] = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"; /* 32: five bits each */
_Static_assert(sizeof letters == 32 + 1, "a letter for each five bits");

static err_t make_code(char code[CODE_LEN + 1]) {
    unsigned char random[CODE_LEN];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_sys(errno, "random bytes for a code");
    for (size_t i = 0; i < CODE_LEN; i++)
        code[i] = letters[random[i] & 31];
    code[CODE_LEN] = 0;
    return NULL;
}

err_t pair_open(struct front *f, struct buf *ret) {
    char code[CODE_LEN + 1];
    TRY(make_code(code));
    TRY(memory_set_text(f->db, "code", code));
    TRY(memory_set(f->db, "code_until", (uint64_t)clock_wall_ms() + CODE_MS));
    TRY(memory_set(f->db, "code_tries", 0));
    uint64_t people;
    TRY(db_number(f->db, TQ_people, NULL, 0, 0, &people));
    buf_printf(
        ret,
        "Send this code to the bot in a private chat, from the account that is to command the fleet:\n\n    "
        "%.4s-%.4s\n\nIt is good for ten minutes, five tries and one use.%s",
        code, code + 4, people ? " Somebody is paired already, and is asked first." : "");
    return NULL;
}

/* Letters and digits alone, in capitals. False: it cannot be a code. */
static bool squeeze(struct bytes text, char out[CODE_LEN + 1]) {
    size_t n = 0;
    if (text.len > 64)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c == ' ' || c == '-' || c == '\n')
            continue;
        if (c >= 128 || !isalnum(c) || n == CODE_LEN)
            return false;
        out[n++] = (char)toupper(c);
    }
    out[n] = 0;
    return n == CODE_LEN;
}

static bool same(const char *a, const char *b) {
    unsigned char differs = 0;
    for (size_t i = 0; i < CODE_LEN; i++)
        differs |= (unsigned char)(a[i] ^ b[i]);
    return !differs;
}

err_t pair_known(struct front *f, int64_t person, bool *ret) {
    return memory_has(f->db, TQ_person, DB_VALUES(db_i((uint64_t)person)), ret);
}

err_t pair_admit(struct front *f, int64_t person) {
    log_info("telegram: user %" PRId64 " is paired", person);
    return db_do(f->db, TQ_person_add, DB_VALUES(db_i((uint64_t)person), db_i((uint64_t)clock_wall_ms())));
}

static err_t ask_owner(struct front *f, int64_t person) {
    own_free char *id = xasprintf("%" PRId64, person), *slot = xasprintf("admit:%s", id);
    own_free char *text =
        xasprintf("▪ The account with the number %s sent the code that was made on the host. May it "
                  "command the fleet too?",
                  id);
    uint64_t owner;
    TRY(db_number(f->db, TQ_owner, NULL, 0, 0, &owner));
    struct place p = {.chat = (int64_t)owner, .main = true};
    const struct choice choices[] = {{"Yes", "admit", "", id}, {"No", "nothing", "", ""}};
    return press_ask(f, slot, &p, (int64_t)owner, text, choices, COUNT(choices),
                     clock_wall_ms() + 24 * 3600 * 1000);
}

static err_t claim(struct front *f, int64_t person, const char **ret_reply) {
    uint64_t people;
    TRY(memory_unset(f->db, "code"));
    TRY(db_number(f->db, TQ_people, NULL, 0, 0, &people));
    if (people >= PEOPLE_MAX) {
        *ret_reply = "No more accounts can be paired.";
        return NULL;
    }
    *ret_reply = people ? "The owner is asked." : "You are paired: this bot obeys you now. /help says how.";
    return people ? ask_owner(f, person) : pair_admit(f, person);
}

/* True: this code is right, and was still good. A wrong one costs a try. */
static err_t check(struct front *f, const char *code, bool *ret) {
    own_buf struct buf right = {0};
    uint64_t until, tries;
    *ret = false;
    TRY(memory_text(f->db, "code", &right));
    TRY(memory_number(f->db, "code_until", 0, &until));
    TRY(memory_number(f->db, "code_tries", 0, &tries));
    if (right.len != CODE_LEN || (uint64_t)clock_wall_ms() >= until || tries >= CODE_TRIES)
        return NULL;
    if (same(buf_text(&right), code)) {
        *ret = true;
        return NULL;
    }
    if (tries + 1 == CODE_TRIES)
        log_warn(
            "telegram: five wrong codes: pairing is locked until `agent-cage telegram setup` makes another");
    return memory_set(f->db, "code_tries", tries + 1);
}

err_t pair_try(struct front *f, const struct update *u, const char **ret_reply) {
    char code[CODE_LEN + 1];
    bool right = false;
    uint64_t last;
    *ret_reply = NULL;
    if (u->kind == UPDATE_TEXT && squeeze(u->text, code))
        TRY(check(f, code, &right));
    if (right)
        return claim(f, u->from, ret_reply);
    uint64_t now = (uint64_t)clock_wall_ms();
    TRY(memory_number(f->db, "stranger_ms", 0, &last));
    if (last && now - last < STRANGER_MS)
        return NULL;
    *ret_reply = "This bot answers its owner alone.";
    return memory_set(f->db, "stranger_ms", now);
}
