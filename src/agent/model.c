#include "agent/model.h"
#include "agent/from_manager.h"
#include "agent/gateway/gateway.h"
#include "agent/sessions.h"
#include "agent/to_harness.h"
#include "agent/turn.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/own.h"
#include "wire/link.h"

#include <string.h>
#include <unistd.h>

enum { MODEL_NAME_MAX = 128 };

struct model {
    struct agent *a;
    struct gateway *g;
    char *chosen; /* the file with the name that was chosen later */
    char *name;   /* of the model; "": the harness's own choice */
    char *note;   /* for the chat, once there is a link; NULL: none */
    int listener; /* came before part_go; -1: none */
    char base_url[64];
    struct secret *secret; /* the one that the turn's output is searched for */
    struct sift sift;
};

/* The part about the credential in the state strip. */
static const char *login_line(const struct model *m) {
    if (gateway_log_in_over(m->g))
        return "LOG-IN OVER — send /auth";
    if (!gateway_ready(m->g))
        return gateway_keeps(m->g) == KEEP_SEALED
                   ? "NO SEALED-TOKEN — on the host: `agent-cage auth --sealed`"
                   : "NOT LOGGED IN — send /auth";
    return gateway_login(m->g) == LOGIN_NONE ? "no login needed" : "logged in";
}

static void on_note(void *ctx, const char *text) {
    struct model *m = ctx;
    if (desk_note(m->a, text))
        return;
    free(m->note);
    m->note = xstrdup(text);
}

static void say_usage(struct agent *a);

static void on_changed(void *ctx) {
    struct model *m = ctx;
    if (!m->g) /* it is being opened */
        return;
    free(m->a->login);
    m->a->login = xstrdup(login_line(m));
    desk_state(m->a);
    say_usage(m->a);
    to_harness_world(m->a);
}

/* Listens with what came before part_go. */
static void take_listener(struct model *m) {
    if (m->g && m->listener >= 0)
        gateway_listen(m->g, TAKE_FD(m->listener));
}

static struct model *made(struct agent *a) {
    if (a->model)
        return a->model;
    a->model = xcalloc(1, sizeof *a->model);
    *a->model = (struct model){.a = a, .listener = -1};
    snprintf(a->model->base_url, sizeof a->model->base_url, "http://127.0.0.1:%d", MODEL_PORT);
    return a->model;
}

/* Letters, digits and what stands in models' names; no '-' in front, it would be an option. */
static bool is_name(const char *name) {
    static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@[]";
    return name[0] != '-' && strspn(name, set) == strlen(name);
}

/* What was chosen in an earlier life. */
static void read_choice(struct model *m) {
    own_buf struct buf name = {0};
    own_err err_t none = fs_read(m->chosen, MODEL_NAME_MAX, &name);
    if (none || !is_name(buf_text(&name)))
        return;
    free(m->name);
    m->name = xstrdup(buf_text(&name));
}

err_t model_open(struct agent *a, int home, const struct msg_part_go *go) {
    free(a->login);
    a->login = xstrdup("no login needed");
    if (!go->upstream.len)
        return NULL;
    struct model *m = made(a);
    struct gateway_setup setup = {.base = a->base,
                                  .upstream = go->upstream.p,
                                  .credential = go->credential.p,
                                  .budget = go->budget.p,
                                  .prices = go->prices.p,
                                  .ca = go->ca.p,
                                  .silence_ms = go->silence_ms,
                                  .home = home,
                                  .note = on_note,
                                  .changed = on_changed,
                                  .ctx = m};
    m->name = xstrdup(go->model.p);
    m->chosen = xasprintf("%s/model", go->home.p);
    read_choice(m);
    TRY(gateway_new(&setup, &m->g));
    take_listener(m);
    on_changed(m);
    return NULL;
}

void model_free(struct model *m) {
    if (!m)
        return;
    gateway_free(m->g);
    secret_drop(m->secret);
    own_closep(&m->listener);
    free(m->name);
    free(m->chosen);
    free(m->note);
    free(m);
}

void model_link(struct agent *a, int fd) {
    struct model *m = made(a);
    own_closep(&m->listener);
    m->listener = fd;
    take_listener(m);
}

void model_unlink(struct agent *a) {
    if (!a->model)
        return;
    own_closep(&a->model->listener);
    a->model->listener = -1;
    if (a->model->g)
        gateway_unlisten(a->model->g);
}

static struct gateway *gate(const struct agent *a) {
    return a->model ? a->model->g : NULL;
}

err_t model_secret(struct agent *a, const char *kind, const char *p, size_t n, const char **ret_text) {
    if (!gate(a))
        return err_new(EXIT_USAGE, "this agent's harness has no model behind it: it needs no credential");
    TRY(gateway_auth(gate(a), kind, p, n));
    *ret_text =
        gateway_login(gate(a)) == LOGIN_TOKEN ? "logged in with a token" : "logged in with an API key";
    turn_pump(a->turn);
    return NULL;
}

void model_budget(struct agent *a, const char *budget) {
    own_err err_t e = gate(a) ? gateway_budget(gate(a), budget) : NULL;
    if (e)
        log_warn("%s", err_text(e));
}

err_t model_choose(struct agent *a, const char *name) {
    struct model *m = a->model;
    if (!gate(a))
        return err_new(EXIT_USAGE, "this agent's harness has no model behind it");
    if (!is_name(name))
        return err_new(EXIT_USAGE, "that is no name of a model: letters, digits and - _ . : / @ [ ]");
    TRY(fs_write(m->chosen, name, strlen(name), geteuid(), getegid(), 0600));
    free(m->name);
    m->name = xstrdup(name);
    to_harness_world(a);
    return NULL;
}

