#include "agent/gateway/swap.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/hex.h"

/* The path of a target, without its query. */
static struct bytes path_of_target(struct bytes target) {
    const char *query = memchr(target.p, '?', target.len);
    return (struct bytes){target.p, query ? (size_t)(query - target.p) : target.len};
}

/* What asks a model, and what tells which there are. The rest of a vendor's API is its owner's: files, stored answers, batches of
 * other programs; and it spends what no answer tells the figures of. */
static const struct {
    enum vendor vendor;
    const char *method, *path; /* of GET also HEAD, and what is below */
} passes[] = {
    {ANTHROPIC, "POST", "/v1/messages"},
    {ANTHROPIC, "POST", "/v1/messages/count_tokens"},
    {ANTHROPIC, "GET", "/v1/models"},
    {OPENAI, "POST", "/v1/responses"},
    {OPENAI, "POST", "/v1/responses/compact"},
    {OPENAI, "POST", "/v1/chat/completions"},
    {OPENAI, "POST", "/v1/completions"},
    {OPENAI, "POST", "/v1/embeddings"},
    {OPENAI, "GET", "/v1/models"},
};

/* "/" and one plain name: no dots at its beginning, nothing that is written as %XX. */
static bool is_name_below(struct bytes rest) {
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:";
    if (rest.len < 2 || rest.p[0] != '/' || rest.p[1] == '.')
        return false;
    for (size_t i = 1; i < rest.len; i++)
        if (!memchr(set, rest.p[i], sizeof set - 1))
            return false;
    return true;
}

static bool may_pass(enum vendor vendor, struct bytes method, struct bytes path) {
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        bool get = !strcmp(passes[i].method, "GET");
        size_t n = strlen(passes[i].path);
        if (passes[i].vendor != vendor ||
            !(head_is(method, passes[i].method) || (get && head_is(method, "HEAD"))) || path.len < n ||
            memcmp(path.p, passes[i].path, n))
            continue;
        if (path.len == n || (get && is_name_below((struct bytes){path.p + n, path.len - n})))
            return true;
    }
    return false;
}

static bool holds(struct bytes value, struct bytes placeholder) {
    return placeholder.len && memmem(value.p, value.len, placeholder.p, placeholder.len);
}

/* A program of a session that is over may still be on its way out: what it holds is nobody's credential, here or upstream. */
static bool is_of_another_session(const struct swap_rules *r, const struct header *h) {
    enum { HEAD = sizeof PLACEHOLDER_HEAD - 1, LEN = HEAD + PLACEHOLDER_DIGITS };
    if (!(head_is(h->name, "authorization") || head_is(h->name, "x-api-key")) || h->value.len < LEN)
        return false;
    const char *at = h->value.p + h->value.len - LEN;
    if (memcmp(at, PLACEHOLDER_HEAD, HEAD))
        return false;
    for (int i = HEAD; i < LEN; i++)
        if (hex_digit(at[i]) < 0)
            return false;
    return r->placeholder.len != LEN || memcmp(at, r->placeholder.p, LEN);
}

enum gate_error swap_judge(const struct swap_rules *r, const struct head *h) {
    bool more;
    struct vendor_place place = vendor_place(r->upstream->vendor, r->login);
    if (h->upgrades) /* first, wherever to: a WebSocket is asked for by GET where a model is asked by POST */
        return GATE_UPGRADE;
    if (!may_pass(r->upstream->vendor, h->method, path_of_target(h->target)))
        return GATE_NOT_HERE;
    head_find(h, place.header, &more);
    if (more)
        return GATE_BAD;
    for (size_t i = 0; i < h->n; i++)
        if (is_of_another_session(r, &h->headers[i]))
            return GATE_ENDED;
    return GATE_ERRORS;
}

static bool equals(struct bytes value, const char *before, struct bytes placeholder) {
    size_t n = strlen(before);
    return value.len == n + placeholder.len && !strncasecmp(value.p, before, n) &&
           !memcmp(value.p + n, placeholder.p, placeholder.len);
}

