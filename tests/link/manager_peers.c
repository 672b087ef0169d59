#include "manager_peers.h"
#include "base/fs.h"
#include "base/lockin.h"
#include "base/proc.h"
#include "part/part.h"
#include "wire/seq.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

int manager_main(int argc, char **argv);

enum { MANAGER_UID = 64000 };
const char *const agent_names[AGENTS] = {"demo", "other"};

static void must(int rc) {
    assert_return_code(rc, errno);
}

void peers_open(struct peers *p, size_t bytes) {
    void (*in_child)(void) = p->in_child;
    *p = (struct peers){.listener = -1, .control = -1, .relay = -1, .warden = -1, .agents = {-1, -1}};
    p->in_child = in_child;
    snprintf(p->root, sizeof p->root, "/tmp/link-manager-XXXXXX");
    assert_non_null(mkdtemp(p->root));
    must(chmod(p->root, 0755));
    own_free char *folder = xasprintf("%s/var/lib/agent-cage/manager", p->root);
    assert_null(fs_dirs(folder));
    if (bytes) {
        own_free char *options = xasprintf("size=%zu,mode=0700", bytes);
        must(mount("manager", folder, "tmpfs", MS_NOSUID | MS_NODEV, options));
    }
    must(chown(folder, MANAGER_UID, MANAGER_UID));
    must(chmod(folder, 0700));
    snprintf(p->socket, sizeof p->socket, "%s/manager.ctl", p->root);
    assert_null(seq_listen(p->socket, 0600, &p->listener));
}

void peers_close(struct peers *p) {
    peers_kill(p);
    peers_hang_up(p);
    own_closep(&p->listener);
    own_free char *folder = xasprintf("%s/var/lib/agent-cage/manager", p->root);
    umount2(folder, MNT_DETACH);
    assert_null(fs_remove(p->root));
}

