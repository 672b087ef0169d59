#include "agent/gateway/renew.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "http/client.h"

#include <event2/buffer.h>
#include <inttypes.h>
#include <string.h>

enum state { REST, ASK, WAIT, DEAD };
enum { ANSWER_MAX = 65536, ANSWER_S = 30, SLEEP_MOST_S = 3600 };

struct renew {
    struct gateway *g;
    enum state state;
    struct upstream to[OAUTH_FORMS];
    struct event *timer;
    struct http_client *http; /* of ASK alone */
    struct secret *asked;     /* the one that is being renewed */
    unsigned retry_ms;
    bool told;          /* the chat knows that it does not go well */
    int64_t renewed_ms; /* boot clock: when it last went well */
};

static const struct secret *current(const struct renew *r) {
    return r->g->secret && r->g->secret->renewable ? r->g->secret : NULL;
}

static bool is_over(const struct secret *s) {
    return s->expires_ms && s->expires_ms <= clock_wall_ms();
}

static void hang_up(struct renew *r) {
    http_client_free(TAKE(r->http));
    secret_drop(TAKE(r->asked));
    event_del(r->timer);
}

static void in_ms(struct renew *r, int64_t ms) {
    struct timeval tv = clock_timeval(ms);
    event_add(r->timer, &tv);
}

/* The wall clock may be set meanwhile, so a sleep is never long. */
static void sleep_until(struct renew *r, int64_t wall_ms) {
    int64_t ms = wall_ms - clock_wall_ms(), most = SLEEP_MOST_S * INT64_C(1000);
    in_ms(r, ms < 1 ? 1 : ms < most ? ms : most);
}

/* ---- how it went ---- */

static void later(struct renew *r, const char *why) {
    char text[512];
    hang_up(r);
    r->state = WAIT;
    log_warn("the log-in could not be renewed: %s", why);
    if (!r->told) {
        snprintf(text, sizeof text, "the log-in could not be renewed yet, and is tried again: %.300s", why);
        r->told = true;
        r->g->note(r->g->ctx, text);
    }
    in_ms(r, r->retry_ms);
    r->retry_ms = r->retry_ms * 2 < RETRY_MOST_MS ? r->retry_ms * 2 : RETRY_MOST_MS;
}

static void refused(struct renew *r, unsigned status, const char *word) {
    char text[256];
    hang_up(r);
    r->state = DEAD;
    snprintf(text, sizeof text, "the vendor does not renew this log-in any more (%u%s%s): send /auth", status,
             *word ? " " : "", word);
    r->g->note(r->g->ctx, text);
    r->g->changed(r->g->ctx);
    if (!renew_dead(r)) /* the access token is good still: the strip changes when it ends */
        sleep_until(r, current(r)->expires_ms);
}

static void use(struct renew *r, const struct oauth *o) {
    own_text char *text = oauth_text(o);
    struct secret *s;
    own_err err_t e = secret_new(r->g->upstream.vendor, "", text, strlen(text), &s);
    if (e) {
        later(r, err_text(e));
        return;
    }
    own_err err_t lost = r->g->keep == KEEP_PERSIST ? secret_keep(r->g->home, s) : NULL;
    if (lost) {
        own_free char *note =
            xasprintf("the renewed log-in cannot be kept and lasts until the agent ends: %s", err_text(lost));
        r->g->note(r->g->ctx, note);
    } else if (r->told)
        r->g->note(r->g->ctx, "the log-in was renewed");
    hang_up(r);
    r->told = false;
    r->renewed_ms = clock_boot_ms();
    gateway_use(r->g, s);
}

/* The token endpoint's own word that this log-in is over, in the answer that says such things. Whatever else answers with
 * 4xx (a CDN, a proxy, a limit) knows nothing about it. RFC 6749 5.2, and what OpenAI's says of a refresh token. */
static bool says_over(unsigned status, const char *word) {
    static const char *const words[] = {
        "invalid_grant",         "invalid_client",       "unauthorized_client",
        "invalid_request",       "invalid_scope",        "unsupported_grant_type",
        "refresh_token_expired", "refresh_token_reused", "refresh_token_invalidated"};
    for (size_t i = 0; i < COUNT(words); i++)
        if (!strcmp(words[i], word))
            return status == 400 || status == 401;
    return false;
}

