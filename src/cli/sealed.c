/*
 * sealed: one command in a sealed cage. Its input and output are copied through pipes of its own (or a terminal of its own),
 * never passed: what hostile code holds it can also open the other way round. This process holds the room's link, so its end,
 * however it comes, is the room's end. As an ordinary user the work is done by the same verb inside the user namespace of
 * podman (sealed/rootless.h).
 */
#include "base/clock.h"
#include "base/own.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/self.h"
#include "cli/streams.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "sealed/report.h"
#include "sealed/rootless.h"
#include "sealed/run.h"
#include "sealed/space.h"
#include "wire/seq.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { GRACE_MS = 3000 }; /* between a first signal that the command got and the end of the room */

struct sealing {
    struct sealed_run run;
    struct streams streams;
    int signals, leash;
    int64_t deadline; /* monotonic, 0: none; then `late` is how it ended */
    int64_t looked;   /* monotonic: when the disk was */
    int late;
    bool over, timed_out;
    int status;
    char ended[64];
    err_t why; /* the command could not be run, or not go on */
};

/* All that goes in of the caller's environment: how to write for this terminal and this person. */
static const char *const env_names[] = {"TERM", "COLORTERM", "NO_COLOR", "LANG", "LC_ALL", "LC_CTYPE", "TZ"};

static void tell(void *ctx, const char *line) {
    (void)ctx;
    fprintf(stderr, "agent-cage: workbench: %s\n", line);
}

static bool has(const char *line, const char *name) {
    size_t n = strlen(name);
    return !strncmp(line, name, n) && line[n] == '=';
}

/* The room's own words, then ours in place of those. */
static void make_env(const struct cage_spec *s, struct words *out) {
    for (size_t i = 0; i < s->env.n; i++) {
        bool ours = false;
        for (size_t k = 0; k < COUNT(env_names); k++)
            ours |= has(s->env.w[i], env_names[k]) && getenv(env_names[k]);
        if (!ours)
            words_add(out, s->env.w[i]);
    }
    for (size_t k = 0; k < COUNT(env_names); k++) {
        const char *value = getenv(env_names[k]);
        if (value && strlen(value) <= 256)
            words_addf(out, "%s=%s", env_names[k], value);
    }
}

static err_t give_word(struct sealing *s, const struct call *call) {
    own_words struct words env = {0};
    make_env(&s->run.spec, &env);
    own_free struct bytes *v = xcalloc(env.n + 1, sizeof *v);
    for (size_t i = 0; i < env.n; i++)
        v[i] = bytes_of(env.w[i]);
    struct list list = {v, env.n};
    err_t e = sealed_word(&s->run, call->command, &list, s->streams.pass, s->streams.master >= 0);
    streams_passed(&s->streams);
    return e;
}

__attribute__((format(printf, 3, 4))) static void is_over(struct sealing *s, int status, const char *how,
                                                          ...) {
    va_list ap;
    s->over = true;
    s->status = status;
    va_start(ap, how);
    vsnprintf(s->ended, sizeof s->ended, how, ap);
    va_end(ap);
}

static void on_end(struct sealing *s, const struct msg_sealed_end *e) {
    long long n = e->status;
    streams_drain(&s->streams);
    if (!strcmp(e->how.p, "failed")) {
        is_over(s, n == ENOENT ? EXIT_NOTFOUND : EXIT_POLICY, "over: the command could not be run");
        s->why = err_new(s->status, "the command could not be run: %s", e->text.p);
    } else if (!strcmp(e->how.p, "signal"))
        is_over(s, 128 + (int)(n & 127), "over: signal %lld", n);
    else
        is_over(s, (int)(n & 255), "over: exit status %lld", n);
}

static err_t on_link(struct sealing *s) {
    own_msg struct msg m = {0};
    enum seq_got got;
    TRY(seq_recv(s->run.link, &m, &got));
    if (got == SEQ_END)
        is_over(s, 128 + SIGKILL, "over: it was killed from outside, or out of memory");
    if (got != SEQ_MESSAGE)
        return NULL;
    if (m.type != MSG_sealed_end)
        return err_new(EXIT_FAILED, "the room says what it may not say");
    on_end(s, &m.sealed_end);
    return NULL;
}

/* The first one goes to the command, the second (or a command that stays) ends the room. In a terminal the keys go through
 * the command's own, so a signal for us is meant for us. */
static err_t on_signal(struct sealing *s, int signo) {
    bool tty = s->streams.master >= 0;
    if (signo == SIGWINCH) {
        if (tty)
            terminal_size(STDIN_FILENO, s->streams.master);
        return NULL;
    }
    if (tty || s->late) {
        is_over(s, 128 + signo, "ended by signal %d", signo);
        return NULL;
    }
    s->late = signo;
    s->deadline = clock_mono_ns() + GRACE_MS * 1000000LL;
    return sealed_signal(&s->run, signo);
}

static void on_deadline(struct sealing *s) {
    if (s->late)
        is_over(s, 128 + s->late, "ended by signal %d", s->late);
    else {
        s->timed_out = true;
        is_over(s, EXIT_TIMED_OUT, "over: its time was up");
    }
    streams_drain(&s->streams);
}

/* Until the deadline, or until the disk is looked at again. */
static int left_ms(const struct sealing *s) {
    int64_t ms = s->deadline ? (s->deadline - clock_mono_ns() + 999999) / 1000000 : SPACE_LOOK_MS;
    return ms < 0 ? 0 : ms > SPACE_LOOK_MS ? SPACE_LOOK_MS : (int)ms;
}

