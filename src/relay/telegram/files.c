#include "relay/telegram/files.h"
#include "base/log.h"
#include "base/own.h"
#include "proto/file_name.h"

#include <event2/buffer.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RETRY_MS = 2000, COOKIE = 1 };

/* ---- what is kept of a file that was sent here ---- */

err_t files_told(const struct update *u, char **ret_body) {
    TRY(file_check(u->name, 0));
    if (u->size > FILE_IN_MAX)
        return err_new(EXIT_POLICY,
                       "a file of %" PRIu64 " bytes is too large for Telegram, which gives bots files of up "
                       "to 20 MB: send it through the page, or on the host with `agent-cage send --file`",
                       u->size);
    json_t *j = json_pack("{s:s%, s:s%, s:s%, s:I}", "file_id", u->file_id.p, u->file_id.len, "name",
                          u->name.p, u->name.len, "caption", u->text.len ? u->text.p : "", u->text.len,
                          "size", (json_int_t)u->size);
    *ret_body = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    return *ret_body ? NULL : err_new(EXIT_FAILED, "the file cannot be noted");
}

static char *text_of(const json_t *j, const char *key) {
    const char *text = json_string_value(json_object_get(j, key));
    return xstrdup(text ? text : "");
}

static void read_body(struct files *s, struct bytes body) {
    json_t *j = s->out ? NULL : json_loadb(body.p, body.len, 0, NULL);
    s->file_id = text_of(j, "file_id");
    s->name = s->out ? xstrdup(body.p) : text_of(j, "name");
    s->caption = text_of(j, "caption");
    s->size = (uint64_t)json_integer_value(json_object_get(j, "size"));
    json_decref(j);
}

/* ---- one try ---- */

static void let_go(struct files *s) {
    event_del(s->ready);
    event_del(s->again);
    own_closep(&s->pipe);
    bot_free(s->bot); /* a fresh connection for each try: none that the host has just closed */
    s->bot = bot_new(s->f->base, s->f->dialer, &s->f->api, s->f->token);
    router_leave(TAKE(s->person));
    evbuffer_drain(s->held, evbuffer_get_length(s->held));
    buf_clear(&s->answer);
    s->passed = s->status = 0;
    s->asked = s->answered = s->sending = s->whole = s->over = false;
    memset(&s->end, 0, sizeof s->end);
}

static void in_ms(struct files *s, int64_t ms) {
    event_add(s->again, &(struct timeval){(time_t)(ms / 1000), (suseconds_t)(ms % 1000) * 1000});
}

static void start(struct files *s) {
    s->resting = false;
    in_ms(s, FILE_S * INT64_C(1000));
    if (s->out)
        file_out_start(s);
    else
        file_in_start(s);
}

void files_again(struct files *s, int64_t ms) {
    let_go(s);
    s->resting = true;
    in_ms(s, ms);
}

void files_kick(void *ctx) {
    struct files *s = ctx;
    event_active(s->kick, EV_TIMEOUT, 0);
}

void files_over(void *ctx, const struct bot_answer *a) {
    struct files *s = ctx;
    s->over = true;
    s->end.end = a->end;
    s->end.code = a->code;
    s->end.retry_s = a->retry_s;
    s->end.unsent = a->unsent;
    snprintf(s->end.why, sizeof s->end.why, "%s", a->why);
    files_kick(s);
}

static bool on_answer(void *ctx, const struct msg *m) {
    struct files *s = ctx;
    if (m->type != MSG_relay_end || s->answered)
        return true;
    s->answered = true;
    s->status = m->relay_end.status;
    buf_add(&s->answer, m->relay_end.text.p, m->relay_end.text.len);
    files_kick(s);
    return true;
}

static void on_hold(void *ctx, bool hold) {
    (void)ctx, (void)hold; /* one question at a time anyway */
}

static const struct asker_ops asker_ops = {on_answer, on_hold};

err_t files_ask(struct files *s, struct msg *m) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_new(EXIT_FAILED, "there is no pipe for it now");
    own_fd int theirs = ends[s->out ? 1 : 0];
    s->pipe = ends[s->out ? 0 : 1];
    event_assign(s->ready, s->f->base, s->pipe, s->out ? EV_READ : EV_WRITE, event_get_callback(s->kick), s);
    own_free char *who = xasprintf("telegram:%" PRId64, s->who);
    s->person = router_join(s->f->router, s->f->row, who, &asker_ops, s);
    m->fds[m->nfds++] = theirs;
    m->front_list.cookie = COOKIE;
    s->asked = true;
    router_ask(s->person, m); /* may answer at once: that is looked at from the loop */
    return NULL;
}

