/*
 * Questions of harnesses: shown with numbered choices, answered by a number. The numbers go on through the whole chat, so a
 * number typed a moment too late for one question never answers another.
 */
#include "base/clock.h"
#include "base/escape.h"
#include "base/own.h"
#include "base/parse.h"
#include "cli/chat/chat.h"

#include <string.h>

static struct asked *find(struct chat *c, uint64_t question) {
    for (size_t i = 0; i < ASKED_MAX; i++)
        if (c->asked[i].question == question)
            return &c->asked[i];
    return NULL;
}

bool chat_is_asked(const struct chat *c) {
    for (size_t i = 0; i < ASKED_MAX; i++)
        if (c->asked[i].question && (!*c->room || !strcmp(c->room, c->asked[i].agent)))
            return true;
    return false;
}

/* A line of ours around a text of theirs. */
static void add_line(struct chat *c, struct buf *out, const char *sgr, const char *before,
                     const struct bytes *text) {
    own_buf struct buf b = {0};
    buf_adds(&b, before);
    escape_text(&b, ESCAPE_LINE, text->p, text->len);
    render_in(&c->render, out, sgr, buf_text(&b));
    buf_adds(out, "\n");
}

static void show(struct chat *c, const struct asked *q, const struct msg_relay_event *e) {
    own_buf struct buf out = {0};
    struct bytes rest = {"", 0};
    own_free char *head = xasprintf("◆ %s asks: ", q->agent);
    add_line(c, &out, "33", head, &e->name);
    struct render r = c->render;
    r.most = 0; /* what a yes allows is shown whole */
    render_lines(&r, &e->agent, &out, e->text.p, e->text.len);
    char span[CLOCK_SPAN_MAX];
    clock_span(span, (int64_t)e->until_wall_ms - clock_wall_ms());
    own_free char *tail =
        xasprintf("sha256 %02x%02x%02x%02x… · open for %s · answer with a number:", q->digest[0] & 0xff,
                  q->digest[1] & 0xff, q->digest[2] & 0xff, q->digest[3] & 0xff, span);
    add_line(c, &out, "2", tail, &rest);
    for (size_t i = 0; i < q->n; i++) {
        own_free char *number = xasprintf("  %zu  ", q->first + i);
        add_line(c, &out, "1", number, &e->choices.v[i]);
    }
    chat_show(c, buf_text(&out));
}

static void on_question(struct chat *c, const struct msg_relay_event *e) {
    struct asked *q = find(c, e->question) ? NULL : find(c, 0);
    if (!q) /* told again, or more than a person can keep in mind: it ends by its time */
        return;
    *q = (struct asked){.question = e->question, .id = e->id, .first = c->last_choice + 1, .n = e->choices.n};
    q->digest_len = e->digest.len < sizeof q->digest ? e->digest.len : sizeof q->digest;
    memcpy(q->digest, e->digest.p, q->digest_len);
    snprintf(q->agent, sizeof q->agent, "%s", e->agent.p);
    c->last_choice += q->n;
    show(c, q, e);
}

static void on_answer(struct chat *c, const struct msg_relay_event *e) {
    struct asked *q = find(c, e->question);
    if (q)
        *q = (struct asked){0}; /* the note that is kept says how it ended */
}

void chat_asked(struct chat *c, const struct msg_relay_event *e) {
    if (e->question && e->choices.n)
        on_question(c, e);
    else if (e->question)
        on_answer(c, e);
    for (size_t i = 0; !e->question && i < ASKED_MAX; i++)
        if (c->asked[i].question && c->asked[i].id == e->id)
            c->asked[i] = (struct asked){0};
}

static void on_told(struct chat *c, const char *data, const struct msg *m) {
    (void)data;
    chat_failed(c, m);
}

bool chat_answers(struct chat *c, const char *text) {
    uint64_t number;
    own_err err_t e = parse_u64(text, c->last_choice, &number);
    if (e || !number)
        return false;
    for (size_t i = 0; i < ASKED_MAX; i++) {
        struct asked *q = &c->asked[i];
        if (!q->question || number < q->first || number >= q->first + q->n)
            continue;
        struct msg m = {.type = MSG_front_answer};
        m.front_answer = (struct msg_front_answer){.agent = bytes_of(q->agent),
                                                   .question = q->question,
                                                   .digest = {q->digest, q->digest_len},
                                                   .choice = number - q->first + 1};
        chat_ask(c, &m, on_told, NULL);
        *q = (struct asked){0};
        return true;
    }
    chat_tell(
        c, "▪ that question is not open any more; to say a number to the agent, write more than the number");
    return true;
}
