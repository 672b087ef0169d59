#include "cli/chat.h"
#include "base/clock.h"
#include "base/own.h"
#include "cli/chat/chat.h"
#include "cli/chat/line.h"
#include "cli/verb.h"
#include "up/supervise.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { TWICE_MS = 2000 };

/* At an empty line. */
static void say_how_to_leave(struct chat *c) {
    const char *goes_on = c->nown ? "the agent goes on, /stop ends what it does; " : "";
    if (c->of_up)
        chat_tell(c, "(%sthis chat is the fleet's: /quit leaves it and ends the fleet)", goes_on);
    else
        chat_tell(c, "(%sCtrl-C again, or /quit, leaves the chat)", goes_on);
}

static void on_interrupt(struct chat *c) {
    int64_t now = clock_mono_ns() / 1000000;
    bool again = !c->of_up && c->interrupted_at && now - c->interrupted_at < TWICE_MS;
    c->interrupted_at = 0;
    if (!c->tty || again)
        c->quit = true;
    else if (c->shell)
        shell_interrupt(c);
    else if (!line_cancel(c->line)) {
        c->interrupted_at = now;
        say_how_to_leave(c);
    }
}

static void on_leave(struct chat *c) {
    c->quit = true;
}

static void on_stop(struct chat *c) {
    line_suspend(c->line);
}

static void on_size(struct chat *c) {
    line_resized(c->line);
}

static const struct {
    int signo;
    void (*act)(struct chat *c);
} signals[] = {
    {SIGINT, on_interrupt}, {SIGTERM, on_leave}, {SIGHUP, on_leave}, {SIGTSTP, on_stop}, {SIGWINCH, on_size}};

static void on_signal(struct chat *c) {
    struct signalfd_siginfo info;
    if (read(c->signals, &info, sizeof info) != sizeof info)
        return;
    for (size_t i = 0; i < COUNT(signals); i++)
        if (signals[i].signo == (int)info.ssi_signo)
            signals[i].act(c);
}

/* *ret_old: what was blocked before. */
static err_t catch_signals(struct chat *c, sigset_t *ret_old) {
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < COUNT(signals); i++)
        sigaddset(&set, signals[i].signo);
    if (sigprocmask(SIG_BLOCK, &set, ret_old) < 0)
        return err_sys(errno, "signals");
    c->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return c->signals < 0 ? err_sys(errno, "signals") : NULL;
}

bool chat_step(struct chat *c, bool keys) {
    struct pollfd p[] = {
        {keys ? STDIN_FILENO : -1, POLLIN, 0},
        {c->signals, POLLIN, 0},
        {c->client.fd, POLLIN, 0},
        {c->shell ? shell_fd(c->shell) : -1, POLLIN, 0},
    };
    int timeout = -1;
    if (c->try_at) {
        int64_t ms = c->try_at - clock_mono_ns() / 1000000;
        timeout = ms > 0 ? (int)ms : 0;
    }
    if (c->quit || (poll(p, COUNT(p), timeout) < 0 && errno != EINTR))
        return false;
    if (p[1].revents)
        on_signal(c);
    if (p[3].revents && c->shell && shell_fd(c->shell) == p[3].fd)
        shell_heard(c);
    if (p[2].revents && c->client.fd == p[2].fd)
        chat_heard(c);
    if (c->try_at)
        chat_try(c);
    return !c->quit && p[0].revents;
}

/* After the first list: one agent has the room to itself. */
static void on_first(struct chat *c, const char *data, const struct msg *m) {
    (void)data;
    if (!chat_listed(c, m))
        return;
    if (c->nagents == 1)
        chat_do_use(c, c->agents[0].name, "");
    else
        chat_do_list(c, "", "");
}

static void on_names(struct chat *c, const char *data, const struct msg *m) {
    (void)data;
    chat_listed(c, m);
}

static void welcome(struct chat *c, const char *agent) {
    if (c->tty)
        chat_tell(c, "agent-cage %s · /help shows what can be said here, /quit leaves%s", AGENT_CAGE_VERSION,
                  c->of_up ? " and ends the fleet" : "");
    c->entering = agent != NULL;
    chat_list(c, agent ? on_names : on_first, NULL);
    if (agent)
        chat_do_use(c, agent, "");
    while ((c->asks || !c->placed) && !c->quit)
        chat_step(c, false);
    c->entering = false;
    if (c->tty && *c->room)
        chat_tell(c, "what you type goes to %s", c->room);
    else if (c->tty && c->nagents && !c->quit)
        chat_tell(c, "/use NAME enters an agent's room, where what you type goes to it");
}

static void talk(struct chat *c) {
    while (!c->quit) {
        own_free char *text = line_read(c->line);
        if (!text)
            break;
        chat_line(c, text);
        while (!c->tty && !c->quit && !chat_settled(c) && !chat_is_asked(c))
            chat_step(c, false);
    }
}

static void close_chat(struct chat *c, const sigset_t *old) {
    shell_end(c);
    client_close(&c->client); /* and with it whatever runs for us */
    line_close(c->line);
    chat_drop_asks(c);
    for (size_t i = 0; i < LIVE_MAX; i++)
        buf_free(&c->live[i].seen);
    free(c->choosing);
    buf_free(&c->last_note);
    buf_free(&c->late);
    own_closep(&c->signals);
    sigprocmask(SIG_SETMASK, old, NULL);
}

err_t chat_run(const char *agent) {
    if (agent)
        TRY(name_check(agent));
    signal(SIGPIPE, SIG_IGN);
    struct chat *c = xcalloc(1, sizeof *c);
    *c = (struct chat){.client = {.fd = -1}, .signals = -1};
    c->tty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    c->of_up = getenv(UP_CHAT);
    c->render = (struct render){.colour = render_colours(STDOUT_FILENO), .most = SHOW_MOST};
    sigset_t old;
    err_t e = catch_signals(c, &old);
    if (!e)
        e = chat_connect(c);
    if (!e) {
        c->line = line_open(c);
        welcome(c, agent);
        talk(c);
        e = TAKE(c->over);
        if (!e && !c->tty && c->choosing)
            e = err_new(EXIT_USAGE,
                        "which agent was meant was never said: nothing was done for the last line");
    }
    close_chat(c, &old);
    free(c);
    return e;
}

err_t verb_chat(const struct call *call, int *ret_status) {
    (void)ret_status;
    return chat_run(call->args[0]);
}
