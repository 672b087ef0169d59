#include "cage/cage.h"

#include "base/fs.h"
#include "base/own.h"
#include "base/proc.h"
#include "cage/bridge.h"
#include "cage/mount.h"
#include "cage/podman.h"
#include "cage/share.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Files of one room in podman's start folder. */
struct places {
    char *seccomp, *pidfile;
    struct podman_files files;
};

static void places_free(struct places *p) {
    free(p->seccomp);
    free(p->pidfile);
}
#define own_places __attribute__((cleanup(places_free)))

static err_t places_of(const struct cage_spec *s, const char *dir, struct places *ret) {
    TRY(fs_dirs(dir));
    TRY(fs_dir(dir, 0, 0, 0700));
    struct places p = {.seccomp = xasprintf("%s/seccomp-%s.json", dir, seccomp_kind_name(s->seccomp)),
                       .pidfile = xasprintf("%s/%s.pid", dir, s->name)};
    p.files = (struct podman_files){.dir = dir, .seccomp = p.seccomp, .pidfile = p.pidfile};
    *ret = p;
    return NULL;
}

/* Written once: the same bytes are there already at the next start. */
static err_t write_profile(const struct cage_spec *s, const struct places *p) {
    own_free char *text = seccomp_profile(s->seccomp);
    own_buf struct buf there = {0};
    own_err err_t none = fs_read(p->seccomp, 4u << 20, &there);
    if (!none && !strcmp(buf_text(&there), text))
        return NULL;
    return fs_write(p->seccomp, text, strlen(text), 0, 0, 0600);
}

/* ---- the stage: where mapped mounts stand while the engine binds them into the room ---- */

static err_t userns_for(const struct cage_spec *s, enum cage_map map, uid_t owner, gid_t group, int *ret) {
    uint32_t uid = s->uid_base + s->uid;
    struct mount_ids tree = {0, s->uid_base, UIDS_EACH}, one = {owner, uid, 1}, one_group = {group, uid, 1};
    if (map == CAGE_MAP_TREE)
        return mount_userns(&tree, 1, &tree, 1, ret);
    return mount_userns(&one, 1, &one_group, 1, ret);
}

static err_t make_place(const char *place, int source) {
    struct stat st;
    if (fstat(source, &st))
        return err_sys(errno, "a mount's source cannot be looked at");
    if (S_ISDIR(st.st_mode))
        return fs_dir(place, 0, 0, 0755);
    return fs_write(place, "", 0, 0, 0, 0644);
}

struct piece {
    const char *what;
    int pin;
    enum cage_map map;
    uid_t owner;
    gid_t group;
    bool ro, noexec;
};

static err_t stage_piece(const struct cage_spec *s, const struct piece *p, const char *place) {
    own_fd int userns = -1, tree = -1;
    struct mount_how how = {.ro = p->ro, .noexec = p->noexec, .userns = -1};
    /* An owner who is the room's uid already needs no map, and a file system without maps then works too. */
    bool same =
        p->map == CAGE_MAP_OWNER && p->owner == s->uid_base + s->uid && p->group == s->uid_base + s->uid;
    if (p->map != CAGE_MAP_NONE && !same) {
        TRY(userns_for(s, p->map, p->owner, p->group, &userns));
        how.userns = userns;
    }
    TRY(err_wrap(mount_clone(p->pin, &how, &tree), "%s", p->what));
    TRY(make_place(place, p->pin));
    return mount_put(tree, place);
}

static err_t stage_mount(const struct cage_spec *s, size_t i) {
    const struct cage_mount *m = &s->mounts[i];
    own_free char *place = spec_source(s, i);
    own_fd int pinned = -1;
    if (m->pin < 0 && !strcmp(place, m->src)) /* given as it is */
        return NULL;
    if (m->pin < 0)
        TRY(mount_pin(m->src, &pinned));
    struct piece p = {.what = m->dst,
                      .pin = m->pin >= 0 ? m->pin : pinned,
                      .map = m->map,
                      .owner = m->owner,
                      .group = m->group,
                      .ro = m->ro,
                      .noexec = m->noexec};
    return stage_piece(s, &p, place);
}

static err_t stage_root(const struct cage_spec *s) {
    own_free char *place = spec_root_source(s);
    own_fd int pinned = -1;
    TRY(mount_pin(s->rootfs, &pinned));
    struct piece p = {
        .what = "the root", .pin = pinned, .map = s->rootless ? CAGE_MAP_NONE : CAGE_MAP_TREE, .ro = true};
    return stage_piece(s, &p, place);
}

static err_t unstage(const struct cage_spec *s) {
    TRY(mount_off_below(s->stage));
    return fs_remove(s->stage);
}

static err_t stage(const struct cage_spec *s) {
    TRY(fs_dirs(s->stage));
    TRY(fs_dir(s->stage, 0, 0, 0711));
    TRY(stage_root(s));
    for (size_t i = 0; i < s->nmounts; i++)
        TRY(stage_mount(s, i));
    return NULL;
}

/* ---- the room ---- */

/* Never our own: rules set there would be the host's. */
static err_t open_netns(pid_t pid, int *ret) {
    own_free char *path = xasprintf("/proc/%d/ns/net", pid);
    own_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat its, ours;
    if (fd < 0 || fstat(fd, &its))
        return err_sys(errno, "the room ended before its network could be closed");
    if (stat("/proc/self/ns/net", &ours) || its.st_ino == ours.st_ino)
        return err_new(EXIT_FAILED, "the room has no network namespace of its own");
    *ret = TAKE_FD(fd);
    return NULL;
}

