/*
 * What a request to the web page must be before anything looks at what it wants. Pure.
 *
 * Threats: another local account or a page of another origin in the owner's browser (it can send requests here, but neither
 * choose Host, Origin or Cookie nor send a header of its own without being allowed to, which nobody is); DNS rebinding (Host
 * is then a name); a server on another port of 127.0.0.1, to which the browser sends the same cookie (cookies know no port):
 * therefore each call also carries a key that the page keeps where only its own origin, port included, can read it.
 */
#ifndef RELAY_WEB_GUARD_H
#define RELAY_WEB_GUARD_H

#include "base/err.h"
#include "http/head.h"

enum {
    WEB_HEAD_MAX = 8192,
    WEB_SECRET_BYTES = 32,
    WEB_SECRET_HEX = 2 * WEB_SECRET_BYTES,
    WEB_QUERY_MAX = 8,  /* parameters of one request */
    WEB_VALUE_MAX = 255 /* the name of a file */
};
#define WEB_COOKIE "agent_cage"
#define WEB_COOKIE_SECURE "__Host-agent_cage" /* behind a proxy with TLS */
#define WEB_BODY_TYPE "application/x-agent-cage"

/* Where the page may be reached: "127.0.0.1" with any port is this listener, straight or through SSH; proxy_origin: "" or
 * "https://name[:port]". */
struct guard {
    char proxy_origin[256];
};

/* "" or https://name[:port], lower case, no path. EXIT_USAGE. */
err_t guard_set(struct guard *g, const char *proxy_origin);

/* A request as far as it may go on. All point into the head's bytes. */
struct asked {
    struct bytes path;
    struct {
        struct bytes name;
        char value[WEB_VALUE_MAX + 1]; /* percent-decoded, UTF-8 without NUL */
    } query[WEB_QUERY_MAX];
    size_t nquery;
    struct bytes cookie, key; /* 64 hexadecimal digits, or empty */
    uint64_t length;          /* of its body */
    bool post, secure;        /* secure: it came through the proxy */
};

/*
 * The HTTP status that refuses the request, 0 when it passes. Host must be ours and Origin, where it must be (POST) or is,
 * that same host; methods are GET and POST; a body has a length and our own type (so no form and no simple request of
 * another page can send it).
 */
unsigned guard_check(const struct guard *g, const struct head *h, struct asked *ret);

/* The value of a parameter, "" when it is not there. */
const char *asked_value(const struct asked *a, const char *name);

/* The one cookie of this name in a Cookie header's value; empty: none, twice, or not 64 hexadecimal digits. */
struct bytes cookie_find(struct bytes header, const char *name);

#endif
