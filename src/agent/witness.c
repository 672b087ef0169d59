#include "agent/witness.h"
#include "base/escape.h"
#include "base/own.h"
#include "cage/shells.h"

#include <stdlib.h>
#include <string.h>

/* One turn's commands are compared in the agent's loop, which others wait for: so much text is looked through, a fraction
 * of a second. */
static const size_t work_max = 256 << 20;

enum { SHOWN_BYTES = 120, CALL_MAX = 128 };

struct told { /* by the harness */
    char call[CALL_MAX + 1];
    char *text;  /* as it was said */
    char *plain; /* as it is compared */
    size_t len;  /* of plain */
    bool well;   /* it ended, and well */
};

struct ran { /* by the executor */
    uint64_t row;
    char *text, *plain;
    size_t len; /* of plain */
    bool matched;
};

struct witness {
    char *harness;
    bool on, full; /* full: more than is kept, which is said */
    struct told *told;
    struct ran *ran;
    size_t ntold, nran, bytes, work; /* work: bytes that were looked through */
};

/* --- as it is compared --- */

static void add_plain(struct buf *out, const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n'\"\\", p[i]) || !p[i])
            buf_add(out, &p[i], 1);
}

/* What Claude Code puts into pipelines is not of the command. */
static void drop_all(struct buf *b, const char *what) {
    for (char *at; b->len && (at = strstr(buf_text(b), what));) {
        size_t n = strlen(what), from = (size_t)(at - b->p);
        memmove(at, at + n, b->len - from - n);
        b->len -= n;
        b->p[b->len] = 0;
    }
}

static char *plain_of(const char *p, size_t n, size_t *ret_len) {
    own_buf struct buf b = {0};
    add_plain(&b, p, n);
    drop_all(&b, "</dev/null");
    *ret_len = b.len;
    return buf_take(&b);
}

/* --- what is kept --- */

static void clear(struct witness *w) {
    for (size_t i = 0; i < w->ntold; i++)
        free(w->told[i].text), free(w->told[i].plain);
    for (size_t i = 0; i < w->nran; i++)
        free(w->ran[i].text), free(w->ran[i].plain);
    free(TAKE(w->told));
    free(TAKE(w->ran));
    w->ntold = w->nran = w->bytes = w->work = 0;
    w->full = false;
}

/* One more command, of n bytes, in the list that has `rows`. */
static bool fits(struct witness *w, size_t rows, size_t n) {
    w->bytes += 2 * n + sizeof(struct told) + sizeof(struct ran);
    w->full |= w->bytes > WITNESS_BYTES || rows == WITNESS_ROWS;
    return w->on && !w->full;
}

static struct told *find(struct witness *w, const char *call) {
    for (size_t i = w->ntold; i > 0; i--)
        if (!strcmp(w->told[i - 1].call, call))
            return &w->told[i - 1];
    return NULL;
}

void witness_begin(struct witness *w) {
    clear(w);
}

void witness_tool(struct witness *w, const struct msg_turn_event *e) {
    char call[CALL_MAX + 1];
    snprintf(call, sizeof call, "%s", e->call.p);
    struct told *t = find(w, call);
    if (!strcmp(e->kind.p, "tool_end") && t)
        t->well = !e->status;
    if (strcmp(e->kind.p, "tool_start") != 0 || !e->status || !e->text.len || !fits(w, w->ntold, e->text.len))
        return;
    w->told = xrealloc(w->told, w->ntold + 1, sizeof *w->told);
    t = &w->told[w->ntold++];
    *t = (struct told){.text = xstrndup(e->text.p, e->text.len)};
    t->plain = plain_of(e->text.p, e->text.len, &t->len);
    snprintf(t->call, sizeof t->call, "%s", call);
}

/* What is compared of a command: of a shell the first word that is no option and all behind it, for the text behind its "-c" is not
 * always the last; of what was asked for past the shims, whose names are shells' and git's, the program. False: git, or a shell
 * without such words. */
static bool text_of(const struct list *argv, struct buf *ret) {
    const char *word = argv->n ? argv->v[0].p : "", *slash = strrchr(word, '/');
    bool git = !strncmp(slash ? slash + 1 : word, "git", 3), shim = shells_has(word);
    size_t first = shim ? 1 : 0, end = shim ? argv->n : 1;
    if (!argv->n || (shim && (git || argv->n <= 2)))
        return false;
    while (shim && first + 1 < end && (*argv->v[first].p == '-' || *argv->v[first].p == '+'))
        first++;
    for (size_t i = first; i < end; i++) {
        buf_adds(ret, i > first ? " " : "");
        buf_add(ret, argv->v[i].p, argv->v[i].len);
    }
    return true;
}

void witness_ran(struct witness *w, uint64_t row, const struct list *argv) {
    own_buf struct buf text = {0};
    for (size_t i = 0; i < w->nran; i++)
        if (w->ran[i].row == row)
            return;
    if (!text_of(argv, &text) || !fits(w, w->nran, text.len))
        return;
    w->ran = xrealloc(w->ran, w->nran + 1, sizeof *w->ran);
    struct ran *r = &w->ran[w->nran++];
    *r = (struct ran){.row = row, .text = xstrndup(buf_text(&text), text.len)};
    r->plain = plain_of(buf_text(&text), text.len, &r->len);
}

