#include "agent/intray.h"
#include "agent/from_manager.h"
#include "agent/turn.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/own.h"
#include "base/parse.h"
#include "proto/file_name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define COMING ".coming-"
enum { PIECE = 65536, OTHERS_MAX = 10000 };

struct coming {
    struct intray *tray;
    uint64_t cookie, size, got;
    char *who, *name, *temp;
    int from, to;
    struct event *readable;
    struct coming *next;
};

struct intray {
    struct agent *a;
    int dir;
    char *shown, *note; /* note: NULL when the files stay */
    uint64_t spare;     /* stays free on the disk */
    uint64_t last;      /* of ".coming-N" */
    struct coming *first;
    size_t n;
};

/* ---- the folder ---- */

struct held {
    uint64_t files, bytes;
};

/* Which go when they are looked at. */
enum sweep { NOTHING, COMING_ONES, ALL };

static bool goes(enum sweep sweep, const char *name) {
    bool entry = strcmp(name, ".") && strcmp(name, "..");
    return sweep == ALL ? entry : sweep == COMING_ONES && !strncmp(name, COMING, strlen(COMING));
}

/* What lies in it. */
static err_t look(const struct intray *t, enum sweep sweep, struct held *ret) {
    int fd = openat(t->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        err_t e = err_sys(errno, "read the in-tray");
        own_closep(&fd);
        return e;
    }
    err_t stays = NULL;
    *ret = (struct held){0};
    for (struct dirent *f; (f = readdir(d));) {
        struct stat st;
        if (goes(sweep, f->d_name)) {
            if (unlinkat(t->dir, f->d_name, 0) && !stays)
                stays = err_sys(errno, "remove a file from the in-tray");
        } else if (!fstatat(t->dir, f->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode)) {
            ret->files++;
            ret->bytes += (uint64_t)st.st_size;
        }
    }
    closedir(d);
    return stays;
}

static err_t has_room(const struct intray *t, uint64_t size) {
    struct held held;
    struct statvfs fs;
    uint64_t promised = 0; /* not written yet */
    TRY(look(t, NOTHING, &held));
    for (const struct coming *c = t->first; c; c = c->next)
        promised += c->size - c->got;
    held.bytes += promised;
    if (held.files >= INTRAY_FILES_MAX || held.bytes + size > INTRAY_BYTES_MAX)
        return err_new(EXIT_POLICY,
                       "the in-tray is full (%llu files, %llu bytes): on the host, `agent-cage inbox rm NAME "
                       "FILE` makes room",
                       (unsigned long long)held.files, (unsigned long long)held.bytes);
    if (fstatvfs(t->dir, &fs))
        return err_sys(errno, "the in-tray's disk");
    if (fs.f_frsize * fs.f_bavail < size + promised + t->spare)
        return err_as(err_sys(ENOSPC, "there is no place for a file of %llu bytes", (unsigned long long)size),
                      EXIT_FAILED);
    return NULL;
}

