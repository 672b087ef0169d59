/* What a vendor's program says and how it ends: its lines go to the protocol, what that makes of them goes up. */
#include "base/escape.h"
#include "base/log.h"
#include "base/own.h"
#include "harness/vendor_turn.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { SENTENCE_MAX = 900 }; /* of turn_end's text */

/* --- what the program does --- */

static void on_line(void *ctx, const json_t *j) {
    struct vendor *v = ctx;
    v->heard = true;
    v->protocol->line(v, j);
}

static void on_plain(void *ctx, const char *text) {
    struct vendor *v = ctx;
    if (v->protocol->plain) {
        v->protocol->plain(v, text);
        return;
    }
    char shown[100];
    vendor_note(v, "a line that is no JSON was passed over: %s",
                escape_into(shown, sizeof shown, ESCAPE_LINE, text, strnlen(text, 80)));
}

static void on_cut(void *ctx, const char *sentence) {
    vendor_note(ctx, "%s", sentence);
}

/* It has the conversation no more, and did nothing with the text: once more, in a new one. */
static bool begin_anew(struct vendor *v) {
    const struct protocol *p = v->protocol;
    if (v->state != VENDOR_BUSY || !v->resumed || !p->lost || !program_complained(v->program, p->lost))
        return false;
    if (p->took ? p->took(v) : v->heard)
        return false;
    vendor_note(v, "%s has the earlier conversation no more: a new one begins with this message", p->word);
    own_err err_t gone = session_forget(&v->session);
    if (gone)
        log_warn("%s", err_text(gone));
    vendor_give(v);
    return true;
}

/* It ended without a word, so nothing was done with the text: once more. */
static bool begin_again(struct vendor *v) {
    if (v->state != VENDOR_BUSY || v->heard || v->again || v->protocol->status_judges ||
        *program_errors(v->program))
        return false;
    v->again = true;
    vendor_note(v, "%s ended before it took the message up: it is started again", v->protocol->word);
    vendor_give(v);
    return true;
}

static void on_over(void *ctx, int status) {
    struct vendor *v = ctx;
    vendor_tell_programs(v);
    if (v->waits) {
        v->waits = false;
        vendor_give(v);
        return;
    }
    if (v->state == VENDOR_IDLE || begin_anew(v) || begin_again(v))
        return;
    if (v->state == VENDOR_STOPPING) {
        vendor_end_turn(v, "done", STATUS_STOPPED, "");
        return;
    }
    if (v->judged) {
        own_free char *text = TAKE(v->verdict);
        vendor_end_turn(v, "done", v->status, text);
        return;
    }
    const char *errors = program_errors(v->program);
    if (v->protocol->status_judges && WIFEXITED(status)) {
        vendor_end_turn(v, "done", WEXITSTATUS(status), WEXITSTATUS(status) ? errors : "");
        return;
    }
    own_free char *how = WIFSIGNALED(status) ? xasprintf("signal %d", WTERMSIG(status))
                                             : xasprintf("exit %d", WEXITSTATUS(status));
    own_free char *text =
        xasprintf("%s ended in the middle (%s)%s%s; the conversation goes on with the next message",
                  v->protocol->word, how, *errors ? ": " : "", errors);
    vendor_end_turn(v, "unknown", EXIT_FAILED, text);
}

const struct program_ops vendor_ops = {.line = on_line, .plain = on_plain, .cut = on_cut, .over = on_over};

/* --- what a protocol says --- */

void vendor_adds(struct vendor *v, const char *text) {
    size_t n = strlen(text);
    if (!n)
        return;
    v->amid = text[n - 1] != '\n';
    if (v->state != VENDOR_IDLE)
        say_event(v->floor->up, "text", "", "", 0, text, n);
    else if (v->between.len + n <= BETWEEN_MAX)
        buf_add(&v->between, text, n);
}

void vendor_says(struct vendor *v, const char *text) {
    own_buf struct buf whole = {0};
    buf_printf(&whole, "%s%s", v->amid ? "\n" : "", text);
    if (!whole.len || whole.p[whole.len - 1] != '\n')
        buf_adds(&whole, "\n");
    vendor_adds(v, buf_text(&whole));
}

void vendor_note(struct vendor *v, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (v->state == VENDOR_IDLE)
        log_warn("%s: %s", v->protocol->word, text);
    else
        say_event(v->floor->up, "note", "", "", 0, text, strlen(text));
}

void vendor_usage(struct vendor *v, const char *model, uint64_t total, const json_t *detail) {
    own_free char *text = detail ? json_dumps(detail, JSON_COMPACT) : NULL;
    say_event(v->floor->up, "usage", "", model, (int64_t)total, text ? text : "{}",
              strlen(text ? text : "{}"));
}

void vendor_session(struct vendor *v, const char *id, uint64_t number) {
    own_err err_t e = session_keep(&v->session, id, number);
    if (e)
        log_warn("%s: %s", v->protocol->word, err_text(e));
}

void vendor_verdict(struct vendor *v, int64_t status, const char *text) {
    if (v->state == VENDOR_IDLE)
        return;
    int64_t told = v->state == VENDOR_STOPPING ? STATUS_STOPPED : status;
    char line[SENTENCE_MAX];
    snprintf(line, sizeof line, "%.*s", (int)sizeof line - 1, text);
    for (char *p = line; *p; p++)
        *p = (unsigned char)*p < ' ' ? ' ' : *p;
    if (v->protocol->lasts) {
        vendor_end_turn(v, "done", told, v->state == VENDOR_STOPPING ? "" : line);
        return;
    }
    free(v->verdict);
    v->verdict = xstrdup(line);
    v->status = told;
    v->judged = true;
}

void vendor_refuse(struct vendor *v, const char *why) {
    program_signal(v->program, SIGKILL);
    v->generation = 0; /* none is like it: the next turn starts another program */
    if (v->state != VENDOR_IDLE)
        vendor_end_turn(v, "refused", EXIT_FAILED, why);
}
