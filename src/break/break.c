#include "break/break.h"

#include "base/clock.h"
#include "base/escape.h"
#include "base/fs.h"
#include "base/hex.h"
#include "base/own.h"
#include "base/parse.h"
#include "break/control.h"
#include "break/listeners.h"
#include "break/network.h"
#include "break/subject.h"
#include "break/try.h"
#include "break/witness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WHOLE_MS = 55000, TOKEN = 32, NOBODY = 65534 };

/* Everything of one run that must go away again. */
struct work {
    const struct break_wish *wish;
    char *dir;             /* holds project, outbox, plain, full */
    char token[TOKEN + 1]; /* planted outside */
    char *shm;             /* a file of ours in /dev/shm */
    int segment;           /* and a System V segment */
    struct listeners listeners;
    struct words facts, env;
    pid_t arm_pid[ARM_COUNT];
    int arm_out[ARM_COUNT];
    struct subject subject;
    struct answers room, arms[ARMS_MAX];
    struct witness witness[WITNESS_MAX];
    size_t nwitness;
    int64_t deadline_ms;
};

static int64_t now_ms(void) {
    return clock_mono_ns() / 1000000;
}

static err_t random_token(char *out) {
    return hex_random(out, TOKEN / 2);
}

/* ---- what is there to be found outside ---- */

static err_t folder(const struct work *w, const char *name) {
    own_free char *path = xasprintf("%s/%s", w->dir, name);
    if (mkdir(path, 0755))
        return err_sys(errno, "mkdir %s", path);
    return NULL;
}

/* The project is nobody's: a sealed cage takes none of root's. */
static err_t make_folders(struct work *w) {
    const char *tmp = getenv("TMPDIR");
    w->dir = xasprintf("%s/agent-cage-break-XXXXXX", tmp && tmp[0] == '/' ? tmp : "/tmp");
    if (!mkdtemp(w->dir)) {
        err_t e = err_sys(errno, "mkdtemp %s", w->dir);
        free(TAKE(w->dir));
        return e;
    }
    if (chmod(w->dir, 0755))
        return err_sys(errno, "chmod %s", w->dir);
    TRY(folder(w, "project"));
    TRY(folder(w, "plain"));
    TRY(folder(w, "full"));
    own_free char *project = xasprintf("%s/project", w->dir), *canary = xasprintf("%s/canary", w->dir);
    if (geteuid() == 0 && chown(project, NOBODY, NOBODY))
        return err_sys(errno, "chown %s", project);
    return fs_write(canary, w->token, TOKEN, geteuid(), getegid(), 0644);
}

/* A file in the host's /dev/shm and a segment in its IPC namespace, both for everybody to read. */
static err_t make_shared(struct work *w) {
    w->shm = xasprintf("agent-cage-break-%.8s", w->token);
    own_free char *path = xasprintf("/dev/shm/%s", w->shm);
    own_fd int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 || fchmod(fd, 0644) || write(fd, w->token, TOKEN) != TOKEN)
        return err_sys(errno, "%s", path);
    uint32_t key;
    memcpy(&key, w->token, sizeof key);
    w->segment = shmget((key_t)(key | 1), 4096, IPC_CREAT | IPC_EXCL | 0644);
    if (w->segment >= 0)
        words_addf(&w->facts, "segment=%u", key | 1);
    words_addf(&w->facts, "shm=%s", w->shm);
    return NULL;
}

static err_t plant(struct work *w) {
    char backwards[TOKEN + 1] = "";
    TRY(random_token(w->token));
    for (size_t i = 0; i < TOKEN; i++)
        backwards[i] = w->token[TOKEN - 1 - i];
    words_addf(&w->facts, "kind=%s", kind_name(w->wish->kind));
    words_addf(&w->facts, "pid=%d", getpid());
    words_addf(&w->facts, "planted=%s", backwards);
    words_addf(&w->env, "AGENT_CAGE_BREAK_SECRET=%s", w->token);
    TRY(make_folders(w));
    TRY(make_shared(w));
    return listeners_open(&w->listeners, &w->facts);
}

