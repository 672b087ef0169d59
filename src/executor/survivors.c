/*
 * The list is told to the agent half a second after a tree came or went (a burst of commands makes one
 * message), and again every few seconds while something survives, since processes come and go in it. The same
 * list is not told twice.
 */
#include "executor/survivors.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/own.h"
#include "base/procstat.h"

#include <stdlib.h>
#include <unistd.h>

enum { SETTLE_MS = 300, AGAIN_MS = 5000, TEXT_MAX = 4000 };

struct held {
    struct survivors *of;
    struct tree *tree;
    struct held *next, **link;
};

struct survivors {
    struct event_base *base;
    void (*on_none)(void *ctx);
    void *ctx;
    struct held *first;
    struct link *link;
    struct event *timer;
    uint64_t said; /* how many were told last */
};

struct listing {
    uint64_t count;
    struct buf text;
};

/* "PID NAME AGE" of one process; silent when it just ended. */
static void list_one(void *ctx, pid_t pid) {
    struct listing *l = ctx;
    char name[PROCSTAT_NAME * 4], age[CLOCK_SPAN_MAX];
    struct procstat p;
    if (!procstat_read(pid, &p) || procstat_dead(&p))
        return;
    l->count++;
    if (l->text.len >= TEXT_MAX - 400)
        return;
    escape_into(name, sizeof name, ESCAPE_LINE, p.name, strlen(p.name));
    clock_span(age, clock_boot_ms() - (int64_t)(p.start * 1000 / (unsigned long long)sysconf(_SC_CLK_TCK)));
    buf_printf(&l->text, "%s%d %s %s", l->text.len ? "\n" : "", pid, name, age);
}

static void wait_for(struct survivors *s, int ms) {
    struct timeval tv = {ms / 1000, ms % 1000 * 1000};
    evtimer_add(s->timer, &tv);
}

static void tell(struct survivors *s) {
    if (!s->link || link_full(s->link))
        return;
    struct listing l = {0};
    for (struct held *h = s->first; h; h = h->next)
        tree_list(h->tree, list_one, &l);
    if (l.count || s->said) {
        struct msg m = {.type = MSG_ran_survivors};
        m.ran_survivors.count = s->said = l.count;
        m.ran_survivors.text = (struct bytes){buf_text(&l.text), l.text.len};
        err_free(link_send(s->link, &m)); /* a link that is over: the next one is told */
    }
    buf_free(&l.text);
}

static void on_timer(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct survivors *s = arg;
    tell(s);
    if (s->first)
        wait_for(s, AGAIN_MS);
}

static void on_main(void *ctx, int status) {
    (void)ctx, (void)status;
}

static void let_go(struct held *h) {
    if (h->next)
        h->next->link = h->link;
    *h->link = h->next;
    tree_free(h->tree);
    free(h);
}

static void on_empty(void *ctx) {
    struct held *h = ctx;
    struct survivors *s = h->of;
    let_go(h);
    wait_for(s, SETTLE_MS);
    if (!s->first)
        s->on_none(s->ctx);
}

static const struct tree_ops tree_ops = {on_main, on_empty};

struct survivors *survivors_new(struct event_base *base, void (*on_none)(void *ctx), void *ctx) {
    struct survivors *s = xcalloc(1, sizeof *s);
    *s = (struct survivors){.base = base, .on_none = on_none, .ctx = ctx};
    s->timer = evtimer_new(base, on_timer, s);
    return s;
}

void survivors_take(struct survivors *s, struct tree *t) {
    struct held *h = xcalloc(1, sizeof *h);
    *h = (struct held){.of = s, .tree = t, .next = s->first, .link = &s->first};
    if (h->next)
        h->next->link = &h->next;
    s->first = h;
    tree_hand(t, &tree_ops, h);
    if (!evtimer_pending(s->timer, NULL))
        wait_for(s, SETTLE_MS);
}

void survivors_kill(struct survivors *s) {
    for (struct held *h = s->first; h; h = h->next)
        tree_kill(h->tree);
}

void survivors_terminate(struct survivors *s) {
    for (struct held *h = s->first; h; h = h->next)
        tree_terminate(h->tree);
}

bool survivors_none(const struct survivors *s) {
    return !s->first;
}

void survivors_link(struct survivors *s, struct link *l) {
    s->link = l;
    s->said = 1; /* a new link is told even of none */
    tell(s);
}