/* A name that is free, after this one. Nobody else makes names here. */
static err_t free_name(const struct intray *t, const char *name, char **ret) {
    for (unsigned n = 1; n <= OTHERS_MAX; n++) {
        own_free char *other = n == 1 ? xstrdup(name) : file_name_other(name, n);
        struct stat st;
        if (!fstatat(t->dir, other, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        if (errno != ENOENT)
            return err_sys(errno, "look into the in-tray");
        *ret = TAKE(other);
        return NULL;
    }
    return err_new(EXIT_POLICY, "too many files of that name are in the in-tray: give it another");
}

/* ---- one file ---- */

static void drop(struct coming *c) {
    struct coming **at = &c->tray->first;
    while (*at && *at != c)
        at = &(*at)->next;
    if (*at) {
        *at = c->next;
        c->tray->n--;
    }
    if (c->readable)
        event_free(c->readable);
    own_closep(&c->from);
    own_closep(&c->to);
    if (c->temp)
        unlinkat(c->tray->dir, c->temp, 0); /* not there any more when it has its name */
    free(c->who);
    free(c->name);
    free(c->temp);
    free(c);
}

static err_t name_it(struct coming *c, char **ret_place) {
    struct intray *t = c->tray;
    own_free char *name = NULL;
    if (c->got != c->size)
        return err_new(EXIT_FAILED, "only %llu of %llu bytes came: send it again", (unsigned long long)c->got,
                       (unsigned long long)c->size);
    TRY(free_name(t, c->name, &name));
    if (renameat(t->dir, c->temp, t->dir, name))
        return err_sys(errno, "put the file into the in-tray");
    *ret_place = xasprintf("%s/%s", t->shown, name);
    return NULL;
}

static void end(struct coming *c, err_t why) {
    own_free char *place = NULL, *note = NULL;
    own_err err_t e = why ? why : name_it(c, &place);
    struct agent *a = c->tray->a;
    uint64_t cookie = c->cookie;
    if (!e)
        note = xasprintf("%s sent a file, %llu byte%s: %.600s", c->who, (unsigned long long)c->size,
                         c->size == 1 ? "" : "s", place);
    drop(c);
    if (note)
        desk_note(a, note);
    desk_order_end(a, cookie, e ? e->status : EXIT_OK, e ? err_text(e) : place);
}

/* One piece, so that the loop sees to others in between, and one byte more than may come, to see that it came. A flag says that
 * this may not wait, not the pipe's O_NONBLOCK: that is its sender's to clear, too. */
static void on_readable(evutil_socket_t fd, short what, void *arg) {
    struct coming *c = arg;
    if (what & EV_TIMEOUT) {
        end(c, err_new(EXIT_FAILED, "nothing more of the file came for %d s: send it again", INTRAY_WAIT_S));
        return;
    }
    uint64_t most = c->size - c->got + 1;
    ssize_t n = splice(fd, NULL, c->to, NULL, most < PIECE ? (size_t)most : PIECE, SPLICE_F_NONBLOCK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        end(c, n ? err_sys(errno, "write the file") : NULL);
        return;
    }
    c->got += (uint64_t)n;
    if (c->got > c->size)
        end(c, err_new(EXIT_POLICY, "more than its %llu bytes came", (unsigned long long)c->size));
}

static err_t check_pipe(int fd) {
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fstat(fd, &st) || !S_ISFIFO(st.st_mode) || (flags & (O_PATH | O_ACCMODE)) != O_RDONLY)
        return err_new(EXIT_POLICY, "a file comes through the reading end of a pipe");
    return NULL;
}

static uint64_t noted(const struct intray *t) {
    own_free char *line = NULL;
    uint64_t session = 0;
    own_err err_t none = fs_read_line(t->note, &line);
    own_err err_t bad = none ? NULL : parse_u64(line, UINT64_MAX, &session);
    return bad ? 0 : session;
}

err_t intray_of(struct intray *t, uint64_t session) {
    struct held held;
    if (!t->note || noted(t) == session)
        return NULL;
    while (t->first)
        end(t->first,
            err_new(EXIT_FAILED, "another session began before all of the file had come: send it again"));
    TRY(look(t, ALL, &held));
    own_free char *line = xasprintf("%llu\n", (unsigned long long)session);
    return fs_write(t->note, line, strlen(line), geteuid(), getegid(), 0600);
}

err_t intray_take(struct intray *t, struct msg *m) {
    const struct msg_desk_put *q = &m->desk_put;
    const struct timeval wait = {INTRAY_WAIT_S, 0};
    TRY(file_check(q->name, q->size));
    TRY(check_pipe(m->fds[0]));
    if (t->note && turn_changes_session(t->a->turn)) /* it would go with the files of the former one */
        return err_new(EXIT_FAILED, "another session is about to begin: send the file again in a moment");
    if (t->n >= INTRAY_COMING_MAX)
        return err_new(EXIT_POLICY, "%d files are coming already: wait until one is there",
                       INTRAY_COMING_MAX);
    TRY(has_room(t, q->size));
    own_free char *temp = xasprintf(COMING "%llu", (unsigned long long)++t->last);
    own_fd int to =
        openat(t->dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (to < 0)
        return err_sys(errno, "make a file in the in-tray");
    struct coming *c = xcalloc(1, sizeof *c);
    *c = (struct coming){.tray = t,
                         .cookie = q->cookie,
                         .size = q->size,
                         .who = xstrdup(q->who.p),
                         .name = xstrdup(q->name.p),
                         .next = t->first};
    c->temp = TAKE(temp);
    c->from = TAKE_FD(m->fds[0]);
    c->to = TAKE_FD(to);
    t->first = c;
    t->n++;
    c->readable = event_new(t->a->base, c->from, EV_READ | EV_PERSIST, on_readable, c);
    event_add(c->readable, &wait);
    return NULL;
}

err_t intray_open(struct agent *a, const struct intray_place *at, struct intray **ret) {
    int fd = open(at->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(errno, "open the in-tray %s", at->dir);
    struct intray *t = xcalloc(1, sizeof *t);
    *t = (struct intray){.a = a,
                         .dir = fd,
                         .shown = xstrdup(at->shown),
                         .note = at->note ? xstrdup(at->note) : NULL,
                         .spare = at->reserve + at->reserve / 4};
    struct held held;
    err_t e = look(t, COMING_ONES, &held);
    if (e) {
        intray_free(t);
        return e;
    }
    *ret = t;
    return NULL;
}

void intray_free(struct intray *t) {
    if (!t)
        return;
    while (t->first)
        drop(t->first);
    own_closep(&t->dir);
    free(t->shown);
    free(t->note);
    free(t);
}