/* An ordinary user's room has the person's uid, as much else has; but its ids are mapped as no other process's are. */
static err_t is_users_room(const struct cage_spec *s, pid_t pid) {
    own_free char *path = xasprintf("/proc/%d/uid_map", pid);
    own_buf struct buf text = {0};
    TRY(err_wrap(fs_read(path, 65536, &text), "the room %s ended", s->name));
    for (const char *line = buf_text(&text); *line;) {
        unsigned inside, outside, count;
        if (sscanf(line, "%u %u %u", &inside, &outside, &count) == 3 && inside == s->uid && !outside &&
            count == 1)
            return NULL;
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return err_new(EXIT_FAILED, "the process %d is not the room %s any more", pid, s->name);
}

/* Is this process, as its pidfd stands for it, the room's? A pid may have been given to another meanwhile, and rules
 * set in a stranger's network, or the host's, would be a disaster: its kernel uid must be the room's. */
static err_t is_room(const struct cage_spec *s, pid_t pid) {
    own_free char *path = xasprintf("/proc/%d/status", pid);
    own_buf struct buf text = {0};
    if (s->rootless)
        return is_users_room(s, pid);
    TRY(err_wrap(fs_read(path, 65536, &text), "the room %s ended", s->name));
    const char *line = strstr(buf_text(&text), "\nUid:\t");
    unsigned uid = 0;
    if (!line || sscanf(line, "\nUid:\t%u", &uid) != 1 || uid != s->uid_base + s->uid)
        return err_new(EXIT_FAILED, "the process %d is not the room %s any more", pid, s->name);
    return NULL;
}

/* The room's process and its network, both held: *ret_pidfd first, then the namespace, then the proof that the process
 * is the room's and still lives. */
static err_t hold(const struct cage_spec *s, pid_t pid, int *ret_pidfd, int *ret_netns) {
    own_fd int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), netns = -1;
    if (pidfd < 0)
        return err_sys(errno, "the room %s ended", s->name);
    TRY(open_netns(pid, &netns));
    TRY(is_room(s, pid));
    if (poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, 0))
        return err_new(EXIT_FAILED, "the room %s ended", s->name);
    *ret_pidfd = TAKE_FD(pidfd);
    *ret_netns = TAKE_FD(netns);
    return NULL;
}

static ino_t inode_of(int fd) {
    struct stat st;
    return fstat(fd, &st) ? 0 : st.st_ino;
}

static err_t close_network(const struct cage_spec *s, const struct nft_place *place, pid_t pid,
                           struct cage *ret) {
    own_fd int netns = -1, pidfd = -1;
    TRY(hold(s, pid, &pidfd, &netns));
    TRY(nft_apply(netns, s->net, place));
    *ret = (struct cage){.pid = pid, .pidfd = TAKE_FD(pidfd), .netns = inode_of(netns)};
    return NULL;
}

static err_t start(const struct cage_spec *s, const struct host *h, const struct places *p, const int *fds,
                   pid_t *ret) {
    err_t e = stage(s);
    e = e ? e : write_profile(s, p);
    e = e ? e : podman_run(s, h, &p->files, fds, ret);
    err_t off = unstage(s);
    if (e) {
        err_free(off); /* the first error is the one to tell */
        return e;
    }
    return err_wrap(off, "the room %s runs, but", s->name);
}

err_t cage_start(const struct cage_spec *s, const struct host *h, const struct nft_place *place,
                 const char *dir, const int *fds, struct cage *ret) {
    own_places struct places p = {0};
    pid_t pid = 0;
    struct cage cage = {.pidfd = -1};
    TRY(spec_check(s));
    TRY(places_of(s, dir, &p));
    TRY(unstage(s));
    err_t e = start(s, h, &p, fds, &pid);
    e = e ? e : close_network(s, place, pid, &cage);
    e = e ? e : share_limit(s, pid); /* the process is the room's, as was proved */
    e = e || s->rootless ? e : bridge_notify(pid);
    if (e) {
        cage_close(&cage);
        err_free(podman_rm(h, dir, s->name));
        return e;
    }
    *ret = cage;
    return NULL;
}

err_t cage_try(const struct cage_spec *s, const struct host *h, const char *dir) {
    own_places struct places p = {0};
    pid_t pid;
    TRY(spec_check(s));
    TRY(places_of(s, dir, &p));
    TRY(unstage(s));
    err_t e = start(s, h, &p, NULL, &pid);
    err_t gone = podman_rm(h, dir, s->name);
    unlink(p.pidfile);
    if (e) {
        err_free(gone);
        return e;
    }
    return gone;
}

err_t cage_adopt(const struct cage_spec *s, const struct host *h, const struct nft_place *place,
                 const char *dir, struct cage *ret) {
    own_fd int netns = -1, pidfd = -1;
    pid_t pid;
    TRY(podman_pid(h, dir, s->name, &pid));
    TRY(hold(s, pid, &pidfd, &netns));
    TRY(nft_update(netns, s->net, place));
    *ret = (struct cage){.pid = pid, .pidfd = TAKE_FD(pidfd), .netns = inode_of(netns)};
    return NULL;
}

err_t cage_refresh(const struct cage_spec *s, const struct cage *c, const struct nft_place *place) {
    own_fd int netns = -1, pidfd = -1;
    TRY(hold(s, c->pid, &pidfd, &netns));
    return nft_update(netns, s->net, place);
}

err_t cage_stop(const struct cage_spec *s, const struct host *h, const char *dir) {
    own_places struct places p = {0};
    TRY(places_of(s, dir, &p));
    TRY(podman_rm(h, dir, s->name));
    unlink(p.pidfile);
    return unstage(s);
}

void cage_close(struct cage *c) {
    if (c->pidfd >= 0)
        close(c->pidfd);
    c->pidfd = -1;
}
