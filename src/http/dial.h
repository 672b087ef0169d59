/*
 * A connection to a host by its name or address: looked up (evdns, /etc/hosts), each address tried in turn, TLS included,
 * DIAL_S seconds for each step. Who dialled owns the connection from on_up on.
 */
#ifndef HTTP_DIAL_H
#define HTTP_DIAL_H

#include "http/tls.h"

enum { DIAL_S = 15, DIAL_WHY_MAX = 256 };

struct
    dialer; /* resolvers (made when a name is first asked for) and certificates, shared by all connections of a part */
struct dial; /* one connection on its way */

struct dialer *dialer_new(struct event_base *base, const char *ca);
void dialer_free(struct dialer *d); /* after all its dials */

struct dial_ops {
    void (*on_up)(void *ctx, struct bufferevent *b); /* takes b, enabled for both ways; the dial is over */
    void (*on_fail)(void *ctx, const char *why);     /* the dial is over */
    void (*dress)(void *ctx,
                  struct bufferevent *b); /* before it connects: bounds, time limits. May be NULL */
};

/* `to` and ops outlive the dial. Never calls back before it returned. */
struct dial *dial_start(struct dialer *d, const struct upstream *to, const struct dial_ops *ops, void *ctx);

/* Gives up; nothing is called back. NULL is fine. */
void dial_stop(struct dial *d);

#endif
