/* /list and /status, and the names that completion and choices know. */
#include "base/clock.h"
#include "base/escape.h"
#include "base/own.h"
#include "cli/chat/chat.h"
#include "proto/strip.h"

#include <string.h>

static const struct mark {
    const char *state, *sgr;
} marks[] = {{"running", "32"}, {"stopped", "2"}, {"starting", "33"}, {"stopping", "33"}};

static void show_agent(struct chat *c, const struct msg_relay_agent *a) {
    const char *sgr = "31";
    for (size_t i = 0; i < COUNT(marks); i++)
        if (!strcmp(a->state.p, marks[i].state))
            sgr = marks[i].sgr;
    own_buf struct buf state = {0}, name = {0}, out = {0};
    escape_text(&state, ESCAPE_LINE, a->state.p, a->state.len);
    escape_text(&name, ESCAPE_LINE, a->agent.p, a->agent.len);
    buf_printf(&out, "  %-20s ", buf_text(&name));
    render_in(&c->render, &out, sgr, buf_text(&state));
    buf_adds(&out, "  ");
    escape_text(&out, ESCAPE_LINE, a->mode.p, a->mode.len);
    buf_adds(&out, " · ");
    escape_text(&out, ESCAPE_LINE, a->harness.p, a->harness.len);
    if (a->why.len) {
        buf_adds(&out, " · ");
        escape_text(&out, ESCAPE_LINE, a->why.p, a->why.len);
    }
    buf_adds(&out, "\n");
    chat_show(c, buf_text(&out));
}

static void keep(struct chat *c, const struct msg_relay_agent *a) {
    for (size_t i = 0; i < c->nagents; i++)
        if (!strcmp(c->agents[i].name, a->agent.p))
            return;
    if (c->nagents < AGENTS_MAX && name_ok(a->agent.p))
        snprintf(c->agents[c->nagents++].name, sizeof c->agents[0].name, "%s", a->agent.p);
}

void chat_list(struct chat *c, chat_answer *answer, const char *data) {
    struct msg m = {.type = MSG_front_list};
    c->nagents = 0;
    chat_ask(c, &m, answer, data);
}

bool chat_listed(struct chat *c, const struct msg *m) {
    if (m->type == MSG_relay_agent)
        keep(c, &m->relay_agent);
    return m->type == MSG_relay_end && !chat_failed(c, m);
}

static void on_shown(struct chat *c, const char *data, const struct msg *m) {
    (void)data;
    if (m->type == MSG_relay_agent)
        show_agent(c, &m->relay_agent);
    if (chat_listed(c, m) && !c->nagents)
        chat_tell(c, "no agents yet: `agent-cage new NAME` makes one");
}

void chat_do_list(struct chat *c, const char *agent, const char *rest) {
    (void)agent, (void)rest;
    chat_list(c, on_shown, NULL);
}

static void on_status(struct chat *c, const char *data, const struct msg *m) {
    (void)data;
    chat_failed(c, m);
    if (m->type != MSG_relay_status)
        return;
    own_buf struct buf out = {0};
    strip_agent(&out, &m->relay_status, clock_wall_ms());
    strip_host(&out, &m->relay_status);
    chat_show(c, buf_text(&out));
}

void chat_strip(struct chat *c, const char *agent) {
    struct msg m = {.type = MSG_front_status};
    m.front_status.agent = bytes_of(agent);
    chat_ask(c, &m, on_status, agent);
}

static void on_all(struct chat *c, const char *data, const struct msg *m) {
    (void)data;
    if (!chat_listed(c, m))
        return;
    for (size_t i = 0; i < c->nagents; i++)
        chat_strip(c, c->agents[i].name);
}

void chat_do_status(struct chat *c, const char *agent, const char *rest) {
    (void)agent;
    if (*rest && !name_ok(rest)) {
        own_err err_t e = name_check(rest);
        chat_tell(c, "▪ %s", err_text(e));
    } else if (*rest || *c->room)
        chat_strip(c, *rest ? rest : c->room);
    else
        chat_list(c, on_all, NULL);
}

static void on_known(struct chat *c, const char *agent, const struct msg *m) {
    if (m->type == MSG_relay_end && m->relay_end.status && c->entering) {
        c->over = err_new((int)m->relay_end.status, "%s", m->relay_end.text.p);
        c->quit = true; /* what is said next is meant for that agent alone */
    } else if (m->type == MSG_relay_status) {
        snprintf(c->room, sizeof c->room, "%s", agent);
        on_status(c, agent, m);
    } else
        chat_failed(c, m);
}

void chat_do_use(struct chat *c, const char *agent, const char *rest) {
    (void)rest;
    struct msg m = {.type = MSG_front_status};
    m.front_status.agent = bytes_of(agent);
    chat_ask(c, &m, on_known, agent);
}

void chat_do_leave(struct chat *c, const char *agent, const char *rest) {
    (void)agent, (void)rest;
    c->room[0] = 0;
    chat_list(c, on_shown, NULL);
}
