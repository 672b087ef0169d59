#include "double.h"
#include "base/clock.h"
#include "base/own.h"
#include "proto/after.h"
#include "wire/seq.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUNS_MAX = 32, FOLLOWERS_MAX = 16 };

static int link_fd;
static struct run {
    uint64_t cookie;
    pid_t pid;
    bool timed_out;
    int64_t until_ms; /* 0: none */
} runs[RUNS_MAX];
static struct follower {
    uint64_t cookie;
    char agent[32];
} followers[FOLLOWERS_MAX];
static uint64_t last_seq, last_id;

static void out(const struct msg *m) {
    if (seq_send(link_fd, m))
        _exit(0);
}

static void finish(uint64_t cookie, uint64_t status, uint64_t id, const char *text) {
    struct msg m = {.type = MSG_ret_end};
    m.ret_end.cookie = cookie;
    m.ret_end.status = status;
    m.ret_end.id = id;
    m.ret_end.text = bytes_of(text);
    out(&m);
}

static void event(const char *agent, uint64_t id, const char *kind, int64_t status, const char *text) {
    struct msg m = {.type = MSG_ret_event};
    m.ret_event.seq = ++last_seq;
    m.ret_event.agent = bytes_of(agent);
    m.ret_event.id = id;
    m.ret_event.kind = bytes_of(kind);
    m.ret_event.who = bytes_of("terminal:0");
    m.ret_event.wall_ms = 1700000000000;
    m.ret_event.status = status;
    m.ret_event.span_ms = 1200;
    m.ret_event.text = bytes_of(text);
    for (size_t i = 0; i < FOLLOWERS_MAX; i++)
        if (followers[i].cookie && (!*followers[i].agent || !strcmp(followers[i].agent, agent))) {
            m.ret_event.cookie = followers[i].cookie;
            out(&m);
        }
}

static bool known(uint64_t cookie, const char *agent) {
    if (!strcmp(agent, "demo") || !strcmp(agent, "other"))
        return true;
    finish(cookie, EXIT_NOTFOUND, 0, "there is no agent of that name");
    return false;
}

static void on_list(const struct msg *q) {
    static const char *const names[] = {"demo", "other"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct msg m = {.type = MSG_ret_agent};
        m.ret_agent.cookie = q->fleet_list.cookie;
        m.ret_agent.agent = bytes_of(names[i]);
        m.ret_agent.mode = bytes_of("pod");
        m.ret_agent.harness = bytes_of("shell");
        m.ret_agent.project = bytes_of("/srv/agent-cage/x");
        m.ret_agent.net = bytes_of("open");
        m.ret_agent.state = bytes_of(i ? "failing" : "running");
        m.ret_agent.why = bytes_of(i ? HOSTILE : "");
        m.ret_agent.since_wall_ms = 1700000000000;
        out(&m);
    }
    finish(q->fleet_list.cookie, 0, 0, "");
}

static void on_status(const struct msg *q) {
    if (!known(q->fleet_status.cookie, q->fleet_status.agent.p))
        return;
    struct msg m = {.type = MSG_ret_status};
    m.ret_status.cookie = q->fleet_status.cookie;
    m.ret_status.agent = q->fleet_status.agent;
    m.ret_status.mode = bytes_of("pod");
    m.ret_status.harness = bytes_of("shell");
    m.ret_status.state = bytes_of("running");
    m.ret_status.login = bytes_of("no login needed");
    m.ret_status.up_ms = 61000;
    m.ret_status.processes = 10;
    m.ret_status.host_memory_total = 12ull << 30;
    m.ret_status.host_memory_free = 6ull << 30;
    m.ret_status.host_cores = 6;
    out(&m);
    finish(q->fleet_status.cookie, 0, 0, "");
}

static void on_events(const struct msg *q) {
    if (!q->fleet_events.follow) { /* nothing happened before */
        finish(q->fleet_events.cookie, 0, 0, "");
        return;
    }
    for (size_t i = 0; i < FOLLOWERS_MAX; i++)
        if (!followers[i].cookie) {
            followers[i].cookie = q->fleet_events.cookie;
            snprintf(followers[i].agent, sizeof followers[i].agent, "%s", q->fleet_events.agent.p);
            return;
        }
}

