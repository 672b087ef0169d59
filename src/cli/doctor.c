/* doctor: runs the checks and shows them, as lines or JSON; with --clean also takes leftovers away. */
#include "cli/doctor.h"
#include "base/escape.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/paths.h"
#include "base/proc.h"
#include "cli/json.h"
#include "cli/leftovers.h"
#include "cli/self.h"
#include "cli/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIR_TRIES = 5 };

static const char *const standing_words[] = {
    [STANDS_OK] = "ok", [STANDS_NOTE] = "note", [STANDS_LACKS] = "lacks"};

static const struct check *const all[] = {doctor_engine_checks, doctor_kernel_checks, doctor_fleet_checks};

/* What one run has come to. */
struct outcome {
    json_t *checks, *removed; /* NULL: print lines */
    unsigned count[STANDS_LACKS + 1];
    bool failed; /* a leftover could not be removed */
};

void doctor_mend_by_package(struct finding *f, const char *package) {
    static const struct {
        const char *program, *call;
    } managers[] = {
        {"apt-get", "apt-get install"}, {"dnf", "dnf install"}, {"zypper", "zypper install"},
        {"pacman", "pacman -S"},        {"apk", "apk add"},
    };
    for (size_t i = 0; i < COUNT(managers); i++) {
        own_free char *path = proc_find(managers[i].program);
        if (!path)
            continue;
        free(f->words);
        f->words = xasprintf("%s %s", managers[i].call, package);
        f->mend = f->words;
        return;
    }
    f->mend = "install it with this system's package manager";
}

char *doctor_nearest(const char *path) {
    char *at = xstrdup(path);
    while (*at && access(at, F_OK) < 0)
        *(strrchr(at, '/') ? strrchr(at, '/') : at) = 0;
    if (!*at) {
        free(at);
        return xstrdup("/");
    }
    return at;
}

static void print_escaped(const char *before, const char *text) {
    own_buf struct buf hints = {0}, safe = {0};
    self_hints(&hints, text);
    escape_text(&safe, ESCAPE_LINE, buf_text(&hints), hints.len);
    printf("%s%s\n", before, buf_text(&safe));
}

static void show(const struct check *c, enum standing s, const struct finding *f, struct outcome *o) {
    if (!o->checks) {
        printf("%-6s %-16s ", standing_words[s], c->name);
        print_escaped("", buf_text(&f->found));
        if (s != STANDS_OK) {
            print_escaped("                        means: ", f->means);
            print_escaped("                        mend:  ", f->mend);
        }
        fflush(stdout);
        return;
    }
    json_t *j = json_object();
    struct bytes found = {buf_text(&f->found), f->found.len};
    json_object_set_new(j, "name", json_string(c->name));
    json_object_set_new(j, "status", json_string(standing_words[s]));
    json_object_set_new(j, "found", json_text(&found));
    json_object_set_new(j, "means", json_string(s == STANDS_OK ? "" : f->means));
    json_object_set_new(j, "mend", json_string(s == STANDS_OK ? "" : f->mend));
    json_array_append_new(o->checks, j);
}

/* ---- its end before its time ---- */

static volatile sig_atomic_t caught;

static void on_signal(int signo) {
    static const char text[] = "\nending as soon as this check is over; once more ends it at once\n";
    caught = signo;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
}

/* The first one lets the check that is at work end, so that nothing of it stays; a second one does not: a check may hang. */
static void catch_signals(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < COUNT(signals); i++)
        sigaction(signals[i],
                  &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_RESETHAND}, NULL);
}

static err_t interrupted(void) {
    return caught ? err_new(128 + caught, "interrupted") : NULL;
}

static err_t run_checks(const struct doctor *d, struct outcome *o) {
    for (size_t t = 0; t < COUNT(all); t++)
        for (const struct check *c = all[t]; c->name; c++) {
            struct finding f = {.means = c->means, .mend = c->mend};
            enum standing s = c->look(d, &f);
            if (!caught)
                show(c, s, &f, o);
            o->count[s]++;
            buf_free(&f.found);
            free(f.words);
            TRY(interrupted());
        }
    return NULL;
}

static void show_removed(const struct leftover *l, const struct err *why, struct outcome *o) {
    if (o->removed) {
        json_t *j = json_object();
        json_object_set_new(j, "kind", json_string(leftover_word(l->kind)));
        struct bytes what = bytes_of(l->what);
        json_object_set_new(j, "what", json_text(&what));
        json_object_set_new(j, "agent", json_string(l->agent));
        json_object_set_new(j, "removed", json_boolean(!why));
        json_object_set_new(j, "why", json_string(err_text(why)));
        json_array_append_new(o->removed, j);
        return;
    }
    own_buf struct buf line = {0};
    buf_printf(&line, "%s %s", leftover_word(l->kind), l->what);
    if (*l->agent)
        buf_printf(&line, " of agent %s, which is gone", l->agent);
    if (why)
        buf_printf(&line, ": %s", err_text(why));
    print_escaped(why ? "left    " : "removed ", buf_text(&line));
    fflush(stdout);
}

