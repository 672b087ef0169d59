/*
 * The harness room: PID 1 of the room that holds nothing. Starts the harness that part_go names, passes turns
 * to it, reaps.
 */
#include "base/lockin.h"
#include "base/log.h"
#include "base/own.h"
#include "base/proc.h"
#include "harness/from_agent.h"
#include "harness/harness.h"
#include "part/apart.h"
#include "part/share.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int harness_main(int argc, char **argv);

struct room_state {
    struct event_base *base;
    struct part *part;
    struct from_agent *up;
    const struct harness *harness; /* NULL before part_go */
    void *h;
    struct login *login;
    struct floor floor;
    char *env[8];
};

static void on_link(void *ctx, enum link_id link, const char *peer, int fd) {
    (void)peer;
    struct room_state *r = ctx;
    if (link == LINK_agent_harness)
        from_agent_link(r->up, fd);
    else
        close(fd);
}

static void on_unlink(void *ctx, enum link_id link, const char *peer) {
    (void)peer;
    struct room_state *r = ctx;
    if (link == LINK_agent_harness)
        from_agent_unlink(r->up);
}

static void make_env(struct room_state *r, const struct msg_part_go *go) {
    const char *tz = getenv("TZ");
    size_t n = 0;
    r->env[n++] = xstrdup("PATH=" PROC_PATH);
    r->env[n++] = xstrdup("LANG=C.UTF-8");
    r->env[n++] = xstrdup("SHELL=/bin/bash");
    r->env[n++] = xasprintf("HOME=%s", go->home.p);
    r->env[n++] = xasprintf("TMPDIR=%s", go->scratch.p);
    if (tz)
        r->env[n++] = xasprintf("TZ=%s", tz);
    _Static_assert(COUNT(r->env) >= 7, "six and the end");
}

static err_t open_harness(struct room_state *r, const struct msg_part_go *go) {
    const char *arg;
    const struct harness *harness;
    TRY(harness_of(go->harness.p, &harness, &arg));
    make_env(r, go);
    r->floor = (struct floor){.base = r->base,
                              .project = xstrdup(go->project.p),
                              .home = xstrdup(go->home.p),
                              .scratch = xstrdup(go->scratch.p),
                              .idle_ms = go->idle_ms,
                              .arg = xstrdup(arg),
                              .env = r->env,
                              .world = from_agent_world(r->up),
                              .up = r->up};
    if (strcmp(go->harness.p, "shell"))
        share_folders(go->home.p, go->scratch.p);
    TRY(apart_sockets(go));
    TRY(harness->open(&r->floor, &r->h));
    r->harness = harness;
    return NULL;
}

static void on_go(void *ctx, struct msg *m) {
    struct room_state *r = ctx;
    own_err err_t e = open_harness(r, &m->part_go);
    if (e) {
        log_error("%s", err_text(e));
        event_base_loopexit(r->base, NULL);
        return;
    }
    r->login = login_new(&r->floor, m->part_go.harness.p, &from_agent_login_ops, r->up);
    from_agent_go(r->up, r->part, r->harness, r->h, r->login);
    part_ready(r->part);
}

static const struct part_ops part_ops = {.on_link = on_link, .on_unlink = on_unlink, .on_go = on_go};

/* Every child: the harness's own and the orphans that a PID 1 gets. */
static void on_child(evutil_socket_t sig, short what, void *arg) {
    (void)sig, (void)what;
    struct room_state *r = arg;
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || !info.si_pid)
            return;
        int status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
        if (r->harness)
            r->harness->exited(r->h, info.si_pid, status);
        from_agent_exited(r->up, info.si_pid, status);
        waitpid(info.si_pid, NULL, WNOHANG);
    }
}

static void on_term(evutil_socket_t sig, short what, void *arg) {
    (void)sig, (void)what;
    event_base_loopexit(((struct room_state *)arg)->base, NULL);
}

static void leave(struct room_state *r) {
    if (r->harness)
        r->harness->close(r->h);
    login_free(r->login);
    from_agent_free(r->up);
    part_free(r->part);
    for (size_t i = 0; i < COUNT(r->env); i++)
        free(r->env[i]);
    free(r->floor.project);
    free(r->floor.home);
    free(r->floor.scratch);
    free(r->floor.arg);
}

int harness_main(int argc, char **argv) {
    own_free char *name = xasprintf("harness %s", argc > 1 ? argv[1] : "");
    log_open(name);
    const struct lockin_spec spec = {.part = "harness", .calls = LOCKIN_SPAWNER, .nfds = PART_CONTROL + 1};
    own_buf struct buf lacks = {0};
    err_t e = lockin(&spec, &lacks);
    if (e)
        die(e);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) /* in bare it is not PID 1 */
        die(err_sys(errno, "PR_SET_CHILD_SUBREAPER"));
    struct room_state r = {.base = event_base_new()};
    r.up = from_agent_new(r.base);
    e = part_new(r.base, PART_CONTROL, name, &part_ops, &r, &r.part);
    if (e)
        die(e);
    struct event *child = evsignal_new(r.base, SIGCHLD, on_child, &r),
                 *term = evsignal_new(r.base, SIGTERM, on_term, &r);
    event_add(child, NULL);
    event_add(term, NULL);
    event_base_dispatch(r.base);
    leave(&r);
    event_free(child);
    event_free(term);
    event_base_free(r.base);
    return EXIT_OK;
}
