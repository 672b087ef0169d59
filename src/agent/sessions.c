#include "agent/sessions.h"
#include "agent/from_manager.h"
#include "agent/model.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/own.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX = 16384 };

struct session {
    uint64_t number, created_ms, used_ms, turns;
    uint64_t tokens; /* of the current one: before it was taken up; the gateway counts on from there */
    char name[SESSION_NAME_MAX + 1];
};

struct sessions {
    struct agent *a;
    char *path;
    uint64_t last;                    /* the highest number that was given */
    struct session all[SESSIONS_MAX]; /* all[0] is the current one, the rest by their last use */
    size_t n;
};

/* --- the file --- */

static void keep(const struct sessions *s) {
    own_buf struct buf b = {0};
    for (size_t i = 0; i < s->n; i++) {
        const struct session *one = &s->all[i];
        buf_printf(&b, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", one->number,
                   one->created_ms, one->used_ms, one->turns, one->tokens, one->name);
    }
    own_err err_t e = fs_write(s->path, buf_text(&b), b.len, geteuid(), getegid(), 0600);
    if (e)
        log_warn("the list of sessions is not kept: %s", err_text(e));
}

static bool read_line(char *line, struct session *ret) {
    uint64_t *const numbers[] = {&ret->number, &ret->created_ms, &ret->used_ms, &ret->turns, &ret->tokens};
    for (size_t i = 0; i < COUNT(numbers); i++) {
        char *blank = strchr(line, ' ');
        if (!blank)
            return false;
        *blank = 0;
        own_err err_t bad = parse_u64(line, UINT64_MAX / 2, numbers[i]);
        if (bad)
            return false;
        line = blank + 1;
    }
    snprintf(ret->name, sizeof ret->name, "%s", line);
    return ret->number;
}

static void read_file(struct sessions *s) {
    own_buf struct buf b = {0};
    own_err err_t none = fs_read(s->path, FILE_MAX, &b);
    if (none)
        return;
    buf_text(&b);
    for (char *line = b.p, *end; line && (end = strchr(line, '\n')) && s->n < SESSIONS_MAX; line = end + 1) {
        *end = 0;
        struct session *one = &s->all[s->n];
        if (!read_line(line, one))
            continue;
        s->n++;
        s->last = one->number > s->last ? one->number : s->last;
    }
}

/* --- which one --- */

/* The one at `at` becomes the current; what the gateway counted until now was the former's. */
static void move_up(struct sessions *s, size_t at, uint64_t counted) {
    struct session one = s->all[at];
    memmove(s->all + 1, s->all, at * sizeof *s->all);
    s->all[0] = one;
    s->all[at ? 1 : 0].tokens += counted;
    keep(s);
}

static void add(struct sessions *s, const char *name, uint64_t counted) {
    uint64_t now = (uint64_t)clock_wall_ms();
    if (s->n && !s->all[0].turns) { /* nothing was said in it */
        memmove(s->all, s->all + 1, --s->n * sizeof *s->all);
        counted = 0;
    }
    if (s->n == SESSIONS_MAX)
        s->n--;
    struct session *one = &s->all[s->n++];
    *one = (struct session){.number = ++s->last, .created_ms = now, .used_ms = now};
    snprintf(one->name, sizeof one->name, "%s", name);
    move_up(s, s->n - 1, counted);
}

err_t sessions_begin(struct sessions *s, const char *name) {
    size_t n = strlen(name);
    bool plain = n <= SESSION_NAME_MAX;
    for (size_t i = 0; i < n && plain; i++)
        plain = (unsigned char)name[i] >= ' ' && name[i] != 0x7f;
    if (!plain)
        return err_new(EXIT_USAGE, "a session's name has at most %d bytes and no control character",
                       SESSION_NAME_MAX);
    add(s, name, model_session_tokens(s->a));
    return NULL;
}

/* By its number, else by its name, which may be a number too. s->n: none. */
static size_t find(const struct sessions *s, const char *which) {
    uint64_t number = 0;
    own_err err_t no = parse_u64(which, UINT64_MAX / 2, &number);
    for (size_t i = 0; !no && i < s->n; i++)
        if (s->all[i].number == number)
            return i;
    for (size_t i = 0; *which && i < s->n; i++)
        if (!strcmp(s->all[i].name, which))
            return i;
    return s->n;
}

err_t sessions_resume(struct sessions *s, const char *which) {
    size_t at = find(s, which);
    if (at == s->n)
        return err_new(EXIT_NOTFOUND, "there is no such session: /sessions lists those that there are");
    move_up(s, at, model_session_tokens(s->a));
    return NULL;
}

uint64_t sessions_current(const struct sessions *s) {
    return s->all[0].number;
}

uint64_t sessions_tokens(const struct sessions *s) {
    return s->all[0].tokens + model_session_tokens(s->a);
}

void sessions_turn_begins(struct sessions *s) {
    s->all[0].turns++;
    keep(s); /* of a session with a turn nothing is dropped, whatever ends that turn */
}

void sessions_turn_never_began(struct sessions *s) {
    s->all[0].turns--;
}

void sessions_turn_ended(struct sessions *s) {
    s->all[0].used_ms = (uint64_t)clock_wall_ms();
    keep(s);
}

void sessions_say(struct sessions *s, uint64_t cookie) {
    for (size_t i = 0; i < s->n; i++) {
        const struct session *one = &s->all[i];
        desk_session(s->a, &(struct msg_desk_session){.cookie = cookie,
                                                      .number = one->number,
                                                      .name = bytes_of(one->name),
                                                      .created_wall_ms = one->created_ms,
                                                      .used_wall_ms = one->used_ms,
                                                      .turns = one->turns,
                                                      .tokens = i ? one->tokens : sessions_tokens(s),
                                                      .current = !i});
    }
    desk_order_end(s->a, cookie, EXIT_OK, "");
}

struct sessions *sessions_open(struct agent *a, const char *home) {
    struct sessions *s = xcalloc(1, sizeof *s);
    s->a = a;
    s->path = xasprintf("%s/sessions", home);
    read_file(s);
    if (!s->n)
        add(s, "", 0);
    return s;
}

void sessions_free(struct sessions *s) {
    if (!s)
        return;
    free(s->path);
    free(s);
}