/* harness `shell` in small: the text is a command line. */
static void on_say(const struct msg *q) {
    const char *agent = q->fleet_say.agent.p, *text = q->fleet_say.text.p;
    if (!known(q->fleet_say.cookie, agent))
        return;
    uint64_t id = ++last_id;
    bool later = !strcmp(text, "later");
    event(agent, id, "queued", 0, text);
    finish(q->fleet_say.cookie, 0, id, later ? "it gets the message as soon as it runs" : "");
    if (later)
        return;
    event(agent, id, "started", 0, "");
    if (!strcmp(text, "refuse") || !strcmp(text, "unknown")) {
        event(agent, id, !strcmp(text, "refuse") ? "refused" : "unknown", 0, "because");
        return;
    }
    int ends[2];
    if (pipe(ends))
        _exit(1);
    pid_t pid = fork();
    if (!pid) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        execl("/bin/sh", "sh", "-c", text, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    own_buf struct buf all = {0};
    char chunk[4096];
    for (ssize_t n; (n = read(ends[0], chunk, sizeof chunk)) > 0;) {
        own_buf struct buf piece = {0};
        buf_add(&piece, chunk, (size_t)n);
        buf_add(&all, chunk, (size_t)n);
        event(agent, id, "output", 0, buf_text(&piece));
    }
    close(ends[0]);
    int status;
    waitpid(pid, &status, 0);
    event(agent, id, "report", WEXITSTATUS(status), buf_text(&all));
}

static void child(struct msg *q) {
    setsid();
    for (int i = 0; i < 3; i++)
        dup2(q->fds[i], i);
    if (q->fleet_exec.tty)
        ioctl(0, TIOCSCTTY, 0);
    signal(SIGPIPE, SIG_DFL);
    char **argv = xcalloc(q->fleet_exec.argv.n + 1, sizeof *argv);
    for (size_t i = 0; i < q->fleet_exec.argv.n; i++)
        argv[i] = xstrdup(q->fleet_exec.argv.v[i].p);
    for (size_t i = 0; i < q->fleet_exec.env.n; i++)
        putenv(xstrdup(q->fleet_exec.env.v[i].p));
    execvp(argv[0], argv);
    _exit(127);
}

static void on_exec(struct msg *q) {
    if (!known(q->fleet_exec.cookie, q->fleet_exec.agent.p))
        return;
    struct run *r = runs;
    while (r->cookie)
        r++;
    *r = (struct run){.cookie = q->fleet_exec.cookie};
    if (q->fleet_exec.timeout_ms)
        r->until_ms = clock_mono_ns() / 1000000 + (int64_t)q->fleet_exec.timeout_ms;
    r->pid = fork();
    if (!r->pid)
        child(q);
    while (getsid(r->pid) != r->pid) /* before that a signal for its group would find nobody */
        usleep(100);
}

static void on_signal(uint64_t cookie, int signo) {
    for (size_t i = 0; i < RUNS_MAX; i++)
        if (runs[i].cookie == cookie && cookie)
            kill(-runs[i].pid, signo);
}

static void reap_one(struct run *r, int status) {
    struct msg m = {.type = MSG_ret_exec_end};
    m.ret_exec_end.cookie = r->cookie;
    m.ret_exec_end.how = bytes_of(r->timed_out ? "timeout" : WIFSIGNALED(status) ? "signal" : "exit");
    m.ret_exec_end.status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    *r = (struct run){0};
    out(&m);
}

static void see_to_runs(void) {
    for (size_t i = 0; i < RUNS_MAX; i++) {
        int status;
        if (runs[i].cookie && runs[i].until_ms && clock_mono_ns() / 1000000 > runs[i].until_ms) {
            runs[i].timed_out = true;
            kill(-runs[i].pid, SIGKILL);
        }
        if (runs[i].cookie && waitpid(runs[i].pid, &status, WNOHANG) > 0)
            reap_one(&runs[i], status);
    }
}

static void on_forget(uint64_t cookie) {
    on_signal(cookie, SIGKILL);
    for (size_t i = 0; i < FOLLOWERS_MAX; i++)
        if (followers[i].cookie == cookie)
            followers[i].cookie = 0;
}

static void on_order(const struct msg *q) {
    if (!known(q->fleet_order.cookie, q->fleet_order.agent.p))
        return;
    if (!strcmp(q->fleet_order.order.p, "stop")) /* one that takes its time */
        return;
    own_free char *text = xasprintf("%s of %s: done", q->fleet_order.order.p, q->fleet_order.agent.p);
    finish(q->fleet_order.cookie, 0, 0, text);
}

static void handle(struct msg *m) {
    switch (m->type) {
    case MSG_fleet_list:
        on_list(m);
        break;
    case MSG_fleet_status:
        on_status(m);
        break;
    case MSG_fleet_events:
        on_events(m);
        break;
    case MSG_fleet_say:
        on_say(m);
        break;
    case MSG_fleet_exec:
        on_exec(m);
        break;
    case MSG_fleet_order:
        on_order(m);
        break;
    case MSG_fleet_signal:
        on_signal(m->fleet_signal.cookie, (int)m->fleet_signal.signo);
        break;
    case MSG_fleet_forget:
        on_forget(m->fleet_forget.cookie);
        break;
    default:
        _exit(1);
    }
}

void double_run(int fd) {
    link_fd = fd;
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        if (poll(&p, 1, 10) > 0) {
            own_msg struct msg m = {0};
            enum seq_got got;
            if (seq_recv(fd, &m, &got) || got == SEQ_END)
                break;
            handle(&m);
        }
        see_to_runs();
    }
    for (size_t i = 0; i < RUNS_MAX; i++)
        if (runs[i].cookie)
            kill(-runs[i].pid, SIGKILL);
    _exit(0);
}
