#include "warden/from_operator.h"
#include "base/log.h"
#include "base/own.h"
#include "base/paths.h"
#include "proto/budget.h"
#include "warden/agents.h"
#include "warden/control.h"
#include "warden/seal.h"
#include "warden/sealed_token.h"
#include "warden/warden.h"
#include "warden/worker.h"
#include "wire/link.h"
#include "wire/seq.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* One connection; it lives on without its link while what it asked for is under way. */
struct asker {
    struct asker *next;
    struct warden *w;
    struct link *link;
    struct conf_agent conf; /* of the agent that it makes or removes; name NULL when idle */
    bool waits_for_fleet;
    uint64_t auth;            /* cookie of a credential on its way to an agent; 0: none is */
    char auth_name[32];       /* that agent */
    char fault[ERR_TEXT_MAX]; /* why a new agent is removed again; "" when it is removed by order */
};

struct operators {
    int fd;
    struct event *acceptable;
    struct asker *first;
};

static void say(struct asker *o, const struct msg *m) {
    own_err err_t e = o->link ? link_send(o->link, m) : NULL;
    if (e)
        log_warn("operator: %s", err_text(e));
}

static void progress(void *ctx, const char *text) {
    struct msg m = {.type = MSG_op_progress};
    m.op_progress.text = bytes_of(text);
    say(ctx, &m);
}

/* A line that is longer than a message may be is cut, before a whole character. */
static void say_lines(struct asker *o, const char *text) {
    enum { MOST = 500 };
    for (size_t all; *text; text += all + (text[all] == '\n')) {
        size_t n = all = strcspn(text, "\n");
        for (n = n < MOST ? n : MOST; n < all && (text[n] & 0xc0) == 0x80;)
            n--;
        own_free char *line = xstrndup(text, n);
        progress(o, line);
    }
}

static void end(struct asker *o, int status, const char *text) {
    struct msg m = {.type = MSG_op_end};
    m.op_end.status = (uint64_t)status;
    m.op_end.text = bytes_of(text);
    say(o, &m);
}

static void end_err(struct asker *o, err_t e) {
    end(o, e->status, err_text(e));
    err_free(e);
}

/* Frees a connection that is over and has nothing under way. */
static void reap(struct asker *o) {
    if (o->link || o->conf.name)
        return;
    for (struct asker **p = &o->w->operators->first; *p; p = &(*p)->next)
        if (*p == o) {
            *p = o->next;
            break;
        }
    free(o);
}

static void done(struct asker *o) {
    conf_agent_free(&o->conf);
    o->conf = (struct conf_agent){0};
    o->fault[0] = 0;
    reap(o);
}

static bool name_in_work(const struct warden *w, const char *name) {
    for (const struct asker *o = w->operators->first; o; o = o->next)
        if (o->conf.name && !strcmp(o->conf.name, name))
            return true;
    return false;
}

static void remove_agent(struct asker *o);

/* ---- new ------------------------------------------------------------------------------------------------------ */

static err_t run_new(void *job, int report) {
    struct asker *o = job;
    return agents_make(o->w, &o->conf, report);
}

/* What did not start goes away again; the answer waits until it is gone. */
static void on_running(void *ctx, const struct err *why, const char *text) {
    struct asker *o = ctx;
    if (!why) {
        end(o, EXIT_OK, text);
        done(o);
        return;
    }
    snprintf(o->fault, sizeof o->fault, "%s was not made: %s", o->conf.name, err_text(why));
    progress(o, "it does not start: removing it again");
    remove_agent(o);
}

static void on_made(void *ctx, const struct err *why, const void *result, size_t n) {
    (void)result, (void)n;
    struct asker *o = ctx;
    struct conf_agent conf = {0};
    err_t e =
        why ? err_as(err_new(EXIT_FAILED, "%s was not made: %s", o->conf.name, err_text(why)), why->status)
            : conf_agent_read(o->conf.name, &conf);
    if (e) {
        end_err(o, e);
        done(o);
        return;
    }
    struct box *b = box_add(o->w, &conf);
    conf_agent_free(&conf);
    log_info("agent %s was made", o->conf.name);
    if (o->w->ending || !b) {
        end(o, EXIT_FAILED, "the fleet went down meanwhile; the agent starts with the next `agent-cage up`");
        done(o);
        return;
    }
    progress(o, "starting its rooms");
    b->trial = true;
    box_order(b, BOX_START, on_running, o);
}

