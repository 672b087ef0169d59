/* The manager on a full disk, a small file system of its own: nothing is half done, nothing is lost, and it goes on by itself. */
#include "manager_peers.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include <cmocka.h>

static void grow(size_t bytes) {
    own_free char *folder = xasprintf("%s/var/lib/agent-cage/manager", peers.root);
    own_free char *options = xasprintf("size=%zu,mode=0700", bytes);
    assert_return_code(mount("manager", folder, "tmpfs", MS_REMOUNT | MS_NOSUID | MS_NODEV, options), errno);
}

/* Says messages until one is refused; how many were taken. */
static int fill(const char *text) {
    for (int i = 0;; i++) {
        char key[64];
        snprintf(key, sizeof key, "%zu, %d", strlen(text), i);
        struct msg q = say(7, key, "other", text);
        own_msg struct msg m = {0};
        relay_ask(&peers, &q, &m);
        if (m.ret_end.status == 0)
            continue;
        assert_int_equal(m.ret_end.status, EXIT_FAILED);
        assert_non_null(strstr(m.ret_end.text.p, "full"));
        return i;
    }
}

static int count_events(const char *kind) {
    struct msg q = events_of(3, "", 0, false);
    peer_send(peers.relay, &q);
    for (int n = 0;;) {
        own_msg struct msg m = {0};
        assert_true(peer_get(peers.relay, DEADLINE_MS, &m, NULL));
        if (m.type == MSG_ret_end)
            return n;
        n += !strcmp(m.ret_event.kind.p, kind);
    }
}

static void a_full_disk(void **state) {
    (void)state;
    peers_open(&peers, 2 << 20);
    peers_start(&peers);
    peers_say_fleet(&peers);
    peers_know_fleet(&peers);
    uint64_t id = relay_says("k1", "demo", "before"), second = relay_says("k0", "demo", "before too");
    int taken = fill(long_text());
    taken += fill("what little room is left");
    assert_true(taken > 3);
    agent_finishes(0, id, "done", long_text());
    agent_finishes(0, second, "done", long_text());
    for (struct msg m = {0}; peer_get(peers.agents[0], 300, &m, NULL); msg_free(&m))
        assert_int_equal(m.type, MSG_desk_deliver);      /* nothing is settled that is not kept */
    assert_int_equal(count_events("queued"), 2 + taken); /* reading goes on, and nothing is half done */
    assert_int_equal(count_events("report"), 0);
    grow(64 << 20);
    agent_is_settled(0, id);
    agent_is_settled(0, second);
    assert_int_equal(count_events("report"), 2);
    relay_says("k2", "demo", "after");
    peers_kill(&peers); /* and what was refused did not come in by another way */
    peers_hang_up(&peers);
    peers_start(&peers);
    assert_int_equal(count_events("queued"), 3 + taken);
    peers_close(&peers);
}

/* Rows of both agents, more than wait in memory: none is lost, none comes twice. */
static void rows_on_a_full_disk(void **state) {
    (void)state;
    enum { ROWS = 400, WORDS = 6000 };
    peers_open(&peers, 2 << 20);
    peers_start(&peers);
    peers_say_fleet(&peers);
    peers_know_fleet(&peers);
    fill(long_text());
    struct bytes argv = {long_text(), WORDS};
    for (int agent = 0; agent < AGENTS; agent++) {
        int room = 64 << 20; /* the link holds them while the manager does not read */
        assert_return_code(setsockopt(peers.agents[agent], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room),
                           errno);
        for (uint64_t row = 1; row <= ROWS; row++) {
            struct msg m = {.type = MSG_desk_row};
            m.desk_row = (struct msg_desk_row){.row = row, .argv = {&argv, 1}, .how = bytes_of("exit")};
            peer_send(peers.agents[agent], &m);
        }
    }
    struct msg q = {.type = MSG_fleet_log};
    q.fleet_log.cookie = 5;
    relay_answers(&q, 0, "");
    grow(64 << 20);
    for (int agent = 0; agent < AGENTS; agent++)
        for (uint64_t row = 1; row <= ROWS; row++) {
            own_msg struct msg m = {0};
            peer_want(peers.agents[agent], MSG_desk_settle_row, &m);
            assert_int_equal(m.desk_settle_row.row, row);
        }
    peer_send(peers.relay, &q);
    for (uint64_t n = 0;; n++) {
        own_msg struct msg m = {0};
        assert_true(peer_get(peers.relay, DEADLINE_MS, &m, NULL));
        if (m.type == MSG_ret_end) {
            assert_int_equal(n, AGENTS * ROWS);
            break;
        }
        assert_int_equal(m.ret_row.seq, n + 1);
    }
    peers_close(&peers);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_full_disk), cmocka_unit_test(rows_on_a_full_disk)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
