/*
 * libedit asks for one key at a time through key(), which waits in the chat's own loop: that is how events appear above a
 * line that is being typed. libedit believes that the screen is as it left it; line_away() erases the rows that the prompt
 * and the text take, and line_back() has it draw them anew.
 */
#include "cli/chat/line.h"
#include "base/own.h"
#include "cli/chat/complete.h"
#include "cli/chat/history.h"
#include "proto/pasted.h"

#include <errno.h>
#include <histedit.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY_MAX = 1000, LINE_MAX_BYTES = 65536 };

struct line {
    struct chat *chat;
    EditLine *el; /* NULL: no terminal */
    History *history;
    bool editing;
    struct buf pending; /* bytes of a pipe that are no whole line yet */
    char prompt[AGENT_NAME_MAX + 32];
};

static struct line *line_of(EditLine *el) {
    void *data = NULL;
    el_get(el, EL_CLIENTDATA, &data);
    return data;
}

/* \1 stands before and behind what takes no column (EL_PROMPT_ESC). */
static char *prompt(EditLine *el) {
    struct line *l = line_of(el);
    const char *room = *l->chat->room ? l->chat->room : "fleet";
    snprintf(l->prompt, sizeof l->prompt, l->chat->render.colour ? "\1\033[1;36m\1%s ▸\1\033[0m\1 " : "%s ▸ ",
             room);
    return l->prompt;
}

/* One character, UTF-8 put together; el_rfunc_t: 1 a character, 0 the end. */
static int key(EditLine *el, wchar_t *ret) {
    struct line *l = line_of(el);
    mbstate_t state = {0};
    for (;;) {
        while (!chat_step(l->chat, true))
            if (l->chat->quit)
                return 0;
        char byte;
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return 0;
        size_t used = mbrtowc(ret, &byte, 1, &state);
        if (used == (size_t)-1)
            state = (mbstate_t){0}; /* not UTF-8: dropped */
        else if (used != (size_t)-2)
            return 1;
    }
}

static void open_editor(struct line *l) {
    l->el = el_init("agent-cage", stdin, stdout, stderr);
    if (!l->el)
        return;
    l->history = history_init();
    HistEvent ev;
    history(l->history, &ev, H_SETSIZE, HISTORY_MAX);
    history(l->history, &ev, H_SETUNIQUE, 1);
    history_read(l->history);
    el_set(l->el, EL_CLIENTDATA, l);
    el_set(l->el, EL_EDITOR, "emacs");
    el_set(l->el, EL_SIGNAL, 0);
    el_set(l->el, EL_HIST, history, l->history);
    el_set(l->el, EL_PROMPT_ESC, prompt, '\1');
    el_wset(l->el, EL_GETCFN, key);
    el_wset(l->el, EL_ADDFN, L"agent-cage-complete", L"complete a command or an agent's name", complete_line);
    el_set(l->el, EL_BIND, "^I", "agent-cage-complete", NULL);
    el_set(l->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
}

struct line *line_open(struct chat *c) {
    struct line *l = xcalloc(1, sizeof *l);
    l->chat = c;
    if (c->tty)
        open_editor(l);
    return l;
}

void line_close(struct line *l) {
    if (!l)
        return;
    if (l->el) {
        el_end(l->el);
        history_write(l->history);
        history_end(l->history);
    }
    buf_free(&l->pending);
    free(l);
}

struct chat *line_chat(const struct line *l) {
    return l->chat;
}

/* The history is a file: codes of a log-in, and what was pasted by mistake, are not kept in it. */
static bool is_private(const char *text) {
    return !strncmp(text + strspn(text, " \t"), "/code", 5) || pasted_credential(text, strlen(text));
}

static char *edited(struct line *l) {
    int n = 0;
    l->editing = true;
    const char *text = el_gets(l->el, &n);
    l->editing = false;
    if (!text || n <= 0) {
        fputc('\n', stdout);
        return NULL;
    }
    char *copy = xstrndup(text, strcspn(text, "\n"));
    HistEvent ev;
    if (copy[strspn(copy, " \t")] && !is_private(copy))
        history(l->history, &ev, H_ENTER, copy);
    return copy;
}

/* A line of a pipe; the last one need not end with a newline. */
static char *piped(struct line *l) {
    for (;;) {
        char *newline = l->pending.len ? memchr(l->pending.p, '\n', l->pending.len) : NULL;
        if (newline || l->pending.len > LINE_MAX_BYTES) {
            size_t n = newline ? (size_t)(newline - l->pending.p) : l->pending.len;
            char *text = xstrndup(l->pending.p, n);
            buf_drop(&l->pending, n + (newline ? 1 : 0));
            return text;
        }
        while (!chat_step(l->chat, true))
            if (l->chat->quit)
                return NULL;
        char chunk[4096];
        ssize_t n = read(STDIN_FILENO, chunk, sizeof chunk);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return l->pending.len ? buf_take(&l->pending) : NULL;
        buf_add(&l->pending, chunk, (size_t)n);
    }
}

char *line_read(struct line *l) {
    return l->el ? edited(l) : piped(l);
}

/* Rows between the prompt's first and the cursor's. */
static size_t cursor_row(struct line *l) {
    struct winsize size;
    size_t columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
    const char *room = *l->chat->room ? l->chat->room : "fleet";
    size_t at = strlen(room) + 3;
    const LineInfoW *info = el_wline(l->el);
    for (const wchar_t *w = info->buffer; w < info->cursor; w++) {
        int width = wcwidth(*w);
        at += width > 0 ? (size_t)width : 0;
    }
    return at / columns;
}

void line_away(struct line *l) {
    if (!l || !l->el || !l->editing)
        return;
    size_t row = cursor_row(l);
    if (row)
        printf("\033[%zuA", row); /* ECMA-48: CUU */
    fputs("\r\033[J", stdout);    /* ED: from here to the end of the screen */
}

void line_back(struct line *l) {
    fflush(stdout);
    if (l && l->el && l->editing)
        el_set(l->el, EL_REFRESH);
}

bool line_cancel(struct line *l) {
    if (!l || !l->el || !l->editing)
        return false;
    const LineInfoW *info = el_wline(l->el);
    int length = (int)(info->lastchar - info->buffer);
    if (!length)
        return false;
    line_away(l);
    el_cursor(l->el, (int)(info->lastchar - info->cursor));
    el_deletestr(l->el, length);
    line_back(l);
    return true;
}

void line_resized(struct line *l) {
    if (!l || !l->el)
        return;
    el_resize(l->el);
    line_back(l);
}

void line_suspend(struct line *l) {
    if (l && l->el && l->editing)
        el_set(l->el, EL_PREP_TERM, 0);
    raise(SIGSTOP);
    if (l && l->el && l->editing)
        el_set(l->el, EL_PREP_TERM, 1);
    line_back(l);
}
