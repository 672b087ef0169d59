#include "proto/upstream.h"
#include "base/buf.h"
#include "base/own.h"
#include "base/parse.h"

#include <arpa/inet.h>
#include <string.h>

static const char *const vendors[VENDOR_COUNT] = {
    [NO_VENDOR] = "", [ANTHROPIC] = "anthropic", [OPENAI] = "openai"};

static const struct harness_word words[] = {
#define HARNESS_WORD(word, vendor, upstream) {word, vendor, upstream},
#include "proto/harnesses.def"
#undef HARNESS_WORD
};

const char *vendor_name(enum vendor v) {
    return (size_t)v < VENDOR_COUNT ? vendors[v] : "";
}

static err_t bad(const char *why) {
    return err_new(EXIT_USAGE, "an upstream is [anthropic+|openai+]http[s]://HOST[:PORT][/PATH]: %s", why);
}

/* The vendor before the '+', if there is one; *at moves behind it. */
static err_t take_vendor(const char **at, enum vendor *ret) {
    const char *plus = strchr(*at, '+'), *colon = strchr(*at, ':');
    *ret = NO_VENDOR;
    if (!plus || !colon || plus > colon)
        return NULL;
    for (int v = NO_VENDOR + 1; v < VENDOR_COUNT; v++)
        if (strlen(vendors[v]) == (size_t)(plus - *at) && !strncmp(*at, vendors[v], (size_t)(plus - *at))) {
            *ret = (enum vendor)v;
            *at = plus + 1;
            return NULL;
        }
    return bad("no such API is known before the '+'");
}

static err_t take_scheme(const char **at, bool *ret_tls) {
    static const char https[] = "https://", http[] = "http://";
    *ret_tls = !strncmp(*at, https, sizeof https - 1);
    if (!*ret_tls && strncmp(*at, http, sizeof http - 1))
        return bad("it must begin with https:// or http://");
    *at += *ret_tls ? sizeof https - 1 : sizeof http - 1;
    return NULL;
}

static bool host_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

static err_t take_host(const char **at, struct upstream *u) {
    bool six = **at == '[';
    const char *from = *at + six;
    size_t n = six ? strcspn(from, "]") : strcspn(from, ":/");
    if (!n || n >= sizeof u->host || (six && from[n] != ']'))
        return bad("there is no host in it");
    for (size_t i = 0; i < n; i++)
        u->host[i] = from[i] >= 'A' && from[i] <= 'Z' ? (char)(from[i] + 'a' - 'A') : from[i];
    u->host[n] = 0;
    unsigned char address[16];
    u->numeric = inet_pton(six ? AF_INET6 : AF_INET, u->host, address) == 1;
    if (six && !u->numeric)
        return bad("there is no IPv6 address between the brackets");
    for (size_t i = 0; !six && i < n; i++)
        if (!host_letter(u->host[i]))
            return bad("a host name has letters, digits, '-', '_' and '.'");
    *at = from + n + six;
    return NULL;
}

static err_t take_port(const char **at, struct upstream *u) {
    u->port = u->tls ? 443 : 80;
    if (**at != ':')
        return NULL;
    char text[8] = "";
    size_t n = strcspn(++*at, "/");
    if (n >= sizeof text)
        return bad("that is no port");
    memcpy(text, *at, n);
    uint64_t port;
    own_err err_t e = parse_u64(text, UINT16_MAX, &port);
    if (e || !port)
        return bad("that is no port");
    u->port = (uint16_t)port;
    *at += n;
    return NULL;
}

static err_t take_path(const char *at, struct upstream *u) {
    size_t n = strlen(at);
    if (n && *at != '/')
        return bad("behind the host comes a port or a path");
    if (n >= sizeof u->path)
        return bad("its path is too long");
    for (size_t i = 0; i < n; i++)
        if (!host_letter(at[i]) && !(at[i] >= 'A' && at[i] <= 'Z') && at[i] != '/' && at[i] != '~')
            return bad("its path has letters, digits and -._~/ alone");
    if (strstr(at, "/.") || strstr(at, "//"))
        return bad("its path has empty or dotted parts");
    memcpy(u->path, at, n + 1);
    if (n && u->path[n - 1] == '/')
        u->path[--n] = 0;
    if (n >= 3 && !strcmp(u->path + n - 3, "/v1")) /* each request brings it */
        u->path[n - 3] = 0;
    return NULL;
}

err_t upstream_of(const char *text, struct upstream *ret) {
    struct upstream u = {0};
    TRY(take_vendor(&text, &u.vendor));
    TRY(take_scheme(&text, &u.tls));
    TRY(take_host(&text, &u));
    TRY(take_port(&text, &u));
    TRY(take_path(text, &u));
    *ret = u;
    return NULL;
}

bool upstream_is_loopback(const struct upstream *u) {
    return !strcmp(u->host, "localhost") || !strcmp(u->host, "::1") ||
           (u->numeric && !strncmp(u->host, "127.", 4));
}

err_t harness_word(const char *harness, const struct harness_word **ret) {
    size_t n = strcspn(harness, ":");
    own_buf struct buf known = {0};
    for (size_t i = 0; i < COUNT(words); i++) {
        bool takes_more = !strcmp(words[i].word, "acp"),
             fits = takes_more ? harness[n] && harness[n + 1] : !harness[n];
        if (fits && strlen(words[i].word) == n && !strncmp(words[i].word, harness, n)) {
            *ret = &words[i];
            return NULL;
        }
        buf_printf(&known, "%s%s%s", i ? ", " : "", words[i].word, takes_more ? ":CMD" : "");
    }
    return err_new(EXIT_USAGE, "there is no such harness here; known: %s", buf_text(&known));
}
