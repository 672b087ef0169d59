/*
 * kill -9 of the manager while messages and audit rows flow: before and after every commit and every message that matters,
 * then at random moments. In the end each message that was acknowledged ran once and ended once, none is lost, each row is
 * in the log once, and the log's chain fits every head that the warden was given.
 *
 * The points are reached by the linker (--wrap): nothing in the manager knows of them.
 */
#include "base/clock.h"
#include "cli/verify.h"
#include "manager/db.h"
#include "manager/events.h"
#include "manager_peers.h"
#include "wire/link.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- where the manager dies ---- */

struct point {
    enum msg_type sends; /* MSG_none: commits */
    bool after;
    int nth; /* 0: nowhere */
};
static struct point point;

static void reached(bool after) {
    if (point.nth && point.after == after && --point.nth == 0)
        _exit(137); /* as kill -9: nothing is flushed, nothing is told */
}

err_t __real_link_send(struct link *l, const struct msg *m);
err_t __wrap_link_send(struct link *l, const struct msg *m);
err_t __real_db_end(struct db *db, err_t e);
err_t __wrap_db_end(struct db *db, err_t e);

err_t __wrap_link_send(struct link *l, const struct msg *m) {
    bool here = point.sends == m->type;
    if (here)
        reached(false);
    err_t e = __real_link_send(l, m);
    if (here)
        reached(true);
    return e;
}

err_t __wrap_db_end(struct db *db, err_t e) {
    bool here = point.sends == MSG_none;
    if (here)
        reached(false);
    e = __real_db_end(db, e);
    if (here)
        reached(true);
    return e;
}

/* ---- the world around it ---- */

/* No more than the manager keeps the events of, were they all one agent's: said, started, report, and one to spare. */
enum { SAID_MAX = EVENTS_KEEP / 4, WINDOW = 6 };

/* A message, as its sender and its agent know it. */
struct said {
    int agent;
    uint64_t id; /* 0: not acknowledged */
    bool sent;   /* on this link */
    unsigned runs, reports;
    enum { IDLE_, STARTED, FINISHED, SETTLED } journal; /* what the agent has fsynced */
    bool row_kept;
    unsigned rows;
};

static struct world {
    struct peers p;
    struct said said[SAID_MAX];
    int n, done; /* said; settled on both ways */
    struct head *heads;
    size_t nheads;
    int deaths;
} w;

static int number_of(struct bytes text) {
    int i = -1;
    assert_int_equal(sscanf(text.p, "message %d", &i), 1);
    assert_in_range(i, 0, w.n - 1);
    return i;
}

static int by_id(uint64_t id) {
    for (int i = 0; i < w.n; i++)
        if (w.said[i].id == id)
            return i;
    return -1;
}

/* The relay: says what is not acknowledged, again on each link. */
static void relay_speaks(int most_new) {
    int open = 0;
    for (int i = w.done; i < w.n; i++)
        open += w.said[i].journal != SETTLED;
    for (; open < WINDOW && w.n < most_new; open++)
        w.said[w.n++] = (struct said){.agent = rand() % AGENTS};
    for (int i = w.done; i < w.n; i++)
        if (!w.said[i].id && !w.said[i].sent) {
            char key[32], text[32];
            snprintf(key, sizeof key, "key %d", i);
            snprintf(text, sizeof text, "message %d", i);
            struct msg m = say((uint64_t)i + 1, key, agent_names[w.said[i].agent], text);
            peer_send(w.p.relay, &m);
            w.said[i].sent = true;
        }
}

static void relay_hears(const struct msg *m) {
    if (m->type != MSG_ret_end)
        return;
    struct said *s = &w.said[m->ret_end.cookie - 1];
    assert_int_equal(m->ret_end.status, 0);
    assert_true(!s->id || s->id == m->ret_end.id); /* the same key is the same message */
    s->id = m->ret_end.id;
}

/* The agent: a journal, one run for each id, an audit row for each run. */
static uint64_t ids[SAID_MAX]; /* by message number: the id under which it was delivered */

static void say_started(int i) {
    struct msg m = {.type = MSG_desk_started};
    m.desk_started.id = ids[i];
    peer_send(w.p.agents[w.said[i].agent], &m);
}

static void say_finished(int i) {
    struct msg m = {.type = MSG_desk_finished};
    m.desk_finished = (struct msg_desk_finished){.id = ids[i],
                                                 .outcome = bytes_of("done"),
                                                 .span_ms = 1,
                                                 .text = bytes_of("ran"),
                                                 .output = bytes_of("")};
    peer_send(w.p.agents[w.said[i].agent], &m);
}

