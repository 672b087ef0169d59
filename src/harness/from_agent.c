#include "harness/from_agent.h"
#include "base/log.h"
#include "base/own.h"
#include "wire/link.h"

#include <stdlib.h>
#include <string.h>

enum state { IDLE_, BUSY_, ENDING };
enum { EVENT_TEXT_MAX = 65536, EVENT_NAME_MAX = 128 }; /* messages.def: turn_event */

struct from_agent {
    struct event_base *base;
    struct part *part;
    const struct harness *harness; /* NULL before part_go */
    void *h;
    struct login *login;
    bool logs_in; /* what is under way is a log-in, no turn: the link stands at LOGIN */
    struct link *link;
    enum state state;
    uint64_t id; /* of the turn */
    uint64_t programs;
    struct world world;
};

static void say(struct from_agent *up, const struct msg *m) {
    err_t e = up->link ? link_send(up->link, m) : NULL;
    if (e)
        log_warn("%s", err_text(e));
    err_free(e);
}

static bool in_turn(const struct from_agent *up) {
    return up->state == BUSY_ && !up->logs_in;
}

static void say_turn_end(struct from_agent *up, const char *outcome, int64_t status, const char *text) {
    struct msg m = {.type = MSG_turn_end};
    m.turn_end.id = up->id;
    m.turn_end.outcome = bytes_of(outcome);
    m.turn_end.status = status;
    m.turn_end.text = bytes_of(text);
    say(up, &m);
}

void say_output(struct from_agent *up, enum stream stream, const char *p, size_t n) {
    if (!in_turn(up))
        return;
    struct msg m = {.type = MSG_turn_output};
    m.turn_output.id = up->id;
    m.turn_output.stream = stream;
    m.turn_output.data = (struct bytes){p, n};
    say(up, &m);
}

/* Where a text of at most `max` bytes ends that is no piece of a character, and has no NUL in it. */
static size_t piece(const char *p, size_t n, size_t max) {
    size_t end = strnlen(p, n < max ? n : max);
    while (end && end < n && ((unsigned char)p[end] & 0xc0) == 0x80)
        end--;
    return end;
}

static struct bytes bounded(const char *text, size_t max) {
    return (struct bytes){text, piece(text, strlen(text), max)};
}

void say_event(struct from_agent *up, const char *kind, const char *call, const char *name, int64_t status,
               const char *text, size_t len) {
    if (!in_turn(up))
        return;
    bool all = !strcmp(kind, "text");
    do {
        size_t n = piece(text, len, EVENT_TEXT_MAX);
        struct msg m = {.type = MSG_turn_event};
        m.turn_event.id = up->id;
        m.turn_event.kind = bytes_of(kind);
        m.turn_event.call = bounded(call, EVENT_NAME_MAX);
        m.turn_event.name = bounded(name, EVENT_NAME_MAX);
        m.turn_event.status = status;
        m.turn_event.text = (struct bytes){text, n};
        say(up, &m);
        n += n < len && !text[n]; /* a NUL is passed over */
        text += n;
        len -= n;
    } while (all && len);
}

void say_ask(struct from_agent *up, uint64_t question, const char *name, const char *text,
             char *const *choices, size_t n) {
    if (!in_turn(up))
        return;
    struct bytes items[ASK_CHOICES_MAX];
    for (size_t i = 0; i < n; i++)
        items[i] = bounded(choices[i], ASK_CHOICE_MAX);
    struct msg m = {.type = MSG_turn_ask};
    m.turn_ask = (struct msg_turn_ask){.id = up->id,
                                       .question = question,
                                       .name = bounded(name, ASK_NAME_MAX),
                                       .text = bounded(text, ASK_TEXT_MAX),
                                       .choices = {items, n}};
    say(up, &m);
}

void say_programs(struct from_agent *up, uint64_t count) {
    up->programs = count;
    struct msg m = {.type = MSG_turn_programs};
    m.turn_programs.count = count;
    say(up, &m);
}

bool say_full(const struct from_agent *up) {
    return up->state == BUSY_ && up->link && link_full(up->link);
}

void say_end(struct from_agent *up, const char *outcome, int64_t status, const char *text) {
    enum state was = up->state;
    up->state = IDLE_;
    if (was == BUSY_)
        say_turn_end(up, outcome, status, text);
    else if (up->link)
        link_hold(up->link, false);
}

/* ---- a log-in in a turn's place ---- */

static void on_login_pty(void *ctx, int master) {
    struct from_agent *up = ctx;
    struct msg m = {.type = MSG_login_pty, .fds = {master}, .nfds = 1};
    if (up->state == BUSY_)
        say(up, &m);
}

