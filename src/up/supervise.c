#include "up/supervise.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/paths.h"
#include "base/proc.h"
#include "proto/msg.h"
#include "up/fleet_lock.h"
#include "up/spawn.h"
#include "up/web_link.h"
#include "wire/seq.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum stage { STAGE_AWAIT, STAGE_DEMO, STAGE_UP, STAGE_DOWN };
enum { TURN_MS = 1000, KNOCK_MS = 20, PAUSE_MAX_MS = 30000, CALM_MS = 60000 };

struct up {
    const struct supervise_how *how;
    enum stage stage;
    int signals, pidfd, link;
    pid_t warden, chat;
    bool handing_over; /* an outdated warden was asked to leave */
    bool over, deaf;   /* deaf: this warden's answer has come, or cannot come */
    bool willed;       /* this warden had come up and was ended by SIGKILL: somebody's will, not a crash */
    int64_t again_ms;  /* monotonic: when a dead warden is started again */
    int64_t started_ms, stage_ms, pause_ms; /* monotonic; of the warden, of the stage; between two starts */
    int64_t said_s;                         /* seconds of the last line about waiting */
    err_t fault, no_demo; /* no_demo: what was asked for could not be made; the fleet stays up */
};

static int64_t mono_ms(void) {
    return clock_mono_ns() / 1000000;
}

static void say(const char *text) {
    char safe[1024];
    fprintf(stderr, "%s\n", escape_into(safe, sizeof safe, ESCAPE_LINE, text, strlen(text)));
}

static void enter(struct up *u, enum stage stage) {
    u->stage = stage;
    u->stage_ms = mono_ms();
}

/* ---- the warden's process -------------------------------------------------------------------------------------- */

static err_t watch(struct up *u, pid_t pid) {
    own_closep(&u->pidfd);
    u->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (u->pidfd < 0)
        return err_sys(errno, "watch the warden");
    u->warden = pid;
    u->started_ms = mono_ms();
    u->deaf = false;
    u->willed = false;
    own_closep(&u->link);
    u->link = -1;
    return NULL;
}

static err_t start_warden(struct up *u) {
    pid_t pid;
    TRY(spawn_warden(&pid));
    return watch(u, pid);
}

static err_t find_or_start(struct up *u) {
    pid_t pid;
    TRY(fleet_lock_holder(&pid));
    if (!pid)
        return start_warden(u);
    TRY(watch(u, pid));
    if (spawn_outdated(pid)) {
        say("the warden is of another version: the new one takes over");
        kill(pid, SIGUSR1);
        u->handing_over = true;
    } else {
        say("a warden lives: taken over");
    }
    return NULL;
}

static void on_warden_dead(struct up *u) {
    own_closep(&u->pidfd);
    u->pidfd = -1;
    own_closep(&u->link);
    u->link = -1;
    if (fleet_lock_ended()) {
        u->over = true;
        return;
    }
    if (u->stage == STAGE_DOWN) {
        u->over = true;
        say("the warden died before the fleet was down; `agent-cage doctor --clean` removes what is left");
        return;
    }
    if (u->stage == STAGE_DEMO)
        enter(u, STAGE_AWAIT);
    if (u->handing_over) {
        u->handing_over = false;
        u->again_ms = mono_ms();
        return;
    }
    bool calm = u->willed || mono_ms() - u->started_ms > CALM_MS;
    u->pause_ms = calm || !u->pause_ms ? TURN_MS : u->pause_ms * 2;
    if (u->pause_ms > PAUSE_MAX_MS)
        u->pause_ms = PAUSE_MAX_MS;
    u->again_ms = u->started_ms + u->pause_ms;
    if (!u->chat)
        say("the warden died; it is started again");
}

/* ---- asking it --------------------------------------------------------------------------------------------------- */

static void ask(struct up *u, struct msg *m) {
    own_err err_t e = seq_send(u->link, m);
    if (e) {
        own_closep(&u->link);
        u->link = -1;
    }
}

/* Connects once it listens; errors before that are no news. */
static void knock(struct up *u) {
    own_free char *path = path_of(PATH_WARDEN_SOCKET);
    own_err err_t e = seq_connect(path, &u->link);
    if (e) {
        u->link = -1;
        return;
    }
    struct msg hello = {.type = MSG_op_hello}, ping = {.type = MSG_op_ping};
    hello.op_hello.fingerprint = msg_fingerprint();
    ask(u, &hello);
    if (u->link >= 0)
        ask(u, &ping);
}

/* False: there is nothing to make. */
static bool ask_demo(struct up *u) {
    own_free char *conf = path_of(DIR_ETC "/agents/demo.conf");
    if (!u->how->demo || access(conf, F_OK) == 0)
        return false;
    enter(u, STAGE_DEMO);
    struct msg m = {.type = MSG_op_new};
    m.op_new.agent = bytes_of("demo");
    m.op_new.mode = m.op_new.harness = m.op_new.project = m.op_new.model = m.op_new.upstream = m.op_new.net =
        m.op_new.memory = m.op_new.cpus = m.op_new.pids = bytes_of("");
    ask(u, &m);
    return true;
}

static void show_how_to_talk(const struct up *u) {
    if (u->how->demo && !u->no_demo)
        printf("Talk to it: %s chat demo · %s send demo 'uname -a' --wait · %s exec demo -- id\n",
               u->how->self, u->how->self, u->how->self);
    if (u->how->chat)
        printf("This chat is the fleet's: /quit leaves it and ends the fleet.\n");
    else
        printf("Ctrl-C or `%s down` ends the fleet.\n", u->how->self);
    fflush(stdout);
}

