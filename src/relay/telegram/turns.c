#include "relay/telegram/turns.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/own.h"
#include "relay/telegram/pieces.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 10, LINE_BYTES = 160, TAIL = 600, TURNS_MAX = 64, EDIT_MS = 3000, FIRST_MS = 2000 };

struct turn {
    char agent[NAME_MAX_BYTES];
    uint64_t id, tools;
    int64_t began_ms, put_ms; /* monotonic */
    bool dirty;
    struct {
        char call[64], text[LINE_BYTES];
        char mark[4]; /* "▸" it runs, "✓", "✗" */
    } lines[LINES];
    struct buf tail; /* of text and output */
    struct turn *next;
};

struct turns {
    struct front *f;
    struct event *tick;
    struct turn *first;
    size_t n;
};

static int64_t now_ms(void) {
    return clock_mono_ns() / 1000000;
}

static void drop(struct turns *t, struct turn **at) {
    struct turn *gone = *at;
    *at = gone->next;
    t->n--;
    buf_free(&gone->tail);
    free(gone);
}

static struct turn **find(struct turns *t, const struct msg_relay_event *e) {
    struct turn **at = &t->first;
    while (*at && ((*at)->id != e->id || strcmp((*at)->agent, e->agent.p)))
        at = &(*at)->next;
    return at;
}

static struct turn *turn_of(struct turns *t, const struct msg_relay_event *e) {
    struct turn *there = *find(t, e);
    if (there)
        return there;
    if (t->n == TURNS_MAX) { /* the one that was begun first is the last of the list */
        struct turn **last = &t->first;
        while ((*last)->next)
            last = &(*last)->next;
        drop(t, last);
    }
    struct turn *n = xcalloc(1, sizeof *n);
    *n = (struct turn){.id = e->id, .began_ms = now_ms(), .next = t->first};
    snprintf(n->agent, sizeof n->agent, "%s", e->agent.p);
    t->first = n;
    t->n++;
    return n;
}

static void slot_of(char out[128], const char *agent, uint64_t id) {
    snprintf(out, 128, "turn:%s:%" PRIu64, agent, id);
}

static void one_line(char *out, size_t size, struct bytes text) {
    size_t n = strcspn(text.p, "\n");
    escape_into(out, size, ESCAPE_LINE, text.p, n < text.len ? n : text.len);
}

static void on_tool_start(struct turn *n, const struct msg_relay_event *e) {
    char name[64], text[LINE_BYTES - 70];
    n->tools++;
    memmove(n->lines, n->lines + 1, sizeof n->lines - sizeof *n->lines);
    one_line(name, sizeof name, e->name);
    one_line(text, sizeof text, e->text);
    snprintf(n->lines[LINES - 1].call, sizeof n->lines->call, "%s", e->call.p);
    snprintf(n->lines[LINES - 1].mark, sizeof n->lines->mark, "▸");
    snprintf(n->lines[LINES - 1].text, LINE_BYTES, "%s  %s", name, text);
}

static void on_tool_end(struct turn *n, const struct msg_relay_event *e) {
    char call[64];
    snprintf(call, sizeof call, "%s", e->call.p);
    for (size_t i = 0; i < LINES; i++)
        if (*n->lines[i].mark && !strcmp(n->lines[i].call, call))
            snprintf(n->lines[i].mark, sizeof n->lines->mark, e->status ? "✗" : "✓");
}

static void on_output(struct turn *n, const struct msg_relay_event *e) {
    buf_add(&n->tail, e->text.p, e->text.len);
    if (n->tail.len <= TAIL)
        return;
    size_t from = n->tail.len - TAIL;
    while (from < n->tail.len && ((unsigned char)n->tail.p[from] & 0xc0) == 0x80)
        from++; /* not in the middle of a character */
    buf_drop(&n->tail, from);
}

static const struct {
    const char *kind;
    void (*take)(struct turn *n, const struct msg_relay_event *e);
} kinds[] = {
    {"tool_start", on_tool_start}, {"tool_end", on_tool_end}, {"output", on_output}, {"text", on_output}};