/* Again until a look finds nothing new: what one thing held (a mount its folder) shows at the next. */
static err_t clean(const struct doctor *d, struct outcome *o) {
    enum { ROUNDS = 3 };
    if (!d->root)
        return err_new(EXIT_POLICY, "only root can clean: `sudo agent-cage doctor --clean`");
    size_t removed = 0;
    for (int round = 0; round < ROUNDS && !o->failed; round++) {
        own_leftovers struct leftovers left = {0};
        TRY(leftovers_find(d, &left));
        for (size_t i = 0; i < left.n; i++) {
            own_err err_t e = leftover_remove(d, &left.v[i]);
            show_removed(&left.v[i], e, o);
            o->failed |= e != NULL;
            removed += !e;
            TRY(interrupted());
        }
        if (!left.n)
            break;
    }
    if (!o->removed && !removed && !o->failed)
        puts("nothing was left behind");
    return NULL;
}

static void doctor_free(struct doctor *d) {
    if (d->dir && *d->dir)
        err_free(fs_remove(d->dir));
    own_closep(&d->lock);
    conf_fleet_free(&d->fleet);
    free(d->conf_why);
    free(d->host_why);
    free(d->dir);
}

/* The text of e ("" for none), which ends. */
static char *text_of(err_t e) {
    char *text = xstrdup(err_text(e));
    err_free(e);
    return text;
}

/* A folder of our own, locked. Another doctor may take it for a dead one's until it is: then there is a next one. */
static err_t make_dir(struct doctor *d) {
    own_free char *run = path_of("/run");
    TRY(fs_dirs(run));
    for (int tries = 0; tries < DIR_TRIES; tries++) {
        own_free char *dir = path_of(DOCTOR_DIR "XXXXXX");
        struct stat ours, there;
        if (!mkdtemp(dir))
            return err_sys(errno, "make a folder in %s", run);
        own_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) || fstat(fd, &ours) || stat(dir, &there) ||
            ours.st_ino != there.st_ino)
            continue;
        free(d->dir);
        d->dir = TAKE(dir);
        d->lock = TAKE_FD(fd);
        return NULL;
    }
    return err_new(EXIT_FAILED, "no folder in %s stays: other doctors clean it away", run);
}

static err_t doctor_open(struct doctor *d) {
    *d = (struct doctor){.root = geteuid() == 0, .dir = xstrdup(""), .lock = -1};
    d->conf_why = text_of(conf_fleet_read(&d->fleet));
    if (*d->conf_why)
        d->fleet = (struct conf_fleet){.prefix = xstrdup(""),
                                       .runtime = xstrdup(""),
                                       .image_dir = path_of(DIR_LIB "/images"),
                                       .harness_dir = path_of(DIR_LIB "/harness")};
    /* An ordinary user's podman would make folders and leave a process: only what it is called is asked. */
    d->host_why = text_of(d->root ? host_read(&d->host) : host_read_plain(&d->host));
    if (!d->root)
        return NULL;
    catch_signals();
    return make_dir(d);
}

static void finish(struct outcome *o) {
    if (!o->checks) {
        printf("%u ok, %u to note, %u lacking\n", o->count[STANDS_OK], o->count[STANDS_NOTE],
               o->count[STANDS_LACKS]);
        return;
    }
    own_json json_t *j = json_object();
    json_object_set(j, "checks", o->checks);
    for (int s = STANDS_OK; s <= STANDS_LACKS; s++)
        json_object_set_new(j, standing_words[s], json_integer(o->count[s]));
    if (o->removed)
        json_object_set(j, "cleaned", o->removed);
    json_print(j, stdout);
}

err_t verb_doctor(const struct call *call, int *ret_status) {
    TRY(paths_open());
    bool as_json = call_option(call, "json"), cleaning = call_option(call, "clean");
    struct doctor d __attribute__((cleanup(doctor_free)));
    TRY(doctor_open(&d));
    own_json json_t *checks = as_json ? json_array() : NULL,
                    *removed = as_json && cleaning ? json_array() : NULL;
    struct outcome o = {.checks = checks, .removed = removed};
    if (cleaning)
        TRY(clean(&d, &o));
    if (!cleaning || as_json)
        TRY(run_checks(&d, &o));
    if (!cleaning || as_json)
        finish(&o);
    *ret_status = o.failed || o.count[STANDS_LACKS] ? 1 : 0;
    return NULL;
}
