#include "sealed/run.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/own.h"
#include "cage/addresses.h"
#include "cage/place.h"
#include "cage/podman.h"
#include "sealed/room.h"
#include "sealed/space.h"
#include "wire/seq.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { END_WAIT_MS = 10000 };

/* ---- the run's folder ---- */

static err_t lock_all(const struct ground *g, int *ret) {
    own_free char *path = xasprintf("%s/.lock", g->run);
    return fs_lock(path, ret);
}

/* The folder's own descriptor is its lock. */
static err_t lock_folder(const char *path, int *ret) {
    own_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(errno, "open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB))
        return err_sys(errno, "lock %s", path);
    *ret = TAKE_FD(fd);
    return NULL;
}

static void name_session(struct sealed_run *r) {
    uint32_t number = 0;
    char when[CLOCK_STAMP_MAX];
    clock_stamp(when, clock_wall_ms());
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number = (uint32_t)clock_mono_ns();
    snprintf(r->session, sizeof r->session, "%s-%04x", when, number & 0xffff);
}

static err_t remove_run(const struct ground *g, const char *session) {
    own_free char *folder = xasprintf("%s/%s", g->run, session), *dir = xasprintf("%s/podman", folder);
    struct cage_spec s = {.name = xasprintf("%ssealed-%s", g->conf.prefix, session),
                          .stage = xasprintf("%s/stage", folder),
                          .rootless = g->rootless};
    err_t e = cage_stop(&s, &g->host, dir);
    e = e ? e : kept_off(folder);
    e = e ? e : fs_remove(folder);
    spec_free(&s);
    return e;
}

err_t sealed_left(const struct ground *g, struct words *ret) {
    DIR *d = opendir(g->run);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        own_free char *path = xasprintf("%s/%s", g->run, entry->d_name);
        own_fd int lock = -1;
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') /* sessions begin with a date */
            continue;
        own_err err_t busy = lock_folder(path, &lock);
        if (!busy)
            words_add(ret, entry->d_name);
    }
    if (d)
        closedir(d);
    return NULL;
}

err_t sealed_clear(const struct ground *g, const char *session) {
    own_fd int all = -1, lock = -1;
    own_free char *path = xasprintf("%s/%s", g->run, session);
    TRY(lock_all(g, &all));
    own_err err_t gone = lock_folder(path, &lock);
    return gone ? NULL : remove_run(g, session);
}

/* What cannot be cleared does not keep a new run from starting; `doctor --clean` says why. */
static err_t sweep(const struct ground *g) {
    own_words struct words left = {0};
    TRY(sealed_left(g, &left));
    for (size_t i = 0; i < left.n; i++)
        err_free(sealed_clear(g, left.w[i]));
    return NULL;
}

static err_t make_folder(struct sealed_run *r) {
    own_fd int all = -1;
    TRY(sweep(&r->ground));
    TRY(lock_all(&r->ground, &all));
    name_session(r);
    r->folder = xasprintf("%s/%s", r->ground.run, r->session);
    TRY(fs_dir(r->folder, 0, 0, 0711));
    return lock_folder(r->folder, &r->folder_lock);
}

/* ---- the rules ---- */

err_t sealed_follow(struct sealed_run *r) {
    own_place struct place now = {0};
    if (!addresses_changed(r->watch))
        return NULL;
    TRY(place_read(&r->ground.host, NET_SEALED, &now));
    if (words_same(&now.local, &r->local)) /* an interface of another cage came or went */
        return NULL;
    TRY(nft_update(r->netns, NET_SEALED, &now.nft));
    words_free(&r->local);
    r->local = now.local;
    now.local = (struct words){0};
    return NULL;
}

/* ---- open ---- */

