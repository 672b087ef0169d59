#include "relay/telegram/bot.h"
#include "base/escape.h"
#include "base/hex.h"
#include "base/own.h"
#include "http/client.h"

#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_MIN = 20, TOKEN_MAX = 128, FILE_WAIT_S = 300, PIECE_WAIT_S = 60, FILE_PATH_MAX = 256 };

struct bot {
    struct http_client *http;
    char *token;
    bot_fn *on_end;
    void *ctx;
    char boundary[HEX_KEY]; /* of the file that is being sent */
};

err_t bot_token_check(const char *token, size_t n) {
    size_t digits = 0;
    while (digits < n && token[digits] >= '0' && token[digits] <= '9')
        digits++;
    bool good =
        n >= TOKEN_MIN && n <= TOKEN_MAX && digits && digits <= 19 && digits < n && token[digits] == ':';
    for (size_t i = digits + 1; good && i < n; i++)
        good = (token[i] >= '0' && token[i] <= '9') || (token[i] >= 'A' && token[i] <= 'Z') ||
               (token[i] >= 'a' && token[i] <= 'z') || token[i] == '_' || token[i] == '-';
    return good ? NULL
                : err_new(EXIT_USAGE, "that is no bot's token: BotFather gives one like 123456789:AA…");
}

struct bot *bot_new(struct event_base *base, struct dialer *dialer, const struct upstream *api,
                    const char *token) {
    struct bot *b = xcalloc(1, sizeof *b);
    *b = (struct bot){.http = http_client_new(base, dialer, api), .token = xstrdup(token)};
    return b;
}

void bot_free(struct bot *b) {
    if (!b)
        return;
    http_client_free(b->http);
    explicit_bzero(b->token, strlen(b->token));
    free(b->token);
    free(b);
}

bool bot_busy(const struct bot *b) {
    return http_client_busy(b->http);
}

static void say_why(const struct bot *b, struct bot_answer *a, const char *why) {
    escape_into(a->why, sizeof a->why, ESCAPE_LINE, why, strlen(why));
    if (strstr(why, strchr(b->token, ':') + 1)) /* its secret half */
        snprintf(a->why, sizeof a->why, "(a text with the token in it)");
}

static int int_of(const json_t *object, const char *key) {
    json_int_t v = json_integer_value(json_object_get(object, key));
    return v > 0 && v < INT32_MAX ? (int)v : 0;
}

/* What the API says when it says no. */
static void take_refusal(const struct bot *b, const json_t *j, unsigned status, struct bot_answer *a) {
    const json_t *more = json_object_get(j, "parameters");
    const char *why = json_string_value(json_object_get(j, "description"));
    a->code = int_of(j, "error_code");
    if (!a->code)
        a->code = (int)status;
    a->retry_s = int_of(more, "retry_after");
    a->moved_to = json_integer_value(json_object_get(more, "migrate_to_chat_id"));
    a->end = a->code == 429 ? BOT_SLOWER : a->code >= 500 || a->code < 400 ? BOT_AWAY : BOT_REFUSED;
    say_why(b, a, why ? why : "no reason given");
}

/* Among the first bytes of what came. */
static int64_t first_update(struct bytes body) {
    static const char key[] = "\"update_id\":";
    const char *at = memmem(body.p, body.len, key, sizeof key - 1);
    return at ? strtoll(at + sizeof key - 1, NULL, 10) : -1; /* NUL-terminated: a buf's text */
}

static void on_http(void *ctx, const struct http_answer *h) {
    struct bot *b = ctx;
    struct bot_answer a = {.end = BOT_AWAY, .first_update = -1};
    json_t *j = NULL;
    if (h->end == HTTP_TOO_BIG) {
        a.end = BOT_TOO_BIG;
        a.first_update = first_update(h->body);
        say_why(b, &a, h->why);
    } else if (h->end != HTTP_ANSWERED) {
        a.unsent = h->end == HTTP_UNSENT;
        say_why(b, &a, h->why);
    } else {
        j = json_loadb(h->body.p, h->body.len, JSON_ALLOW_NUL, NULL);
        if (json_is_true(json_object_get(j, "ok")) && json_object_get(j, "result")) {
            a.end = BOT_DONE;
            a.result = json_object_get(j, "result");
        } else if (json_is_false(json_object_get(j, "ok"))) {
            take_refusal(b, j, h->status, &a);
        } else {
            a.code = (int)h->status;
            snprintf(a.why, sizeof a.why, "HTTP status %u, and no answer of the Bot API", h->status);
        }
    }
    b->on_end(b->ctx, &a); /* b may be gone */
    json_decref(j);
}

static void ask(struct bot *b, const char *method, const char *type, struct evbuffer *body, size_t answer_max,
                int wait_s, bot_fn *on_end, void *ctx) {
    char path[TOKEN_MAX + 64];
    snprintf(path, sizeof path, "/bot%s/%s", b->token, method);
    b->on_end = on_end;
    b->ctx = ctx;
    http_client_ask(b->http, path, type, body, answer_max, wait_s, on_http, b);
    explicit_bzero(path, sizeof path);
}

static void ask_json(struct bot *b, const char *method, json_t *args, size_t answer_max, int wait_s,
                     bot_fn *on_end, void *ctx) {
    own_free char *text = json_dumps(args, JSON_COMPACT);
    json_decref(args);
    struct evbuffer *body = evbuffer_new();
    evbuffer_add(body, text ? text : "{}", text ? strlen(text) : 2);
    ask(b, method, "application/json", body, answer_max, wait_s, on_end, ctx);
    evbuffer_free(body);
}

