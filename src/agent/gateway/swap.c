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

static bool has(struct bytes b, const char *part) {
    return b.p && memmem(b.p, b.len, part, strlen(part));
}

/* "/v1/" and plain names behind it: no dots alone, no empty parts, nothing that is written as %XX. */
static bool is_api_path(struct bytes path) {
    if (path.len < 5 || memcmp(path.p, "/v1/", 4))
        return false;
    for (size_t i = 0; i < path.len; i++)
        if (!memchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/:", path.p[i], 68))
            return false;
    return !has(path, "//") && !has(path, "/.");
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
    bool method = head_is(h->method, "GET") || head_is(h->method, "HEAD") || head_is(h->method, "POST");
    if (!method || !is_api_path(path_of_target(h->target)))
        return GATE_NOT_HERE;
    if (h->upgrades)
        return GATE_UPGRADE;
    for (size_t i = 0; i < h->n; i++)
        if (is_of_another_session(r, &h->headers[i]))
            return GATE_ENDED;
    head_find(h, place.header, &more);
    return more ? GATE_BAD : GATE_ERRORS;
}

static bool equals(struct bytes value, const char *before, struct bytes placeholder) {
    size_t n = strlen(before);
    return value.len == n + placeholder.len && !strncasecmp(value.p, before, n) &&
           !memcmp(value.p + n, placeholder.p, placeholder.len);
}

static bool holds(struct bytes value, struct bytes placeholder) {
    return placeholder.len && memmem(value.p, value.len, placeholder.p, placeholder.len);
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
