/*
 * The gateway: the harness's way to its model's API, and the only thing that knows the credential. An HTTP/1.1 reverse
 * proxy on a listener in the harness's own network namespace, to one upstream.
 *
 * A request is read up to the end of its head, judged (swap.h), held to the budget, and passed on with the credential in
 * the placeholder's place; bodies pass as they come, both ways, with GATEWAY_WINDOW bytes held in each direction at most:
 * who does not read holds back who writes. The figures of usage are read out of each answer as it passes (scan.h) and kept
 * at once (usage.h). A credential that an upstream sends back is starred out before the harness sees it.
 */
#ifndef AGENT_GATEWAY_GATEWAY_H
#define AGENT_GATEWAY_GATEWAY_H

#include "agent/gateway/sift.h"
#include "agent/gateway/usage.h"
#include "agent/gateway/vendor.h"

#include <event2/event.h>

enum { GATEWAY_CONNS_MAX = 64, GATEWAY_WINDOW = 128 * 1024, PLACEHOLDER_MAX = 64 };

/* How the credential is kept: `credential` in the agent's configuration. */
/* none: this upstream wants none. sealed-token: a sealed agent's; the warden gives the machine's at each start, none is kept. */
enum keep { KEEP_PERSIST, KEEP_MEMORY, KEEP_NONE, KEEP_SEALED, KEEP_COUNT };
err_t keep_of(const char *text, enum keep *ret); /* "" is persist */

struct gateway_setup {
    struct event_base *base;
    const char *upstream, *credential, *budget, *prices; /* as in the configuration; copied */
    const char *token_url; /* where a log-in is renewed; "" or NULL: as its vendor has it */
    const char *ca;        /* file of CA certificates, read when first needed; copied */
    uint64_t silence_ms; /* between two bytes of an answer, or two requests of a connection; 0: ten minutes */
    int home;            /* the agent's folder; a copy is kept */
    void (*note)(void *ctx, const char *text); /* a sentence for the chat */
    void (*changed)(void *ctx);                /* usage, login or placeholder */
    void *ctx;
};

struct gateway;

err_t gateway_new(const struct gateway_setup *setup, struct gateway **ret);
void gateway_free(struct gateway *g);

/* Takes the listener in place of an older one; requests that are under way go on. */
void gateway_listen(struct gateway *g, int fd);
void gateway_unlisten(struct gateway *g);

/* A credential, from now on; kept as configured. The error is a sentence for the operator and quotes nothing of it. */
err_t gateway_auth(struct gateway *g, const char *kind, const char *p, size_t n);

/* Why it would take none. */
err_t gateway_wants(const struct gateway *g);

err_t gateway_budget(struct gateway *g, const char *text);

/* Is the log-in over? The vendor does not renew it any more. */
bool gateway_log_in_over(const struct gateway *g);

/* From now on the gateway is a proxy to these hosts ("HOST:PORT", NULL-ended, static) too: tunnel.h. NULL: not any more.
 * Connections that are there when it begins are closed. */
void gateway_tunnels(struct gateway *g, const char *const *hosts);

/* A new session: its figures begin at nothing, and there is a new placeholder. */
void gateway_fresh(struct gateway *g);

enum vendor gateway_vendor(const struct gateway *g);
enum login gateway_login(const struct gateway *g);
enum keep gateway_keeps(const struct gateway *g);
bool gateway_ready(
    const struct gateway *g); /* requests would be passed on: there is a credential, or none is wanted */
const char *gateway_placeholder(const struct gateway *g);
struct secret *
gateway_secret(const struct gateway *g); /* a use of the credential, or NULL; secret_drop() ends it */

/* The figures now, the window brought to this moment. */
const struct usage *gateway_usage(struct gateway *g);
const struct budget *gateway_limits(const struct gateway *g);

#endif
