/*
 * A real relay and a real manager, started as the warden starts them, and the fleet around them played: AGENTS agents that
 * answer each message at once, and a warden that knows them. So the two can be measured with a fleet of any size.
 *
 *   help-fleet BINARY ROOT AGENTS
 *
 * Makes what the two need below ROOT (an empty folder), prints one line of JSON (the page's port, the two pids) when all of it
 * stands, and ends with its standard input. The command line speaks to this relay as to any, with AGENT_CAGE_ROOT=ROOT.
 */
#include "base/clock.h"
#include "base/fs.h"
#include "base/lockin.h"
#include "base/own.h"
#include "part/part.h"
#include "wire/link.h"
#include "wire/seq.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RELAY_UID = 64999, MANAGER_UID = 64000, AGENTS_MAX = 512 };

struct fleet {
    struct event_base *base;
    const char *binary, *root;
    int agents;
    pid_t relay, manager;
    int relay_control, manager_control;
    unsigned port;
};

static void must(err_t e) {
    if (e)
        die(e);
}

static void must_do(int rc, const char *what) {
    if (rc < 0)
        die(err_sys(errno, "%s", what));
}

static const char *name_of(int agent) {
    static char names[AGENTS_MAX][24];
    snprintf(names[agent], sizeof names[agent], "agent-%03d", agent);
    return names[agent];
}

/* ---- the two parts ---- */

static void make_state(const struct fleet *f, const char *part, uid_t uid) {
    own_free char *path = xasprintf("%s/var/lib/agent-cage/%s", f->root, part);
    must(fs_dirs(path));
    must_do(chown(path, uid, uid) | chmod(path, 0700), path);
}

static int listen_at(const struct fleet *f, const char *name) {
    own_free char *path = xasprintf("%s/run/agent-cage/%s", f->root, name);
    int fd;
    must(seq_listen(path, 0600, &fd));
    return fd;
}

/* The page's, on any port. */
static int listen_for_web(unsigned *ret_port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    must_do(bind(fd, (struct sockaddr *)&at, sizeof at) | listen(fd, 1024), "listen");
    must_do(getsockname(fd, (struct sockaddr *)&at, &n), "the page's port");
    *ret_port = ntohs(at.sin_port);
    return fd;
}

/* fds become its 3, 4, …; it dies with us. */
static pid_t start(const struct fleet *f, const char *part, uid_t uid, const int *fds, int nfds) {
    pid_t pid = fork();
    if (pid)
        return pid;
    int high[3];
    for (int i = 0; i < nfds; i++)
        high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 20);
    for (int i = 0; i < nfds; i++)
        must_do(dup2(high[i], PART_CONTROL + i), part);
    make_state(f, part, uid);
    must(lockin_become(uid, uid, NULL, 0));
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* after the change of ids, which clears it */
    setenv("AGENT_CAGE_ROOT", f->root, 1);
    execl(f->binary, "agent-cage", part, "", (char *)NULL);
    _exit(99);
}

static int control_of(const struct fleet *f, const char *name) {
    own_free char *path = xasprintf("%s/run/agent-cage/%s", f->root, name);
    int fd;
    must(seq_connect(path, &fd));
    return fd;
}

static void give(int control, enum link_id link, const char *peer, int fd) {
    struct msg m = {.type = MSG_part_link, .fds = {fd}, .nfds = 1};
    m.part_link.link = link;
    m.part_link.peer = bytes_of(peer);
    must(seq_send(control, &m));
    close(fd);
}

static void start_parts(struct fleet *f) {
    own_free char *run = xasprintf("%s/run/agent-cage", f->root);
    must(fs_dirs(run));
    int relay[] = {listen_at(f, "relay.ctl"), listen_at(f, "relay.sock"), listen_for_web(&f->port)};
    int manager[] = {listen_at(f, "manager.ctl")};
    f->relay = start(f, "relay", RELAY_UID, relay, COUNT(relay));
    f->manager = start(f, "manager", MANAGER_UID, manager, COUNT(manager));
    f->relay_control = control_of(f, "relay.ctl");
    f->manager_control = control_of(f, "manager.ctl");
    int pair[2];
    must(seq_pair(pair));
    give(f->relay_control, LINK_relay_manager, "", pair[0]);
    give(f->manager_control, LINK_relay_manager, "", pair[1]);
}

/* ---- agents ---- */

