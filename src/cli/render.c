#include "cli/render.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/own.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOOL_SHOWN = 160 };

bool render_colours(int fd) {
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && !(no && *no) && term && strcmp(term, "dumb");
}

bool render_is(const struct msg_relay_event *e, const char *kind) {
    return e->kind.len == strlen(kind) && !memcmp(e->kind.p, kind, e->kind.len);
}

bool render_final(const struct msg_relay_event *e) {
    return render_is(e, "report") || render_is(e, "unknown") || render_is(e, "refused");
}

void render_in(const struct render *r, struct buf *out, const char *sgr, const char *text) {
    if (r->colour)
        buf_printf(out, "\033[%sm%s\033[0m", sgr, text);
    else
        buf_adds(out, text);
}

/* Is p[at] inside a UTF-8 character? (RFC 3629: continuation bytes are 10xxxxxx) */
static bool inside(const char *p, size_t at) {
    return ((unsigned char)p[at] & 0xc0) == 0x80;
}

/* Where the head should end: at most `at`, behind a newline of the last quarter, else between characters. */
static size_t head_end(const char *p, size_t at) {
    for (size_t i = at; i > at - at / 4; i--)
        if (p[i - 1] == '\n')
            return i;
    while (at && inside(p, at))
        at--;
    return at;
}

/* Where the tail should begin: at least `at`. */
static size_t tail_start(const char *p, size_t at, size_t len) {
    for (size_t i = at; at && i < at + (len - at) / 4; i++)
        if (p[i - 1] == '\n')
            return i;
    while (at < len && inside(p, at))
        at++;
    return at;
}

void render_text(struct buf *out, const void *text, size_t len, size_t most) {
    const char *p = text;
    size_t before = out->len;
    if (!most || len <= most)
        escape_text(out, ESCAPE_TEXT, p, len);
    else {
        size_t head = head_end(p, most / 2), tail = tail_start(p, len - most / 2, len);
        escape_text(out, ESCAPE_TEXT, p, head);
        if (head && p[head - 1] != '\n')
            buf_adds(out, "\n");
        buf_printf(out, "… %zu bytes left out …\n", tail - head);
        escape_text(out, ESCAPE_TEXT, p + tail, len - tail);
    }
    if (out->len > before && out->p[out->len - 1] != '\n')
        buf_adds(out, "\n");
}

/* "[demo] ", in front of what is not plainly of the agent in whose room one is. */
static void tag(const struct render *r, const struct bytes *agent, struct buf *out) {
    if (!r->tags || !agent->len)
        return;
    own_buf struct buf name = {0};
    buf_adds(&name, "[");
    escape_text(&name, ESCAPE_LINE, agent->p, agent->len);
    buf_adds(&name, "]");
    render_in(r, out, "1;36", buf_text(&name));
    buf_adds(out, " ");
}

void render_lines(const struct render *r, const struct bytes *agent, struct buf *out, const void *text,
                  size_t len) {
    if (!r->tags) {
        render_text(out, text, len, r->most);
        return;
    }
    own_buf struct buf plain = {0};
    render_text(&plain, text, len, r->most);
    for (const char *p = buf_text(&plain); *p;) {
        size_t n = strcspn(p, "\n") + 1; /* the last line, too, ends with one */
        tag(r, agent, out);
        buf_add(out, p, n);
        p += n;
    }
}

static void line(const struct render *r, const struct msg_relay_event *e, struct buf *out, const char *sgr,
                 const char *before, const struct bytes *text) {
    own_buf struct buf b = {0};
    buf_adds(&b, before);
    escape_text(&b, ESCAPE_LINE, text->p, text->len);
    tag(r, &e->agent, out);
    render_in(r, out, sgr, buf_text(&b));
    buf_adds(out, "\n");
}

void render_footer(const struct render *r, const struct msg_relay_event *e, struct buf *out) {
    char span[CLOCK_SPAN_MAX], text[160], used[64] = "", status[40] = "";
    bool model = e->tokens ||
                 e->tools; /* a harness with a model: how its turn ended is in its words, unless it failed */
    clock_span(span, (int64_t)e->span_ms);
    if (model)
        snprintf(used, sizeof used, " · %.1fk tok · %llu tool call%s", (double)e->tokens / 1000,
                 (unsigned long long)e->tools, e->tools == 1 ? "" : "s");
    if (!model || e->status)
        snprintf(status, sizeof status, " · exit %lld", (long long)e->status);
    snprintf(text, sizeof text, "◷ %s%s%s", span, used, status);
    tag(r, &e->agent, out);
    render_in(r, out, e->status ? "31" : "2", text);
    buf_adds(out, "\n");
}

