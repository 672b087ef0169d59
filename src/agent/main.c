/*
 * The agent: PID 1 of its room (or a plain account in bare). Holds the conversation's memory and, later, the
 * model credential; runs nothing itself.
 */
#include "agent/ledger.h"
#include "agent/agent.h"
#include "agent/from_manager.h"
#include "agent/intray.h"
#include "agent/journal.h"
#include "agent/model.h"
#include "agent/questions.h"
#include "agent/sessions.h"
#include "agent/signin.h"
#include "agent/to_executor.h"
#include "agent/to_harness.h"
#include "agent/token_box.h"
#include "agent/turn.h"
#include "agent/witness.h"
#include "base/lockin.h"
#include "base/log.h"
#include "base/names.h"
#include "base/own.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

int agent_main(int argc, char **argv);

enum { KEPT_FREE = 1 << 20 };
enum { STOP_MS = 2000 }; /* at least: a turn may take TURN_STOP_MS of it */

/* Which file owns which link. */
static const struct {
    void (*link)(struct agent *a, int fd);
    void (*unlink)(struct agent *a);
} links[LINK_COUNT] = {
    [LINK_manager_agent] = {desk_link, desk_unlink},
    [LINK_agent_harness] = {to_harness_link, to_harness_unlink},
    [LINK_agent_executor] = {to_executor_link, to_executor_unlink},
    [LINK_harness_model] = {model_link, model_unlink},
};

static void on_link(void *ctx, enum link_id link, const char *peer, int fd) {
    (void)peer;
    if (links[link].link)
        links[link].link(ctx, fd);
    else
        close(fd);
}

static void on_unlink(void *ctx, enum link_id link, const char *peer) {
    (void)peer;
    if (links[link].unlink)
        links[link].unlink(ctx);
}

/* Before the first byte of a stranger: links are not read until this is done. */
static err_t lock_in(const struct msg_part_go *go) {
    bool model = go->upstream.len; /* its API is the one thing outside that the room speaks to */
    const struct lockin_spec spec = {.part = "agent",
                                     .calls = model ? LOCKIN_NETWORK : LOCKIN_DAEMON,
                                     .splices = true, /* the in-tray */
                                     .read = {model ? "/etc/resolv.conf" : NULL, "/etc/hosts", go->ca.p},
                                     .write = {go->home.p, go->tray.p}};
    own_buf struct buf lacks = {0};
    TRY(lockin(&spec, &lacks));
    if (lacks.len)
        log_warn("%s", buf_text(&lacks));
    return NULL;
}

/* A pod's files stay; a sealed agent sees those of the conversation in which they were sent. */
static err_t open_tray(struct agent *a, const struct msg_part_go *go) {
    own_free char *note =
        !strcmp(go->mode.p, mode_name(MODE_SEALED)) ? xasprintf("%s/intray-of", go->home.p) : NULL;
    const struct intray_place at = {go->tray.p, go->inbox.p, note, go->reserve};
    TRY(intray_open(a, &at, &a->intray));
    return intray_of(a->intray, sessions_current(a->sessions));
}

