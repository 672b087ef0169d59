/*
 * Events. Output of a running turn is shown as it comes, in whole lines; the report that ends it shows its text only if
 * that is not just what was seen. In an agent's room only that agent's are shown, of others just that something ended.
 */
#include "base/own.h"
#include "base/paths.h"
#include "cli/chat/chat.h"

#include <string.h>
#include <unistd.h>

#define LEFT_OUT " bytes left out]\n" /* as an agent's report says it */

static bool in_room(const struct chat *c, const struct msg_relay_event *e) {
    return !*c->room || !strcmp(c->room, e->agent.p);
}

/* The entry of a message; `make`: also in place of the oldest. */
static struct live *live_of(struct chat *c, const struct msg_relay_event *e, bool make) {
    for (size_t i = 0; i < LIVE_MAX; i++)
        if (c->live[i].id == e->id)
            return &c->live[i];
    if (!make)
        return NULL;
    buf_free(&c->live[LIVE_MAX - 1].seen);
    memmove(c->live + 1, c->live, (LIVE_MAX - 1) * sizeof *c->live);
    c->live[0] = (struct live){.id = e->id, .whole = true};
    snprintf(c->live[0].agent, sizeof c->live[0].agent, "%s", e->agent.p);
    return &c->live[0];
}

static void forget(struct chat *c, struct live *l) {
    buf_free(&l->seen);
    size_t at = (size_t)(l - c->live);
    memmove(l, l + 1, (LIVE_MAX - 1 - at) * sizeof *l);
    c->live[LIVE_MAX - 1] = (struct live){0};
}

/* Shows what is not on the screen yet: whole lines, or all of it. */
static void flush(struct chat *c, struct live *l, bool all) {
    const char *p = buf_text(&l->seen) + l->shown;
    size_t n = l->seen.len - l->shown;
    if (!all) {
        const char *newline = n ? memrchr(p, '\n', n) : NULL;
        n = newline ? (size_t)(newline - p) + 1 : 0;
    }
    if (!n)
        return;
    own_buf struct buf out = {0};
    struct bytes agent = bytes_of(l->agent);
    render_lines(&c->render, &agent, &out, p, n);
    l->shown += n;
    chat_show(c, buf_text(&out));
}

static void on_output(struct chat *c, const struct msg_relay_event *e) {
    struct live *l = live_of(c, e, true);
    if (l->seen.len + e->text.len > LIVE_BYTES) {
        flush(c, l, true);
        buf_clear(&l->seen);
        l->shown = 0;
        l->whole = false;
    }
    buf_add(&l->seen, e->text.p, e->text.len);
    flush(c, l, l->seen.len - l->shown > SHOW_MOST / 4);
}

/* Does the report's text begin with what came live? (Live output may be thinned out, the report leaves out its middle.) */
static bool goes_on(const struct live *l, const struct bytes *text) {
    return l->whole && l->seen.len <= text->len && !memcmp(buf_text(&l->seen), text->p, l->seen.len);
}

/* Something of a long output is not on the screen: where all of it is on this host, if it was kept. */
static void name_file(struct chat *c, const struct msg_relay_event *e) {
    own_free char *path =
        path_of(DIR_LIB "/agents/%s/agent/outputs/%llu", e->agent.p, (unsigned long long)e->id);
    bool cut = e->text.len > SHOW_MOST || memmem(e->text.p, e->text.len, LEFT_OUT, strlen(LEFT_OUT));
    if (cut && name_ok(e->agent.p) && access(path, F_OK) == 0)
        chat_tell(c, "all of its output: %s", path);
}

static void on_report(struct chat *c, const struct msg_relay_event *e) {
    own_buf struct buf out = {0};
    struct live *l = live_of(c, e, false);
    struct msg_relay_event rest = *e;
    if (l && goes_on(l, &e->text)) {
        rest.text.p += l->shown;
        rest.text.len -= l->shown;
    } else if (l)
        flush(c, l, true);
    if (l)
        forget(c, l);
    render_event(&c->render, &rest, &out);
    chat_show(c, buf_text(&out));
    name_file(c, e);
}

/* Somebody said it here: the person sees it already. */
static bool said_here(const struct chat *c, const struct msg_relay_event *e) {
    for (size_t i = 0; i < c->nown; i++)
        if (c->own[i] == e->id)
            return true;
    for (const struct ask *a = c->asks; a; a = a->next)
        if (a->key && !strcmp(a->agent, e->agent.p) && !strcmp(a->data, e->text.p))
            return true;
    return false;
}

static void ended(struct chat *c, uint64_t id) {
    for (size_t i = 0; i < c->nown; i++)
        if (c->own[i] == id) {
            memmove(c->own + i, c->own + i + 1, (c->nown - i - 1) * sizeof *c->own);
            c->nown--;
            return;
        }
    chat_ended(c, id);
}

static void elsewhere(struct chat *c, const struct msg_relay_event *e) {
    if (!render_final(e))
        return;
    own_buf struct buf out = {0};
    struct render r = c->render;
    r.tags = true;
    render_footer(&r, e, &out);
    chat_show(c, buf_text(&out));
}

static void on_question(struct chat *c, const struct msg_relay_event *e) {
    struct live *l = live_of(c, e, false);
    if (l)
        flush(c, l, true);
    chat_asked(c, e);
}

void chat_event(struct chat *c, const struct msg_relay_event *e) {
    c->render.tags = !*c->room;
    if (e->question) /* whatever the room: somebody has to answer it */
        on_question(c, e);
    else if (!in_room(c, e))
        elsewhere(c, e);
    else if (render_is(e, "output") || render_is(e, "text"))
        on_output(c, e);
    else if (render_is(e, "report"))
        on_report(c, e);

    else if (!render_is(e, "started") && !(render_is(e, "queued") && said_here(c, e))) {
        own_buf struct buf out = {0};
        struct live *l = live_of(c, e, false);
        if (l) /* in its place among what was said */
            flush(c, l, true);
        render_event(&c->render, e, &out);
        chat_show(c, buf_text(&out));
        if (render_is(e, "note")) {
            buf_clear(&c->last_note);
            buf_add(&c->last_note, e->text.p, e->text.len);
        }
    }
    if (render_final(e)) {
        chat_asked(c, e);
        ended(c, e->id);
    }
}
