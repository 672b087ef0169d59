/*
 * exec: one command in an agent's executor. Its descriptors are passed (streams.h), so bytes do not go through this program
 * unless they must; it waits for the end and passes signals. The connection is the command's life: when this process ends,
 * however it ends, the kernel closes it and the fleet ends the command's whole tree.
 */
#include "cli/exec.h"
#include "base/escape.h"
#include "base/names.h"
#include "base/own.h"
#include "base/parse.h"
#include "cli/client.h"
#include "cli/streams.h"
#include "cli/terminal.h"
#include "cli/verb.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct running {
    struct client client;
    struct streams streams;
    int signals; /* signalfd */
    bool over;
    int status;
    int died;   /* the signal that ends us, in a terminal */
    bool asked; /* to end: a SIGINT or SIGTERM was passed on */
};

/* What a command may know of the caller's environment: how to write for this terminal and this person. */
static const char *const env_names[] = {"TERM", "COLORTERM", "NO_COLOR", "LANG", "LC_ALL", "LC_CTYPE", "TZ"};

static size_t make_env(char *text[COUNT(env_names)], struct bytes env[COUNT(env_names)]) {
    size_t n = 0;
    for (size_t i = 0; i < COUNT(env_names); i++) {
        const char *value = getenv(env_names[i]);
        if (!value || strlen(value) > 256)
            continue;
        text[n] = xasprintf("%s=%s", env_names[i], value);
        env[n] = bytes_of(text[n]);
        n++;
    }
    return n;
}

int exec_status(const struct msg_relay_exec_end *e) {
    static const struct {
        const char *how;
        int add; /* to the status */
        int fixed;
    } rows[] = {
        {"exit", 0, 0}, {"signal", 128, 0}, {"timeout", 0, EXIT_TIMED_OUT}, {"killed", 0, 128 + SIGKILL}};
    for (size_t i = 0; i < COUNT(rows); i++)
        if (!strcmp(e->how.p, rows[i].how)) {
            int64_t status = rows[i].fixed ? rows[i].fixed : rows[i].add + e->status;
            return status >= 0 && status < 256 ? (int)status : EXIT_FAILED;
        }
    /* failed: it never ran, or nobody saw its end */
    if (e->status == EPIPE || e->status == ENOTCONN || e->status == EAGAIN || e->status == EIO)
        return EXIT_FAILED;
    return e->status == ENOENT ? EXIT_NOTFOUND : EXIT_POLICY;
}

static err_t start(struct running *r, const struct call *call, uint64_t timeout_ms) {
    own_free struct bytes *argv = xcalloc(call->ncommand, sizeof *argv);
    for (size_t i = 0; i < call->ncommand; i++)
        argv[i] = bytes_of(call->command[i]);
    char *text[COUNT(env_names)];
    struct bytes env[COUNT(env_names)];
    size_t nenv = make_env(text, env);
    struct msg m = {.type = MSG_front_exec, .nfds = 3};
    m.front_exec.agent = bytes_of(call->args[0]);
    m.front_exec.timeout_ms = timeout_ms;
    m.front_exec.cwd = bytes_of("");
    m.front_exec.argv = (struct list){argv, call->ncommand};
    m.front_exec.env = (struct list){env, nenv};
    m.front_exec.tty = r->streams.master >= 0;
    memcpy(m.fds, r->streams.pass, sizeof r->streams.pass);
    err_t e = client_ask(&r->client, &m);
    for (size_t i = 0; i < nenv; i++)
        free(text[i]);
    streams_passed(&r->streams);
    return e;
}

/* In a terminal the keys reach the command through its own terminal; a signal for us ends us, and so the command. */
static err_t on_signal(struct running *r, int signo) {
    bool tty = r->streams.master >= 0;
    if (signo == SIGWINCH && tty)
        terminal_size(STDIN_FILENO, r->streams.master);
    if (signo == SIGWINCH)
        return NULL;
    if (tty) {
        r->died = signo;
        r->over = true;
        return NULL;
    }
    if (signo == SIGINT || signo == SIGTERM) {
        if (r->asked) /* who asks twice wants to be rid of it, whatever the other side does */
            return err_new(EXIT_FAILED, "asked to end twice: the command is cut off, and the fleet ends it");
        r->asked = true;
    }
    struct msg m = {.type = MSG_front_signal};
    m.front_signal.cookie = r->client.last_cookie;
    m.front_signal.signo = (uint64_t)signo;
    return client_say(&r->client, &m);
}

/* What the fleet says of the command. */
static err_t on_message(struct running *r, const struct msg *m) {
    if (m->type == MSG_relay_end) {
        if (!m->relay_end.status)
            return NULL; /* after the end of the command */
        return err_new(m->relay_end.status < 256 ? (int)m->relay_end.status : EXIT_FAILED, "%s",
                       m->relay_end.text.p);
    }
    if (m->type != MSG_relay_exec_end)
        return NULL;
    r->status = exec_status(&m->relay_exec_end);
    r->over = true;
    streams_drain(&r->streams);
    if (strcmp(m->relay_exec_end.how.p, "failed"))
        return NULL;
    return err_new(r->status, "the command could not be run: %s", m->relay_exec_end.text.p);
}

static err_t turn(struct running *r) {
    struct pollfd p[2 + PUMPS_MAX] = {{r->client.fd, POLLIN, 0}, {r->signals, POLLIN, 0}};
    size_t n = streams_poll(&r->streams, p + 2);
    if (poll(p, 2 + n, -1) < 0)
        return errno == EINTR ? NULL : err_sys(errno, "wait");
    streams_pump(&r->streams);
    struct signalfd_siginfo info;
    if (p[1].revents && read(r->signals, &info, sizeof info) == sizeof info)
        TRY(on_signal(r, (int)info.ssi_signo));
    if (!p[0].revents || r->over)
        return NULL;
    own_msg struct msg m = {0};
    bool got;
    TRY(client_next(&r->client, 0, &m, &got));
    return got ? on_message(r, &m) : NULL;
}

static err_t catch_signals(int *ret_fd) {
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < COUNT(caught); i++)
        sigaddset(&set, caught[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 ||
        (*ret_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return err_sys(errno, "signals");
    return NULL;
}

static err_t run(struct running *r, const struct call *call, uint64_t timeout_ms) {
    TRY(client_open(&r->client, "cli"));
    TRY(catch_signals(&r->signals));
    TRY(streams_open(STREAMS_PASS, NULL, &r->streams));
    TRY(start(r, call, timeout_ms));
    while (!r->over)
        TRY(turn(r));
    return TAKE(r->streams.wrong);
}

err_t verb_exec(const struct call *call, int *ret_status) {
    TRY(name_check(call->args[0]));
    const char *timeout = call_option(call, "timeout");
    uint64_t timeout_ms = 0;
    if (timeout)
        TRY(err_wrap(parse_span(timeout, &timeout_ms), "exec: --timeout"));
    signal(SIGPIPE, SIG_IGN); /* a pump's reader that left is the command's matter */
    struct running r = {.client = {.fd = -1},
                        .signals = -1,
                        .streams = {.pass = {-1, -1, -1}, .flags = {-1, -1, -1}, .master = -1}};
    err_t e = run(&r, call, timeout_ms);
    streams_close(&r.streams);
    client_close(&r.client);
    own_closep(&r.signals);
    *ret_status = r.died ? 128 + r.died : r.status;
    return e;
}
