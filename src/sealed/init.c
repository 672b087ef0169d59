/*
 * The first process of a sealed room: `agent-cage sealed-init`, uid 60000, on descriptor 3 the link to the caller.
 *
 *   state     should                                        mustn't
 *   waiting   wait for the caller's word                    run anything: the rules may not be in force yet
 *   running   reap; pass signals on; watch the link         tell its own memory to the command, which has its uid
 *   over      have said how it ended; wait for the link     run anything more
 *
 * The link's end is the room's end, in every state: this process leaves, and the kernel kills everything else in its
 * process namespace. So nothing outlives a caller, however that one died.
 */
#include "base/err.h"
#include "base/own.h"
#include "base/proc.h"
#include "wire/seq.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

int sealed_init_main(int argc, char **argv);

enum { LINK_FD = 3 };
#define WORK_FOLDER "/project"

struct room {
    int link, children; /* the caller; SIGCHLD as a descriptor */
    pid_t command;      /* 0: none yet, or over */
    bool started;
};

/* The command has this uid too: without this it could write our memory through /proc. */
static err_t shut_memory(void) {
    const struct rlimit none = {0, 0};
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) || setrlimit(RLIMIT_CORE, &none))
        return err_sys(errno, "the room's first process cannot close its memory");
    return NULL;
}

static err_t watch_children(int *ret) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &set, NULL) || (*ret = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return err_sys(errno, "children cannot be watched");
    return NULL;
}

static err_t say_end(struct room *r, const char *how, int64_t status, const char *text) {
    struct msg m = {.type = MSG_sealed_end};
    m.sealed_end.how = bytes_of(how);
    m.sealed_end.status = status;
    m.sealed_end.text = bytes_of(text);
    return seq_send(r->link, &m);
}

static char **strings_of(const struct list *l) {
    char **v = xcalloc(l->n + 1, sizeof *v);
    for (size_t i = 0; i < l->n; i++)
        v[i] = (char *)(uintptr_t)l->v[i].p;
    return v;
}

/* Between fork and exec. What fails is said as an errno through the close-on-exec descriptor. */
static _Noreturn void be_command(const struct msg *m, char **argv, char **env, int said) {
    sigset_t none;
    sigemptyset(&none);
    setsid();
    for (int i = 0; i < 3; i++)
        if (dup2(m->fds[i], i) < 0)
            goto failed;
    if (m->sealed_run.tty)
        for (int i = 0; i < 3 && ioctl(i, TIOCSCTTY, 0); i++)
            ;
    if (chdir(WORK_FOLDER))
        goto failed;
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(argv[0], argv, env);
failed:;
    int why = errno;
    (void)!write(said, &why, sizeof why);
    _exit(EXIT_NOTFOUND);
}

/* *ret_why: the errno with which it could not be run, 0 when it runs. */
static err_t start(struct room *r, const struct msg *m, int *ret_why) {
    int said[2];
    if (pipe2(said, O_CLOEXEC))
        return err_sys(errno, "no pipe");
    own_free char **argv = strings_of(&m->sealed_run.argv), **env = strings_of(&m->sealed_run.env);
    own_fd int heard = said[0];
    pid_t pid = fork();
    if (!pid)
        be_command(m, argv, env, said[1]);
    int why = errno;
    close(said[1]);
    if (pid < 0)
        return err_sys(why, "no process can be made");
    r->command = pid;
    r->started = true;
    if (read(heard, ret_why, sizeof *ret_why) != sizeof *ret_why)
        *ret_why = 0;
    return NULL;
}

static err_t on_run(struct room *r, const struct msg *m) {
    int why = 0;
    if (r->started || !m->sealed_run.argv.n)
        return err_new(EXIT_FAILED, "a room runs one command");
    TRY(start(r, m, &why));
    if (!why)
        return NULL;
    waitpid(r->command, NULL, 0);
    r->command = 0;
    own_err err_t e = err_sys(why, "%.300s", m->sealed_run.argv.v[0].p);
    return say_end(r, "failed", why, err_text(e));
}

static err_t on_signal(struct room *r, const struct msg *m) {
    if (r->command > 0)
        kill(-r->command, (int)m->sealed_signal.signo);
    return NULL;
}

static err_t hear(struct room *r, bool *ret_over) {
    own_msg struct msg m = {0};
    enum seq_got got;
    TRY(seq_recv(r->link, &m, &got));
    *ret_over = got == SEQ_END;
    if (got != SEQ_MESSAGE)
        return NULL;
    if (!msg_permitted(m.type, LINK_caller_sealed, DOWN, OPEN))
        return err_new(EXIT_FAILED, "a message that may not come here");
    return m.type == MSG_sealed_run ? on_run(r, &m) : on_signal(r, &m);
}

static err_t reap(struct room *r) {
    struct signalfd_siginfo info;
    while (read(r->children, &info, sizeof info) > 0)
        ;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != r->command)
            continue;
        r->command = 0;
        TRY(WIFSIGNALED(status) ? say_end(r, "signal", WTERMSIG(status), "")
                                : say_end(r, "exit", WEXITSTATUS(status), ""));
    }
    return NULL;
}

static err_t live(struct room *r) {
    TRY(shut_memory());
    TRY(watch_children(&r->children));
    for (bool over = false; !over;) {
        struct pollfd p[] = {{r->link, POLLIN, 0}, {r->children, POLLIN, 0}};
        if (poll(p, COUNT(p), -1) < 0 && errno != EINTR)
            return err_sys(errno, "wait");
        if (p[1].revents)
            TRY(reap(r));
        if (p[0].revents)
            TRY(hear(r, &over));
    }
    return NULL;
}

int sealed_init_main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct room r = {.link = LINK_FD, .children = -1};
    fds_close_from(LINK_FD + 1, NULL, 0);
    if (getpid() != 1 || fcntl(r.link, F_SETFD, FD_CLOEXEC))
        die(err_new(EXIT_USAGE,
                    "sealed-init is the first process of a sealed room, which `agent-cage sealed` makes"));
    err_t e = live(&r);
    if (e)
        die(e);
    return EXIT_OK;
}
