#include "sealed/session.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/ids.h"
#include "base/own.h"
#include "base/paths.h"
#include "sealed/aftermath.h"
#include "sealed/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REACHED_SHOWN = 8 };

static err_t lock(const char *dir, int *ret) {
    own_free char *path = xasprintf("%s/.lock", dir);
    TRY(fs_dir(dir, 0, 0,
               0711)); /* the engine goes to the in-tray as a room's root, who is nobody out here */
    return fs_lock(path, ret);
}

bool sealed_session_open(const char *dir) {
    own_free char *path = xasprintf("%s/before", dir);
    return access(path, F_OK) == 0;
}

int64_t sealed_session_age_ms(const char *dir) {
    own_free char *path = xasprintf("%s/before", dir);
    struct stat st;
    if (stat(path, &st))
        return 0;
    int64_t age = clock_wall_ms() - (st.st_mtim.tv_sec * INT64_C(1000) + st.st_mtim.tv_nsec / 1000000);
    return age > 0 ? age : 0;
}

char *sealed_session_outbox(const char *dir) {
    own_free char *path = xasprintf("%s/outbox", dir);
    char *line = NULL;
    own_err err_t none = fs_read_line(path, &line);
    return none ? NULL : line;
}

/* A fresh one, and its path written down. */
static err_t make_outbox(const struct sealed_session *s, const struct project *p, const char *path,
                         struct outbox_place *ret) {
    char when[CLOCK_STAMP_MAX];
    clock_stamp(when, clock_wall_ms());
    own_free char *name = xasprintf("%s-%s", s->agent, when);
    TRY(outbox_make_in(s->home, s->owner, name, p->uid, p->gid, ret));
    own_free char *line = xasprintf("%s\n", ret->path);
    err_t e = fs_write(path, line, strlen(line), 0, 0, 0600);
    if (e)
        outbox_place_close(ret);
    return e;
}

/* The one of this session; a new one when it was taken away meanwhile. */
static err_t find_outbox(const struct sealed_session *s, const struct project *p, bool goes_on,
                         struct outbox_place *ret) {
    own_free char *path = xasprintf("%s/outbox", s->dir), *line = NULL;
    own_err err_t none = goes_on ? fs_read_line(path, &line) : NULL;
    own_err err_t gone = line ? outbox_open(line, ret) : NULL;
    if (line && !gone)
        return NULL;
    return make_outbox(s, p, path, ret);
}

static err_t drop(const char *dir, const char *name) {
    own_free char *path = xasprintf("%s/%s", dir, name);
    return fs_remove(path);
}

static err_t make_tray(const struct sealed_session *s) {
    own_free char *path = xasprintf("%s/inbox", s->dir);
    return fs_dir(path, s->tray, s->tray, 0700);
}

/* What was sent in another session, and whom that one turned to, is not this one's: its folder may have gone but in part. */
static err_t clean(const struct sealed_session *s) {
    TRY(drop(s->dir, "inbox"));
    return drop(s->dir, "reached");
}

static err_t look(const struct sealed_session *s, const struct project *p) {
    own_free char *path = xasprintf("%s/before", s->dir);
    struct aftermath_before before = {0};
    TRY(aftermath_look(p->fd, &before));
    err_t e = aftermath_keep(&before, path);
    aftermath_free(&before);
    return e;
}

err_t sealed_session_begin(const struct sealed_session *s, const struct project *p,
                           struct outbox_place *ret) {
    own_fd int held = -1;
    TRY(lock(s->dir, &held));
    bool goes_on = sealed_session_open(s->dir);
    if (!goes_on)
        TRY(err_wrap(clean(s), "what a former session left"));
    TRY(err_wrap(make_tray(s), "the in-tray"));
    TRY(err_wrap(find_outbox(s, p, goes_on, ret), "the outbox"));
    err_t e = goes_on ? NULL : look(s, p);
    if (e)
        outbox_place_close(ret);
    return e;
}

/* "reached": what the rooms of it that ended had reached, together. */
err_t sealed_session_reached(const char *dir, const struct reached *more) {
    own_fd int held = -1;
    own_free char *path = xasprintf("%s/reached", dir);
    own_reached struct reached all = {0};
    if (!sealed_session_open(dir))
        return NULL;
    TRY(lock(dir, &held));
    err_t none = reached_recall(path, &all);
    if (none && none->status != EXIT_NOTFOUND)
        return none;
    err_free(none);
    reached_add(&all, more);
    return reached_keep(&all, path);
}

static void say_network(const char *dir, struct buf *out) {
    own_free char *path = xasprintf("%s/reached", dir);
    own_reached struct reached all = {0};
    own_err err_t e = reached_recall(path, &all);
    if (!e)
        reached_say(&all, REACHED_SHOWN, out);
    else if (e->status != EXIT_NOTFOUND) /* a session without a network has none */
        buf_printf(out, "  network   what it reached is not known: %s\n", err_text(e));
}

static err_t say_outbox(const char *dir, struct buf *out) {
    own_free char *path = xasprintf("%s/outbox", dir), *line = NULL;
    struct outbox_place box;
    TRY(fs_read_line(path, &line));
    TRY(outbox_open(line, &box));
    err_t e = report_outbox(&box, out);
    outbox_forget(&box);
    outbox_place_close(&box);
    return e;
}

static err_t say_project(const char *dir, const char *path, const char *lib, struct buf *out) {
    own_free char *kept = xasprintf("%s/before", dir);
    struct aftermath_before before = {0};
    struct project p;
    TRY(aftermath_recall(kept, &before));
    err_t e = project_again(path, MODE_SEALED, &p);
    if (!e) {
        e = report_project(lib, path, &p, &before, out);
        project_close(&p);
    }
    aftermath_free(&before);
    return e;
}

err_t sealed_session_end(const char *dir, const char *project, const char *lib, struct buf *out) {
    own_fd int held = -1;
    TRY(lock(dir, &held));
    say_network(dir, out);
    err_t box = say_outbox(dir, out), changes = say_project(dir, project, lib, out);
    if (box)
        buf_printf(out, "  outbox    could not be looked at: %s\n", err_text(box));
    if (changes)
        buf_printf(out, "  project   untrusted from now on, and it could not be looked at: %s\n",
                   err_text(changes));
    err_free(box);
    err_free(changes);
    /* As large as its agent liked: who calls us waits for that alone. What stays is sealed_session_forget()'s to say. */
    err_free(drop(dir, "inbox"));
    return NULL;
}

err_t sealed_session_forget(const char *dir) {
    return fs_remove(dir);
}

err_t sealed_session_home(uid_t uid, char **ret, uid_t *ret_owner) {
    own_free char *dir = ids_home(uid), *home = dir ? path_of("%s", dir) : NULL,
                  *real = home ? realpath(home, NULL) : NULL;
    struct stat st;
    if (real && real[1] && !stat(real, &st) && S_ISDIR(st.st_mode) && st.st_uid == uid) {
        *ret = TAKE(real);
        *ret_owner = uid;
        return NULL;
    }
    own_free char *root = path_of("/root");
    TRY(fs_dirs(root));
    *ret = TAKE(root);
    *ret_owner = 0;
    return NULL;
}