void bot_call(struct bot *b, const char *method, json_t *args, bot_fn *on_end, void *ctx) {
    ask_json(b, method, args, BOT_ANSWER_MAX, BOT_WAIT_S, on_end, ctx);
}

void bot_listen(struct bot *b, json_t *args, size_t answer_max, int wait_s, bot_fn *on_end, void *ctx) {
    ask_json(b, "getUpdates", args, answer_max, wait_s, on_end, ctx);
}

/* One part of multipart/form-data (RFC 7578). */
static void begin_part(struct evbuffer *body, const char *boundary, const char *head) {
    evbuffer_add_printf(body, "--%s\r\nContent-Disposition: form-data; %s\r\n\r\n", boundary, head);
}

static void add_args(struct evbuffer *body, const char *boundary, json_t *args) {
    const char *key;
    json_t *v;
    json_object_foreach(args, key, v) {
        own_free char *text =
            json_is_string(v) ? xstrdup(json_string_value(v)) : json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
        own_free char *head = xasprintf("name=\"%s\"", key);
        begin_part(body, boundary, head);
        evbuffer_add_printf(body, "%s\r\n", text ? text : "");
    }
}

err_t bot_put_file(struct bot *b, json_t *args, const char *name, struct bytes file, bot_fn *on_end,
                   void *ctx) {
    char boundary[HEX_KEY]; /* no text that is sent can hold it */
    err_t e = hex_key(boundary);
    if (e) {
        json_decref(args);
        return e;
    }
    struct evbuffer *body = evbuffer_new();
    add_args(body, boundary, args);
    json_decref(args);
    own_free char *head =
        xasprintf("name=\"file\"; filename=\"%s\"\r\nContent-Type: text/plain; charset=utf-8", name);
    own_free char *type = xasprintf("multipart/form-data; boundary=%s", boundary);
    begin_part(body, boundary, head);
    evbuffer_add(body, file.p, file.len);
    evbuffer_add_printf(body, "\r\n--%s--\r\n", boundary);
    ask(b, "editMessageMedia", type, body, BOT_ANSWER_MAX, FILE_WAIT_S, on_end, ctx);
    evbuffer_free(body);
    return NULL;
}

/* ---- files, a piece at a time ---- */

bool bot_path_ok(struct bytes path) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_-.";
    return path.len && path.len < FILE_PATH_MAX && strspn(path.p, plain) == path.len &&
           !strstr(path.p, "..") && path.p[0] != '/';
}

static void on_fetched(void *ctx, const struct http_answer *h) {
    struct bot *b = ctx;
    struct bot_answer a = {.end = BOT_DONE, .first_update = -1};
    if (h->end == HTTP_ANSWERED && h->status == 200)
        b->on_end(b->ctx, &a); /* b may be gone */
    else
        on_http(ctx, h);
}

void bot_fetch(struct bot *b, const char *path, const struct http_flow *flow, bot_fn *on_end, void *ctx) {
    char whole[TOKEN_MAX + FILE_PATH_MAX + 64];
    snprintf(whole, sizeof whole, "/file/bot%s/%s", b->token, path);
    b->on_end = on_end;
    b->ctx = ctx;
    http_client_fetch(b->http, whole, BOT_ANSWER_MAX, PIECE_WAIT_S, flow, on_fetched, b);
    explicit_bzero(whole, sizeof whole);
}

void bot_hold(struct bot *b, bool held) {
    http_client_hold(b->http, held);
}

static void put_buffer(struct bot *b, struct evbuffer *part) {
    size_t n = evbuffer_get_length(part);
    http_client_put(b->http, (struct bytes){(const char *)evbuffer_pullup(part, -1), n});
    evbuffer_free(part);
}

err_t bot_send_file(struct bot *b, json_t *args, const char *name, const struct http_flow *flow,
                    bot_fn *on_end, void *ctx) {
    char path[TOKEN_MAX + 64];
    err_t e = hex_key(b->boundary);
    if (e) {
        json_decref(args);
        return e;
    }
    struct evbuffer *part = evbuffer_new();
    add_args(part, b->boundary, args);
    json_decref(args);
    own_free char *plain = xstrdup(name); /* these two would end it */
    for (char *p = plain; *p; p++)
        if (*p == '"' || *p == '\\')
            *p = '_';
    own_free char *head =
        xasprintf("name=\"document\"; filename=\"%s\"\r\nContent-Type: application/octet-stream", plain);
    own_free char *type = xasprintf("multipart/form-data; boundary=%s", b->boundary);
    begin_part(part, b->boundary, head);
    snprintf(path, sizeof path, "/bot%s/sendDocument", b->token);
    b->on_end = on_end;
    b->ctx = ctx;
    http_client_post(b->http, path, type, BOT_ANSWER_MAX, PIECE_WAIT_S, flow, on_http, b);
    explicit_bzero(path, sizeof path);
    put_buffer(b, part);
    return NULL;
}

void bot_put(struct bot *b, struct bytes piece) {
    http_client_put(b->http, piece);
}

void bot_put_end(struct bot *b) {
    struct evbuffer *part = evbuffer_new();
    evbuffer_add_printf(part, "\r\n--%s--\r\n", b->boundary);
    put_buffer(b, part);
    http_client_put_end(b->http);
}

bool bot_full(const struct bot *b) {
    return http_client_full(b->http);
}
