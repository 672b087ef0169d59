/* ls: the agents, as a table for people or as JSON. */
#include "base/escape.h"
#include "base/own.h"
#include "cli/client.h"
#include "cli/json.h"
#include "cli/self.h"
#include "cli/verb.h"

#include <jansson.h>
#include <string.h>

struct listing {
    json_t *agents; /* NULL: print lines */
    size_t n;
};

static void cell(const struct bytes *b, int width) {
    own_buf struct buf safe = {0};
    escape_text(&safe, ESCAPE_LINE, b->p, b->len);
    printf("%-*s ", width, safe.len ? buf_text(&safe) : "-");
}

static void line(const struct msg_relay_agent *a) {
    cell(&a->agent, 20);
    cell(&a->state, 10);
    cell(&a->mode, 7);
    cell(&a->harness, 8);
    cell(&a->net, 7);
    own_buf struct buf safe = {0};
    escape_text(&safe, ESCAPE_LINE, a->project.p, a->project.len);
    if (a->why.len) {
        buf_adds(&safe, "  (");
        escape_text(&safe, ESCAPE_LINE, a->why.p, a->why.len);
        buf_adds(&safe, ")");
    }
    printf("%s\n", buf_text(&safe));
}

static err_t on_agent(void *ctx, struct msg *m) {
    struct listing *l = ctx;
    if (m->type != MSG_relay_agent)
        return NULL;
    if (l->agents)
        json_array_append_new(l->agents, json_of_agent(&m->relay_agent));
    else {
        if (!l->n)
            printf("%-20s %-10s %-7s %-8s %-7s %s\n", "NAME", "STATE", "MODE", "HARNESS", "NET", "PROJECT");
        line(&m->relay_agent);
    }
    l->n++;
    return NULL;
}

err_t verb_ls(const struct call *call, int *ret_status) {
    (void)ret_status;
    own_client struct client c;
    TRY(client_open(&c, "cli"));
    struct listing l = {0};
    own_json json_t *agents = call_option(call, "json") ? json_array() : NULL;
    l.agents = agents;
    struct msg m = {.type = MSG_front_list};
    TRY(client_call(&c, &m, CLIENT_WAIT_MS, on_agent, &l, NULL));
    if (agents)
        json_print(agents, stdout);
    else if (!l.n)
        self_print(stdout, "no agents yet: `agent-cage new NAME` makes one\n");
    return NULL;
}