static void queued(const struct render *r, const struct msg_relay_event *e, struct buf *out) {
    own_buf struct buf who = {0};
    escape_text(&who, ESCAPE_LINE, e->who.p, e->who.len);
    buf_printf(&who, " #%llu ▸ ", (unsigned long long)e->id);
    line(r, e, out, "2", buf_text(&who), &e->text);
}

static void started(const struct render *r, const struct msg_relay_event *e, struct buf *out) {
    char text[48];
    snprintf(text, sizeof text, "#%llu started", (unsigned long long)e->id);
    struct bytes none = {"", 0};
    line(r, e, out, "2", text, &none);
}

static void output(const struct render *r, const struct msg_relay_event *e, struct buf *out) {
    render_lines(r, &e->agent, out, e->text.p, e->text.len);
}

/* "▸ Bash ls -l", one line of what it was called with. */
static void tool_start(const struct render *r, const struct msg_relay_event *e, struct buf *out) {
    own_buf struct buf before = {0};
    buf_adds(&before, "▸ ");
    escape_text(&before, ESCAPE_LINE, e->name.p, e->name.len);
    buf_adds(&before, " ");
    size_t n = e->text.len < TOOL_SHOWN ? e->text.len : TOOL_SHOWN;
    while (n && n < e->text.len && inside(e->text.p, n))
        n--;
    struct bytes head = {e->text.p, n};
    line(r, e, out, "36", buf_text(&before), &head);
}

/* Only a failure is worth a line. */
static void tool_end(const struct render *r, const struct msg_relay_event *e, struct buf *out) {
    if (!e->status)
        return;
    line(r, e, out, "31", "▹ failed: ", &e->name);
}

static void report(const struct render *r, const struct msg_relay_event *e, struct buf *out) {
    render_lines(r, &e->agent, out, e->text.p, e->text.len);
    render_footer(r, e, out);
}

/* Of several lines, as the end of a sealed session is told, the rest stands below the first. */
static void note(const struct render *r, const struct msg_relay_event *e, struct buf *out) {
    const char *end = memchr(e->text.p, '\n', e->text.len);
    struct bytes first = {e->text.p, end ? (size_t)(end - e->text.p) : e->text.len};
    line(r, e, out, "33", "◆ ", &first);
    if (end)
        render_lines(r, &e->agent, out, end + 1, e->text.len - first.len - 1);
}

/* Words of one line stand behind what is said of them, more below it. */
static void ended_badly(const struct render *r, const struct msg_relay_event *e, struct buf *out,
                        const char *head) {
    struct bytes none = {"", 0}, text = e->text;
    while (text.len && text.p[text.len - 1] == '\n')
        text.len--;
    bool more = memchr(text.p, '\n', text.len);
    line(r, e, out, "31", head, more ? &none : &text);
    if (more)
        render_lines(r, &e->agent, out, text.p, text.len);
}

static void unknown(const struct render *r, const struct msg_relay_event *e, struct buf *out) {
    char text[128];
    snprintf(text, sizeof text, "▪ #%llu unknown: it may have run; it is not run again by itself. ",
             (unsigned long long)e->id);
    ended_badly(r, e, out, text);
}

static void refused(const struct render *r, const struct msg_relay_event *e, struct buf *out) {
    char text[48];
    snprintf(text, sizeof text, "▪ #%llu refused: ", (unsigned long long)e->id);
    ended_badly(r, e, out, text);
}

static const struct {
    const char *kind;
    void (*show)(const struct render *r, const struct msg_relay_event *e, struct buf *out);
} kinds[] = {{"queued", queued},   {"started", started}, {"output", output},         {"text", output},
             {"report", report},   {"note", note},       {"tool_start", tool_start}, {"tool_end", tool_end},
             {"unknown", unknown}, {"refused", refused}};

void render_event(const struct render *r, const struct msg_relay_event *e, struct buf *out) {
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (render_is(e, kinds[i].kind)) {
            kinds[i].show(r, e, out);
            return;
        }
}
