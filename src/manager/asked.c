#include "manager/asked.h"
#include "base/own.h"
#include "manager/room.h"

static struct event event_of(const struct agent *a, const struct msg_desk_ask *q) {
    return (struct event){.agent = bytes_of(a->name),
                          .id = q->id,
                          .kind = bytes_of("question"),
                          .who = bytes_of(a->name),
                          .text = q->text,
                          .name = q->name,
                          .question = q->question,
                          .digest = q->digest,
                          .until_wall_ms = q->until_wall_ms,
                          .choices = q->choices};
}

void asked_put(struct manager *m, struct agent *a, struct msg *msg) {
    asked_over(a, msg->desk_ask.question); /* told again */
    for (size_t i = 0; i < ASKED_MAX; i++) {
        if (a->asked[i].type != MSG_none)
            continue;
        a->asked[i] = *msg;
        msg->arena = NULL;
        struct event e = event_of(a, &a->asked[i].desk_ask);
        follow_live(m->follows, &e);
        struct timeval tv = {ASKED_UNREAD_MS / 1000, 0};
        event_add(m->unread, &tv);
        return;
    }
}

static void forget(struct msg *asked) {
    msg_free(asked);
    *asked = (struct msg){0};
}

void asked_over(struct agent *a, uint64_t question) {
    for (size_t i = 0; i < ASKED_MAX; i++)
        if (a->asked[i].type != MSG_none && a->asked[i].desk_ask.question == question)
            forget(&a->asked[i]);
}

void asked_drop(struct agent *a) {
    for (size_t i = 0; i < ASKED_MAX; i++)
        if (a->asked[i].type != MSG_none)
            forget(&a->asked[i]);
}

void asked_give(struct manager *m, const char *agent, asked_fn *give, void *ctx) {
    for (struct agent *a = m->fleet.first; a; a = a->next) {
        if (*agent && strcmp(a->name, agent) != 0)
            continue;
        for (size_t i = 0; i < ASKED_MAX; i++) {
            if (a->asked[i].type == MSG_none)
                continue;
            struct event e = event_of(a, &a->asked[i].desk_ask);
            give(ctx, &e);
        }
    }
}

/* The agent says how that question ended, as of any other. */
static void decline(struct agent *a, const struct msg_desk_ask *q) {
    struct msg o = {.type = MSG_desk_answer};
    o.desk_answer = (struct msg_desk_answer){.question = q->question, .digest = q->digest};
    agent_say(a, &o);
}

void asked_unread(struct manager *m) {
    for (struct agent *a = m->fleet.first; a; a = a->next)
        for (size_t i = 0; i < ASKED_MAX && !follow_reads(m->follows, a->name); i++)
            if (a->asked[i].type != MSG_none)
                decline(a, &a->asked[i].desk_ask);
}
