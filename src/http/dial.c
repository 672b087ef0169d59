#include "http/dial.h"
#include "base/own.h"

#include <arpa/inet.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

struct dialer {
    struct event_base *base;
    struct evdns_base *dns;
    struct tls *tls;
};

struct dial {
    struct dialer *d;
    const struct upstream *to;
    const struct dial_ops *ops;
    void *ctx;
    struct event *deadline, *begin;
    struct evdns_getaddrinfo_request *asking;
    struct evutil_addrinfo *addresses, *next;
    struct bufferevent *b;
    char why[DIAL_WHY_MAX];
};

struct dialer *dialer_new(struct event_base *base, const char *ca) {
    struct dialer *d = xcalloc(1, sizeof *d);
    *d = (struct dialer){.base = base, .tls = tls_new(ca)};
    return d;
}

void dialer_free(struct dialer *d) {
    if (!d)
        return;
    if (d->dns)
        evdns_base_free(d->dns, 0);
    tls_free(d->tls);
    free(d);
}

void dial_stop(struct dial *d) {
    if (!d)
        return;
    if (d->asking)
        evdns_getaddrinfo_cancel(TAKE(d->asking));
    if (d->addresses)
        evutil_freeaddrinfo(d->addresses);
    if (d->b)
        bufferevent_free(d->b);
    event_free(d->deadline);
    event_free(d->begin);
    free(d);
}

static void wait_at_most(struct dial *d, int seconds) {
    event_add(d->deadline, &(struct timeval){seconds, 0});
}

static void fail(struct dial *d) {
    const struct dial_ops *ops = d->ops;
    void *ctx = d->ctx;
    char why[DIAL_WHY_MAX];
    snprintf(why, sizeof why, "%s", d->why);
    dial_stop(d);
    ops->on_fail(ctx, why);
}

static void up(struct dial *d) {
    const struct dial_ops *ops = d->ops;
    void *ctx = d->ctx;
    struct bufferevent *b = TAKE(d->b);
    int one = 1;
    (void)!setsockopt(bufferevent_getfd(b), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    bufferevent_setcb(b, NULL, NULL, NULL, NULL);
    dial_stop(d);
    ops->on_up(ctx, b);
}

static void try_next(struct dial *d);

static void on_event(struct bufferevent *b, short what, void *arg) {
    struct dial *d = arg;
    if (what & BEV_EVENT_CONNECTED) {
        up(d);
        return;
    }
    tls_why(b, d->why, sizeof d->why);
    try_next(d);
}

/* False: not even begun; d->why says why. */
static bool try_address(struct dial *d, const struct sockaddr *address, int n) {
    if (d->b)
        bufferevent_free(TAKE(d->b));
    own_err err_t e = tls_open(d->d->tls, d->d->base, d->to, &d->b);
    if (e) {
        snprintf(d->why, sizeof d->why, "%s", err_text(e));
        return false;
    }
    bufferevent_setcb(d->b, NULL, NULL, on_event, d);
    if (d->ops->dress)
        d->ops->dress(d->ctx, d->b);
    bufferevent_enable(d->b, EV_READ | EV_WRITE);
    wait_at_most(d, DIAL_S);
    return bufferevent_socket_connect(d->b, address, n) == 0;
}

static void try_next(struct dial *d) {
    while (d->next) {
        struct evutil_addrinfo *a = d->next;
        d->next = a->ai_next;
        if (try_address(d, a->ai_addr, (int)a->ai_addrlen))
            return;
    }
    fail(d);
}

static void set_port(struct evutil_addrinfo *a, in_port_t port) {
    if (a->ai_family == AF_INET)
        ((struct sockaddr_in *)(void *)a->ai_addr)->sin_port = port;
    else
        ((struct sockaddr_in6 *)(void *)a->ai_addr)->sin6_port = port;
}

static void on_addresses(int result, struct evutil_addrinfo *found, void *arg) {
    struct dial *d = arg;
    if (result == EVUTIL_EAI_CANCEL) /* d may be gone */
        return;
    d->asking = NULL;
    d->addresses = d->next = found;
    for (struct evutil_addrinfo *a = found; a; a = a->ai_next)
        set_port(a, htons(d->to->port));
    if (result)
        snprintf(d->why, sizeof d->why, "no address: %s", evutil_gai_strerror(result));
    try_next(d);
}

static void ask_name(struct dial *d) {
    if (!d->d->dns)
        d->d->dns =
            evdns_base_new(d->d->base, EVDNS_BASE_INITIALIZE_NAMESERVERS | EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    if (!d->d->dns) {
        snprintf(d->why, sizeof d->why, "there are no resolvers");
        fail(d);
        return;
    }
    struct evutil_addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_TCP};
    wait_at_most(d, DIAL_S);
    struct evdns_getaddrinfo_request *asking =
        evdns_getaddrinfo(d->d->dns, d->to->host, NULL, &hints, on_addresses, d);
    if (asking) /* else on_addresses() was called already, and d may be gone */
        d->asking = asking;
}

static void on_begin(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct dial *d = arg;
    const struct upstream *to = d->to;
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(to->port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(to->port)};
    bool connecting;
    if (!to->numeric) {
        ask_name(d);
        return;
    }
    if (inet_pton(AF_INET, to->host, &four.sin_addr) == 1)
        connecting = try_address(d, (struct sockaddr *)&four, sizeof four);
    else
        connecting = inet_pton(AF_INET6, to->host, &six.sin6_addr) == 1 &&
                     try_address(d, (struct sockaddr *)&six, sizeof six);
    if (!connecting)
        fail(d);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct dial *d = arg;
    snprintf(d->why, sizeof d->why, "no answer within %d s", DIAL_S);
    if (d->asking)
        evdns_getaddrinfo_cancel(TAKE(d->asking));
    try_next(d);
}

struct dial *dial_start(struct dialer *r, const struct upstream *to, const struct dial_ops *ops, void *ctx) {
    struct dial *d = xcalloc(1, sizeof *d);
    *d = (struct dial){.d = r, .to = to, .ops = ops, .ctx = ctx};
    d->deadline = evtimer_new(r->base, on_deadline, d);
    d->begin = evtimer_new(r->base, on_begin, d);
    event_active(d->begin, EV_TIMEOUT, 0);
    return d;
}