/* By its path, not by /proc/self/exe: that one stands in the mount namespace in which we were executed. */
static err_t open_binary(int *ret, char **ret_path) {
    struct stat here, running;
    *ret_path = realpath("/proc/self/exe", NULL);
    *ret = *ret_path ? open(*ret_path, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (*ret < 0 || fstat(*ret, &here) || stat("/proc/self/exe", &running))
        return err_sys(errno, "our own binary");
    return here.st_dev == running.st_dev && here.st_ino == running.st_ino
               ? NULL
               : err_new(EXIT_FAILED, "our own binary %s was replaced meanwhile; say it again", *ret_path);
}

static err_t describe(struct sealed_run *r, uint32_t uid_base, int binary) {
    own_free char *stage = xasprintf("%s/stage", r->folder);
    const struct sealed_plan plan = {
        .ground = &r->ground,
        .session = r->session,
        .stage = stage,
        .uid_base = uid_base,
        .binary = binary,
        .project = r->kept.place >= 0 ? r->kept.place : r->project.fd,
        .outbox = r->outbox.fd,
        .project_as_it_is = r->kept.place >= 0,
        .uid = r->project.uid,
        .gid = r->project.gid,
        .outbox_uid = r->outbox.uid,
        .outbox_gid = r->outbox.gid,
    };
    return sealed_room(&plan, &r->spec);
}

static err_t open_netns(pid_t pid, int *ret) {
    own_free char *path = xasprintf("/proc/%d/ns/net", (int)pid);
    *ret = open(path, O_RDONLY | O_CLOEXEC);
    return *ret < 0 ? err_sys(errno, "the room ended before its command") : NULL;
}

static err_t start(struct sealed_run *r) {
    own_free char *dir = xasprintf("%s/podman", r->folder);
    own_place struct place place = {0};
    int pair[2];
    TRY(addresses_watch(&r->watch));
    TRY(place_read(&r->ground.host, NET_SEALED, &place));
    for (size_t i = 0; i < place.local.n; i++)
        words_add(&r->local, place.local.w[i]);
    TRY(seq_pair(pair));
    r->link = pair[0];
    own_fd int its = pair[1];
    err_t e = cage_start(&r->spec, &r->ground.host, &place.nft, dir, &its, &r->cage);
    if (e) {
        ground_doubt(&r->ground);
        return e;
    }
    r->running = true;
    TRY(open_netns(r->cage.pid, &r->netns));
    return sealed_follow(r); /* the engine may have made a bridge meanwhile */
}

/* The project's path without "..", for people to read. */
static char *plain_path(const struct project *p, const char *given) {
    own_free char *link = xasprintf("/proc/self/fd/%d", p->fd);
    char path[PATH_MAX];
    ssize_t n = readlink(link, path, sizeof path);
    return n > 0 && n < (ssize_t)sizeof path ? xstrndup(path, (size_t)n) : xstrdup(given);
}

static err_t prepare(const struct sealed_wish *w, struct sealed_run *r) {
    own_fd int binary = -1;
    own_free char *path = NULL;
    uint32_t uid_base;
    TRY(project_open(w->project, MODE_SEALED, &r->project));
    r->path = plain_path(&r->project, w->project);
    TRY(ground_open(w->tell, w->ctx, &r->ground));
    TRY(ground_ids(&r->ground, &uid_base, &r->ids_lock));
    TRY(open_binary(&binary, &path));
    TRY(ground_runtime(&r->ground, path, uid_base));
    TRY(make_folder(r));
    TRY(outbox_make(w->outbox, r->session, r->project.uid, r->project.gid, &r->outbox));
    if (w->keep_clean)
        TRY(kept_open(&r->ground, &r->project, w->project, uid_base, r->folder, &r->kept));
    else
        TRY(aftermath_look(r->project.fd, &r->before));
    TRY(space_enough(r));
    TRY(describe(r, uid_base, binary));
    r->limits = podman_limits(&r->spec, &r->ground.host);
    return start(r);
}

err_t sealed_open(const struct sealed_wish *w, struct sealed_run *ret) {
    *ret = (struct sealed_run){.folder_lock = -1,
                               .ids_lock = -1,
                               .project = {.fd = -1},
                               .outbox = {.fd = -1, .parent = -1},
                               .kept = {.place = -1},
                               .cage = {.pidfd = -1},
                               .link = -1,
                               .netns = -1,
                               .watch = -1};
    err_t e = prepare(w, ret);
    if (!e)
        return NULL;
    err_free(sealed_end(ret)); /* the first error is the one to tell */
    outbox_forget(&ret->outbox);
    sealed_close(ret);
    return e;
}

/* ---- word, end ---- */

err_t sealed_word(struct sealed_run *r, char *const *argv, const struct list *env, const int fds[3],
                  bool tty) {
    size_t n = 0;
    while (argv[n])
        n++;
    own_free struct bytes *words = xcalloc(n, sizeof *words);
    for (size_t i = 0; i < n; i++)
        words[i] = bytes_of(argv[i]);
    struct msg m = {.type = MSG_sealed_run, .nfds = 3};
    m.sealed_run.argv = (struct list){words, n};
    m.sealed_run.env = *env;
    m.sealed_run.tty = tty;
    memcpy(m.fds, fds, 3 * sizeof *fds);
    return err_wrap(seq_send(r->link, &m), "the room does not take its command");
}

err_t sealed_signal(struct sealed_run *r, int signo) {
    struct msg m = {.type = MSG_sealed_signal};
    m.sealed_signal.signo = (uint64_t)signo;
    return seq_send(r->link, &m);
}

static void wait_for_end(struct sealed_run *r) {
    struct pollfd p = {r->cage.pidfd, POLLIN, 0};
    int64_t until = clock_mono_ns() + END_WAIT_MS * 1000000LL;
    while (p.fd >= 0 && poll(&p, 1, END_WAIT_MS) < 0 && errno == EINTR && clock_mono_ns() < until)
        ;
}

err_t sealed_end(struct sealed_run *r) {
    own_closep(&r->link);
    if (r->running)
        wait_for_end(r);
    err_t e = r->running && r->netns >= 0 ? reached_count(r->netns, &r->reached) : NULL;
    r->running = false;
    if (!r->folder)
        return e;
    err_t gone = remove_run(&r->ground, r->session);
    if (e) {
        err_free(gone);
        return e;
    }
    return gone;
}

void sealed_close(struct sealed_run *r) {
    own_closep(&r->link);
    own_closep(&r->netns);
    own_closep(&r->watch);
    own_closep(&r->folder_lock);
    own_closep(&r->ids_lock);
    cage_close(&r->cage);
    project_close(&r->project);
    outbox_place_close(&r->outbox);
    kept_close(&r->kept);
    aftermath_free(&r->before);
    spec_free(&r->spec);
    words_free(&r->local);
    reached_free(&r->reached);
    ground_close(&r->ground);
    free(r->path);
    free(r->folder);
}