err_t model_may_log_in(const struct agent *a) {
    if (!gate(a))
        return err_new(EXIT_USAGE, "this agent's harness has no model behind it: it needs no credential");
    if (gateway_keeps(gate(a)) == KEEP_SEALED)
        return err_new(EXIT_POLICY, "a sealed agent never has a credential of yours: `agent-cage auth "
                                    "--sealed` on its host saves the "
                                    "one that all of them have");
    return gateway_wants(gate(a));
}

void model_tunnels(struct agent *a, const char *const *hosts) {
    if (gate(a))
        gateway_tunnels(gate(a), hosts);
}

void model_note(struct agent *a, const char *text) {
    on_note(a->model, text);
}

void model_fresh(struct agent *a) {
    if (gate(a))
        gateway_fresh(gate(a));
}

bool model_counts(const struct agent *a) {
    return gate(a);
}

uint64_t model_tokens(const struct agent *a) {
    return gate(a) ? tokens_sum(&gateway_usage(gate(a))->total) : 0;
}

uint64_t model_session_tokens(const struct agent *a) {
    return gate(a) ? tokens_sum(&gateway_usage(gate(a))->session) : 0;
}

bool model_world(struct agent *a, struct msg *ret) {
    struct gateway *g = gate(a);
    if (!g)
        return false;
    *ret = (struct msg){.type = MSG_turn_world};
    ret->turn_world.base_url = bytes_of(a->model->base_url);
    ret->turn_world.vendor = bytes_of(vendor_name(gateway_vendor(g)));
    ret->turn_world.placeholder = bytes_of(gateway_placeholder(g));
    ret->turn_world.login = bytes_of(login_name(gateway_login(g)));
    ret->turn_world.model = bytes_of(a->model->name);
    return true;
}

const char *model_refuses(const struct agent *a) {
    if (!gate(a) || gateway_ready(gate(a)))
        return NULL;
    if (gateway_keeps(gate(a)) == KEEP_SEALED)
        return "this machine has no sealed-token yet: run `agent-cage auth --sealed` on it, once for all "
               "sealed agents";
    return "this agent is not logged in: send /auth, or run `agent-cage auth` on its host";
}

static void say_usage(struct agent *a) {
    const struct usage *u = gateway_usage(gate(a));
    struct msg m = {.type = MSG_desk_usage};
    m.desk_usage = (struct msg_desk_usage){.tokens_input = u->total.input,
                                           .tokens_output = u->total.output,
                                           .tokens_cache_read = u->total.cache_read,
                                           .tokens_cache_write = u->total.cache_write,
                                           .tokens_session = sessions_tokens(a->sessions),
                                           .model_requests = u->requests,
                                           .cost_micro = u->cost_nano / 1000,
                                           .budget_used = u->window.used,
                                           .budget_limit = gateway_limits(gate(a))->limit,
                                           .budget_span_s = gateway_limits(gate(a))->span_s,
                                           .budget_until_wall_ms = (uint64_t)window_until_ms(&u->window)};
    desk_usage(a, &m);
}

void model_say_all(struct agent *a) {
    if (!gate(a))
        return;
    say_usage(a);
    own_free char *note = TAKE(a->model->note);
    if (note)
        desk_note(a, note);
}

/* ---- the second line ---- */

struct output {
    struct agent *a;
    uint64_t id;
};

static void give_output(void *ctx, const char *p, size_t n) {
    struct output *o = ctx;
    turn_output(o->a->turn, o->id, p, n);
}

void model_output(struct agent *a, uint64_t id, const char *p, size_t n) {
    struct model *m = a->model;
    struct output to = {a, id};
    if (!gate(a)) {
        turn_output(a->turn, id, p, n);
        return;
    }
    if (!m->secret) /* the whole turn is searched for the one that it began with */
        m->secret = gateway_secret(m->g);
    sift_feed(&m->sift, secret_needle(m->secret), p, n, give_output, &to);
}

void model_output_end(struct agent *a, uint64_t id) {
    struct model *m = a->model;
    if (!gate(a))
        return;
    sift_end(&m->sift, secret_needle(m->secret), give_output, &(struct output){a, id});
    if (m->sift.found)
        log_warn("the credential stood in the output of a turn; it was starred out");
    m->sift = (struct sift){0};
    secret_drop(TAKE(m->secret));
}

static bool star(struct buf *bytes, struct bytes secret) {
    bool found = false;
    for (char *at; secret.len && (at = memmem(buf_text(bytes), bytes->len, secret.p, secret.len));) {
        memset(at, '*', secret.len);
        found = true;
    }
    return found;
}

bool model_stars(struct agent *a, const struct msg *m, struct msg *ret) {
    struct secret *s = gate(a) ? gateway_secret(gate(a)) : NULL;
    own_buf struct buf bytes = {0};
    bool found = false;
    own_err err_t e = s ? msg_encode(m, &bytes) : NULL;
    if (s && !e) {
        found = star(&bytes, (struct bytes){s->p, s->n});
        found |= star(&bytes, s->refresh);
    }
    secret_drop(s);
    unsigned flags;
    own_err err_t bad = found ? msg_decode(bytes.p, bytes.len, ret, &flags) : NULL;
    return found && !bad;
}
