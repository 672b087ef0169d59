/* Which chat is whose: an agent's own group, else its topic in the fleet's forum, else the owner's private chat. */
#include "base/clock.h"
#include "base/own.h"
#include "relay/telegram/inside.h"

#include <inttypes.h>
#include <string.h>

static err_t group_of(struct front *f, const char *agent, int64_t *ret_chat, bool *ret_forum) {
    bool row;
    TRY(db_first(f->db, TQ_group_of, DB_VALUES(db_t(bytes_of(agent))), &row));
    *ret_chat = row ? (int64_t)db_col_u(f->db, TQ_group_of, 0) : 0;
    *ret_forum = row && db_col_u(f->db, TQ_group_of, 1);
    db_done(f->db, TQ_group_of);
    return NULL;
}

err_t place_of(struct front *f, const char *agent, struct place *ret) {
    struct place p = {0};
    uint64_t owner;
    snprintf(p.agent, sizeof p.agent, "%s", agent);
    if (*agent)
        TRY(group_of(f, agent, &p.chat, &p.forum));
    p.forum = false;
    if (!p.chat)
        TRY(group_of(f, "", &p.chat, &p.forum));
    if (!p.chat) {
        TRY(db_number(f->db, TQ_owner, NULL, 0, 0, &owner));
        p.chat = (int64_t)owner;
        p.main = true;
    }
    if (!p.chat)
        return err_new(EXIT_NOTFOUND, "nobody is paired");
    *ret = p;
    return NULL;
}

err_t place_here(struct front *f, const struct update *u, struct place *ret) {
    struct place p = {.chat = u->chat, .main = u->alone};
    bool row, linked = false;
    *ret = (struct place){0};
    if (u->alone) {
        *ret = p;
        return NULL;
    }
    TRY(db_first(f->db, TQ_group, DB_VALUES(db_i((uint64_t)u->chat)), &row));
    if (row) {
        snprintf(p.agent, sizeof p.agent, "%s", db_col(f->db, TQ_group, 0).p);
        p.forum = db_col_u(f->db, TQ_group, 1);
        linked = db_col_u(f->db, TQ_group, 2);
    }
    db_done(f->db, TQ_group);
    if (!linked)
        return NULL;
    if (p.forum && !*p.agent && u->thread) {
        TRY(db_first(f->db, TQ_topic_of, DB_VALUES(db_i((uint64_t)u->chat), db_i((uint64_t)u->thread)),
                     &row));
        if (row)
            snprintf(p.agent, sizeof p.agent, "%s", db_col(f->db, TQ_topic_of, 0).p);
        db_done(f->db, TQ_topic_of);
    }
    *ret = p;
    return NULL;
}

static err_t put_group(struct front *f, int64_t chat, const char *agent, bool forum, bool linked,
                       int64_t until_ms) {
    return db_do(f->db, TQ_group_put,
                 DB_VALUES(db_i((uint64_t)chat), db_t(bytes_of(agent)), db_i(forum), db_i(linked),
                           db_i((uint64_t)until_ms)));
}

/* The group that has this place now gives it up. */
err_t place_link(struct front *f, const struct update *u, const char *agent) {
    int64_t before;
    bool forum;
    TRY(group_of(f, agent, &before, &forum));
    if (before && before != u->chat)
        TRY(place_unlink(f, before));
    TRY(db_do(f->db, TQ_topics_drop, DB_VALUES(db_i((uint64_t)u->chat))));
    TRY(put_group(f, u->chat, agent, u->forum, true, 0));
    return NULL;
}

err_t place_unlink(struct front *f, int64_t chat) {
    uint64_t owner;
    TRY(db_number(f->db, TQ_owner, NULL, 0, 0, &owner));
    TRY(db_do(f->db, TQ_group_drop, DB_VALUES(db_i((uint64_t)chat))));
    TRY(db_do(f->db, TQ_topics_drop, DB_VALUES(db_i((uint64_t)chat))));
    TRY(db_do(f->db, TQ_posts_strips, DB_VALUES(db_i((uint64_t)chat))));
    return db_do(f->db, TQ_posts_move, DB_VALUES(db_i((uint64_t)chat), db_i(owner)));
}

err_t place_wait(struct front *f, int64_t chat, bool forum, int64_t span_ms) {
    return put_group(f, chat, "", forum, false, clock_wall_ms() + span_ms);
}

err_t place_leave(struct front *f, int64_t chat) {
    TRY(db_do(f->db, TQ_group_drop, DB_VALUES(db_i((uint64_t)chat))));
    return outbox_chore(f, "leaveChat", json_pack("{s:I}", "chat_id", (json_int_t)chat));
}

err_t place_sweep(struct front *f) {
    for (;;) {
        uint64_t chat;
        TRY(db_number(f->db, TQ_group_late, DB_VALUES(db_i((uint64_t)clock_wall_ms())), 0, &chat));
        if (!chat)
            return NULL;
        TRY(place_leave(f, (int64_t)chat));
    }
}
