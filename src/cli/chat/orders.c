/* /start, /restart, /stop, /new, /resume, /sessions, /auth, /file, /get, /help, /quit. */
#include "base/clock.h"
#include "base/escape.h"
#include "base/own.h"
#include "cli/chat/chat.h"
#include "cli/files.h"
#include "proto/strip.h"

#include <string.h>

static void on_end(struct chat *c, const char *done, const struct msg *m) {
    if (m->type != MSG_relay_end || chat_failed(c, m))
        return;
    if (m->relay_end.text.len && !strcmp(buf_text(&c->last_note), m->relay_end.text.p))
        return; /* the agent's room has just said it */
    if (m->relay_end.text.len)
        chat_tell(c, "◆ %s", m->relay_end.text.p);
    else
        chat_tell(c, "◆ %s", done);
}

static void order_with(struct chat *c, const char *word, const char *agent, const char *arg,
                       const char *done) {
    struct msg m = {.type = MSG_front_order};
    m.front_order.order = bytes_of(word);
    m.front_order.agent = bytes_of(agent);
    m.front_order.arg = bytes_of(arg);
    own_free char *text = xasprintf("%s %s", agent, done);
    buf_clear(&c->last_note);
    chat_ask(c, &m, on_end, text);
}

static void order(struct chat *c, const char *word, const char *agent, const char *done) {
    order_with(c, word, agent, "", done);
}

void chat_do_start(struct chat *c, const char *agent, const char *rest) {
    (void)rest;
    order(c, "start", agent, "started");
}

void chat_do_restart(struct chat *c, const char *agent, const char *rest) {
    (void)rest;
    order(c, "restart", agent, "restarted");
}

/* In a room it ends what the agent does; only a name, or the fleet's room, means the agent as a whole. */
void chat_do_stop(struct chat *c, const char *agent, const char *rest) {
    if (*rest && !name_ok(rest)) {
        own_err err_t e = name_check(rest);
        chat_tell(c, "▪ %s", err_text(e));
    } else if (*rest || *agent)
        order(c, "stop", *rest ? rest : agent, "stopped");
    else if (*c->room)
        order(c, "halt", c->room, "does nothing now");
    else
        chat_choose(c, "/stop");
}

void chat_do_new(struct chat *c, const char *agent, const char *rest) {
    order_with(c, "fresh", agent, rest, "has a fresh session");
}

void chat_do_resume(struct chat *c, const char *agent, const char *rest) {
    if (*rest)
        order_with(c, "resume", agent, rest, "goes on with that session");
    else
        chat_do_sessions(c, agent, "");
}

static void on_session(struct chat *c, const char *data, const struct msg *m) {
    (void)data;
    if (chat_failed(c, m) || m->type != MSG_relay_session)
        return;
    const struct msg_relay_session *s = &m->relay_session;
    own_buf struct buf name = {0}, out = {0};
    char span[CLOCK_SPAN_MAX], tokens[STRIP_SIZE_MAX];
    escape_text(&name, ESCAPE_LINE, s->name.p, s->name.len);
    clock_span(span, clock_wall_ms() - (int64_t)s->used_wall_ms);
    strip_tokens(tokens, s->tokens);
    buf_printf(&out, "%s %3llu  %-24s %llu turn%s · %s tok · %s ago\n", s->current ? "▸" : " ",
               (unsigned long long)s->number, name.len ? buf_text(&name) : "-", (unsigned long long)s->turns,
               s->turns == 1 ? "" : "s", tokens, span);
    chat_show(c, buf_text(&out));
}

void chat_do_sessions(struct chat *c, const char *agent, const char *rest) {
    (void)rest;
    struct msg m = {.type = MSG_front_sessions};
    m.front_sessions.agent = bytes_of(agent);
    chat_ask(c, &m, on_session, NULL);
}

void chat_do_model(struct chat *c, const char *agent, const char *rest) {
    order_with(c, "model", agent, rest, "has another model");
}

void chat_do_auth(struct chat *c, const char *agent, const char *rest) {
    (void)rest;
    order(c, "login", agent, "logs in");
}

void chat_do_code(struct chat *c, const char *agent, const char *rest) {
    if (*rest)
        order_with(c, "login", agent, rest, "has the code");
    else
        chat_tell(c, "▪ which code? /code CODE, as the page of the log-in shows it");
}

/* Both wait until the file is there: it goes over a connection of its own. The room itself tells what came. */
void chat_do_file(struct chat *c, const char *agent, const char *rest) {
    own_free char *place = NULL;
    own_err err_t e = *rest ? files_put(agent, rest, &place) : err_new(EXIT_USAGE, "which file? /file PATH");
    if (e)
        chat_tell(c, "▪ %s", err_text(e));
}

void chat_do_get(struct chat *c, const char *agent, const char *rest) {
    own_free char *here = xasprintf("./%s", rest); /* one that is called "-" is a file too */
    own_err err_t e =
        *rest ? files_get(agent, rest, here) : err_new(EXIT_USAGE, "which file of the outbox? /get FILE");
    if (e)
        chat_tell(c, "▪ %s", err_text(e));
    else
        chat_tell(c, "◆ saved as ./%s", rest);
}

void chat_do_help(struct chat *c, const char *agent, const char *rest) {
    (void)agent, (void)rest;
    own_buf struct buf out = {0};
    for (const struct command *k = commands; k->name; k++) {
        own_free char *words = xasprintf("/%s %s", k->name, k->args);
        buf_printf(&out, "  %-18s %s\n", words, k->help);
    }
    buf_adds(&out, "  anything else      is said to the room's agent; Ctrl-C drops the line\n");
    buf_adds(
        &out,
        c->of_up
            ? "                     this chat is the fleet's: leaving it (/quit, Ctrl-D) ends the fleet\n"
            : "                     leaving (/quit, Ctrl-C twice, Ctrl-D) ends no agent's work\n");
    chat_show(c, buf_text(&out));
}

void chat_do_quit(struct chat *c, const char *agent, const char *rest) {
    (void)agent, (void)rest;
    c->quit = true;
}