/* --- judging --- */

/* Codex tells of the shell that it starts as part of the command. */
static const char *inner(const char *plain) {
    static const char *const heads[] = {"/bin/bash-lc", "/bin/bash-c", "bash-lc",
                                        "bash-c",       "/bin/sh-c",   "sh-c"};
    for (size_t i = 0; i < COUNT(heads); i++)
        if (!strncmp(plain, heads[i], strlen(heads[i])))
            return plain + strlen(heads[i]);
    return NULL;
}

static bool ends_with(const struct ran *r, const char *plain, size_t n) {
    return r->len >= n && !memcmp(r->plain + r->len - n, plain, n);
}

/* The row that is this command: the shortest that holds it, so that "ls" does not take what "make tools" ran. at_end: only one
 * that ends with it, as the rows of a program do that puts a text of its own before each command; that costs next to nothing. */
static bool take(struct witness *w, const char *plain, bool at_end) {
    struct ran *best = NULL;
    size_t n = plain ? strlen(plain) : 0;
    for (size_t i = 0; n && i < w->nran && w->work <= work_max; i++) {
        struct ran *r = &w->ran[i];
        bool shorter = !best || r->len < best->len;
        if (r->matched || !shorter)
            continue;
        w->work += at_end ? n : r->len;
        if (at_end ? ends_with(r, plain, n) : strstr(r->plain, plain) != NULL)
            best = r;
    }
    if (best)
        best->matched = true;
    return best;
}

static bool take_any(struct witness *w, const char *plain) {
    const char *in = inner(plain);
    return take(w, plain, true) || take(w, in, true) || take(w, plain, false) || take(w, in, false);
}

/* The longest first, for the same reason. */
static int longer(const void *a, const void *b) {
    size_t n = ((const struct told *)a)->len, m = ((const struct told *)b)->len;
    return (n < m) - (n > m);
}

static bool is_housekeeping(const struct witness *w, const struct ran *r) {
    static const struct {
        const char *harness, *begins;
    } rows[] = {
#define HOUSEKEEPING(harness, begins) {harness, begins},
#include "agent/housekeeping.def"
#undef HOUSEKEEPING
    };
    if (!strcmp(r->plain, "env"))
        return true;
    for (size_t i = 0; i < COUNT(rows); i++)
        if (!strcmp(rows[i].harness, w->harness) &&
            !strncmp(r->plain, rows[i].begins, strlen(rows[i].begins)))
            return true;
    return false;
}

/* Counts one, and shows the first few. */
static void add_shown(struct buf *shown, size_t n, const char *text) {
    if (n >= WITNESS_SHOWN)
        return;
    buf_adds(shown, n ? "; " : ": ");
    escape_text(shown, ESCAPE_LINE, text, strnlen(text, SHOWN_BYTES));
}

void witness_judge(struct witness *w, struct buf *out) {
    own_buf struct buf never = {0}, silent = {0};
    size_t nnever = 0, nsilent = 0, house = 0;
    if (!w->on)
        return;
    if (w->full) {
        buf_adds(out, "the two witnesses were not compared: the commands of this turn are more than is kept");
        return;
    }
    if (w->ntold)
        qsort(w->told, w->ntold, sizeof *w->told, longer);
    for (size_t i = 0; i < w->ntold; i++) {
        const struct told *t = &w->told[i];
        if (!take_any(w, t->plain) && t->well)
            add_shown(&never, nnever++, t->text);
    }
    if (w->work > work_max) {
        buf_adds(out,
                 "the two witnesses were not compared: the commands of this turn are more than is compared");
        return;
    }
    for (size_t i = 0; i < w->nran; i++) {
        const struct ran *r = &w->ran[i];
        if (!r->matched && !(is_housekeeping(w, r) && house++ < HOUSEKEEPING_MAX))
            add_shown(&silent, nsilent++, r->text);
    }
    if (!nnever && !nsilent)
        return;
    buf_adds(out, "the two witnesses differ: ");
    if (nnever)
        buf_printf(out, "the harness tells of %zu command%s that the executor never ran%s", nnever,
                   nnever == 1 ? "" : "s", buf_text(&never));
    if (nsilent)
        buf_printf(out, "%sthe executor ran %zu command%s that the harness does not tell of%s",
                   nnever ? "; " : "", nsilent, nsilent == 1 ? "" : "s", buf_text(&silent));
}

struct witness *witness_new(const char *harness) {
    struct witness *w = xcalloc(1, sizeof *w);
    w->harness = xstrndup(harness, strcspn(harness, ":"));
    w->on = strcmp(w->harness, "shell") != 0;
    return w;
}

void witness_free(struct witness *w) {
    if (!w)
        return;
    clear(w);
    free(w->harness);
    free(w);
}