/* ---- the arms ---- */

static void start_arms(struct work *w) {
    static const char *const folders[ARM_COUNT] = {[ARM_PLAIN] = "plain", [ARM_FULL] = "full"};
    setenv("AGENT_CAGE_BREAK_SECRET", w->token, 1);
    for (enum arm a = 0; a < ARM_COUNT; a++) {
        own_free char *dir = xasprintf("%s/%s", w->dir, folders[a]);
        w->arm_out[a] = -1;
        /* without an arm its rows are not judged, and say so */
        err_free(control_start(a, dir, &w->facts, &w->arm_pid[a], &w->arm_out[a]));
    }
    unsetenv("AGENT_CAGE_BREAK_SECRET");
}

static void hear_arm(struct work *w, enum arm a) {
    own_buf struct buf said = {0};
    char bytes[4096];
    if (w->arm_out[a] < 0)
        return;
    if (subject_interrupted())
        kill(w->arm_pid[a], SIGKILL);
    for (ssize_t n; (n = read(w->arm_out[a], bytes, sizeof bytes)) > 0;)
        buf_add(&said, bytes, (size_t)n);
    own_closep(&w->arm_out[a]);
    while (waitpid(w->arm_pid[a], NULL, 0) < 0 && errno == EINTR)
        ;
    w->arm_pid[a] = 0;
    answers_start(&w->arms[a]);
    answers_read(&w->arms[a], buf_text(&said));
}

/* What this host itself reaches, of the rows that ask for it. */
static void ask_host(struct work *w) {
    struct facts f = {.n = 0};
    for (size_t i = 0; i < w->facts.n && f.n < FACTS_MAX; i++)
        f.word[f.n++] = w->facts.w[i];
    answers_start(&w->arms[ARM_HOST]);
    for (size_t i = 0; i < nrows; i++) {
        const char *room = w->room.of[i];
        bool abroad = rows[i].proof == ABROAD && room && strcmp(room, "OK");
        if (!abroad && strcmp(rows[i].what, "NW-10 every address of this host, with a listener"))
            continue;
        char answer[ANSWER_MAX] = "";
        errno = 0;
        long said = rows[i].attempt(&f, answer);
        w->arms[ARM_HOST].of[i] = xstrdup(said < 0 ? strerrorname_np(errno) : *answer ? answer : "OK");
    }
}

/* ---- the cage ---- */

/* The words of the product that lead into the cage; the last of the probe's is how it is found from outside. */
static void entering(const struct work *w, const char *mark, struct words *out) {
    if (w->wish->name) {
        words_add(out, "exec");
        words_add(out, w->wish->name);
    } else {
        words_add(out, "sealed");
        words_addf(out, "%s/project", w->dir);
        words_addf(out, "--outbox=%s/outbox", w->dir);
    }
    words_add(out, "--");
    words_add(out, "/cage/agent-cage");
    words_add(out, "probe");
    for (size_t i = 0; i < w->facts.n; i++)
        words_add(out, w->facts.w[i]);
    if (!w->wish->name)
        words_add(out, "six=1");
    words_add(out, mark);
}

