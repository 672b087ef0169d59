#include "agent/gateway/inside.h"
#include "agent/gateway/renew.h"
#include "agent/gateway/tunnel.h"
#include "base/clock.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TELL_MS = 100, SILENCE_MS = 600000 };

err_t keep_of(const char *text, enum keep *ret) {
    static const char *const names[KEEP_COUNT] = {[KEEP_PERSIST] = "persist",
                                                  [KEEP_MEMORY] = "memory",
                                                  [KEEP_NONE] = "none",
                                                  [KEEP_SEALED] = "sealed-token"};
    if (!*text)
        text = names[KEEP_PERSIST];
    for (int k = 0; k < KEEP_COUNT; k++)
        if (!strcmp(text, names[k])) {
            *ret = (enum keep)k;
            return NULL;
        }
    return err_new(EXIT_USAGE, "credential is persist, memory, none or sealed-token");
}

static err_t make_placeholder(struct gateway *g) {
    int n = snprintf(g->placeholder, sizeof g->placeholder, PLACEHOLDER_HEAD);
    TRY(hex_random(g->placeholder + n, PLACEHOLDER_DIGITS / 2));
    needle_free(&g->stray);
    needle_init(&g->stray, bytes_of(g->placeholder));
    return NULL;
}

static void set_secret(struct gateway *g, struct secret *s) {
    secret_drop(g->secret);
    g->secret = s;
    renew_watch(g->renew);
}

void gateway_use(struct gateway *g, struct secret *s) {
    set_secret(g, s);
    g->changed(g->ctx);
}

static err_t open_secret(struct gateway *g) {
    struct secret *s = NULL;
    if (g->keep == KEEP_PERSIST)
        TRY(secret_kept(g->home, g->upstream.vendor, &s));
    else
        TRY(secret_forget(g->home)); /* what an earlier configuration kept */
    set_secret(g, s);
    if (g->keep == KEEP_MEMORY && secret_marked(g->home))
        g->note(g->ctx,
                "the credential was kept in memory only and did not survive the restart: send /auth again");
    return NULL;
}

static err_t open_all(struct gateway *g, const struct gateway_setup *setup) {
    g->home = fcntl(setup->home, F_DUPFD_CLOEXEC, 3);
    if (g->home < 0)
        return err_sys(errno, "the agent's folder");
    TRY(upstream_of(setup->upstream, &g->upstream));
    if (g->upstream.vendor == NO_VENDOR)
        return err_new(EXIT_USAGE, "the upstream %s does not say whose API it speaks", setup->upstream);
    TRY(keep_of(setup->credential, &g->keep));
    TRY(budget_of(setup->budget, &g->budget));
    TRY(price_check(setup->prices));
    TRY(usage_open(g->home, &g->usage));
    TRY(make_placeholder(g));
    TRY(renew_new(g, setup->token_url ? setup->token_url : "", &g->renew));
    return open_secret(g);
}

static void on_tell(evutil_socket_t fd, short what, void *arg);

err_t gateway_new(const struct gateway_setup *setup, struct gateway **ret) {
    struct gateway *g = xcalloc(1, sizeof *g);
    *g = (struct gateway){.base = setup->base,
                          .dialer = dialer_new(setup->base, setup->ca),
                          .prices = xstrdup(setup->prices),
                          .budget_text = xstrdup(setup->budget),
                          .home = -1,
                          .silence_ms = setup->silence_ms ? setup->silence_ms : SILENCE_MS,
                          .usage = {.fd = -1},
                          .note = setup->note,
                          .changed = setup->changed,
                          .ctx = setup->ctx};
    g->tell = event_new(g->base, -1, 0, on_tell, g);
    err_t e = open_all(g, setup);
    if (e) {
        gateway_free(g);
        return e;
    }
    *ret = g;
    return NULL;
}

void gateway_free(struct gateway *g) {
    if (!g)
        return;
    gateway_unlisten(g);
    tunnels_close(g);
    renew_free(g->renew);
    while (g->conns)
        conn_close(g->conns);
    event_free(g->tell);
    dialer_free(g->dialer);
    needle_free(&g->stray);
    secret_drop(g->secret);
    usage_close(&g->usage);
    own_closep(&g->home);
    free(g->prices);
    free(g->budget_text);
    free(g);
}

/* ---- connections ---- */

static void on_acceptable(evutil_socket_t listener, short what, void *arg) {
    (void)what;
    struct gateway *g = arg;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    conn_open(g, fd);
    if (g->nconns >= GATEWAY_CONNS_MAX) /* the others wait in the kernel's queue */
        event_del(g->listener);
}

void gateway_room(struct gateway *g) {
    if (g->listener && g->nconns < GATEWAY_CONNS_MAX)
        event_add(g->listener, NULL);
}

void gateway_listen(struct gateway *g, int fd) {
    gateway_unlisten(g);
    evutil_make_socket_nonblocking(fd);
    g->listener = event_new(g->base, fd, EV_READ | EV_PERSIST, on_acceptable, g);
    gateway_room(g);
}

void gateway_unlisten(struct gateway *g) {
    if (!g->listener)
        return;
    close(event_get_fd(g->listener));
    event_free(TAKE(g->listener));
}