static err_t open_state(struct agent *a, const struct msg_part_go *go) {
    TRY(lock_in(go));
    own_fd int home = open(go->home.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (home < 0)
        return err_sys(errno, "open the state folder %s", go->home.p);
    TRY(journal_open(home, &a->journal));
    to_executor_open(a, home);
    a->ledger = ledger_new();
    a->begun = ledger_new();
    a->questions = questions_new(a, go->ask_ms);
    a->sessions = sessions_open(a, go->home.p);
    a->witness = witness_new(go->harness.p);
    TRY(turn_open(a, home, go->output_max, &a->turn));
    a->signin = signin_new(a, go->harness.p);
    TRY(open_tray(a, go));
    TRY(model_open(a, home, go));
    own_err err_t none = model_may_log_in(a);
    return none ? NULL : token_box_new(go->agent.p, &a->token_box);
}

static void on_go(void *ctx, struct msg *m) {
    struct agent *a = ctx;
    err_t e = open_state(a, &m->part_go);
    if (e) { /* without its memory the agent could run a message twice */
        log_error("%s", err_text(e));
        usleep(100000); /* the line goes out, and the warden's back-off is not the only brake */
        _exit(EXIT_FAILED);
    }
    a->gone = true;
    desk_go(a);
    to_executor_go(a);
    to_harness_go(a);
    part_ready(a->part);
}

/* Rows that are not kept by the manager in time are its to end: it knows what began. */
void agent_quiet(struct agent *a) {
    bool told = !desk_up(a) || ledger_empty(a->ledger);
    if (a->leaving && told && !turn_running(a->turn))
        event_base_loopexit(a->base, NULL);
}

static void on_grace_over(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct agent *a = arg;
    event_base_loopexit(a->base, NULL);
}

static void on_stop(void *ctx, uint64_t grace_ms) {
    struct agent *a = ctx;
    if (a->leaving)
        return;
    if (!a->gone) {
        event_base_loopexit(a->base, NULL);
        return;
    }
    if (grace_ms < STOP_MS)
        grace_ms = STOP_MS;
    struct timeval tv = {(time_t)(grace_ms / 1000), (suseconds_t)(grace_ms % 1000) * 1000};
    a->leaving = evtimer_new(a->base, on_grace_over, a);
    event_add(a->leaving, &tv);
    turn_leave(a->turn);
    to_executor_leave(a);
}

static err_t on_secret(void *ctx, const char *kind, const char *p, size_t n, const char **ret_text) {
    struct agent *a = ctx;
    return a->gone ? model_secret(a, kind, p, n, ret_text)
                   : err_new(EXIT_FAILED, "the agent is just starting: try again");
}

static void on_budget(void *ctx, const char *budget) {
    model_budget(ctx, budget);
}

static const struct part_ops part_ops = {.on_link = on_link,
                                         .on_unlink = on_unlink,
                                         .on_go = on_go,
                                         .on_stop = on_stop,
                                         .on_secret = on_secret,
                                         .on_budget = on_budget};

/* What `podman stop` says to a PID 1. */
static void on_term(evutil_socket_t sig, short what, void *arg) {
    (void)sig, (void)what;
    on_stop(arg, 0);
}

static void leave(struct agent *a) {
    desk_flush(a);
    desk_free(a->desk);
    to_harness_free(a->harness);
    to_executor_free(a->executor);
    signin_free(a->signin);
    model_free(a->model);
    token_box_free(a->token_box);
    questions_free(a->questions);
    sessions_free(a->sessions);
    witness_free(a->witness);
    turn_free(a->turn);
    ledger_free(a->ledger);
    ledger_free(a->begun);
    if (a->leaving)
        event_free(a->leaving);
    journal_free(a->journal);
    free(a->login);
    part_free(a->part);
    event_base_free(a->base);
}

int agent_main(int argc, char **argv) {
    own_free char *name = xasprintf("agent %s", argc > 1 ? argv[1] : "");
    log_open(name);
    if (prctl(PR_SET_DUMPABLE, 0) < 0) /* the rest of lockin() needs to know the state folder: lock_in() */
        die(err_sys(errno, "PR_SET_DUMPABLE"));
    fds_close_from(PART_CONTROL + 1, NULL, 0);
    umask(077);
    mallopt(M_TRIM_THRESHOLD, KEPT_FREE); /* a stream frees and takes again with each piece */
    struct agent a = {.base = event_base_new(), .login = xstrdup("")};
    a.desk = desk_new(&a);
    a.harness = to_harness_new(&a);
    a.executor = to_executor_new(&a);
    err_t e = part_new(a.base, PART_CONTROL, name, &part_ops, &a, &a.part);
    if (e)
        die(e);
    struct event *term = evsignal_new(a.base, SIGTERM, on_term, &a);
    event_add(term, NULL);
    signal(SIGCHLD, SIG_IGN); /* orphans of the room are reaped by the kernel */
    event_base_dispatch(a.base);
    event_free(term);
    leave(&a);
    return EXIT_OK;
}