static const struct worker_ops new_ops = {.run = run_new, .on_line = progress, .on_end = on_made};

static void on_op_new(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct asker *o = ctx;
    struct conf_agent c = {0};
    err_t e = o->conf.name ? err_new(EXIT_USAGE, "one thing at a time") : agents_check(&m->op_new, &c);
    if (!e && c.mode == MODE_SEALED)
        e = agents_sealed_here(c.harness);
    if (!e && o->w->ending)
        e = err_new(EXIT_FAILED, "the fleet is going down");
    if (!e && (box_find(o->w, c.name) || name_in_work(o->w, c.name)))
        e = err_new(EXIT_POLICY,
                    "an agent called %s is there already: take another name, or `agent-cage rm %s` first",
                    c.name, c.name);
    if (e) {
        conf_agent_free(&c);
        end_err(o, e);
        return;
    }
    o->conf = c;
    if (agents_trade(&c))
        progress(o, agents_trade(&c));
    if (sealed_token_lacks(&c))
        progress(o, "no sealed-token is saved on this machine: until `agent-cage auth --sealed` has done "
                    "that, once for all sealed "
                    "agents, its model cannot be asked");
    worker_start(o->w->base, &new_ops, o, o);
}

/* ---- rm ------------------------------------------------------------------------------------------------------- */

static err_t run_rm(void *job, int report) {
    (void)report;
    struct asker *o = job;
    return agents_drop_new(o->w, o->conf.name);
}

static void on_removed(void *ctx, const struct err *why, const void *result, size_t n) {
    (void)result, (void)n;
    struct asker *o = ctx;
    struct box *b = box_find(o->w, o->conf.name);
    char text[512];
    if (why) {
        snprintf(text, sizeof text, "not all of %s could be removed: %s; try again", o->conf.name,
                 err_text(why));
        if (b)
            b->leaving = false;
    } else {
        bool stays = b && access(b->conf.project, F_OK) == 0;
        snprintf(text, sizeof text, stays ? "%s is removed; its project stays: %s" : "%s is removed",
                 o->conf.name, stays ? b->conf.project : "");
        log_info("%s", text);
        if (b)
            box_remove(b);
    }
    if (*o->fault)
        end(o, EXIT_FAILED, o->fault);
    else
        end(o, why ? why->status : EXIT_OK, text);
    done(o);
}

static const struct worker_ops rm_ops = {.run = run_rm, .on_line = progress, .on_end = on_removed};

static void on_stopped(void *ctx, const struct err *why, const char *text) {
    struct asker *o = ctx;
    struct box *b = box_find(o->w, o->conf.name);
    say_lines(o, why ? "" : text);
    if (why) {
        if (b)
            b->leaving = false;
        end(o, why->status, err_text(why));
        done(o);
        return;
    }
    worker_start(o->w->base, &rm_ops, o, o);
}

static void remove_agent(struct asker *o) {
    struct box *b = box_find(o->w, o->conf.name);
    b->leaving = true;
    box_order(b, BOX_STOP, on_stopped, o);
}

static void on_op_rm(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct asker *o = ctx;
    const char *name = m->op_rm.agent.p;
    err_t e = o->conf.name ? err_new(EXIT_USAGE, "one thing at a time") : name_check(name);
    struct box *b = e ? NULL : box_find(o->w, name);
    if (!e && (!b || b->leaving))
        e = err_new(EXIT_NOTFOUND, "there is no agent '%s': `agent-cage ls` lists those that there are",
                    name);
    else if (!e && name_in_work(o->w, name))
        e = err_new(EXIT_FAILED, "%s is being made just now", name);
    if (e) {
        end_err(o, e);
        return;
    }
    o->conf.name = xstrdup(name);
    progress(o, "stopping its rooms");
    remove_agent(o);
}

