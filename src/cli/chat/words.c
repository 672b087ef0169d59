/* What a line means: text for an agent, a command of commands.def, or the answer to "which agent?". */
#include "base/own.h"
#include "base/parse.h"
#include "cli/chat/chat.h"
#include "proto/pasted.h"

#include <string.h>

const struct command commands[] = {
#define COMMAND(name, whose, args, help) {#name, whose, args, help, chat_do_##name},
#include "cli/chat/commands.def"
#undef COMMAND
    {NULL, NOBODY, NULL, NULL, NULL}};

static char *trimmed(const char *text) {
    text += strspn(text, " \t\r");
    size_t n = strlen(text);
    while (n && strchr(" \t\r", text[n - 1]))
        n--;
    return xstrndup(text, n);
}

/* Runs `text` for `agent` ("": the room's, or who its words name). */
static void act(struct chat *c, const char *text, const char *agent) {
    if (text[0] != '/') {
        if (!*agent && !*c->room)
            chat_choose(c, text);
        else
            chat_say(c, *agent ? agent : c->room, text);
        return;
    }
    size_t len = strcspn(text + 1, " \t");
    own_free char *name = xstrndup(text + 1, len), *rest = trimmed(text + 1 + len);
    const struct command *k = commands;
    while (k->name && strcmp(k->name, name))
        k++;
    if (!k->name) {
        chat_tell(c, "▪ no such command: /%s; /help lists them", name);
        return;
    }
    const char *whose = agent;
    if (k->whose == NAMED && *rest)
        whose = rest;
    else if (k->whose != NOBODY && !*whose)
        whose = c->room;
    if (k->whose != NOBODY && !*whose)
        chat_choose(c, text);
    else if (k->whose != NOBODY && !name_ok(whose)) {
        own_err err_t e = name_check(whose);
        chat_tell(c, "▪ %s", err_text(e));
    } else
        k->run(c, whose, rest);
}

/* One agent is clear, several are a question. */
static void on_choice(struct chat *c, const char *text, const struct msg *m) {
    if (!chat_listed(c, m))
        return;
    if (!c->nagents) {
        chat_tell(c, "▪ there are no agents yet: `agent-cage new NAME` makes one");
        return;
    }
    if (c->nagents == 1) {
        act(c, text, c->agents[0].name);
        return;
    }
    free(c->choosing);
    c->choosing = xstrdup(text);
    own_buf struct buf out = {0};
    buf_adds(&out, "which agent?\n");
    for (size_t i = 0; i < c->nagents; i++)
        buf_printf(&out, "  %zu  %s\n", i + 1, c->agents[i].name);
    buf_adds(&out, "a number or a name; anything else: none\n");
    chat_show(c, buf_text(&out));
}

void chat_choose(struct chat *c, const char *text) {
    chat_list(c, on_choice, text);
}

static void chosen(struct chat *c, const char *answer) {
    own_free char *text = TAKE(c->choosing);
    uint64_t n;
    err_t e = parse_u64(answer, c->nagents, &n);
    if (!e && n) {
        act(c, text, c->agents[n - 1].name);
        return;
    }
    err_free(e);
    for (size_t i = 0; i < c->nagents; i++)
        if (!strcmp(c->agents[i].name, answer)) {
            act(c, text, answer);
            return;
        }
    chat_tell(c, "▪ none: nothing was done");
}

void chat_line(struct chat *c, const char *raw) {
    own_free char *text = trimmed(raw);
    if (pasted_credential(text, strlen(text))) {
        chat_tell(c, "▪ " PASTED_WHY);
        return;
    }
    if (c->choosing && text[0] != '/') {
        chosen(c, text);
        return;
    }
    free(TAKE(c->choosing));
    if (*text && !chat_answers(c, text))
        act(c, text, "");
}
