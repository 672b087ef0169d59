/* status: the state strip of one agent, or of all. */
#include "base/clock.h"
#include "base/names.h"
#include "base/own.h"
#include "cli/client.h"
#include "cli/json.h"
#include "cli/self.h"
#include "cli/verb.h"
#include "proto/strip.h"
#include "proto/token_key.h"

#include <string.h>

struct names {
    char **v;
    size_t n;
};

struct showing {
    json_t *all; /* NULL: text */
    struct buf text, host;
};

static void names_free(struct names *names) {
    for (size_t i = 0; i < names->n; i++)
        free(names->v[i]);
    free(names->v);
}

static err_t on_agent(void *ctx, struct msg *m) {
    struct names *names = ctx;
    if (m->type != MSG_relay_agent)
        return NULL;
    names->v = xrealloc(names->v, names->n + 1, sizeof *names->v);
    names->v[names->n++] = xstrdup(m->relay_agent.agent.p);
    return NULL;
}

static err_t on_status(void *ctx, struct msg *m) {
    struct showing *s = ctx;
    if (m->type != MSG_relay_status)
        return NULL;
    if (s->all) {
        json_array_append_new(s->all, json_of_status(&m->relay_status));
        return NULL;
    }
    if (s->text.len)
        buf_adds(&s->text, "\n");
    strip_agent(&s->text, &m->relay_status, clock_wall_ms());
    char shown[TOKEN_SHOWN];
    if (m->relay_status.token_key.len)
        buf_printf(&s->text, "▪ key for a token from the web page: %s\n",
                   token_key_shown(shown, m->relay_status.token_key));
    buf_clear(&s->host);
    strip_host(&s->host, &m->relay_status);
    return NULL;
}

static err_t ask(struct client *c, const char *agent, struct showing *s) {
    struct msg m = {.type = MSG_front_status};
    m.front_status.agent = bytes_of(agent);
    return client_call(c, &m, CLIENT_WAIT_MS, on_status, s, NULL);
}

/* All agents: who they are, then each; one that went away meanwhile is left out. */
static err_t ask_all(struct client *c, struct showing *s) {
    __attribute__((cleanup(names_free))) struct names names = {0};
    struct msg m = {.type = MSG_front_list};
    TRY(client_call(c, &m, CLIENT_WAIT_MS, on_agent, &names, NULL));
    for (size_t i = 0; i < names.n; i++) {
        err_t e = ask(c, names.v[i], s);
        if (e && e->status != EXIT_NOTFOUND)
            return e;
        err_free(e);
    }
    if (!names.n && !s->all)
        self_print(stdout, "no agents yet: `agent-cage new NAME` makes one\n");
    return NULL;
}

err_t verb_status(const struct call *call, int *ret_status) {
    (void)ret_status;
    const char *agent = call->args[0];
    if (agent)
        TRY(name_check(agent));
    own_client struct client c;
    TRY(client_open(&c, "cli"));
    own_json json_t *all = call_option(call, "json") ? json_array() : NULL;
    struct showing s = {.all = all};
    err_t e = agent ? ask(&c, agent, &s) : ask_all(&c, &s);
    if (!e && all)
        json_print(agent ? json_array_get(all, 0) : all, stdout);
    else if (!e) {
        self_print_plain(stdout, buf_text(&s.text));
        fputs(buf_text(&s.host), stdout);
    }
    buf_free(&s.text);
    buf_free(&s.host);
    return e;
}