static void say_row(int i) {
    char text[32];
    snprintf(text, sizeof text, "message %d", i);
    struct bytes argv[] = {bytes_of("sh"), bytes_of(text)};
    struct msg m = {.type = MSG_desk_row};
    m.desk_row = (struct msg_desk_row){.row = 1000 + (uint64_t)i,
                                       .id = ids[i],
                                       .who = bytes_of(""),
                                       .argv = {argv, 2},
                                       .cwd = bytes_of("/project"),
                                       .how = bytes_of("exit"),
                                       .output = bytes_of("")};
    peer_send(w.p.agents[w.said[i].agent], &m);
}

static void agent_hears(int agent, const struct msg *m) {
    if (m->type == MSG_desk_deliver) {
        int i = number_of(m->desk_deliver.text);
        struct said *s = &w.said[i];
        assert_int_equal(s->agent, agent);
        assert_true(!ids[i] || ids[i] == m->desk_deliver.id); /* one message never gets two ids */
        ids[i] = m->desk_deliver.id;
        assert_int_not_equal(s->journal, SETTLED); /* the agent has forgotten it and would run it again */
        if (s->journal == IDLE_) {
            s->journal = STARTED;
            s->runs++;
            say_started(i);
        }
    } else if (m->type == MSG_desk_settle) {
        for (int i = 0; i < w.n; i++)
            if (ids[i] == m->desk_settle.id) {
                assert_true(w.said[i].journal >= FINISHED);
                w.said[i].journal = SETTLED;
            }
    } else if (m->type == MSG_desk_settle_row) {
        w.said[m->desk_settle_row.row - 1000].row_kept = true;
    }
}

/* Some time later a turn ends. */
static void agents_work(void) {
    for (int i = w.done; i < w.n; i++)
        if (w.said[i].journal == STARTED && rand() % 2) {
            w.said[i].journal = FINISHED;
            say_row(i);
            say_finished(i);
        }
}

static void agents_again(void) {
    for (int i = w.done; i < w.n; i++) {
        w.said[i].sent = false;
        if (w.said[i].journal >= FINISHED && !w.said[i].row_kept)
            say_row(i);
        if (w.said[i].journal == FINISHED)
            say_finished(i);
    }
}

static void warden_hears(const struct msg *m) {
    if (m->type != MSG_ask_keep_head)
        return;
    struct head h = {.seq = m->ask_keep_head.seq};
    memcpy(h.hash, m->ask_keep_head.hash.p, AUDIT_HASH);
    if (w.nheads && w.heads[w.nheads - 1].seq == h.seq) {
        assert_memory_equal(w.heads[w.nheads - 1].hash, h.hash, AUDIT_HASH);
        return;
    }
    assert_true(!w.nheads || h.seq > w.heads[w.nheads - 1].seq); /* an acknowledged row is never taken back */
    w.heads = xrealloc(w.heads, w.nheads + 1, sizeof *w.heads);
    w.heads[w.nheads++] = h;
}

static int far_end(int which) {
    const int fds[] = {w.p.relay, w.p.warden, w.p.control};
    return which < 3 ? fds[which] : w.p.agents[which - 3];
}

/* One message, if there is one. */
static bool hear(int fd, int which) {
    own_msg struct msg m = {0};
    if (!peer_get(fd, 0, &m, NULL))
        return false;
    if (which == 0)
        relay_hears(&m);
    else if (which == 1)
        warden_hears(&m);
    else if (which >= 3)
        agent_hears(which - 3, &m);
    return true;
}

/* Moves w.done over all that is settled on every side. */
static void settle_up(void) {
    while (w.done < w.n && w.said[w.done].id && w.said[w.done].journal == SETTLED && w.said[w.done].row_kept)
        w.done++;
}

/* Takes what came within the time; false: the manager is gone. */
static bool step(int timeout_ms) {
    struct pollfd fds[3 + AGENTS];
    for (int i = 0; i < 3 + AGENTS; i++)
        fds[i] = (struct pollfd){far_end(i), POLLIN, 0};
    poll(fds, 3 + AGENTS, timeout_ms);
    for (int i = 0; i < 3 + AGENTS; i++)
        if (fds[i].revents && !hear(fds[i].fd, i))
            return false;
    settle_up();
    return true;
}

static void begin(void) {
    peers_start(&w.p);
    peers_say_fleet(&w.p);
    agents_again();
}

/* The manager is dead, or is killed now. */
static void finish(void) {
    peers_kill(&w.p);
    for (int i = 0; i < 3 + AGENTS; i++)
        while (hear(far_end(i), i))
            ;
    settle_up();
    peers_hang_up(&w.p);
    w.deaths++;
}

