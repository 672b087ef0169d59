/* The manager's start, in order, and its end. */
#include "base/lockin.h"
#include "base/log.h"
#include "base/own.h"
#include "base/paths.h"
#include "manager/asked.h"
#include "manager/room.h"

#include <signal.h>

int manager_main(int argc, char **argv);

/* ---- the control socket ---- */

static void on_link(void *ctx, enum link_id link, const char *peer, int fd) {
    struct manager *m = ctx;
    if (link == LINK_relay_manager)
        relay_link(m, fd);
    else if (link == LINK_manager_warden)
        warden_link(m, fd);
    else if (link == LINK_manager_agent && *peer)
        agent_link(m, peer, fd);
    else {
        log_warn("a link that is none of the manager's: %s", link_rows[link].name);
        own_closep(&fd);
    }
}

static void on_unlink(void *ctx, enum link_id link, const char *peer) {
    if (link == LINK_manager_agent)
        agent_unlink(ctx, peer);
}

static void on_stop(void *ctx, uint64_t grace_ms) {
    (void)grace_ms; /* what is promised is on the disk already */
    struct manager *m = ctx;
    gather_now(m);
    audit_flush(m->audit);
    event_base_loopexit(m->base, NULL);
}

static const struct part_ops part_ops = {.on_link = on_link, .on_unlink = on_unlink, .on_stop = on_stop};

/* ---- the audit log ---- */

static void on_head(void *ctx, uint64_t seq, const uint8_t hash[AUDIT_HASH]) {
    warden_keep_head(ctx, seq, hash);
}

static void on_kept(void *ctx, const char *agent, uint64_t row) {
    agent_settle_row(ctx, agent, row);
}

static void on_batch(void *ctx, const struct err *e) {
    struct manager *m = ctx;
    if (e)
        log_warn("audit log: %s", err_text(e));
    else
        follow_wake(m->follows, FOLLOW_ROWS);
    agent_holds(m);
}

static const struct audit_ops audit_ops = {.on_head = on_head, .on_kept = on_kept, .on_batch = on_batch};

/* ---- start ---- */

static void on_unread(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    asked_unread(arg);
}

/* Its own state folder and SQLite's source of randomness; nothing else of the host. */
static err_t lock_in(void) {
    own_free char *state = path_of(DIR_LIB "/manager");
    const struct lockin_spec spec = {.part = "manager",
                                     .calls = LOCKIN_DAEMON,
                                     .read = {"/dev/urandom"},
                                     .write = {state},
                                     .nfds = PART_CONTROL + 1};
    own_buf struct buf lacks = {0};
    TRY(lockin(&spec, &lacks));
    if (lacks.len)
        log_warn("this kernel lacks: %s", buf_text(&lacks));
    return NULL;
}

static err_t start(struct manager *m) {
    TRY(paths_open());
    TRY(lock_in());
    own_free char *file = path_of(DIR_LIB "/manager/fleet.db");
    m->base = event_base_new();
    TRY(part_new(m->base, PART_CONTROL, "manager", &part_ops, m, &m->part));
    TRY(db_open(&manager_db, file, &m->db));
    TRY(fleet_load(&m->fleet, m->db));
    TRY(audit_new(m->base, m->db, &audit_ops, m, &m->audit));
    asks_open(&m->asks);
    m->follows = follows_new(m);
    m->gather = gather_new(m);
    m->unread = evtimer_new(m->base, on_unread, m);
    return NULL;
}

static void stop(struct manager *m) {
    fleet_free(&m->fleet);
    link_free(m->relay);
    link_free(m->warden);
    follows_free(m->follows);
    asks_free(&m->asks);
    gather_free(m->gather);
    audit_free(m->audit);
    db_close(m->db);
    event_free(m->unread);
    part_free(m->part);
    event_base_free(m->base);
}

int manager_main(int argc, char **argv) {
    (void)argc, (void)argv;
    log_open("manager");
    struct manager m = {0};
    err_t e = start(&m);
    if (e)
        die(e);
    part_ready(m.part);
    event_base_dispatch(m.base);
    stop(&m);
    return 0;
}
