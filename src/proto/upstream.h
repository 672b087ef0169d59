/*
 * Where an agent's model is: `[VENDOR+]http[s]://HOST[:PORT][/PATH]`, as `new --upstream` takes it and as the agent's
 * configuration keeps it (then always with the vendor). Pure: the host checks it, the agent's gateway speaks to it.
 */
#ifndef PROTO_UPSTREAM_H
#define PROTO_UPSTREAM_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Whose API it speaks: what the gateway allows, where the credential stands, how errors look. */
enum vendor { NO_VENDOR, ANTHROPIC, OPENAI, VENDOR_COUNT };

struct upstream {
    enum vendor vendor; /* NO_VENDOR: the text did not say */
    bool tls;
    bool numeric;   /* host is an address */
    char host[256]; /* without the brackets of an IPv6 address; lower case */
    uint16_t port;
    char path
        [256]; /* goes before each request's path: "" or "/…" without a slash at its end, nor the API's own "/v1" */
};

/* EXIT_USAGE, one sentence, for what is no such address: user names, queries, fragments, odd characters too. */
err_t upstream_of(const char *text, struct upstream *ret);

/* True for 127.0.0.0/8, ::1 and "localhost": from a pod that is the room's own loopback, not the host's. */
bool upstream_is_loopback(const struct upstream *u);

const char *vendor_name(enum vendor v); /* "anthropic"; "" for NO_VENDOR */

/* What harnesses.def says about the word of `--harness` ("acp" of "acp:CMD", which alone has more than a word). EXIT_USAGE names those that there are. */
struct harness_word {
    const char *word;
    enum vendor vendor;
    const char *upstream; /* "": none by itself */
};
err_t harness_word(const char *harness, const struct harness_word **ret);

#endif
