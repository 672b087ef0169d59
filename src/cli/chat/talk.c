/*
 * The connection. When it breaks, open questions end with it, but a message that was being said is kept and said again with
 * its key once there is a connection: the manager takes it once. Events go on behind the last one that was shown; where that is
 * at the start is asked first, since what is new by then cannot be told apart any more after a relay or manager died.
 */
#include "base/clock.h"
#include "base/hex.h"
#include "base/own.h"
#include "cli/chat/chat.h"
#include "proto/after.h"

#include <string.h>

enum { TRY_MS = 500, AWAY_MAX_MS = 60000 };

static struct ask *add(struct chat *c, chat_answer *answer, const char *data) {
    struct ask *a = xcalloc(1, sizeof *a);
    *a = (struct ask){.answer = answer, .data = xstrdup(data ? data : "")};
    struct ask **at = &c->asks;
    while (*at)
        at = &(*at)->next;
    return *at = a;
}

static void drop(struct chat *c, struct ask *a) {
    struct ask **at = &c->asks;
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    free(a->data);
    free(a->key);
    free(a->agent);
    free(a);
}

void chat_drop_asks(struct chat *c) {
    while (c->asks)
        drop(c, c->asks);
}

/* The connection is gone: what may not be asked twice ends here. */
static void away(struct chat *c, err_t why) {
    if (!c->away_since)
        chat_tell(c, "▪ %s; trying again …", err_text(why));
    err_free(why);
    client_close(&c->client);
    c->away_since = c->away_since ? c->away_since : clock_mono_ns() / 1000000;
    c->try_at = clock_mono_ns() / 1000000 + TRY_MS;
    c->place = c->events = 0;
    shell_end(c);
    for (struct ask *a = c->asks, *next; a; a = next) {
        next = a->next;
        a->cookie = 0;
        if (!a->key)
            drop(c, a);
    }
}

void chat_ask(struct chat *c, struct msg *m, chat_answer *answer, const char *data) {
    if (c->client.fd < 0) {
        chat_tell(c, "▪ the fleet is away");
        return;
    }
    err_t e = client_ask(&c->client, m);
    if (!e) {
        add(c, answer, data)->cookie = c->client.last_cookie;
        return;
    }
    if (e->status != EXIT_USAGE) {
        away(c, e);
        return;
    }
    chat_tell(c, "▪ %s", err_text(e)); /* over a bound of the message */
    err_free(e);
}

static bool says(const struct chat *c) {
    const struct ask *a = c->asks;
    while (a && !a->key)
        a = a->next;
    return a;
}

void chat_ended(struct chat *c, uint64_t id) {
    if (says(c))
        buf_add(&c->late, &id, sizeof id);
}

/* Had its report come before its number? So it is when it was said again, after a relay or manager died. */
static bool is_over(struct chat *c, uint64_t id) {
    bool found = false;
    uint64_t one;
    for (size_t at = 0; at < c->late.len && !found; at += sizeof one) {
        memcpy(&one, c->late.p + at, sizeof one);
        found = one == id;
    }
    if (!says(c))
        buf_clear(&c->late);
    return found;
}

static void on_said(struct chat *c, const char *text, const struct msg *m) {
    (void)text;
    if (m->type != MSG_relay_end)
        return;
    bool over = is_over(c, m->relay_end.id);
    if (chat_failed(c, m) || over)
        return;
    if (m->relay_end.text.len) { /* it waits: why */
        chat_tell(c, "◆ %s", m->relay_end.text.p);
        if (!c->tty)
            return; /* nor should a script wait for who knows how long */
    }
    if (c->nown == COUNT(c->own))
        memmove(c->own, c->own + 1, --c->nown * sizeof *c->own);
    c->own[c->nown++] = m->relay_end.id;
}

static err_t say_again(struct chat *c, struct ask *a) {
    struct msg m = {.type = MSG_front_say};
    m.front_say.key = bytes_of(a->key);
    m.front_say.agent = bytes_of(a->agent);
    m.front_say.text = bytes_of(a->data);
    TRY(client_ask(&c->client, &m));
    a->cookie = c->client.last_cookie;
    return NULL;
}