static err_t start_chat(struct up *u) {
    u->chat = fork();
    if (u->chat < 0)
        return err_sys(errno, "fork");
    if (u->chat > 0)
        return NULL;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setenv(UP_CHAT, "1", 1);
    execl("/proc/self/exe", u->how->self, "chat", (char *)NULL);
    _exit(EXIT_FAILED);
}

/* This warden has said all that is asked of it. */
static void hush(struct up *u) {
    u->deaf = true;
    own_closep(&u->link);
    u->link = -1;
}

static void is_up(struct up *u) {
    enter(u, STAGE_UP);
    hush(u);
    show_how_to_talk(u);
    web_link_print(u->how->self);
    if (u->how->chat)
        u->fault = start_chat(u);
}

static void on_end(struct up *u, const struct msg *m) {
    switch (u->stage) {
    case STAGE_AWAIT:
        if (m->op_end.status) {
            u->fault = err_new(EXIT_FAILED, "%s", m->op_end.text.p);
            return;
        }
        printf("fleet is up\n");
        fflush(stdout);
        if (!ask_demo(u))
            is_up(u);
        return;
    case STAGE_DEMO:
        say(m->op_end.text.p);
        if (m->op_end.status && !u->no_demo)
            u->no_demo = err_new(EXIT_FAILED, "the agent demo could not be made: %s", m->op_end.text.p);
        is_up(u);
        return;
    default:
        hush(u); /* a later warden's: nothing to say twice */
    }
}

static void on_link(struct up *u) {
    own_msg struct msg m = {0};
    enum seq_got got;
    own_err err_t e = seq_recv(u->link, &m, &got);
    if (e || got == SEQ_END) {
        own_closep(&u->link);
        u->link = -1;
    } else if (got == SEQ_MESSAGE && m.type == MSG_op_progress) {
        say(m.op_progress.text.p);
    } else if (got == SEQ_MESSAGE && m.type == MSG_op_end) {
        on_end(u, &m);
    }
}

/* ---- signals ------------------------------------------------------------------------------------------------------- */

static void begin_end(struct up *u) {
    if (u->stage == STAGE_DOWN)
        return;
    enter(u, STAGE_DOWN);
    say("ending the fleet");
    if (u->pidfd < 0 || kill(u->warden, SIGTERM) < 0)
        u->over = true;
}

static void reap(struct up *u) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == u->chat) {
            u->chat = 0;
            begin_end(u);
        } else if (pid == u->warden) {
            /* Before it answers it may be the kernel's, which ends what takes too much memory: again and again. */
            u->willed = u->deaf && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        }
}

static void on_signals(struct up *u) {
    struct signalfd_siginfo s;
    while (read(u->signals, &s, sizeof s) == sizeof s)
        if (s.ssi_signo == SIGCHLD)
            reap(u);
        else if (s.ssi_signo != SIGINT || !u->chat) /* a Ctrl-C in the chat is the chat's */
            begin_end(u);
}

static err_t open_signals(struct up *u) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    u->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return u->signals < 0 ? err_sys(errno, "signals") : NULL;
}

/* ---- the loop -------------------------------------------------------------------------------------------------------- */

static void say_waiting(struct up *u) {
    int64_t s = (mono_ms() - u->stage_ms) / 1000;
    if (s < 2 || s % 2 || s == u->said_s)
        return;
    u->said_s = s;
    char text[128];
    if (u->stage == STAGE_AWAIT)
        snprintf(text, sizeof text, "waiting for the relay and the manager (%d s)", (int)s);
    else if (u->stage == STAGE_DOWN)
        snprintf(text, sizeof text, "waiting for the rooms to end (%d s)", (int)s);
    else
        return;
    say(text);
}

/* At most this long until something is due by itself. */
static int patience(const struct up *u, bool eager) {
    int64_t wait = u->pidfd < 0 ? u->again_ms - mono_ms() : eager ? KNOCK_MS : TURN_MS;
    return wait < 0 ? 0 : wait > TURN_MS ? TURN_MS : (int)wait;
}

static void turn(struct up *u) {
    if (u->pidfd < 0 && mono_ms() >= u->again_ms) {
        u->fault = start_warden(u);
        return;
    }
    struct pollfd p[] = {{u->signals, POLLIN, 0}, {u->pidfd, POLLIN, 0}, {u->link, POLLIN, 0}};
    bool eager = u->link < 0 && u->pidfd >= 0 && !u->deaf && u->stage != STAGE_DOWN;
    int n = poll(p, COUNT(p), patience(u, eager));
    if (n < 0 && errno != EINTR) {
        u->fault = err_sys(errno, "poll");
        return;
    }
    if (p[0].revents)
        on_signals(u);
    if (p[2].revents && u->link == p[2].fd)
        on_link(u);
    if (p[1].revents && u->pidfd == p[1].fd) {
        reap(u);
        on_warden_dead(u);
    } else if (eager && u->link < 0 && u->stage != STAGE_DOWN)
        knock(u);
    if (!n)
        say_waiting(u);
}

err_t supervise(const struct supervise_how *how) {
    struct up u = {.how = how, .signals = -1, .pidfd = -1, .link = -1};
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    TRY(open_signals(&u));
    enter(&u, STAGE_AWAIT);
    TRY(find_or_start(&u));
    while (!u.over && !u.fault)
        turn(&u);
    if (u.chat > 0)
        kill(u.chat, SIGTERM);
    own_closep(&u.pidfd);
    own_closep(&u.link);
    own_closep(&u.signals);
    if (u.fault) {
        err_free(u.no_demo);
        return u.fault;
    }
    say("the fleet is down");
    return u.no_demo;
}
