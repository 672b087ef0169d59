#include "agent/signin.h"
#include "agent/gateway/secret.h"
#include "agent/model.h"
#include "agent/screen.h"
#include "agent/to_executor.h"
#include "agent/to_harness.h"
#include "agent/turn.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/own.h"
#include "proto/pasted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum state { NONE_, ASKED, DRAWS, PAGE, CLOSING };
enum { LATE_S = 15 * 60, LOOK_MS = 300, ENTER_MS = 300, URL_MAX = 800, TOKEN_MIN = 40, SENTENCE_MAX = 200 };

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define TOKEN_SET LETTERS "-_"
#define URL_SET LETTERS "-._~:/?#[]@!$&'()*+,;=%"

/* What is known of each vendor's log-in. */
static const struct way {
    const char *harness;
    const char *hosts[4]; /* that its program speaks with */
    const char *page;     /* how its page's address begins */
    const char
        *shows; /* the line above the code that is typed into the page; NULL: the page shows one for us */
    const char *token; /* how the credential begins that it draws; NULL: it keeps it in a file */
    const char
        *failed; /* what stands before the sentence of a failure after which it goes on; NULL: it ends */
} ways[] = {
    {"claude",
     {"platform.claude.com:443", "api.anthropic.com:443"},
     "https://",
     NULL,
     "sk-ant-oat",
     "OAuth error: "},
    {"codex", {"auth.openai.com:443"}, "https://", "one-time code", NULL, NULL},
};

struct signin {
    struct agent *a;
    const struct way *way; /* NULL: this harness has none */
    enum state state;
    bool again; /* another one begins when this one is over */
    uint64_t id;
    struct screen *screen;
    struct event *pty, *look, *enter, *late;
    size_t seen_page, seen_token; /* their lengths at the last look: what is still being drawn grows */
};

