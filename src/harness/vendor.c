#include "harness/vendor_turn.h"
#include "base/log.h"
#include "base/own.h"
#include "cage/words.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* --- words --- */

static bool holds(const struct vendor *v, enum vendor_when when) {
    const struct world *w = v->floor->world;
    switch (when) {
    case ALWAYS:
        return true;
    case IF_TOKEN:
        return !strcmp(w->login, "token");
    case IF_KEY:
        return strcmp(w->login, "token") != 0;
    case IF_MODEL:
        return w->model[0];
    case IF_SESSION:
        return v->session.id[0];
    case IF_NO_SESSION:
        return !v->session.id[0];
    case IF_ANTHROPIC:
        return !strcmp(w->vendor, "anthropic");
    case IF_OPENAI:
        return !strcmp(w->vendor, "openai");
    }
    return false;
}

static const char *meaning(const struct vendor *v, const char *name, size_t n) {
    const struct world *w = v->floor->world;
    const struct {
        const char *name, *value;
    } all[] = {{"base_url", w->base_url},        {"placeholder", w->placeholder}, {"model", w->model},
               {"text", v->text ? v->text : ""}, {"session", v->session.id},      {"home", v->floor->home},
               {"scratch", v->floor->scratch},   {"project", v->floor->project}};
    for (size_t i = 0; i < COUNT(all); i++)
        if (strlen(all[i].name) == n && !strncmp(all[i].name, name, n))
            return all[i].value;
    return NULL;
}

void vendor_tell_programs(struct vendor *v) {
    bool runs = program_runs(v->program);
    if (runs != v->told_running)
        say_programs(v->floor->up, runs);
    v->told_running = runs;
}

static void end_program(struct vendor *v, unsigned ms) {
    program_close(v->program, ms);
    vendor_tell_programs(v);
}

static void add_filled(const struct vendor *v, const char *text, struct words *out) {
    own_buf struct buf b = {0};
    for (const char *p = text; *p;) {
        const char *end = *p == '{' ? strchr(p, '}') : NULL;
        const char *value = end ? meaning(v, p + 1, (size_t)(end - p) - 1) : NULL;
        buf_adds(&b, value ? value : (char[]){*p, 0});
        p = value ? end + 1 : p + 1;
    }
    words_add(out, buf_text(&b));
}

static void add_words(const struct vendor *v, const struct vendor_word *w, struct words *out) {
    for (; w && w->text; w++)
        if (holds(v, w->when))
            add_filled(v, w->text, out);
}

/* The words of the harness's argument, apart at blanks: no shell reads them. */
static void add_argument(const struct vendor *v, struct words *out) {
    for (const char *p = v->floor->arg; *p;) {
        size_t n = strcspn(p, " ");
        own_free char *word = n ? xstrndup(p, n) : NULL;
        if (word)
            words_add(out, word);
        p += n + (p[n] == ' ');
    }
}

/* --- the turn's end --- */

static void wait_idle(struct vendor *v) {
    uint64_t ms = v->floor->idle_ms;
    struct timeval tv = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000) * 1000};
    if (ms && v->protocol->lasts && program_runs(v->program))
        event_add(v->idle, &tv);
}

static void on_idle(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct vendor *v = arg;
    if (v->state != VENDOR_IDLE || !program_runs(v->program))
        return;
    if (program_has_children(v->program)) {
        wait_idle(v);
        return;
    }
    log_info("%s had nothing to do: it is ended until the next message", v->protocol->word);
    end_program(v, PROGRAM_CLOSE_MS);
}

void vendor_end_turn(struct vendor *v, const char *outcome, int64_t status, const char *text) {
    event_del(v->late);
    if (v->amid)
        vendor_adds(v, "\n");
    tools_end_all(&v->tools, v->floor->up, status);
    v->state = VENDOR_IDLE;
    v->judged = false;
    wait_idle(v);
    free(TAKE(v->text));
    free(TAKE(v->verdict));
    say_end(v->floor->up, outcome, status, text);
}

/* --- starting --- */

static err_t launch(struct vendor *v) {
    const struct protocol *p = v->protocol;
    own_words struct words argv = {0}, env = {0};
    if (p->program)
        words_add(&argv, p->word);
    else
        add_argument(v, &argv);
    add_words(v, p->argv, &argv);
    for (char *const *e = v->floor->env; *e; e++)
        words_add(&env, *e);
    add_words(v, p->env, &env);
    free(TAKE(v->own));
    v->own = xcalloc(1, p->own_size + 1);
    v->heard = false;
    v->resumed = v->session.id[0];
    v->generation = v->floor->world->generation;
    if (p->prepare)
        p->prepare(v);
    const char *path = p->program ? p->program : words_argv(&argv)[0];
    return program_start(v->program, path, (char *const *)words_argv(&argv), (char *const *)words_argv(&env));
}