err_t files_begin(struct files *s) {
    TRY(db_begin(s->f->db, LASTING));
    return db_end(s->f->db, db_do(s->f->db, TQ_act_begin, DB_VALUES(db_i((uint64_t)s->id))));
}

/* ---- its end ---- */

static err_t over(struct files *s, const char *why, const char *then) {
    struct front *f = s->f;
    struct update u = {.id = s->id, .from = s->who};
    struct place here = {.chat = s->chat};
    snprintf(here.agent, sizeof here.agent, "%s", s->room);
    if (why) {
        own_free char *slot = xasprintf("act:%" PRId64, s->id);
        own_free char *text = xasprintf("▪ %s: the file %s: %s", s->agent, s->name, why);
        TRY(outbox_say(f, slot, s->chat, s->room, "", bytes_of(text)));
    }
    if (!then)
        return db_do(f->db, TQ_act_drop, DB_VALUES(db_i((uint64_t)s->id)));
    TRY(tell_elsewhere(f, &u, &here, s->agent, then));
    return db_do(f->db, TQ_act_then_say, DB_VALUES(db_i((uint64_t)s->id), db_t(bytes_of(then))));
}

static void forget(struct files *s) {
    let_go(s);
    free(TAKE(s->file_id));
    free(TAKE(s->name));
    free(TAKE(s->caption));
    s->busy = s->resting = false;
}

void files_end(struct files *s, const char *why, const char *then) {
    own_err err_t e = db_begin(s->f->db, LASTING);
    if (!e)
        e = db_end(s->f->db, over(s, why, then));
    if (e) /* told as unknown, then */
        log_warn("telegram: %s", err_text(e));
    forget(s);
    in_ms(s, e ? RETRY_MS : 0);
    outbox_go(s->f);
    act_go(s->f);
}

/* ---- the next one ---- */

static err_t take_next(struct files *s, bool *ret_begun, bool *ret) {
    struct db *db = s->f->db;
    TRY(db_first(db, TQ_act_file, NULL, 0, ret));
    if (*ret) {
        s->id = (int64_t)db_col_u(db, TQ_act_file, 0);
        s->who = (int64_t)db_col_u(db, TQ_act_file, 1);
        s->chat = (int64_t)db_col_u(db, TQ_act_file, 2);
        snprintf(s->room, sizeof s->room, "%s", db_col(db, TQ_act_file, 3).p);
        s->out = !strcmp(db_col(db, TQ_act_file, 4).p, "get");
        snprintf(s->agent, sizeof s->agent, "%s", db_col(db, TQ_act_file, 5).p);
        read_body(s, db_col(db, TQ_act_file, 6));
        *ret_begun = db_col_u(db, TQ_act_file, 7);
        s->busy = true;
        s->tries = s->slower = 0;
    }
    db_done(db, TQ_act_file);
    return NULL;
}

void files_go(struct front *f) {
    struct files *s = f->files;
    bool there = false, begun = false;
    if (!s || s->busy)
        return;
    own_err err_t e = take_next(s, &begun, &there);
    if (e) {
        log_warn("telegram: %s", err_text(e));
        in_ms(s, RETRY_MS);
    } else if (there && begun) {
        files_end(s,
                  s->out
                      ? "it is not known whether it was sent: the relay died in between. /get sends it again."
                      : "it is not known whether it arrived: the relay died in between. The chat says where "
                        "it is if it did; else send it again.",
                  NULL);
    } else if (there) {
        start(s);
    }
}

static void on_again(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct files *s = arg;
    if (!s->busy)
        files_go(s->f);
    else if (s->resting)
        start(s);
    else
        files_end(s, "it took longer than ten minutes", NULL);
}

static void on_kick(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct files *s = arg;
    if (!s->busy || s->resting)
        return;
    if (s->out)
        file_out_step(s);
    else
        file_in_step(s);
}

struct files *files_new(struct front *f) {
    struct files *s = xcalloc(1, sizeof *s);
    *s = (struct files){.f = f, .pipe = -1, .held = evbuffer_new()};
    s->bot = bot_new(f->base, f->dialer, &f->api, f->token);
    s->again = evtimer_new(f->base, on_again, s);
    s->kick = evtimer_new(f->base, on_kick, s);
    s->ready = evtimer_new(f->base, on_kick, s); /* of no pipe yet */
    in_ms(s, 0);
    return s;
}

void files_free(struct files *s) {
    if (!s)
        return;
    forget(s);
    bot_free(s->bot);
    event_free(s->again);
    event_free(s->kick);
    event_free(s->ready);
    evbuffer_free(s->held);
    buf_free(&s->answer);
    free(s);
}