static void say(struct signin *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct signin *s, const char *fmt, ...) {
    char text[1000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    model_note(s->a, text);
}

/* ---- its end ---- */

static void shut_pty(struct signin *s) {
    event_del(s->look);
    event_del(s->enter);
    if (!s->pty)
        return;
    close(event_get_fd(s->pty));
    event_free(TAKE(s->pty));
}

static void forget(struct signin *s) {
    shut_pty(s);
    event_del(s->late);
    screen_free(TAKE(s->screen));
    model_tunnels(s->a, NULL);
    s->state = NONE_;
}

/* The program is not needed any more; the room says when it is gone. */
static void end(struct signin *s) {
    shut_pty(s);
    model_tunnels(s->a, NULL);
    s->state = CLOSING;
    to_harness_stop(s->a, s->id);
}

/* What a vendor's program says of its failure, made fit to be shown; one that may hold a credential is not. */
static void failed(struct signin *s, struct bytes why) {
    char shown[SENTENCE_MAX];
    escape_into(shown, sizeof shown, ESCAPE_LINE, why.p ? why.p : "", why.p ? why.len : 0);
    bool secret = why.p && pasted_credential(why.p, why.len);
    say(s, "the log-in failed%s%s; send /auth to begin another", *shown && !secret ? ": " : "",
        secret ? "" : shown);
}

static void keep(struct signin *s, const char *p, size_t n) {
    const char *done = NULL;
    own_err err_t e = model_secret(s->a, s->way->token ? "token" : "", p, n, &done);
    if (e)
        say(s, "the log-in ended, but its credential cannot be kept: %s", err_text(e));
    else
        say(s, "%s", done);
}

/* ---- what is on the screen ---- */

static bool grown(size_t *seen, size_t n) {
    bool more = n != *seen;
    *seen = n;
    return more;
}

static bool look_for_token(struct signin *s, bool last) {
    struct bytes token;
    if (!s->way->token || !screen_find(s->screen, s->way->token, TOKEN_SET, &token) ||
        token.len < TOKEN_MIN || (grown(&s->seen_token, token.len) && !last))
        return false;
    keep(s, token.p, token.len);
    return true;
}

static void look_for_page(struct signin *s) {
    struct bytes url, code = {0};
    if (s->state != DRAWS || !screen_find(s->screen, s->way->page, URL_SET, &url) ||
        (s->way->shows && !screen_below(s->screen, s->way->shows, &code)) || url.len > URL_MAX ||
        grown(&s->seen_page, url.len + code.len))
        return;
    s->state = PAGE;
    char shown[32];
    if (s->way->shows)
        say(s, "open %.*s and give it the code %s; this log-in ends by itself then (/stop ends it)",
            (int)url.len, url.p, escape_into(shown, sizeof shown, ESCAPE_LINE, code.p, code.len));
    else
        say(s, "open %.*s and send the code that it shows: /code CODE (/stop ends the log-in)", (int)url.len,
            url.p);
}

static void on_look(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct signin *s = arg;
    struct bytes why;
    if (look_for_token(s, false))
        end(s);
    else if (s->way->failed && screen_behind(s->screen, s->way->failed, &why)) {
        failed(s, why);
        end(s);
    } else {
        look_for_page(s);
        event_add(s->look, &(struct timeval){0, LOOK_MS * 1000});
    }
}

/* False: nothing more is there now. */
static bool draw(struct signin *s) {
    char bytes[4096];
    ssize_t n = read(event_get_fd(s->pty), bytes, sizeof bytes);
    if (n > 0)
        screen_feed(s->screen, bytes, (size_t)n);
    explicit_bzero(bytes, sizeof bytes);
    return n > 0;
}

static void on_pty(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct signin *s = arg;
    if (!draw(s) && errno != EAGAIN && errno != EINTR)
        event_del(s->pty); /* EIO: the program is gone, which the room tells */
}

void signin_pty(struct signin *s, int pty) {
    own_fd int taken = pty;
    struct stat st;
    if (s->state != ASKED || fstat(taken, &st) < 0 || !S_ISCHR(st.st_mode) ||
        fcntl(taken, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        return;
    s->pty = event_new(s->a->base, TAKE_FD(taken), EV_READ | EV_PERSIST, on_pty, s);
    event_add(s->pty, NULL);
    event_add(s->look, &(struct timeval){0, LOOK_MS * 1000});
    s->state = DRAWS;
}

/* ---- how the program ended ---- */

static void keep_file(struct signin *s, int file) {
    struct stat st;
    void *pages = NULL;
    err_t e = fstat(file, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > SECRET_MAX
                  ? err_new(EXIT_FAILED, "it is in no file of that kind")
                  : pages_new(SECRET_MAX, &pages);
    ssize_t n = e ? 0 : pread(file, pages, SECRET_MAX, 0);
    if (!e && n > 0)
        keep(s, pages, (size_t)n);
    else
        failed(s, bytes_of(e ? err_text(e) : "it left an empty file"));
    err_free(e);
    if (pages)
        pages_free(pages, SECRET_MAX);
}

static err_t begin(struct signin *s);

void signin_ended(struct signin *s, int64_t status, const char *text, int file) {
    struct bytes why = bytes_of(text);
    bool asked = s->state == ASKED, over = s->state == CLOSING || s->state == NONE_;
    while (!over && s->pty && draw(s))
        ;
    if (!over && !asked && status == 0 && !s->way->token && file >= 0)
        keep_file(s, file);
    else if (!over && (asked || status || !look_for_token(s, true))) {
        if (!why.len && !asked && s->way->failed)
            screen_behind(s->screen, s->way->failed, &why);
        if (!why.len && !asked)
            screen_last(s->screen, &why);
        failed(s, why);
    }
    forget(s);
    bool again = s->again;
    s->again = false;
    own_err err_t e = again ? begin(s) : NULL;
    if (e)
        say(s, "%s", err_text(e));
}

void signin_lost(struct signin *s) {
    if (s->state != NONE_ && s->state != CLOSING)
        failed(s, bytes_of("the harness room ended"));
    s->again = false;
    forget(s);
}

static void on_late(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct signin *s = arg;
    if (s->state == CLOSING)
        return;
    say(s, "the log-in was not finished within %d minutes; send /auth to begin another", LATE_S / 60);
    end(s);
}

bool signin_cancel(struct signin *s) {
    s->again = false;
    if (s->state == NONE_ || s->state == CLOSING)
        return false;
    end(s);
    return true;
}

/* ---- what the chat says ---- */

static err_t begin(struct signin *s) {
    if (!s->way)
        return err_new(EXIT_USAGE,
                       "this harness has no log-in of its own: on the host, run `agent-cage auth`");
    TRY(model_may_log_in(s->a));
    if (turn_running(s->a->turn))
        return err_new(EXIT_FAILED, "a message is being worked on: /stop ends it, or send /auth afterwards");
    if (!to_harness_idle(s->a))
        return err_new(EXIT_FAILED, "the harness is not running; try again in a moment");
    TRY(screen_new(&s->screen));
    to_executor_halt(s->a); /* what a harness may have given to a command speaks to no gateway meanwhile */
    model_tunnels(s->a, s->way->hosts);
    s->id++;
    s->seen_page = s->seen_token = 0;
    s->state = ASKED;
    event_add(s->late, &(struct timeval){LATE_S, 0});
    to_harness_login(s->a, s->id);
    return NULL;
}

/* Typed as a person does: a paste and its Enter in one would be text to some programs. */
static err_t type(struct signin *s, const char *code) {
    if (s->state != PAGE || s->way->shows)
        return err_new(EXIT_USAGE, "no log-in waits for a code: /auth begins one");
    size_t n = strlen(code);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)code[i] <= ' ' || (unsigned char)code[i] >= 127)
            return err_new(EXIT_USAGE, "that is no code: a blank or an odd byte is in it");
    if (write(event_get_fd(s->pty), code, n) != (ssize_t)n)
        return err_new(EXIT_FAILED, "the log-in does not take the code: /stop ends it, /auth begins another");
    event_add(s->enter, &(struct timeval){0, ENTER_MS * 1000});
    return NULL;
}

static void on_enter(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct signin *s = arg;
    if (s->pty && write(event_get_fd(s->pty), "\r", 1) != 1)
        log_warn("the log-in does not take its code");
}

err_t signin_say(struct signin *s, const char *code, const char **ret_text) {
    if (*code && pasted_credential(code, strlen(code)))
        return err_new(EXIT_POLICY, "%s", PASTED_WHY);
    if (*code) {
        TRY(type(s, code));
        *ret_text = "the code is being checked";
        return NULL;
    }
    if (s->state != NONE_ && s->state != CLOSING)
        return err_new(EXIT_USAGE, "a log-in is under way already: /stop ends it");
    if (s->state == CLOSING)
        s->again = true;
    else
        TRY(begin(s));
    *ret_text = "a log-in begins: what to do is said here in a moment";
    return NULL;
}

struct signin *signin_new(struct agent *a, const char *harness) {
    struct signin *s = xcalloc(1, sizeof *s);
    s->a = a;
    for (size_t i = 0; i < COUNT(ways); i++)
        if (!strcmp(ways[i].harness, harness))
            s->way = &ways[i];
    s->look = event_new(a->base, -1, 0, on_look, s);
    s->enter = event_new(a->base, -1, 0, on_enter, s);
    s->late = event_new(a->base, -1, 0, on_late, s);
    return s;
}

void signin_free(struct signin *s) {
    if (!s)
        return;
    shut_pty(s);
    screen_free(s->screen);
    event_free(s->look);
    event_free(s->enter);
    event_free(s->late);
    free(s);
}