static _Noreturn void child(const struct peers *p) {
    must(dup2(p->listener, PART_CONTROL));
    fds_close_from(PART_CONTROL + 1, NULL, 0);
    setenv("AGENT_CAGE_ROOT", p->root, 1);
    if (geteuid() == 0) {
        err_t e = lockin_become(MANAGER_UID, MANAGER_UID, NULL, 0);
        if (e)
            die(e);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* after the change of ids, which clears it */
    if (p->in_child)
        p->in_child();
    char *argv[] = {(char[]){"manager"}, (char[]){""}, NULL};
    _exit(manager_main(2, argv));
}

void peers_link(struct peers *p, enum link_id link, const char *peer, int *fd) {
    int pair[2];
    own_closep(fd);
    assert_null(seq_pair(pair));
    struct msg m = {.type = MSG_part_link, .fds = {pair[1]}, .nfds = 1};
    m.part_link.link = link;
    m.part_link.peer = bytes_of(peer);
    peer_send(p->control, &m);
    close(pair[1]);
    *fd = pair[0];
}

void peers_start(struct peers *p) {
    fflush(NULL);
    p->pid = fork();
    must(p->pid);
    if (!p->pid)
        child(p);
    assert_null(seq_connect(p->socket, &p->control));
    peers_link(p, LINK_relay_manager, "", &p->relay);
    peers_link(p, LINK_manager_warden, "", &p->warden);
    for (int i = 0; i < AGENTS; i++)
        peers_link(p, LINK_manager_agent, agent_names[i], &p->agents[i]);
}

void peers_kill(struct peers *p) {
    if (p->pid) {
        kill(p->pid, SIGKILL);
        waitpid(p->pid, NULL, 0);
    }
    p->pid = 0;
}

void peers_hang_up(struct peers *p) {
    own_closep(&p->control);
    own_closep(&p->relay);
    own_closep(&p->warden);
    for (int i = 0; i < AGENTS; i++)
        own_closep(&p->agents[i]);
}

void peers_say_fleet(struct peers *p) {
    for (int i = 0; i < AGENTS; i++) {
        struct msg m = {.type = MSG_has_agent};
        m.has_agent = (struct msg_has_agent){.agent = bytes_of(agent_names[i]),
                                             .mode = bytes_of("pod"),
                                             .harness = bytes_of("shell"),
                                             .project = bytes_of("/srv/p"),
                                             .net = bytes_of("open"),
                                             .state = bytes_of("running"),
                                             .why = bytes_of(""),
                                             .since_wall_ms = 1};
        peer_send(p->warden, &m);
    }
    struct msg all = {.type = MSG_has_all};
    all.has_all.agents = AGENTS;
    peer_send(p->warden, &all);
}

void peers_know_fleet(struct peers *p) {
    for (int known = 0; known < AGENTS;) {
        known = 0;
        struct msg q = {.type = MSG_fleet_list};
        q.fleet_list.cookie = 1;
        peer_send(p->relay, &q);
        for (bool end = false; !end;) {
            own_msg struct msg m = {0};
            assert_true(peer_get(p->relay, DEADLINE_MS, &m, NULL));
            known += m.type == MSG_ret_agent;
            end = m.type == MSG_ret_end;
        }
    }
}

void peer_send(int fd, struct msg *m) {
    own_err err_t e = seq_send(fd, m);
    if (e && e->errnum != EPIPE && e->errnum != ECONNRESET)
        fail_msg("send: %s", err_text(e));
}

bool peer_get(int fd, int timeout_ms, struct msg *ret, bool *ret_end) {
    struct pollfd pfd = {fd, POLLIN, 0};
    enum seq_got got = SEQ_AGAIN;
    if (poll(&pfd, 1, timeout_ms) > 0) {
        err_t e = seq_recv(fd, ret, &got);
        if (e)
            fail_msg("receive: %s", err_text(e));
    }
    if (ret_end)
        *ret_end = got == SEQ_END;
    return got == SEQ_MESSAGE;
}

void peer_want(int fd, enum msg_type type, struct msg *ret) {
    for (;;) {
        struct msg m = {0};
        if (!peer_get(fd, DEADLINE_MS, &m, NULL))
            fail_msg("no %s came", msg_rows[type].name);
        if (m.type == type) {
            *ret = m;
            return;
        }
        msg_free(&m);
    }
}

void relay_ask(struct peers *p, struct msg *question, struct msg *ret) {
    peer_send(p->relay, question);
    peer_want(p->relay, MSG_ret_end, ret);
    assert_int_equal(ret->ret_end.cookie, question->fleet_list.cookie);
}

struct msg say(uint64_t cookie, const char *key, const char *agent, const char *text) {
    struct msg m = {.type = MSG_fleet_say};
    m.fleet_say = (struct msg_fleet_say){.cookie = cookie,
                                         .who = bytes_of("operator"),
                                         .key = bytes_of(key),
                                         .agent = bytes_of(agent),
                                         .text = bytes_of(text)};
    return m;
}

/* ---- the one manager of a test ---- */

struct peers peers;

const char *long_text(void) {
    static char text[LONG + 1];
    memset(text, 'x', LONG);
    return text;
}

void relay_answers(struct msg *question, uint64_t status, const char *part_of_text) {
    own_msg struct msg m = {0};
    relay_ask(&peers, question, &m);
    if (m.ret_end.status != status || !strstr(m.ret_end.text.p, part_of_text))
        fail_msg("status %llu, '%s'", (unsigned long long)m.ret_end.status, m.ret_end.text.p);
}

uint64_t relay_says(const char *key, const char *agent, const char *text) {
    struct msg q = say(7, key, agent, text);
    own_msg struct msg m = {0};
    relay_ask(&peers, &q, &m);
    assert_int_equal(m.ret_end.status, 0);
    return m.ret_end.id;
}

void agent_finishes(int agent, uint64_t id, const char *outcome, const char *text) {
    struct msg m = {.type = MSG_desk_finished};
    m.desk_finished = (struct msg_desk_finished){.id = id,
                                                 .outcome = bytes_of(outcome),
                                                 .status = 3,
                                                 .span_ms = 5,
                                                 .text = bytes_of(text),
                                                 .output = bytes_of("/out")};
    peer_send(peers.agents[agent], &m);
}

void agent_is_settled(int agent, uint64_t id) {
    own_msg struct msg m = {0};
    peer_want(peers.agents[agent], MSG_desk_settle, &m);
    assert_int_equal(m.desk_settle.id, id);
}

struct msg events_of(uint64_t cookie, const char *agent, uint64_t after, bool follow) {
    struct msg m = {.type = MSG_fleet_events};
    m.fleet_events = (struct msg_fleet_events){
        .cookie = cookie, .agent = bytes_of(agent), .after = after, .follow = follow};
    return m;
}