static err_t check_world(const struct vendor *v) {
    const struct world *w = v->floor->world;
    if (!w->generation)
        return err_new(EXIT_FAILED, "the agent has no model to talk to: give it one with `new --upstream`");
    if (!w->login[0])
        return err_new(EXIT_POLICY, "not logged in: send /auth, or run `agent-cage auth` on the host");
    return NULL;
}

static void say_between(struct vendor *v) {
    if (v->between.len)
        say_event(v->floor->up, "text", "", "", 0, v->between.p, v->between.len);
    buf_clear(&v->between);
}

/* To a program that runs. */
static err_t give(struct vendor *v) {
    if (!program_runs(v->program))
        TRY(launch(v));
    vendor_tell_programs(v);
    return v->protocol->begin(v, v->text);
}

void vendor_give(struct vendor *v) {
    own_err err_t e = give(v);
    if (e)
        vendor_end_turn(v, "refused", e->status, err_text(e));
}

err_t vendor_start(void *h, const char *text) {
    struct vendor *v = h;
    TRY(check_world(v));
    free(v->text);
    v->text = xstrdup(text);
    bool good = v->protocol->lasts && v->generation == v->floor->world->generation;
    if (!good)
        end_program(v, PROGRAM_CLOSE_MS);
    event_del(v->idle);
    v->state = VENDOR_BUSY;
    v->waits = program_leaves(v->program);
    v->again = false;
    say_between(v);
    err_t e = v->waits ? NULL : give(v);
    if (e)
        v->state = VENDOR_IDLE;
    return e;
}

/* --- the harness's calls --- */

void vendor_exited(void *h, pid_t pid, int status) {
    program_exited(((struct vendor *)h)->program, pid, status);
}

void vendor_resume(void *h) {
    program_resume(((struct vendor *)h)->program);
}

void vendor_answered(void *h, uint64_t question, uint64_t choice) {
    struct vendor *v = h;
    if (v->protocol->answered)
        v->protocol->answered(v, question, choice);
}

/* --- stopping --- */

static void on_late(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct vendor *v = arg;
    if (v->state != VENDOR_STOPPING)
        return;
    end_program(v, 0);
    vendor_end_turn(v, "done", STATUS_STOPPED, "");
}

void vendor_stop(void *h) {
    struct vendor *v = h;
    if (v->state != VENDOR_BUSY)
        return;
    if (v->waits) {
        v->waits = false;
        vendor_end_turn(v, "done", STATUS_STOPPED, "");
        return;
    }
    v->state = VENDOR_STOPPING;
    v->protocol->interrupt(v);
    struct timeval tv = {STOP_MS / 1000, STOP_MS % 1000 * 1000};
    event_add(v->late, &tv);
}

/* --- its life --- */

void vendor_session_is(void *h, uint64_t number) {
    struct vendor *v = h;
    if (v->number == number)
        return;
    end_program(v, PROGRAM_CLOSE_MS);
    buf_clear(&v->between);
    session_close(&v->session);
    session_open(&v->session, v->floor->home, v->protocol->word, number);
    v->number = number;
}

err_t vendor_open(const struct protocol *p, const struct floor *f, void **ret) {
    if (p->program && f->arg[0])
        return err_new(EXIT_USAGE, "the harness %s takes no argument", p->word);
    if (!p->program && !f->arg[0])
        return err_new(EXIT_USAGE, "the harness %s needs its command: %s:CMD", p->word, p->word);
    struct vendor *v = xcalloc(1, sizeof *v);
    *v = (struct vendor){.protocol = p, .floor = f};
    v->program = program_new(f, &vendor_ops, v);
    session_open(&v->session, f->home, p->word, 0);
    v->late = event_new(f->base, -1, 0, on_late, v);
    v->idle = event_new(f->base, -1, 0, on_idle, v);
    *ret = v;
    return NULL;
}

void vendor_close(void *h) {
    struct vendor *v = h;
    program_free(v->program);
    session_close(&v->session);
    event_free(v->late);
    event_free(v->idle);
    buf_free(&v->between);
    free(v->text);
    free(v->verdict);
    free(v->own);
    free(v);
}