static err_t agent_named(struct asker *o, const char *name, struct box **ret) {
    TRY(name_check(name));
    *ret = box_find(o->w, name);
    return *ret ? NULL
                : err_new(EXIT_NOTFOUND, "there is no agent '%s': `agent-cage ls` lists those that there are",
                          name);
}

/* ---- seal ------------------------------------------------------------------------------------------------------ */

static void on_sealed(void *ctx, const struct err *why, const char *text) {
    struct asker *o = ctx;
    end(o, why ? why->status : EXIT_OK, why ? err_text(why) : text);
    done(o);
}

static void on_op_seal(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct asker *o = ctx;
    struct box *b;
    err_t e =
        o->conf.name ? err_new(EXIT_USAGE, "one thing at a time") : agent_named(o, m->op_seal.agent.p, &b);
    if (!e && (b->leaving || o->w->ending || name_in_work(o->w, b->conf.name)))
        e = err_new(EXIT_FAILED, "%s is in other work just now", b->conf.name);
    if (e) {
        end_err(o, e);
        return;
    }
    o->conf.name = xstrdup(b->conf.name);
    progress(o, "its rooms end, and start again sealed");
    seal_begin(b, on_sealed, o);
}

/* ---- auth, budget: the two things of a model that are the host's to say ------------------------------------------- */

/* The machine's, for every sealed agent: kept first, then given to those that run. */
static void take_sealed_token(struct asker *o, struct bytes token) {
    err_t e = sealed_token_save(token);
    if (e) {
        end_err(o, e);
        return;
    }
    for (struct box *b = o->w->boxes; b; b = b->next)
        sealed_token_give(&b->ward[WARD_AGENT]);
    log_info("a sealed-token was saved");
    end(o, EXIT_OK, "the sealed-token is saved; every sealed agent of this machine has it from now on");
}

static void on_op_auth(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    static uint64_t last_cookie;
    struct asker *o = ctx;
    const struct msg_op_auth *q = &m->op_auth;
    struct box *b = NULL;
    if (!q->agent.len) {
        take_sealed_token(o, q->credential);
        return;
    }
    err_t e = o->auth ? err_new(EXIT_USAGE, "one thing at a time") : agent_named(o, q->agent.p, &b);
    if (!e && b->conf.mode == MODE_SEALED)
        e = err_new(EXIT_POLICY,
                    "%s is sealed: it never has a credential of yours, but the machine's sealed-token; "
                    "`agent-cage auth --sealed` saves it",
                    b->conf.name);
    if (!e)
        e = control_secret(&b->ward[WARD_AGENT], ++last_cookie, q->kind, q->credential);
    if (e) {
        end_err(o, e);
        return;
    }
    o->auth = last_cookie;
    snprintf(o->auth_name, sizeof o->auth_name, "%s", b->conf.name);
}

void from_operator_auth_end(const struct box *b, uint64_t cookie, uint64_t status, const char *text) {
    if (cookie == SEALED_TOKEN_COOKIE && status)
        log_warn("%s does not take the sealed-token: %s", b->conf.name, text);
    if (cookie == SEALED_TOKEN_COOKIE) /* nobody asked */
        return;
    for (struct asker *o = b->w->operators->first; o; o = o->next) {
        if (o->auth != cookie || strcmp(o->auth_name, b->conf.name) != 0)
            continue;
        char line[700];
        snprintf(line, sizeof line, "%s: %s", o->auth_name, text);
        o->auth = 0;
        end(o, (int)status, line);
        return;
    }
}

void from_operator_agent_died(struct warden *w, const char *name) {
    for (struct asker *o = w->operators ? w->operators->first : NULL; o; o = o->next)
        if (o->auth && !strcmp(o->auth_name, name)) {
            o->auth = 0;
            end(o, EXIT_FAILED, "the agent died before it answered: try again");
        }
}