static void on_deliver(void *ctx, struct link *l, struct msg *m) {
    (void)ctx;
    struct msg started = {.type = MSG_desk_started}, finished = {.type = MSG_desk_finished};
    started.desk_started.id = m->desk_deliver.id;
    started.desk_started.wall_ms = (uint64_t)clock_wall_ms();
    finished.desk_finished = (struct msg_desk_finished){.id = m->desk_deliver.id,
                                                        .outcome = bytes_of("done"),
                                                        .span_ms = 1,
                                                        .text = m->desk_deliver.text,
                                                        .output = bytes_of("")};
    must(link_send(l, &started));
    must(link_send(l, &finished));
}

static void on_nothing(void *ctx, struct link *l, struct msg *m) {
    (void)ctx, (void)l, (void)m;
}

static void on_end(void *ctx, struct link *l, err_t why) {
    (void)ctx, (void)l;
    die(why ? why : err_new(EXIT_FAILED, "the manager is gone"));
}

static link_fn *const agent_handlers[MSG_COUNT] = {
    [MSG_desk_deliver] = on_deliver,
    [MSG_desk_settle] = on_nothing,
};
static const struct link_ops agent_ops = {.on = agent_handlers, .on_end = on_end};

/* ---- the warden ---- */

static void on_state(void *ctx, struct link *l, struct msg *m) {
    (void)ctx;
    struct msg r = {.type = MSG_ret_state};
    r.ret_state = (struct msg_ret_state){
        .cookie = m->ask_state.cookie, .agent = m->ask_state.agent, .full = bytes_of("")};
    must(link_send(l, &r));
}

static link_fn *const warden_handlers[MSG_COUNT] = {
    [MSG_ask_state] = on_state,
    [MSG_ask_keep_head] = on_nothing,
};
static const struct link_ops warden_ops = {.on = warden_handlers, .on_end = on_end};

static void say_agents(const struct fleet *f, struct link *warden) {
    for (int i = 0; i < f->agents; i++) {
        struct msg m = {.type = MSG_has_agent};
        m.has_agent = (struct msg_has_agent){.agent = bytes_of(name_of(i)),
                                             .mode = bytes_of("pod"),
                                             .harness = bytes_of("shell"),
                                             .project = bytes_of("/srv/p"),
                                             .net = bytes_of("open"),
                                             .state = bytes_of("running"),
                                             .why = bytes_of(""),
                                             .since_wall_ms = 1};
        must(link_send(warden, &m));
    }
    struct msg all = {.type = MSG_has_all};
    all.has_all.agents = (uint64_t)f->agents;
    must(link_send(warden, &all));
}

static struct link *play(struct fleet *f, enum link_id id, const char *peer, bool commands,
                         const struct link_ops *ops) {
    int pair[2];
    must(seq_pair(pair));
    give(f->manager_control, id, peer, pair[1]);
    return link_new(f->base, pair[0], id, commands, ops, f);
}

/* ---- the controls ---- */

/* What the two tell the warden of themselves goes nowhere. */
static void on_control(evutil_socket_t fd, short what, void *arg) {
    (void)what, (void)arg;
    own_msg struct msg m = {0};
    enum seq_got got;
    must(seq_recv(fd, &m, &got));
    if (got == SEQ_END)
        die(err_new(EXIT_FAILED, "relay or manager is gone"));
    if (m.type == MSG_part_note)
        fprintf(stderr, "%s\n", m.part_note.text.p);
}

static void on_input(evutil_socket_t fd, short what, void *arg) {
    (void)what;
    char c;
    if (read(fd, &c, 1) <= 0)
        event_base_loopexit(((struct fleet *)arg)->base, NULL);
}

static void watch(struct fleet *f, int fd, event_callback_fn fn) {
    event_add(event_new(f->base, fd, EV_READ | EV_PERSIST, fn, f), NULL);
}

int main(int argc, char **argv) {
    uint64_t agents = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    if (!agents || agents > AGENTS_MAX) {
        fprintf(stderr, "usage: help-fleet BINARY ROOT AGENTS\n");
        return EXIT_USAGE;
    }
    struct fleet f = {.base = event_base_new(), .binary = argv[1], .root = argv[2], .agents = (int)agents};
    start_parts(&f);
    struct link *warden = play(&f, LINK_manager_warden, "", false, &warden_ops);
    say_agents(&f, warden);
    for (int i = 0; i < f.agents; i++)
        play(&f, LINK_manager_agent, name_of(i), false, &agent_ops);
    watch(&f, f.relay_control, on_control);
    watch(&f, f.manager_control, on_control);
    watch(&f, STDIN_FILENO, on_input);
    printf("{\"port\": %u, \"relay\": %d, \"manager\": %d}\n", f.port, f.relay, f.manager);
    fflush(stdout);
    event_base_dispatch(f.base);
    kill(f.relay, SIGKILL);
    kill(f.manager, SIGKILL);
    return 0;
}