static void judge(struct renew *r, unsigned status, const char *p, size_t n) {
    char word[64], why[128];
    own_oauth struct oauth old = {0}, fresh = {0};
    oauth_error(p, n, word, sizeof word);
    snprintf(why, sizeof why, "its vendor answered %u%s%s", status, *word ? " " : "", word);
    own_err err_t e = oauth_read(r->g->upstream.vendor, r->asked->whole.p, r->asked->whole.len, &old);
    if (!e && status == 200)
        e = oauth_renewed(&old, p, n, clock_wall_ms(), &fresh);
    if (status == 200 && !e)
        use(r, &fresh);
    else if (says_over(status, word))
        refused(r, status, word);
    else
        later(r, e ? err_text(e) : why);
}

/* ---- the question ---- */

static void on_answer(void *ctx, const struct http_answer *a) {
    struct renew *r = ctx;
    if (a->end == HTTP_ANSWERED)
        judge(r, a->status, a->body.p, a->body.len);
    else
        later(r, a->why);
}

static void clear_body(const void *p, size_t n, void *text) {
    (void)p, (void)n;
    oauth_text_free((char **)&text);
}

static void ask(struct renew *r) {
    own_oauth struct oauth o = {0};
    hang_up(r);
    r->state = ASK;
    r->asked = secret_use(r->g->secret);
    own_err err_t e = oauth_read(r->g->upstream.vendor, r->asked->whole.p, r->asked->whole.len, &o);
    if (e) {
        later(r, err_text(e));
        return;
    }
    char *text = oauth_question(&o);
    struct evbuffer *body = evbuffer_new();
    evbuffer_add_reference(body, text, strlen(text), clear_body, text);
    r->http = http_client_new(r->g->base, r->g->dialer, &r->to[o.form]);
    http_client_ask(r->http, "", "application/json", body, ANSWER_MAX, ANSWER_S, on_answer, r);
    evbuffer_free(body);
}

/* ---- when ---- */

/* One that lives shorter than that is not asked for again and again. */
static int64_t until_due(const struct renew *r, const struct secret *s) {
    int64_t due = s->expires_ms - RENEW_BEFORE_S * INT64_C(1000) - clock_wall_ms();
    int64_t rest = r->renewed_ms ? r->renewed_ms + RENEW_FRESH_S * INT64_C(1000) - clock_boot_ms() : 0;
    return due > rest ? due : rest;
}

static void on_timer(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct renew *r = arg;
    const struct secret *s = current(r);
    if (!s)
        return;
    int64_t due = until_due(r, s);
    if (r->state == DEAD && renew_dead(r))
        r->g->changed(r->g->ctx);
    else if (r->state == DEAD)
        sleep_until(r, s->expires_ms);
    else if (r->state == WAIT || due <= 0)
        ask(r);
    else
        sleep_until(r, clock_wall_ms() + due);
}

void renew_watch(struct renew *r) {
    hang_up(r);
    r->state = REST;
    r->retry_ms = RETRY_MS;
    const struct secret *s = current(r);
    if (s && s->expires_ms)
        in_ms(r, 1); /* on_timer() looks */
}

bool renew_refused(struct renew *r, const struct secret *used) {
    const struct secret *s = current(r);
    bool fresh = r->renewed_ms && clock_boot_ms() - r->renewed_ms < RENEW_FRESH_S * INT64_C(1000);
    if (!s || !used || r->state == DEAD)
        return false;
    if (used != s || r->state == ASK)
        return true;
    if (fresh)
        return false;
    if (r->state == REST)
        ask(r);
    return true;
}

bool renew_pending(const struct renew *r) {
    const struct secret *s = current(r);
    return s && is_over(s) && r->state != DEAD;
}

bool renew_dead(const struct renew *r) {
    const struct secret *s = current(r);
    return s && r->state == DEAD && (!s->expires_ms || is_over(s));
}

err_t renew_new(struct gateway *g, const char *url, struct renew **ret) {
    struct renew *r = xcalloc(1, sizeof *r);
    *r = (struct renew){.g = g, .retry_ms = RETRY_MS};
    r->timer = event_new(g->base, -1, 0, on_timer, r);
    *ret = r;
    for (int f = 0; f < OAUTH_FORMS; f++)
        TRY(upstream_of(*url ? url : oauth_url((enum oauth_form)f), &r->to[f]));
    return NULL;
}

void renew_free(struct renew *r) {
    if (!r)
        return;
    hang_up(r);
    event_free(r->timer);
    free(r);
}
