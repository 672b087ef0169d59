/*
 * The shim: what every shell, and git, is in a harness room. It asks the executor to run the command of the
 * same name and is, to its parent, that command: its arguments, its three descriptors, its signals, its end.
 *
 * It starts for each command of the harness, so it does little: no event loop, no library but the message
 * codec, one connection.
 */
#include "base/own.h"
#include "shim/environ.h"
#include "shim/stdio.h"
#include "wire/seq.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define SHIM_SOCKET "/cage/shim/shim.sock"

extern char **environ;
int shim_main(int argc, char **argv);

struct shim {
    const char *name; /* for error lines: argv[0]'s last part */
    int link, signals;
    struct stdio io;
    struct msg end; /* shim_end, once it came */
};

/* Signals whose meaning is the command's to decide. The others act on the shim itself. */
static const int forwarded[] = {SIGHUP,  SIGINT,  SIGQUIT,  SIGTERM, SIGUSR1,
                                SIGUSR2, SIGALRM, SIGWINCH, SIGCONT};

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void complain(const struct shim *s, const char *text) {
    char line[1024];
    int n = snprintf(line, sizeof line, "%s: %s\n", s->name, text);
    if (n > 0)
        (void)!write(2, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

/*
 * The program to run there: where the kernel found us (the shim lies over /usr/bin/bash; argv[0] can be
 * anything, AT_EXECFN is a script's name when we are its interpreter). A name alone is looked up in the
 * executor's PATH.
 */
static const char *program(const char *name) {
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
        return name;
    path[n] = 0;
    /* The mount outlives the file that it was made of, when an upgrade replaces that. */
    static const char gone[] = " (deleted)";
    if ((size_t)n > sizeof gone && !strcmp(path + n - (sizeof gone - 1), gone))
        path[(size_t)n - (sizeof gone - 1)] = 0;
    return strncmp(last_part(path), "agent-cage", 10) ? path : name;
}

/* Signals that were ignored when we began stay ignored, here and for the command (nohup). */
static err_t catch_signals(struct shim *s) {
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < COUNT(forwarded); i++) {
        struct sigaction now;
        if (sigaction(forwarded[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&set, forwarded[i]);
    }
    signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 ||
        (s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return err_sys(errno, "catch signals");
    return NULL;
}

static err_t ask(struct shim *s, int argc, char **argv) {
    static struct bytes env[ENVIRON_MAX];
    char cwd[4096];
    if (!getcwd(cwd, sizeof cwd) || cwd[0] != '/')
        return err_as(err_sys(errno ? errno : ENOENT, "the working directory is gone (getcwd)"), EXIT_POLICY);
    struct bytes *words = xcalloc((size_t)argc, sizeof *words);
    for (int i = 0; i < argc; i++)
        words[i] = bytes_of(argv[i]);
    TRY(err_wrap(seq_connect(SHIM_SOCKET, &s->link), "the executor of this room does not answer"));
    struct msg m = {.type = MSG_shim_run, .nfds = 3};
    m.shim_run.exe = bytes_of(program(s->name));
    m.shim_run.cwd = bytes_of(cwd);
    m.shim_run.argv = (struct list){words, (size_t)argc};
    m.shim_run.env = (struct list){env, environ_allowed(environ, env)};
    m.shim_run.tty = s->io.tty;
    memcpy(m.fds, s->io.give, sizeof s->io.give);
    err_t e = seq_send(s->link, &m);
    free(words);
    if (e && e->status == EXIT_USAGE)
        return err_as(err_wrap(e, "the command is too long"), EXIT_POLICY);
    TRY(e);
    stdio_sent(&s->io);
    return NULL;
}

static void forward(const struct shim *s) {
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        struct msg m = {.type = MSG_shim_signal};
        m.shim_signal.signo = info.ssi_signo;
        err_free(seq_send(s->link, &m)); /* an executor that is gone is noticed by the loop */
    }
}

/* True once the end came. */
static err_t hear(struct shim *s, bool *ret_ended) {
    enum seq_got got;
    TRY(seq_recv(s->link, &s->end, &got));
    if (got == SEQ_END || s->end.type != MSG_shim_end)
        return err_new(EXIT_FAILED,
                       "the executor ended while the command ran; whether it was done is unknown");
    *ret_ended = true;
    return NULL;
}

static err_t serve(struct shim *s) {
    for (bool ended = false; !ended;) {
        struct pollfd p[2 + COUNT(s->io.pumps)] = {{s->link, POLLIN, 0}, {s->signals, POLLIN, 0}};
        for (size_t i = 0; i < s->io.npumps; i++)
            p[2 + i] = pump_wants(&s->io.pumps[i]);
        if (poll(p, 2 + s->io.npumps, -1) < 0 && errno != EINTR)
            return err_sys(errno, "poll");
        if (p[1].revents)
            forward(s);
        for (size_t i = 0; i < s->io.npumps; i++)
            if (p[2 + i].revents)
                pump_run(&s->io.pumps[i]);
        if (p[0].revents)
            TRY(hear(s, &ended));
    }
    for (size_t i = 0; i < s->io.npumps; i++)
        pump_drain(&s->io.pumps[i]);
    return NULL;
}

/* Dies of the signal that the command died of, so that whoever waits sees the same; without a core of ours. */
static int die_of(int signo) {
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    signal(signo, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signo);
    kill(getpid(), signo);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return 128 + signo; /* a signal that does not end processes by default */
}

static int end_as_command(const struct shim *s) {
    const struct msg_shim_end *end = &s->end.shim_end;
    const char *how = end->how.p;
    if (!strcmp(how, "exit"))
        return (int)(end->status & 0xff);
    if (!strcmp(how, "signal") || !strcmp(how, "killed"))
        return die_of(end->status > 0 && end->status < NSIG ? (int)end->status : SIGKILL);
    if (!strcmp(how, "timeout"))
        return EXIT_TIMED_OUT;
    complain(s, end->text.p);
    return end->status == ENOENT ? EXIT_NOTFOUND : EXIT_POLICY;
}

int shim_main(int argc, char **argv) {
    struct shim s = {
        .name = last_part(argc ? argv[0] : "sh"), .link = -1, .signals = -1, .io.flags = {-1, -1, -1}};
    if (s.name[0] == '-') /* a login shell */
        s.name++;
    err_t e = stdio_open(&s.io); /* first: the hang-up of a terminal that is given up must not be forwarded */
    if (!e)
        e = catch_signals(&s);
    if (!e)
        e = ask(&s, argc, argv);
    if (!e)
        e = serve(&s);
    stdio_restore(&s.io);
    int status;
    if (e) {
        complain(&s, err_text(e));
        status = e->status == EXIT_NOTFOUND ? EXIT_FAILED : e->status;
    } else {
        status = end_as_command(&s);
    }
    err_free(e);
    msg_free(&s.end);
    return status;
}
