#include "break/subject.h"

#include "base/clock.h"
#include "base/own.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAID_MAX = 1 << 20 };

/* What a fleet and an ordinary user's podman are found by; nothing else of ours goes in. */
static const char *const carried[] = {"AGENT_CAGE_ROOT", "HOME",     "XDG_RUNTIME_DIR",
                                      "SUDO_UID",        "SUDO_GID", "TMPDIR"};

static volatile sig_atomic_t caught;

static void on_signal(int signo) {
    caught = signo;
}

void subject_catch_signals(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < COUNT(signals); i++)
        sigaction(signals[i], &(struct sigaction){.sa_handler = on_signal}, NULL); /* no SA_RESTART */
}

int subject_interrupted(void) {
    return caught ? 128 + caught : 0;
}

static void environment(const struct words *more, struct words *out) {
    words_add(out, "PATH=" PROC_PATH);
    for (size_t i = 0; i < COUNT(carried); i++)
        if (getenv(carried[i]))
            words_addf(out, "%s=%s", carried[i], getenv(carried[i]));
    for (size_t i = 0; i < more->n; i++)
        words_add(out, more->w[i]);
}

static _Noreturn void child(const struct words *words, const struct words *env, const int pipes[3][2]) {
    own_words struct words argv = {0};
    words_add(&argv, "agent-cage");
    for (size_t i = 0; i < words->n; i++)
        words_add(&argv, words->w[i]);
    setsid(); /* no terminal, and one group to end */
    if (dup2(pipes[0][0], 0) >= 0 && dup2(pipes[1][1], 1) >= 0 && dup2(pipes[2][1], 2) >= 0) {
        fds_close_from(3, NULL, 0);
        execve("/proc/self/exe", (char *const *)words_argv(&argv), (char *const *)words_argv(env));
    }
    _exit(EXIT_FAILED);
}

err_t subject_start(const struct words *words, const struct words *more, struct subject *ret) {
    own_words struct words env = {0};
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    environment(more, &env);
    for (size_t i = 0; i < 3; i++)
        if (pipe2(pipes[i], O_CLOEXEC))
            return err_sys(errno, "no pipe");
    pid_t pid = fork();
    if (!pid)
        child(words, &env, pipes);
    close(pipes[0][0]);
    close(pipes[1][1]);
    close(pipes[2][1]);
    *ret = (struct subject){.pid = pid, .in = pipes[0][1], .out = pipes[1][0], .err = pipes[2][0]};
    return pid < 0 ? err_sys(errno, "no process") : NULL;
}

static void take(int *fd, struct buf *to) {
    char bytes[4096];
    ssize_t n = read(*fd, bytes, sizeof bytes);
    if (n > 0 && to->len < SAID_MAX)
        buf_add(to, bytes, (size_t)n);
    else if (n == 0 || (n < 0 && errno != EINTR))
        own_closep(fd);
}

/* Was a line said that begins with this word? */
static bool said(const struct subject *s, const char *word) {
    own_free char *line = xasprintf("\n%s\t", word);
    const char *all = buf_text(&s->said);
    return strstr(all, line) || !strncmp(all, line + 1, strlen(line + 1));
}

static int left_ms(int64_t deadline_ms) {
    int64_t ms = deadline_ms - clock_mono_ns() / 1000000;
    return ms < 0 ? 0 : (int)ms;
}

/* One wait; false when there is nothing more to come or no time left. */
static bool hear_more(struct subject *s, int64_t deadline_ms) {
    struct pollfd p[] = {{s->out, POLLIN, 0}, {s->err, POLLIN, 0}};
    if (s->out < 0 && s->err < 0)
        return false;
    int n = subject_interrupted() ? -1 : poll(p, 2, left_ms(deadline_ms));
    if (n < 0)
        return errno == EINTR && !subject_interrupted();
    if (p[0].revents)
        take(&s->out, &s->said);
    if (p[1].revents)
        take(&s->err, &s->errors);
    return n > 0;
}

err_t subject_hear(struct subject *s, const char *word, int64_t deadline_ms, bool *ret_said) {
    while (!(*ret_said = said(s, word)) && hear_more(s, deadline_ms))
        ;
    if (subject_interrupted())
        return err_new(subject_interrupted(), "interrupted");
    if (!*ret_said && !left_ms(deadline_ms))
        return err_new(EXIT_TIMED_OUT, "the probe did not end in time");
    return NULL;
}

void subject_go_on(struct subject *s) {
    if (write(s->in, "\n", 1) != 1)
        own_closep(&s->in); /* its end tells as much */
}

err_t subject_end(struct subject *s, int64_t deadline_ms, int *ret_status) {
    own_closep(&s->in);
    while (hear_more(s, deadline_ms))
        ;
    bool late = s->out >= 0 || s->err >= 0;
    if (late)
        kill(s->pid, SIGTERM);
    while (waitpid(s->pid, ret_status, 0) < 0)
        if (errno != EINTR)
            return err_sys(errno, "wait");
    s->pid = 0;
    return late ? err_new(EXIT_TIMED_OUT, "the cage did not end in time") : NULL;
}

void subject_free(struct subject *s) {
    own_closep(&s->in);
    own_closep(&s->out);
    own_closep(&s->err);
    buf_free(&s->said);
    buf_free(&s->errors);
}
