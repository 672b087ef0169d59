/* What the gateway's own files share: gateway.c holds the state, conn.c each connection. */
#ifndef AGENT_GATEWAY_INSIDE_H
#define AGENT_GATEWAY_INSIDE_H

#include "agent/gateway/gateway.h"
#include "agent/gateway/swap.h"
#include "http/dial.h"

#include <event2/bufferevent.h>

struct conn;

struct gateway {
    struct event_base *base;
    struct dialer *dialer;
    char *prices, *budget_text;
    int home;
    uint64_t silence_ms;
    struct upstream upstream;
    enum keep keep;
    struct secret *secret; /* NULL: not logged in */
    char placeholder[PLACEHOLDER_MAX];
    struct needle stray; /* the placeholder, looked for where it does not belong */
    struct budget budget;
    struct usage usage;
    struct event *listener, *tell;
    struct conn *conns;
    unsigned nconns;
    struct renew *renew;    /* renew.h */
    struct tunnel *tunnels; /* tunnel.h */
    unsigned ntunnels;
    const char *const *tunnel_hosts; /* NULL: none are passed through */
    void (*note)(void *ctx, const char *text);
    void (*changed)(void *ctx);
    void *ctx;
};

/* conn.c */
void conn_open(struct gateway *g, int fd); /* takes fd */
void conn_close(struct conn *c);

/* gateway.c: there is room for one more connection again. */
void gateway_room(struct gateway *g);

/* gateway.c: t more tokens were used by this model; first: they are the first of this answer. */
void gateway_count(struct gateway *g, const char *model, const struct tokens *t, bool first);

/* gateway.c: the budget forbids another request; *why is filled in, and the chat is told once in each window. */
bool gateway_over(struct gateway *g, char *why, size_t size);

/* gateway.c: takes s, the credential from now on. */
void gateway_use(struct gateway *g, struct secret *s);

struct swap_rules gateway_rules(const struct gateway *g);

#endif