static void on_login_end(void *ctx, int64_t status, const char *text, int file) {
    struct from_agent *up = ctx;
    enum state was = up->state;
    up->state = IDLE_;
    up->logs_in = false;
    struct msg m = {.type = MSG_login_end, .fds = {file}, .nfds = file >= 0};
    m.login_end.status = status;
    m.login_end.text = bytes_of(text);
    if (was == BUSY_)
        say(up, &m);
    else if (up->link)
        link_hold(up->link, false);
}

const struct login_ops from_agent_login_ops = {on_login_pty, on_login_end};

static void on_login_start(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct from_agent *up = ctx;
    up->state = BUSY_;
    up->id = m->login_start.id;
    up->logs_in = true;
    own_err err_t e = login_begin(up->login);
    if (e)
        on_login_end(up, e->status, err_text(e), -1);
}

void from_agent_exited(struct from_agent *up, pid_t pid, int status) {
    if (up->login)
        login_exited(up->login, pid, status);
}

static void stop(struct from_agent *up) {
    if (up->logs_in)
        login_stop(up->login);
    else
        up->harness->stop(up->h);
}

static void on_turn_start(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct from_agent *up = ctx;
    up->state = BUSY_;
    up->id = m->turn_start.id;
    own_err err_t e = up->harness->start(up->h, m->turn_start.text.p);
    if (!e)
        return;
    up->state = IDLE_;
    say_turn_end(up, "refused", e->status, err_text(e));
}

static void on_turn_stop(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct from_agent *up = ctx;
    if (up->state == BUSY_ && up->id == m->turn_stop.id)
        stop(up);
}

static void on_turn_answer(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct from_agent *up = ctx;
    const struct msg_turn_answer *q = &m->turn_answer;
    if (in_turn(up) && up->id == q->id && up->harness->answered)
        up->harness->answered(up->h, q->question, q->choice);
}

static void on_turn_world(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct from_agent *up = ctx;
    const struct msg_turn_world *q = &m->turn_world;
    struct world *w = &up->world;
    struct {
        char **kept;
        const char *now;
    } fields[] = {{&w->base_url, q->base_url.p},
                  {&w->vendor, q->vendor.p},
                  {&w->placeholder, q->placeholder.p},
                  {&w->login, q->login.p},
                  {&w->model, q->model.p}};
    bool changed = !w->generation;
    for (size_t i = 0; i < COUNT(fields); i++) {
        if (*fields[i].kept && !strcmp(*fields[i].kept, fields[i].now))
            continue;
        changed = true;
        free(*fields[i].kept);
        *fields[i].kept = xstrdup(fields[i].now);
    }
    w->generation += changed;
}

static void on_turn_session(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct from_agent *up = ctx;
    if (up->harness->session)
        up->harness->session(up->h, m->turn_session.number);
    say_programs(up, up->programs); /* the first word on a link */
}

static void on_end(void *ctx, struct link *l, err_t why) {
    (void)l;
    struct from_agent *up = ctx;
    if (why)
        log_warn("%s", err_text(why));
    from_agent_unlink(up);
    if (up->part)
        part_lost(up->part, LINK_agent_harness, "");
}

static void on_room(void *ctx, struct link *l) {
    (void)l;
    struct from_agent *up = ctx;
    up->harness->resume(up->h);
}

static link_fn *const handlers[MSG_COUNT] = {
    [MSG_turn_world] = on_turn_world,   [MSG_turn_start] = on_turn_start,
    [MSG_turn_stop] = on_turn_stop,     [MSG_turn_session] = on_turn_session,
    [MSG_turn_answer] = on_turn_answer, [MSG_login_start] = on_login_start,
};
static const struct link_ops ops = {.on = handlers, .on_end = on_end, .on_room = on_room};

struct from_agent *from_agent_new(struct event_base *base) {
    struct from_agent *up = xcalloc(1, sizeof *up);
    up->base = base;
    return up;
}

void from_agent_free(struct from_agent *up) {
    if (!up)
        return;
    link_free(up->link);
    free(up->world.base_url);
    free(up->world.vendor);
    free(up->world.placeholder);
    free(up->world.login);
    free(up->world.model);
    free(up);
}

const struct world *from_agent_world(const struct from_agent *up) {
    return &up->world;
}

void from_agent_link(struct from_agent *up, int fd) {
    from_agent_unlink(up);
    up->link = link_new(up->base, fd, LINK_agent_harness, false, &ops, up);
    if (!up->harness || up->state == ENDING)
        link_hold(up->link, true);
}

void from_agent_unlink(struct from_agent *up) {
    link_free(TAKE(up->link));
    if (up->state != BUSY_)
        return;
    up->state = ENDING; /* first: the harness must not take the lost link for a full one */
    up->harness->resume(up->h);
    stop(up);
}

void from_agent_go(struct from_agent *up, struct part *part, const struct harness *harness, void *h,
                   struct login *login) {
    up->login = login;
    up->part = part;
    up->harness = harness;
    up->h = h;
    if (up->link)
        link_hold(up->link, false);
}
