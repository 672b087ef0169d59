/* The warden's start-up order. What each step is for is in its own file. */
#include "base/log.h"
#include "base/own.h"
#include "base/paths.h"
#include "up/fleet_lock.h"
#include "up/prepare.h"
#include "warden/agents.h"
#include "warden/from_manager.h"
#include "warden/from_operator.h"
#include "warden/disk.h"
#include "warden/heads.h"
#include "warden/rules.h"
#include "warden/fleet_log.h"
#include "warden/footing.h"
#include "warden/state.h"
#include "warden/warden.h"
#include "warden/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_end_signal(evutil_socket_t signo, short what, void *arg) {
    (void)what;
    log_info("ending the fleet (signal %d)", (int)signo);
    warden_end(arg);
}

/* Leaves the parts alone: the next warden takes them over. */
static void on_leave_signal(evutil_socket_t signo, short what, void *arg) {
    (void)signo, (void)what;
    log_info("leaving; the parts go on");
    event_base_loopbreak(((struct warden *)arg)->base);
}

/* Workers, and parts whose worker ended before them. */
static void on_child(evutil_socket_t signo, short what, void *arg) {
    (void)signo, (void)what;
    struct warden *w = arg;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        ward_exited(&w->relay, pid, status);
        ward_exited(&w->manager, pid, status);
        for (struct box *b = w->boxes; b; b = b->next)
            for (int room = 0; room < ROOM_COUNT; room++)
                ward_exited(&b->ward[room], pid, status);
    }
}

static void on_signal(struct warden *w, int signo, event_callback_fn fn) {
    event_add(evsignal_new(w->base, signo, fn, w), NULL);
}

static err_t run_sweep(void *job, int report) {
    return agents_sweep(job, report);
}

static void on_swept_line(void *ctx, const char *text) {
    (void)ctx;
    log_info("%s", text);
}

/* The agents are looked at once what is half-made is gone. */
static void on_swept(void *ctx, const struct err *why, const void *result, size_t n) {
    (void)result, (void)n;
    struct warden *w = ctx;
    if (why)
        log_error("sweep: %s", err_text(why));
    boxes_load(w);
    if (!w->ending)
        boxes_find(w);
}

static const struct worker_ops sweep_ops = {.run = run_sweep, .on_line = on_swept_line, .on_end = on_swept};

bool warden_up(const struct warden *w) {
    return ward_up(&w->relay) && ward_up(&w->manager);
}

static bool all_gone(const struct warden *w) {
    bool gone = w->relay.state == WARD_ABSENT && w->manager.state == WARD_ABSENT;
    for (const struct box *b = w->boxes; b; b = b->next)
        for (int room = 0; room < ROOM_COUNT; room++)
            gone = gone && b->ward[room].state == WARD_ABSENT;
    return gone && !workers_busy();
}

/* The rooms, then those who keep what the rooms had to say. */
static void leave(struct warden *w) {
    bool left = true;
    for (struct box *b = w->boxes; b; b = b->next)
        left &= box_leave(b);
    for (int i = 0; left && i < 2; i++) {
        struct ward *d = i ? &w->manager : &w->relay;
        if (d->wanted)
            ward_want(d, false);
    }
}

void warden_changed(struct warden *w) {
    from_operator_settle(w);
    if (w->ending)
        leave(w);
    if (w->ending && all_gone(w))
        event_base_loopexit(w->base, NULL);
}

void warden_end(struct warden *w) {
    if (w->ending)
        return;
    w->ending = true;
    warden_changed(w);
}

static void on_tick(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    warden_changed(arg); /* a worker that nothing waits for may be what the end still waited for */
}

static err_t start(struct warden *w) {
    TRY(fleet_lock());
    TRY(footing_make());
    TRY(fleet_log_open());
    TRY(conf_fleet_read(&w->conf));
    TRY(host_read(&w->host));
    prepare_runtime(&w->host);
    log_info("the warden begins, process %d, version %s", (int)getpid(), AGENT_CAGE_VERSION);
    TRY(heads_open());
    TRY(from_operator_open(w));
    switchboard_init(w);
    state_init(w);
    disk_init(w);
    TRY(rules_init(w));
    ward_init(&w->relay, w, NULL, WARD_RELAY);
    ward_init(&w->manager, w, NULL, WARD_MANAGER);
    ward_find(&w->manager, true);
    ward_find(&w->relay, true);
    worker_start(w->base, &sweep_ops, w, w);
    return NULL;
}

int warden_main(int argc, char **argv);
int warden_main(int argc, char **argv) {
    (void)argc, (void)argv;
    static struct warden w;
    log_open("warden");
    err_t e = paths_open();
    if (e)
        die(e);
    w.base = event_base_new();
    on_signal(&w, SIGTERM, on_end_signal);
    on_signal(&w, SIGINT, on_end_signal);
    on_signal(&w, SIGUSR1, on_leave_signal);
    on_signal(&w, SIGCHLD, on_child);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    e = start(&w);
    if (e)
        die(e);
    struct event *tick = event_new(w.base, -1, EV_PERSIST, on_tick, &w);
    event_add(tick, &(struct timeval){1, 0});
    event_base_dispatch(w.base);
    if (w.ending) {
        footing_remove();
        fleet_lock_end();
    }
    from_operator_close(&w);
    log_info("%s", w.ending ? "the fleet is down" : "left");
    return 0;
}
