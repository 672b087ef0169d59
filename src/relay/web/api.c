/* What the page may ask for: one row, one function. Each becomes a question that the terminal could ask too. */
#include "base/hex.h"
#include "base/own.h"
#include "base/parse.h"
#include "proto/after.h"
#include "proto/file_name.h"
#include "proto/token_key.h"
#include "relay/web/web.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE_MAX = 500 };

static struct bytes value(const struct visitor *c, const char *name) {
    return bytes_of(asked_value(&c->asked, name));
}

/* A number, 0 when it is none. */
static uint64_t number(const struct visitor *c, const char *name, uint64_t max) {
    uint64_t n = 0;
    err_free(parse_u64(asked_value(&c->asked, name), max, &n));
    return n;
}

static void on_page(struct visitor *c, struct bytes body) {
    (void)body;
    const char *type;
    struct bytes file;
    if (asset_find(c->asked.path, &type, &file))
        visitor_answer(c, 200, type, "", file.p, file.len);
}

static void on_login(struct visitor *c, struct bytes body) {
    char cookie[WEB_SECRET_HEX + 1], key[WEB_SECRET_HEX + 1];
    own_err err_t e = logins_login(c->web->logins, body, cookie, key);
    if (e) {
        visitor_answer(c, 403, NULL, "", e->text, strlen(e->text));
        return;
    }
    visitor_be(c, 0);
    visitors_close_ended(c->web); /* the new one may have another's place */
    own_free char *headers =
        xasprintf("Set-Cookie: %s=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%llu%s\r\n",
                  c->asked.secure ? WEB_COOKIE_SECURE : WEB_COOKIE, cookie,
                  (unsigned long long)(SESSION_MS / 1000), c->asked.secure ? "; Secure" : "");
    visitor_answer(c, 200, NULL, headers, key, WEB_SECRET_HEX);
    explicit_bzero(headers, strlen(headers));
    explicit_bzero(cookie, sizeof cookie);
    explicit_bzero(key, sizeof key);
}

static void on_logout(struct visitor *c, struct bytes body) {
    (void)body;
    own_err err_t e = logins_end(c->web->logins, c->session);
    visitor_be(c, 0); /* it gets its answer; the others of its session end here, streams too */
    visitors_close_ended(c->web);
    visitor_answer(c, e ? 503 : 200, NULL, "", "", 0);
}

static void on_agents(struct visitor *c, struct bytes body) {
    (void)body;
    struct msg m = {.type = MSG_front_list};
    visitor_ask(c, &m);
}

static void on_status(struct visitor *c, struct bytes body) {
    (void)body;
    struct msg m = {.type = MSG_front_status};
    m.front_status.agent = value(c, "agent");
    visitor_ask(c, &m);
}

/* last=N: the newest N, before=SEQ those older ones; after=SEQ: what came since. follow=1: and what comes. */
static void on_events(struct visitor *c, struct bytes body) {
    (void)body;
    uint64_t last = number(c, "last", PAGE_MAX);
    struct msg m = {.type = MSG_front_events};
    m.front_events.agent = value(c, "agent");
    m.front_events.after = last ? after_last(last) : number(c, "after", INT64_MAX);
    m.front_events.before = number(c, "before", INT64_MAX);
    m.front_events.follow = number(c, "follow", 1);
    visitor_ask(c, &m);
}

static void on_log(struct visitor *c, struct bytes body) {
    (void)body;
    struct msg m = {.type = MSG_front_log};
    m.front_log.agent = value(c, "agent");
    m.front_log.after = after_last(number(c, "last", PAGE_MAX));
    m.front_log.limit = PAGE_MAX;
    visitor_ask(c, &m);
}

static void on_say(struct visitor *c, struct bytes body) {
    struct msg m = {.type = MSG_front_say};
    m.front_say.key = value(c, "key");
    m.front_say.agent = value(c, "agent");
    m.front_say.text = body;
    visitor_ask(c, &m);
}

static void on_sessions(struct visitor *c, struct bytes body) {
    (void)body;
    struct msg m = {.type = MSG_front_sessions};
    m.front_sessions.agent = value(c, "agent");
    visitor_ask(c, &m);
}

/* What the order takes is the body: it may be a log-in's code, which stands in no address. */
static void on_order(struct visitor *c, struct bytes body) {
    struct msg m = {.type = MSG_front_order};
    m.front_order.order = value(c, "order");
    m.front_order.agent = value(c, "agent");
    m.front_order.arg = body;
    visitor_ask(c, &m);
}

/* The body is a box that the page made: proto/token_key.h. */
static void on_token(struct visitor *c, struct bytes body) {
    struct msg m = {.type = MSG_front_token};
    m.front_token.agent = value(c, "agent");
    m.front_token.box = body;
    visitor_ask(c, &m);
}

/* The digest is of what the page showed; the agent compares. */
static void on_choice(struct visitor *c, struct bytes body) {
    (void)body;
    char digest[WEB_VALUE_MAX / 2];
    const char *hex = asked_value(&c->asked, "digest");
    size_t n = strlen(hex) / 2;
    if (!hex_get(hex, digest, n))
        n = 0; /* nothing has that digest */
    struct msg m = {.type = MSG_front_answer};
    m.front_answer.agent = value(c, "agent");
    m.front_answer.question = number(c, "question", UINT64_MAX);
    m.front_answer.digest = (struct bytes){digest, n};
    m.front_answer.choice = number(c, "choice", 16);
    visitor_ask(c, &m);
}

static const struct route page = {.stranger = true, .run = on_page};
static const struct route routes[] = {
    {"/api/login", true, true, WEB_SECRET_HEX, on_login},
    {"/api/logout", true, false, 0, on_logout},
    {"/api/agents", false, false, 0, on_agents},
    {"/api/status", false, false, 0, on_status},
    {"/api/events", false, false, 0, on_events},
    {"/api/log", false, false, 0, on_log},
    {"/api/say", true, false, 65536, on_say},
    {"/api/sessions", false, false, 0, on_sessions},
    {"/api/order", true, false, 512, on_order},
    {"/api/token", true, false, TOKEN_BOX_MAX, on_token},
    {"/api/answer", true, false, 0, on_choice},
    {"/api/put", true, false, FILE_BYTES_MAX, file_put, .file = true},
    {"/api/get", false, false, 0, file_get},
};

const struct route *route_find(const struct asked *a, unsigned *ret_status) {
    const char *type;
    struct bytes file;
    *ret_status = 404;
    for (size_t i = 0; i < COUNT(routes); i++)
        if (strlen(routes[i].path) == a->path.len && !memcmp(routes[i].path, a->path.p, a->path.len)) {
            *ret_status = 405;
            return routes[i].post == a->post ? &routes[i] : NULL;
        }
    if (!asset_find(a->path, &type, &file))
        return NULL;
    *ret_status = 405;
    return a->post ? NULL : &page;
}
