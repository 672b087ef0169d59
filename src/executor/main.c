/* The executor room's first process: start-up, in order. Everything else happens in the loop. */
#include "base/ids.h"
#include "base/lockin.h"
#include "base/log.h"
#include "base/names.h"
#include "base/own.h"
#include "executor/account.h"
#include "executor/environ.h"
#include "executor/executor.h"
#include "executor/from_agent.h"
#include "executor/from_shim.h"
#include "executor/run.h"
#include "executor/survivors.h"
#include "executor/tree.h"
#include "part/apart.h"
#include "part/share.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

int executor_main(int argc, char **argv);

static void on_signal(int signo) {
    (void)signo;
}

/*
 * Nobody ends the room by a signal but with SIGKILL from outside. A handler that does nothing, rather than
 * SIG_IGN: an exec turns it back into the default action, so commands need no clean-up.
 */
static void deafen(void) {
    static const int deaf[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,   SIGUSR2, SIGALRM,
                               SIGTSTP, SIGTTIN, SIGTTOU, SIGIO,   SIGVTALRM, SIGPROF, SIGPWR};
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < COUNT(deaf); i++)
        sigaction(deaf[i], &sa, NULL);
}

/* Without an agent nobody takes the account: it says at its next start that it does not know how those commands ended. */
void executor_quiet(struct executor *x) {
    bool told = !x->agent || account_empty(x->account);
    if (x->stopping && told && !x->runs && (!x->survivors || survivors_none(x->survivors)))
        event_base_loopbreak(x->base);
}

static void on_none_survives(void *ctx) {
    executor_quiet(ctx);
}

static err_t open_room(struct executor *x, struct msg *m, char **ret_why) {
    const struct msg_part_go *go = &m->part_go;
    own_free char *user = ids_name(getuid()), *tmpdir = NULL;
    x->project = xstrdup(go->project.p);
    x->outbox = xstrdup(go->outbox.p);
    if (strcmp(go->harness.p, "shell"))
        share_folders(go->home.p, go->scratch.p);
    TRY(apart_sockets(go));
    TRY(apart_tmpdir(go, &tmpdir));
    x->environ = environ_new(go->home.p, tmpdir, user ? user : "cage");
    x->survivors = survivors_new(x->base, on_none_survives, x);
    TRY(trees_new(x->base, m->nfds ? TAKE_FD(m->fds[0]) : -1, &x->trees, ret_why));
    return shims_listen(x, PART_LISTENER, (uid_t)go->peer_uid);
}

static void on_go(void *ctx, struct msg *m) {
    struct executor *x = ctx;
    own_free char *why = NULL;
    err_t e = open_room(x, m, &why);
    if (e) {
        log_error("the room cannot work: %s", err_text(e));
        err_free(e);
        x->broken = true;
        event_base_loopbreak(x->base);
        return;
    }
    if (why)
        log_warn("%s", why);
    agent_go(x);
    part_ready(x->part);
}

static void on_link(void *ctx, enum link_id link, const char *peer, int fd) {
    (void)peer;
    if (link == LINK_agent_executor)
        agent_linked(ctx, fd);
    else
        own_closep(&fd);
}

static void on_unlink(void *ctx, enum link_id link, const char *peer) {
    (void)peer;
    if (link == LINK_agent_executor)
        agent_unlinked(ctx);
}

static void on_grace_over(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct executor *x = arg;
    event_base_loopbreak(x->base);
}

/* Who did not obey is ended while there is still time to write it down. */
static void on_obeyed_not(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct executor *x = arg;
    runs_kill(x);
    if (x->trees) {
        survivors_kill(x->survivors);
        trees_kill_all(x->trees);
    }
}

/*
 * SIGTERM to everything, SIGKILL in a quarter of the grace; then until the account is settled, or the grace is over.
 */
static void on_stop(void *ctx, uint64_t grace_ms) {
    struct executor *x = ctx;
    if (x->stopping)
        return;
    struct timeval tv = {(time_t)(grace_ms / 1000), (suseconds_t)(grace_ms % 1000) * 1000};
    x->stopping = evtimer_new(x->base, on_grace_over, x);
    evtimer_add(x->stopping, &tv);
    uint64_t obey_ms = grace_ms / 4;
    struct timeval obey = {(time_t)(obey_ms / 1000), (suseconds_t)(obey_ms % 1000) * 1000};
    event_base_once(x->base, -1, EV_TIMEOUT, on_obeyed_not, x, &obey);
    shims_stop(x);
    if (x->trees) {
        runs_terminate(x);
        survivors_terminate(x->survivors);
    }
    executor_quiet(x);
}

static const struct part_ops part_ops = {
    .on_link = on_link, .on_unlink = on_unlink, .on_go = on_go, .on_stop = on_stop};

int executor_main(int argc, char **argv) {
    if (argc != 2 || !name_ok(argv[1]))
        die(err_new(EXIT_USAGE, "executor is started by the warden, with an agent's name"));
    own_free char *name = xasprintf("executor %s", argv[1]);
    log_open(name);
    deafen();
    /* It has the workload's uid: undumpable above all, or a command reads and writes its memory by /proc. */
    const struct lockin_spec spec = {.part = name, .calls = LOCKIN_SPAWNER, .nfds = PART_LISTENER + 1};
    own_buf struct buf lacks = {0};
    err_t e = lockin(&spec, &lacks);
    if (e)
        die(e);
    struct executor x = {.base = event_base_new(), .account = account_new()};
    e = x.base ? part_new(x.base, PART_CONTROL, name, &part_ops, &x, &x.part)
               : err_new(EXIT_FAILED, "event loop");
    if (e)
        die(e);
    event_base_dispatch(x.base);
    if (x.trees)
        trees_kill_all(x.trees);
    return x.broken ? EXIT_FAILED : EXIT_OK;
}