static void tick_in(struct turns *t, int64_t ms) {
    if (!event_pending(t->tick, EV_TIMEOUT, NULL))
        event_add(t->tick, &(struct timeval){(time_t)(ms / 1000), (suseconds_t)(ms % 1000) * 1000});
}

void turns_live(struct turns *t, const struct msg_relay_event *e) {
    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (e->kind.len != strlen(kinds[i].kind) || memcmp(e->kind.p, kinds[i].kind, e->kind.len))
            continue;
        struct turn *n = turn_of(t, e);
        kinds[i].take(n, e);
        n->dirty = true;
        tick_in(t, FIRST_MS);
    }
}

static void show(const struct turn *n, struct buf *out) {
    char span[CLOCK_SPAN_MAX];
    clock_span(span, now_ms() - n->began_ms);
    buf_printf(out, "▸ %s works · %s\n", n->agent, span);
    for (size_t i = 0; i < LINES; i++)
        if (*n->lines[i].mark)
            buf_printf(out, "%s %s\n", n->lines[i].mark, n->lines[i].text);
    if (n->tail.len) {
        buf_adds(out, "\n");
        pieces_tame(out, (struct bytes){n->tail.p, n->tail.len});
    }
}

static err_t put(struct turns *t, const struct turn *n) {
    char slot[128];
    struct place at;
    own_buf struct buf text = {0};
    slot_of(slot, n->agent, n->id);
    show(n, &text);
    TRY(place_of(t->f, n->agent, &at));
    return outbox_put(t->f, slot, at.chat, n->agent, "strip", buf_text(&text), "");
}

static void on_tick(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct turns *t = arg;
    int64_t now = now_ms();
    bool more = false;
    own_err err_t e = db_begin(t->f->db, QUICK);
    if (!e) {
        err_t r = NULL;
        for (struct turn *n = t->first; n && !r; n = n->next) {
            bool due = n->dirty && now - n->began_ms >= FIRST_MS && now - n->put_ms >= EDIT_MS;
            more |= n->dirty && !due;
            if (!due)
                continue;
            r = put(t, n);
            n->put_ms = now;
            n->dirty = false;
        }
        e = db_end(t->f->db, r);
    }
    if (e)
        log_warn("telegram: %s", err_text(e));
    if (more)
        tick_in(t, FIRST_MS / 2);
    outbox_go(t->f);
}

/* A strip that is there, also from before this relay: it says once more how it went, and is edited no more. */
err_t turns_end(struct turns *t, const struct msg_relay_event *e) {
    char slot[128], span[CLOCK_SPAN_MAX];
    bool there;
    struct place at;
    struct turn **n = find(t, e);
    if (*n)
        drop(t, n);
    slot_of(slot, e->agent.p, e->id);
    TRY(memory_has(t->f->db, TQ_post_has, DB_VALUES(db_t(bytes_of(slot))), &there));
    if (!there)
        return NULL;
    clock_span(span, (int64_t)e->span_ms);
    TRY(place_of(t->f, e->agent.p, &at));
    own_free char *text = xasprintf("%s %s · %s · %" PRIu64 " tool call%s", e->status ? "✗" : "✓", e->agent.p,
                                    span, e->tools, e->tools == 1 ? "" : "s");
    TRY(outbox_put(t->f, slot, at.chat, e->agent.p, "strip", text, ""));
    return db_do(t->f->db, TQ_post_end, DB_VALUES(db_t(bytes_of(slot))));
}

struct turns *turns_new(struct front *f) {
    struct turns *t = xcalloc(1, sizeof *t);
    t->f = f;
    t->tick = evtimer_new(f->base, on_tick, t);
    return t;
}

void turns_free(struct turns *t) {
    if (!t)
        return;
    while (t->first)
        drop(t, &t->first);
    event_free(t->tick);
    free(t);
}