bool gateway_log_in_over(const struct gateway *g) {
    return renew_dead(g->renew);
}

void gateway_tunnels(struct gateway *g, const char *const *hosts) {
    g->tunnel_hosts = hosts;
    tunnels_close(g);
    while (hosts && g->conns) /* who holds them now is not known */
        conn_close(g->conns);
}

/* ---- the credential ---- */

err_t gateway_wants(const struct gateway *g) {
    return g->keep == KEEP_NONE ? err_new(EXIT_POLICY, "this agent's configuration says credential = none")
                                : NULL;
}

err_t gateway_auth(struct gateway *g, const char *kind, const char *p, size_t n) {
    struct secret *s;
    TRY(gateway_wants(g));
    TRY(secret_new(g->upstream.vendor, kind, p, n, &s));
    err_t e = g->keep == KEEP_PERSIST  ? secret_keep(g->home, s)
              : g->keep == KEEP_MEMORY ? secret_mark(g->home, true)
                                       : NULL;
    if (e) {
        secret_drop(s);
        return e;
    }
    gateway_use(g, s);
    return NULL;
}

struct swap_rules gateway_rules(const struct gateway *g) {
    return (struct swap_rules){.upstream = &g->upstream,
                               .login = g->secret ? g->secret->login : LOGIN_NONE,
                               .account = g->secret ? g->secret->account : (struct bytes){0},
                               .placeholder = bytes_of(g->placeholder)};
}

enum vendor gateway_vendor(const struct gateway *g) {
    return g->upstream.vendor;
}

enum login gateway_login(const struct gateway *g) {
    return g->secret ? g->secret->login : LOGIN_NONE;
}

enum keep gateway_keeps(const struct gateway *g) {
    return g->keep;
}

bool gateway_ready(const struct gateway *g) {
    return (g->secret && !renew_dead(g->renew)) || g->keep == KEEP_NONE;
}

const char *gateway_placeholder(const struct gateway *g) {
    return g->placeholder;
}

struct secret *gateway_secret(const struct gateway *g) {
    return g->secret ? secret_use(g->secret) : NULL;
}

/* ---- usage and the budget ---- */

/* The strip need not know at once; an answer's first byte must not wait for it. */
static void tell_soon(struct gateway *g) {
    if (!event_pending(g->tell, EV_TIMEOUT, NULL))
        event_add(g->tell, &(struct timeval){0, TELL_MS * 1000});
}

static void on_tell(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct gateway *g = arg;
    g->changed(g->ctx);
}

static void bring_to_now(struct gateway *g) {
    struct window was = g->usage.window;
    window_at(&g->usage.window, &g->budget, clock_wall_ms());
    if (was.start_ms != g->usage.window.start_ms || was.span_s != g->usage.window.span_s)
        g->usage.told = false;
}

void gateway_count(struct gateway *g, const char *model, const struct tokens *t, bool first) {
    struct usage *u = &g->usage;
    uint64_t *const sums[2][4] = {
        {&u->total.input, &u->total.output, &u->total.cache_read, &u->total.cache_write},
        {&u->session.input, &u->session.output, &u->session.cache_read, &u->session.cache_write}};
    const uint64_t more[4] = {t->input, t->output, t->cache_read, t->cache_write};
    bring_to_now(g);
    for (size_t i = 0; i < 4; i++) {
        *sums[0][i] += more[i];
        *sums[1][i] += more[i];
    }
    u->requests += first;
    u->cost_nano += price_nano(g->prices, model, t);
    window_use(&u->window, &g->budget, t);
    usage_write(u);
    tell_soon(g);
}

bool gateway_over(struct gateway *g, char *why, size_t size) {
    bring_to_now(g);
    if (!window_over(&g->usage.window, &g->budget))
        return false;
    int64_t until = window_until_ms(&g->usage.window);
    char when[CLOCK_ISO_MAX] = "";
    if (until)
        clock_iso(when, until);
    snprintf(why, size, "the budget of %s tokens is used up%s%s; `agent-cage budget NAME LIMIT` changes it",
             g->budget_text, until ? " until " : "", when);
    if (!g->usage.told) {
        g->usage.told = true;
        usage_write(&g->usage);
        g->note(g->ctx, why);
    }
    return true;
}

err_t gateway_budget(struct gateway *g, const char *text) {
    struct budget b;
    TRY(budget_of(text, &b));
    g->budget = b;
    free(g->budget_text);
    g->budget_text = xstrdup(text);
    bring_to_now(g);
    g->usage.told = false;
    usage_write(&g->usage);
    g->changed(g->ctx);
    return NULL;
}

void gateway_fresh(struct gateway *g) {
    g->usage.session = (struct tokens){0};
    usage_write(&g->usage);
    own_err err_t e = make_placeholder(g);
    if (e)
        log_warn("%s", err_text(e));
    g->changed(g->ctx);
}

const struct usage *gateway_usage(struct gateway *g) {
    bring_to_now(g);
    return &g->usage;
}

const struct budget *gateway_limits(const struct gateway *g) {
    return &g->budget;
}
