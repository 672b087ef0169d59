#include "relay/web/guard.h"
#include "base/escape.h"
#include "base/hex.h"
#include "base/own.h"
#include "base/parse.h"

#include <string.h>

static bool equal(struct bytes b, const char *text) {
    return b.len == strlen(text) && !memcmp(b.p, text, b.len);
}

static bool is_alnum_lower(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static const char https[] = "https://";
enum { HTTPS = sizeof https - 1 };

/* name[:port], as a browser writes it. */
static bool is_host(const char *p) {
    for (;; p++) {
        size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789-");
        if (!n || p[0] == '-' || p[n - 1] == '-')
            return false;
        p += n;
        if (*p != '.')
            break;
    }
    uint64_t port;
    if (*p != ':')
        return !*p;
    own_err err_t e = parse_u64(p + 1, 65535, &port);
    return !e && p[1] != '0';
}

err_t guard_set(struct guard *g, const char *origin) {
    if (*origin && (strlen(origin) >= sizeof g->proxy_origin || strncmp(origin, https, HTTPS) ||
                    !is_host(origin + HTTPS)))
        return err_new(
            EXIT_USAGE,
            "web_origin must be like https://cage.example.org, in small letters and without a path");
    snprintf(g->proxy_origin, sizeof g->proxy_origin, "%s", origin);
    return NULL;
}

/* The origin that this Host stands for, in out; false: not ours. */
static bool origin_of(const struct guard *g, struct bytes host, char out[320], bool *ret_secure) {
    static const char ip[] = "127.0.0.1:";
    size_t n = sizeof ip - 1;
    *ret_secure = *g->proxy_origin && equal(host, g->proxy_origin + HTTPS);
    if (*ret_secure) {
        snprintf(out, 320, "%s", g->proxy_origin);
        return true;
    }
    if (host.len <= n || host.len > n + 5 || memcmp(host.p, ip, n) || host.p[n] == '0')
        return false;
    for (size_t i = n; i < host.len; i++)
        if (host.p[i] < '0' || host.p[i] > '9')
            return false;
    snprintf(out, 320, "http://%.*s", (int)host.len, host.p);
    return true;
}

static bool is_secret(struct bytes b) {
    for (size_t i = 0; i < b.len; i++)
        if (hex_digit(b.p[i]) < 0)
            return false;
    return b.len == WEB_SECRET_HEX;
}

struct bytes cookie_find(struct bytes rest, const char *name) {
    struct bytes found = {"", 0};
    size_t n = strlen(name), times = 0;
    while (rest.len) {
        const char *semi = memchr(rest.p, ';', rest.len);
        struct bytes one = {rest.p, semi ? (size_t)(semi - rest.p) : rest.len};
        rest.p += one.len + (semi != NULL);
        rest.len -= one.len + (semi != NULL);
        while (one.len && one.p[0] == ' ')
            one.p++, one.len--;
        if (one.len <= n || memcmp(one.p, name, n) || one.p[n] != '=')
            continue;
        found = (struct bytes){one.p + n + 1, one.len - n - 1};
        times++;
    }
    return times == 1 && is_secret(found) ? found : (struct bytes){"", 0};
}

static bool decode(struct bytes b, char out[WEB_VALUE_MAX + 1]) {
    size_t n = 0;
    for (size_t i = 0; i < b.len; i++) {
        char c = b.p[i];
        if (c == '%') {
            if (i + 2 >= b.len || hex_digit(b.p[i + 1]) < 0 || hex_digit(b.p[i + 2]) < 0)
                return false;
            c = (char)(hex_digit(b.p[i + 1]) << 4 | hex_digit(b.p[i + 2]));
            i += 2;
        }
        if (!c || n == WEB_VALUE_MAX)
            return false;
        out[n++] = c;
    }
    out[n] = 0;
    return utf8_valid(out, n);
}

static bool take_query(struct bytes rest, struct asked *a) {
    while (rest.len) {
        const char *amp = memchr(rest.p, '&', rest.len);
        struct bytes one = {rest.p, amp ? (size_t)(amp - rest.p) : rest.len};
        const char *is = memchr(one.p, '=', one.len);
        rest.p += one.len + (amp != NULL);
        rest.len -= one.len + (amp != NULL);
        if (!is || a->nquery == WEB_QUERY_MAX)
            return false;
        struct bytes name = {one.p, (size_t)(is - one.p)};
        for (size_t i = 0; i < a->nquery; i++)
            if (a->query[i].name.len == name.len && !memcmp(a->query[i].name.p, name.p, name.len))
                return false;
        a->query[a->nquery].name = name;
        if (!decode((struct bytes){is + 1, one.len - name.len - 1}, a->query[a->nquery++].value))
            return false;
    }
    return true;
}

/* A plain path: what is escaped, dotted or absolute in form is no path of ours. */
static bool take_target(struct bytes target, struct asked *a) {
    const char *mark = memchr(target.p, '?', target.len);
    a->path = (struct bytes){target.p, mark ? (size_t)(mark - target.p) : target.len};
    if (!a->path.len || a->path.p[0] != '/')
        return false;
    for (size_t i = 1; i < a->path.len; i++)
        if (!is_alnum_lower(a->path.p[i]) && a->path.p[i] != '/' && a->path.p[i] != '.' &&
            a->path.p[i] != '-')
            return false;
    return !mark || take_query((struct bytes){mark + 1, target.len - a->path.len - 1}, a);
}

const char *asked_value(const struct asked *a, const char *name) {
    for (size_t i = 0; i < a->nquery; i++)
        if (equal(a->query[i].name, name))
            return a->query[i].value;
    return "";
}

/* The only header of its name. *ret_many: it came twice. */
static struct bytes only(const struct head *h, const char *name, bool *ret_many) {
    bool more;
    const struct header *one = head_find(h, name, &more);
    *ret_many |= more;
    return one ? one->value : (struct bytes){NULL, 0};
}

static unsigned check_body(const struct head *h, struct asked *a, bool *many) {
    if (h->framing == FRAMING_CHUNKED)
        return 411;
    a->length = h->framing == FRAMING_LENGTH ? h->length : 0;
    if (!a->post)
        return a->length ? 400 : 0;
    if (h->framing != FRAMING_LENGTH)
        return 411;
    return equal(only(h, "content-type", many), WEB_BODY_TYPE) ? 0 : 415;
}

static unsigned check_origin(const struct head *h, const struct asked *a, const char *ours, bool *many) {
    struct bytes origin = only(h, "origin", many), site = only(h, "sec-fetch-site", many);
    if (origin.p ? !equal(origin, ours) : a->post)
        return 403;
    /* What a browser says of a GET without Origin: "none" is the address bar, where a page is opened but nothing asked. */
    bool api = a->path.len > 4 && !memcmp(a->path.p, "/api", 4);
    if (site.p && !equal(site, "same-origin") && (api || !equal(site, "none")) &&
        (api || !equal(only(h, "sec-fetch-mode", many), "navigate")))
        return 403;
    return 0;
}

unsigned guard_check(const struct guard *g, const struct head *h, struct asked *a) {
    *a = (struct asked){.cookie = {"", 0}, .key = {"", 0}};
    bool many = false;
    char ours[320];
    struct bytes host = only(h, "host", &many);
    if (!host.p || many || !origin_of(g, host, ours, &a->secure))
        return 421;
    a->post = equal(h->method, "POST");
    if (!a->post && !equal(h->method, "GET"))
        return 405;
    if (h->expects || h->upgrades)
        return 400;
    if (!take_target(h->target, a))
        return 404;
    unsigned no = check_origin(h, a, ours, &many);
    if (!no)
        no = check_body(h, a, &many);
    struct bytes cookies = only(h, "cookie", &many), key = only(h, "cage-key", &many);
    if (no || many)
        return no ? no : 400;
    if (cookies.p)
        a->cookie = cookie_find(cookies, a->secure ? WEB_COOKIE_SECURE : WEB_COOKIE);
    if (key.p && is_secret(key))
        a->key = key;
    return 0;
}