/* Runs until it dies, or for `ms`, or until all that was said up to `most` is settled. */
static bool run(int most, int ms) {
    int64_t until = clock_mono_ns() + (int64_t)ms * 1000000;
    while (clock_mono_ns() < until) {
        relay_speaks(most);
        agents_work();
        if (!step(1))
            return false;
        if (w.done == most)
            return true;
    }
    return true;
}

/* ---- the judgement ---- */

static void count_events(void) {
    struct msg q = {.type = MSG_fleet_events};
    q.fleet_events.cookie = 1;
    q.fleet_events.agent = bytes_of("");
    peer_send(w.p.relay, &q);
    for (;;) {
        own_msg struct msg m = {0};
        assert_true(peer_get(w.p.relay, DEADLINE_MS, &m, NULL));
        if (m.type == MSG_ret_end)
            return;
        assert_int_equal(m.type, MSG_ret_event);
        int i = by_id(m.ret_event.id);
        if (i >= 0 && !strcmp(m.ret_event.kind.p, "report"))
            w.said[i].reports++;
    }
}

static void count_rows(void) {
    struct verify v = {.heads = w.heads, .nheads = w.nheads};
    struct msg q = {.type = MSG_fleet_log};
    q.fleet_log.cookie = 1;
    q.fleet_log.agent = bytes_of("");
    peer_send(w.p.relay, &q);
    for (;;) {
        own_msg struct msg m = {0};
        assert_true(peer_get(w.p.relay, DEADLINE_MS, &m, NULL));
        if (m.type == MSG_ret_end)
            break;
        const struct msg_ret_row *r = &m.ret_row;
        struct audit_row row = {r->seq,           r->agent,   r->who, r->argv,   r->cwd,
                                r->start_wall_ms, r->span_us, r->how, r->status, r->output};
        assert_null(verify_row(&v, &row, r->hash));
        w.said[number_of(r->argv.v[1])].rows++;
    }
    verify_end(&v);
    assert_string_equal(v.why, "");
    assert_int_equal(v.compared, w.nheads);
}

static void judge(void) {
    begin();
    assert_true(run(w.n, DEADLINE_MS));
    assert_int_equal(w.done, w.n);
    count_events();
    count_rows();
    for (int i = 0; i < w.n; i++) {
        assert_int_not_equal(w.said[i].id, 0);
        assert_int_equal(w.said[i].id, ids[i]);
        assert_int_equal(w.said[i].runs, 1);
        assert_int_equal(w.said[i].reports, 1);
        assert_int_equal(w.said[i].rows, 1);
    }
    print_message("%d messages, %d deaths, %zu heads\n", w.n, w.deaths, w.nheads);
    finish();
}

static struct point child_point;

static void arm(void) {
    point = child_point;
}

static void world_begin(void) {
    memset(&w, 0, sizeof w);
    memset(ids, 0, sizeof ids);
    w.p.in_child = arm;
    peers_open(&w.p, 0);
    child_point = (struct point){0};
    peers_start(&w.p);
    peers_say_fleet(&w.p);
    peers_know_fleet(&w.p);
    finish();
}

static void world_end(void) {
    free(w.heads);
    peers_close(&w.p);
}

static void at_every_point(void **state) {
    (void)state;
    static const enum msg_type sends[] = {MSG_none,        MSG_ret_end,       MSG_desk_deliver,
                                          MSG_desk_settle, MSG_ask_keep_head, MSG_desk_settle_row};
    world_begin();
    for (int nth = 1; nth <= 4; nth++)
        for (size_t k = 0; k < COUNT(sends); k++)
            for (int after = 0; after <= 1; after++) {
                child_point = (struct point){sends[k], after, nth};
                begin();
                if (run(SAID_MAX, DEADLINE_MS))
                    fail_msg("never %s %s for the %dth time", after ? "after" : "before",
                             sends[k] ? msg_rows[sends[k]].name : "a commit", nth);
                finish();
            }
    child_point = (struct point){0};
    judge();
    world_end();
}

static void at_random_moments(void **state) {
    (void)state;
    world_begin();
    child_point = (struct point){0};
    enum { ROUNDS = 150 };
    for (int i = 1; i <= ROUNDS; i++) {
        begin();
        run(SAID_MAX * i / ROUNDS, rand() % 60);
        finish();
    }
    judge();
    world_end();
}

int main(void) {
    srand(getenv("SEED") ? (unsigned)strtoul(getenv("SEED"), NULL, 10) : (unsigned)clock_mono_ns());
    const struct CMUnitTest tests[] = {cmocka_unit_test(at_every_point), cmocka_unit_test(at_random_moments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