static err_t last_words(const struct subject *s, int status) {
    char shown[ERR_TEXT_MAX / 2];
    size_t n = s->errors.len, from = n > 160 ? n - 160 : 0;
    escape_into(shown, sizeof shown, ESCAPE_LINE, buf_text(&s->errors) + from, n - from);
    return err_new(EXIT_FAILED, "the cage ended (%s %d) before everything was tried: %s",
                   WIFSIGNALED(status) ? "signal" : "status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), shown);
}

static void look(struct work *w, const char *mark) {
    pid_t pid = witness_find(mark);
    size_t accepted = listeners_count(&w->listeners);
    if (pid)
        witness_look(pid, w->wish->kind, accepted, w->witness, &w->nwitness);
}

/* Where it cannot be given, its rows are not judged. */
static err_t give_six(struct work *w, const char *mark) {
    bool asks = false;
    TRY(subject_hear(&w->subject, "six", w->deadline_ms, &asks));
    pid_t pid = asks ? witness_find(mark) : 0;
    if (pid)
        err_free(network_give_six(pid));
    if (asks)
        subject_go_on(&w->subject);
    return NULL;
}

static err_t try_cage(struct work *w) {
    own_words struct words words = {0};
    own_free char *mark = xasprintf("wait=%.8s", w->token + 8);
    bool still = false;
    int status = 0;
    entering(w, mark, &words);
    TRY(subject_start(&words, &w->env, &w->subject));
    err_t e = w->wish->name ? NULL : give_six(w, mark);
    e = e ? e : subject_hear(&w->subject, "over", w->deadline_ms, &still);
    if (still)
        look(w, mark);
    err_t e2 = subject_end(&w->subject, w->deadline_ms + 5000, &status);
    answers_start(&w->room);
    answers_read(&w->room, buf_text(&w->subject.said));
    if (!e && !still)
        e = last_words(&w->subject, status);
    if (e) {
        err_free(e2);
        return e;
    }
    return e2;
}

/* ---- the report ---- */

static void add_row(struct break_report *r, const char *what, enum verdict v, const char *why) {
    r->rows[r->nrows++] = (struct break_row){.what = what, .verdict = v, .why = xstrdup(why)};
    r->count[v]++;
}

static void report(const struct work *w, struct break_report *r) {
    enum kind kind = w->wish->kind;
    r->rows = xcalloc(nrows + WITNESS_MAX, sizeof *r->rows);
    for (size_t i = 0; i < nrows; i++) {
        if (!rows[i].want[kind])
            continue;
        struct judged j = judge_row(i, kind, &w->room, w->arms);
        add_row(r, rows[i].what, j.verdict, buf_text(&j.why));
        buf_free(&j.why);
    }
    for (size_t i = 0; i < w->nwitness; i++) {
        const struct witness *s = &w->witness[i];
        add_row(r, s->what, !s->judged ? NOT_JUDGED : s->right ? GREEN : RED, s->why);
    }
    if (!w->nwitness)
        add_row(r, "CP-20 the cage seen from outside", NOT_JUDGED, "its first process was not found");
}

static void clear(struct work *w) {
    for (enum arm a = 0; a < ARM_COUNT; a++)
        hear_arm(w, a);
    listeners_close(&w->listeners);
    if (w->segment >= 0)
        shmctl(w->segment, IPC_RMID, NULL);
    own_free char *shm = xasprintf("/dev/shm/%s", w->shm ? w->shm : "agent-cage-break-none");
    unlink(shm);
    if (w->dir)
        err_free(fs_remove(w->dir));
    free(w->dir);
    free(w->shm);
    words_free(&w->facts);
    words_free(&w->env);
    subject_free(&w->subject);
    answers_free(&w->room);
    for (size_t i = 0; i < ARMS_MAX; i++)
        answers_free(&w->arms[i]);
}

static err_t run(struct work *w, struct break_report *ret) {
    TRY(plant(w));
    start_arms(w);
    TRY(try_cage(w));
    for (enum arm a = 0; a < ARM_COUNT; a++)
        hear_arm(w, a);
    if (subject_interrupted())
        return err_new(subject_interrupted(), "interrupted");
    ask_host(w);
    report(w, ret);
    return NULL;
}

err_t break_run(const struct break_wish *wish, struct break_report *ret) {
    int64_t began = now_ms();
    struct work w = {.wish = wish,
                     .segment = -1,
                     .arm_out = {-1, -1},
                     .subject = {.in = -1, .out = -1, .err = -1},
                     .deadline_ms = began + WHOLE_MS};
    *ret = (struct break_report){0};
    subject_catch_signals();
    posture_read(ret->posture, &ret->nposture);
    err_t e = run(&w, ret);
    clear(&w);
    ret->took_ms = now_ms() - began;
    return e;
}

void break_report_free(struct break_report *r) {
    for (size_t i = 0; i < r->nrows; i++)
        free(r->rows[i].why);
    free(r->rows);
    *r = (struct break_report){0};
}