static void look_at_disk(struct sealing *s) {
    int64_t now = clock_mono_ns();
    if (now - s->looked < SPACE_LOOK_MS * 1000000LL)
        return;
    s->looked = now;
    s->why = space_enough(&s->run);
    if (s->why)
        is_over(s, EXIT_FAILED, "ended: the disk is nearly full");
}

/* A byte on the leash is a signal; its end is the caller's end, and so ours. */
static err_t on_leash(struct sealing *s) {
    unsigned char signo;
    ssize_t n = read(s->leash, &signo, 1);
    if (n == 1)
        return on_signal(s, signo);
    if (n == 0)
        is_over(s, 128 + SIGKILL, "over: its caller is gone");
    return NULL;
}

static err_t turn(struct sealing *s) {
    struct pollfd p[4 + PUMPS_MAX] = {
        {s->run.link, POLLIN, 0}, {s->signals, POLLIN, 0}, {s->run.watch, POLLIN, 0}, {s->leash, POLLIN, 0}};
    size_t n = streams_poll(&s->streams, p + 4);
    if (poll(p, 4 + n, left_ms(s)) < 0)
        return errno == EINTR ? NULL : err_sys(errno, "wait");
    streams_pump(&s->streams);
    struct signalfd_siginfo info;
    if (p[1].revents && read(s->signals, &info, sizeof info) == sizeof info)
        TRY(on_signal(s, (int)info.ssi_signo));
    if (p[2].revents)
        TRY(err_wrap(sealed_follow(&s->run), "this host's addresses changed and the rules cannot follow"));
    if (p[3].revents)
        TRY(on_leash(s));
    if (p[0].revents && !s->over)
        TRY(on_link(s));
    if (!s->over)
        look_at_disk(s);
    if (!s->over && s->deadline && clock_mono_ns() >= s->deadline)
        on_deadline(s);
    return NULL;
}

static err_t catch_signals(int *ret_fd) {
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < COUNT(caught); i++)
        sigaddset(&set, caught[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) || (*ret_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return err_sys(errno, "signals");
    return NULL;
}

/* A terminal of the room's own, so that it has a name in there; nothing of the room has run yet that could be in its place. */
static err_t open_streams(struct sealing *s) {
    own_free char *ptmx = xasprintf("/proc/%d/root/dev/pts/ptmx", (int)s->run.cage.pid);
    TRY(streams_open(STREAMS_COPY, ptmx, &s->streams));
    uid_t uid = s->run.spec.rootless ? 0 : s->run.spec.uid_base + s->run.spec.uid;
    for (int fd = 0; s->streams.master >= 0 && fd < 3; fd++)
        if (isatty(s->streams.pass[fd]) && fchown(s->streams.pass[fd], uid, (gid_t)-1))
            return err_sys(errno, "give the room its terminal");
    return NULL;
}

static err_t work(struct sealing *s, const struct call *call, uint64_t timeout_ms) {
    TRY(open_streams(s));
    TRY(give_word(s, call));
    if (timeout_ms)
        s->deadline = clock_mono_ns() + (int64_t)timeout_ms * 1000000;
    while (!s->over)
        TRY(turn(s));
    return TAKE(s->streams.wrong);
}

static err_t run(struct sealing *s, const struct sealed_wish *wish, const struct call *call,
                 uint64_t timeout_ms) {
    TRY(catch_signals(&s->signals));
    TRY(sealed_open(wish, &s->run));
    int64_t began = clock_boot_ms();
    err_t e = work(s, call, timeout_ms), e2;
    int64_t span = clock_boot_ms() - began;
    streams_close(&s->streams);
    e2 = sealed_end(&s->run);
    if (!e && s->why)
        s->status = cli_report(TAKE(s->why)); /* above the summary, which it is the reason of */
    if (!e && !e2) {
        own_free char *report = NULL;
        e2 = report_run(&s->run, s->ended, span, &report);
        self_print_plain(stderr, report);
    }
    sealed_close(&s->run);
    if (e)
        err_free(e2);
    return e ? e : e2;
}

/* The words as they were typed, for the inner. */
static err_t again_inside(const struct call *call, int *ret_status) {
    own_words struct words w = {0};
    words_add(&w, "sealed");
    words_add(&w, call->args[0]);
    if (call_option(call, "keep-clean"))
        words_add(&w, "--keep-clean");
    for (const char *const *o = (const char *const[]){"outbox", "timeout", NULL}; *o; o++)
        if (call_option(call, *o)) {
            words_addf(&w, "--%s=%s", *o, call_option(call, *o));
        }
    words_add(&w, "--");
    for (size_t i = 0; i < call->ncommand; i++)
        words_add(&w, call->command[i]);
    return rootless_enter((int)w.n, w.w, ret_status);
}

err_t verb_sealed(const struct call *call, int *ret_status) {
    const char *timeout = call_option(call, "timeout"), *outbox = call_option(call, "outbox");
    uint64_t timeout_ms = 0;
    if (timeout)
        TRY(err_wrap(parse_span(timeout, &timeout_ms), "sealed: --timeout"));
    if (rootless_outside())
        return again_inside(call, ret_status);
    own_free char *project = NULL, *out = NULL;
    struct sealing s = {
        .signals = -1, .leash = -1, .streams = {.pass = {-1, -1, -1}, .flags = {-1, -1, -1}, .master = -1}};
    TRY(absolute_path(call->args[0], &project));
    if (outbox)
        TRY(absolute_path(outbox, &out));
    TRY(rootless_inside(&s.leash));
    const struct sealed_wish wish = {
        .project = project, .outbox = out, .keep_clean = call_option(call, "keep-clean"), .tell = tell};
    err_t e = run(&s, &wish, call, timeout_ms);
    own_closep(&s.signals);
    own_closep(&s.leash);
    *ret_status = s.status;
    return e;
}