void chat_say(struct chat *c, const char *agent, const char *text) {
    char key[HEX_KEY];
    err_t e = hex_key(key);
    struct ask *a = NULL;
    if (!e) {
        a = add(c, on_said, text);
        a->key = xstrdup(key);
        a->agent = xstrdup(agent);
        if (c->client.fd < 0)
            return; /* chat_connect() says it */
        e = say_again(c, a);
    }
    if (!e)
        return;
    if (e->status != EXIT_USAGE) {
        away(c, e);
        return;
    }
    chat_tell(c, "▪ %s", err_text(e));
    err_free(e);
    drop(c, a);
}

/* Until the place is known that is asked for, which is the last event's. */
static err_t follow(struct chat *c) {
    struct msg m = {.type = MSG_front_events};
    m.front_events.agent = bytes_of("");
    m.front_events.after = c->placed ? c->last_seq : after_last(1);
    m.front_events.follow = c->placed;
    TRY(client_ask(&c->client, &m));
    *(c->placed ? &c->events : &c->place) = c->client.last_cookie;
    return NULL;
}

static void on_place(struct chat *c, const struct msg *m) {
    if (m->type == MSG_relay_event) {
        c->last_seq = m->relay_event.seq;
        return;
    }
    c->place = 0;
    c->placed = !m->relay_end.status;
    err_t e = c->placed ? follow(c) : NULL;
    if (e)
        away(c, e);
    else if (!c->placed) /* the manager was away for too long */
        c->try_at = clock_mono_ns() / 1000000 + TRY_MS;
}

err_t chat_connect(struct chat *c) {
    TRY(c->away_since ? client_try(&c->client, "chat") : client_open(&c->client, "chat"));
    TRY(follow(c));
    for (struct ask *a = c->asks; a; a = a->next)
        if (a->key && !a->cookie)
            TRY(say_again(c, a));
    return NULL;
}

void chat_try(struct chat *c) {
    int64_t now = clock_mono_ns() / 1000000;
    if (!c->try_at || now < c->try_at)
        return;
    c->try_at = now + TRY_MS;
    bool connected = c->client.fd >= 0;
    err_t e = connected ? follow(c) : chat_connect(c);
    if (!e) {
        c->try_at = 0;
        return; /* that it is back is said with its first message */
    }
    if (connected) {
        away(c, e);
        return;
    }
    client_close(&c->client);
    if (now - c->away_since > AWAY_MAX_MS) {
        c->over = e;
        c->quit = true;
        return;
    }
    err_free(e);
}

static void answer(struct chat *c, const struct msg *m) {
    for (struct ask *a = c->asks; a; a = a->next) {
        if (a->cookie != m->relay_end.cookie)
            continue;
        bool last = m->type == MSG_relay_end || m->type == MSG_relay_exec_end;
        own_free char *data = xstrdup(a->data); /* the answer may ask, which changes the list */
        chat_answer *fn = a->answer;
        if (last)
            drop(c, a);
        fn(c, data, m);
        return;
    }
}

void chat_heard(struct chat *c) {
    own_msg struct msg m = {0};
    bool got;
    err_t e = client_next(&c->client, 0, &m, &got);
    if (e) {
        away(c, e);
        return;
    }
    if (!got)
        return;
    if (c->away_since) {
        c->away_since = 0;
        chat_tell(c, "◆ the fleet is back");
    }
    if (m.type == MSG_relay_end && !m.relay_end.cookie) { /* of the hello: it speaks another version */
        c->over = err_new(EXIT_FAILED, "%s", m.relay_end.text.p);
        c->quit = true;
    } else if (m.relay_end.cookie == c->place)
        on_place(c, &m);
    else if (m.relay_end.cookie != c->events)
        answer(c, &m);
    else if (m.type == MSG_relay_event) {
        c->last_seq = m.relay_event.seq;
        chat_event(c, &m.relay_event);
    } else if (m.type == MSG_relay_end) /* the manager was away for too long */
        c->try_at = clock_mono_ns() / 1000000 + TRY_MS;
}

bool chat_settled(const struct chat *c) {
    return !c->asks && !c->nown && !c->shell;
}