static void add(struct buf *out, struct bytes b) {
    buf_add(out, b.p, b.len);
}

static void add_header(struct buf *out, struct bytes name, struct bytes value) {
    add(out, name);
    buf_adds(out, ": ");
    add(out, value);
    buf_adds(out, "\r\n");
}

#define ACCOUNT "chatgpt-account-id"

static bool is_chatgpt(const struct upstream *u) {
    static const char end[] = "/backend-api/codex";
    size_t n = strlen(u->path), k = sizeof end - 1;
    return n >= k && !strcmp(u->path + n - k, end);
}

static bool names_account(const struct swap_rules *r) {
    return r->account.len && is_chatgpt(r->upstream);
}

static bool is_ours(const struct header *h) {
    static const char *const ours[] = {"host", "content-length", "accept-encoding", "expect"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (head_is(h->name, ours[i]))
            return true;
    return false;
}

static void one_header(const struct swap_rules *r, const struct head *h, const struct header *one,
                       struct swapped *s) {
    struct vendor_place place = vendor_place(r->upstream->vendor, r->login);
    struct buf *out = s->put ? &s->after : &s->before;
    if (head_hop_by_hop(h, one) || is_ours(one) || (names_account(r) && head_is(one->name, ACCOUNT)))
        return;
    if (head_is(one->name, place.header) && equals(one->value, place.before, r->placeholder)) {
        if (r->login == LOGIN_NONE)
            return;
        buf_printf(out, "%s: %s", place.header, place.before);
        s->put = true;
        buf_adds(&s->after, "\r\n");
        if (names_account(r))
            add_header(&s->after, bytes_of(ACCOUNT), r->account);
        return;
    }
    s->strays += holds(one->value, r->placeholder) || holds(one->name, r->placeholder);
    add_header(out, one->name, one->value);
}

static void add_framing(const struct head *h, struct buf *out) {
    if (h->framing == FRAMING_LENGTH)
        buf_printf(out, "content-length: %" PRIu64 "\r\n", h->length);
    else if (h->framing != FRAMING_NONE)
        buf_adds(out, "transfer-encoding: chunked\r\n");
}

void swap_request(const struct swap_rules *r, const struct head *h, struct swapped *ret) {
    const struct upstream *u = r->upstream;
    bool six = u->numeric && strchr(u->host, ':');
    *ret = (struct swapped){0};
    struct buf *out = &ret->before;
    add(out, h->method);
    buf_printf(out, " %s", u->path);
    size_t skip = is_chatgpt(u) ? 3 : 0; /* swap_judge(): it begins with "/v1/" */
    add(out, (struct bytes){h->target.p + skip, h->target.len - skip});
    buf_printf(out, " HTTP/1.1\r\nhost: %s%s%s", six ? "[" : "", u->host, six ? "]" : "");
    if (u->port != (u->tls ? 443 : 80))
        buf_printf(out, ":%u", u->port);
    buf_adds(out, "\r\naccept-encoding: identity\r\n");
    ret->strays = holds(h->target, r->placeholder);
    for (size_t i = 0; i < h->n; i++)
        one_header(r, h, &h->headers[i], ret);
    out = ret->put ? &ret->after : &ret->before;
    add_framing(h, out);
    buf_adds(out, "\r\n");
}

void swapped_free(struct swapped *s) {
    buf_free(&s->before);
    buf_free(&s->after);
}

void swap_answer(const struct head *h, bool close, struct buf *out) {
    buf_printf(out, "HTTP/1.1 %u ", h->status);
    add(out, h->reason);
    buf_adds(out, "\r\n");
    for (size_t i = 0; i < h->n; i++) {
        const struct header *one = &h->headers[i];
        /* What says nothing about a body that is not there (HEAD, 304) still says how long it would be. */
        bool length = head_is(one->name, "content-length") && h->framing != FRAMING_NONE;
        if (!head_hop_by_hop(h, one) && !length)
            add_header(out, one->name, one->value);
    }
    add_framing(h, out);
    buf_adds(out, close ? "connection: close\r\n\r\n" : "\r\n");
}