static err_t set_budget(struct asker *o, const struct msg_op_budget *q, struct box **ret) {
    struct box *b;
    TRY(agent_named(o, q->agent.p, &b));
    if (!*b->conf.upstream)
        return err_new(EXIT_USAGE, "%s has no model behind it: there is nothing to keep a budget of",
                       b->conf.name);
    struct budget budget;
    TRY(budget_of(q->limit.p, &budget));
    char *was = b->conf.budget;
    b->conf.budget = xstrdup(budget.limit ? q->limit.p : "");
    err_t e = conf_agent_write(&b->conf);
    if (e) {
        free(b->conf.budget);
        b->conf.budget = was;
        return e;
    }
    free(was);
    *ret = b;
    return NULL;
}

static void on_op_budget(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct asker *o = ctx;
    struct box *b;
    err_t e = set_budget(o, &m->op_budget, &b);
    if (e) {
        end_err(o, e);
        return;
    }
    control_budget(&b->ward[WARD_AGENT]);
    char text[160];
    snprintf(text, sizeof text, "budget of %s: %s", b->conf.name, *b->conf.budget ? b->conf.budget : "none");
    log_info("%s", text);
    end(o, EXIT_OK, text);
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

static void on_op_hello(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct asker *o = ctx;
    if (m->op_hello.fingerprint != msg_fingerprint())
        end(o, EXIT_FAILED, "the warden is of another version: run `agent-cage up` again");
}

static void on_op_ping(void *ctx, struct link *l, struct msg *m) {
    (void)l, (void)m;
    struct asker *o = ctx;
    o->waits_for_fleet = true;
    from_operator_settle(o->w);
}

void from_operator_settle(struct warden *w) {
    if (!w->operators || !warden_up(w))
        return;
    for (struct asker *o = w->operators->first; o; o = o->next)
        if (o->waits_for_fleet) {
            o->waits_for_fleet = false;
            end(o, EXIT_OK, "fleet is up");
        }
}

static void on_end(void *ctx, struct link *l, err_t why) {
    struct asker *o = ctx;
    if (why)
        log_warn("operator: %s", err_text(why));
    o->link = NULL;
    link_free(l);
    reap(o);
}

static link_fn *const handlers[MSG_COUNT] = {
    [MSG_op_hello] = on_op_hello,   [MSG_op_seal] = on_op_seal, [MSG_op_new] = on_op_new,
    [MSG_op_rm] = on_op_rm,         [MSG_op_ping] = on_op_ping, [MSG_op_auth] = on_op_auth,
    [MSG_op_budget] = on_op_budget,
};
static const struct link_ops ops = {.on = handlers, .on_end = on_end};

static void on_acceptable(evutil_socket_t listener, short what, void *arg) {
    (void)what;
    struct warden *w = arg;
    own_fd int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    uid_t uid;
    if (fd < 0)
        return;
    own_err err_t e = seq_peer(fd, &uid, NULL);
    if (e || uid != 0) {
        log_warn("operator: a peer that is not root was turned away");
        return;
    }
    struct asker *o = xcalloc(1, sizeof *o);
    *o = (struct asker){.next = w->operators->first, .w = w};
    w->operators->first = o;
    o->link = link_new(w->base, TAKE_FD(fd), LINK_operator_warden, false, &ops, o);
}

err_t from_operator_open(struct warden *w) {
    own_free char *path = path_of(PATH_WARDEN_SOCKET);
    struct operators *all = xcalloc(1, sizeof *all);
    w->operators = all;
    TRY(seq_listen(path, 0600, &all->fd));
    all->acceptable = event_new(w->base, all->fd, EV_READ | EV_PERSIST, on_acceptable, w);
    event_add(all->acceptable, NULL);
    return NULL;
}

void from_operator_close(struct warden *w) {
    if (!w->operators)
        return;
    for (struct asker *o = w->operators->first; o; o = o->next)
        if (o->link)
            link_flush(o->link, 100);
    own_free char *path = path_of(PATH_WARDEN_SOCKET);
    unlink(path);
}
