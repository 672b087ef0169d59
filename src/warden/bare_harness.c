/* The world of a bare box's harness: see bare.h for what is in it. */
#include "base/fs.h"
#include "base/own.h"
#include "base/paths.h"
#include "cage/mount.h"
#include "cage/shells.h"
#include "warden/bare.h"
#include "warden/programs.h"
#include "warden/warden.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Folders of the host that the harness gets its own of. */
static const char *const replaced[] = {"proc", "dev", "tmp", "run", "sys", "cage", "lost+found"};

static err_t show(const char *path, const char *place, struct mount_how how) {
    own_fd int pin = -1, tree = -1;
    how.userns = -1;
    TRY(mount_pin(path, &pin));
    TRY(err_wrap(mount_clone(pin, &how, &tree), "show %s", path));
    return mount_put(tree, place);
}

static err_t tmpfs(const char *place, const char *data, unsigned long flags) {
    if (mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV | flags, data) < 0)
        return err_sys(errno, "mount a tmpfs on %s", place);
    return NULL;
}

/* Makes the missing folders of `path` inside the world. */
static err_t inside(const char *world, const char *path, char **ret) {
    *ret = xasprintf("%s%s", world, path);
    return fs_dirs(*ret);
}

static bool is_replaced(const char *name) {
    for (size_t i = 0; i < COUNT(replaced); i++)
        if (!strcmp(name, replaced[i]))
            return true;
    return false;
}

/* One entry of the host's root: a folder is shown, a link is made again, anything else is left out. */
static err_t copy_entry(const char *world, const char *name) {
    own_free char *from = xasprintf("/%s", name), *to = xasprintf("%s/%s", world, name);
    struct stat st;
    char target[PATH_MAX];
    if (is_replaced(name) || lstat(from, &st) < 0)
        return NULL;
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlink(from, target, sizeof target - 1);
        target[n < 0 ? 0 : n] = 0;
        return n < 0 || symlink(target, to) < 0 ? err_sys(errno, "make the link %s again", from) : NULL;
    }
    if (!S_ISDIR(st.st_mode))
        return NULL;
    if (mkdir(to, 0755) < 0)
        return err_sys(errno, "make %s", to);
    return show(from, to, (struct mount_how){.ro = true, .recursive = true});
}

static err_t copy_root(const char *world) {
    DIR *dir = opendir("/");
    if (!dir)
        return err_sys(errno, "read /");
    err_t e = NULL;
    for (struct dirent *d; !e && (d = readdir(dir));)
        if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
            e = copy_entry(world, d->d_name);
    closedir(dir);
    return e;
}

static err_t make_dev(const char *world) {
    static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};
    static const char *const links[][2] = {{"fd", "/proc/self/fd"},
                                           {"stdin", "/proc/self/fd/0"},
                                           {"stdout", "/proc/self/fd/1"},
                                           {"stderr", "/proc/self/fd/2"},
                                           {"ptmx", "pts/ptmx"}};
    own_free char *dev = NULL, *pts = NULL, *shm = NULL;
    TRY(inside(world, "/dev", &dev));
    if (mount("tmpfs", dev, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755,size=64k") < 0)
        return err_sys(errno, "mount %s", dev);
    for (size_t i = 0; i < COUNT(devices); i++) {
        own_free char *from = xasprintf("/dev/%s", devices[i]), *to = xasprintf("%s/%s", dev, devices[i]);
        own_fd int fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || mount(from, to, NULL, MS_BIND, NULL) < 0)
            return err_sys(errno, "show %s", from);
    }
    for (size_t i = 0; i < COUNT(links); i++) {
        own_free char *to = xasprintf("%s/%s", dev, links[i][0]);
        if (symlink(links[i][1], to) < 0)
            return err_sys(errno, "make %s", to);
    }
    TRY(inside(world, "/dev/pts", &pts));
    TRY(inside(world, "/dev/shm", &shm));
    if (mount("devpts", pts, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620") < 0)
        return err_sys(errno, "mount %s", pts);
    return tmpfs(shm, "mode=1777,size=64m", MS_NOEXEC);
}

static err_t make_own(const char *world) {
    own_free char *proc = NULL, *tmp = NULL, *run = NULL, *sys = NULL;
    TRY(inside(world, "/proc", &proc));
    TRY(inside(world, "/tmp", &tmp));
    TRY(inside(world, "/run", &run));
    TRY(inside(world, "/sys", &sys));
    if (mount("proc", proc, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return err_sys(errno, "mount %s", proc);
    TRY(tmpfs(tmp, "mode=1777,size=256m", MS_NOEXEC));
    TRY(tmpfs(run, "mode=0755,size=1m", MS_NOEXEC));
    return make_dev(world);
}

/* A file of ours, shown at a place that is made for it. */
static err_t show_binary(const char *world, const char *binary) {
    own_free char *dir = NULL, *to = xasprintf("%s/cage/agent-cage", world);
    TRY(inside(world, "/cage", &dir));
    own_fd int fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(errno, "make %s", to);
    return show(binary, to, (struct mount_how){.ro = true});
}

/* Where a pod has it. */
static err_t show_programs(const char *world, const char *programs) {
    own_free char *place = NULL;
    if (!programs)
        return NULL;
    TRY(inside(world, "/cage/harness", &place));
    return show(programs, place, (struct mount_how){.ro = true});
}

static err_t show_shells(const char *world, const char *shim) {
    own_words struct words shells = {0};
    TRY(shells_find(world, &shells));
    for (size_t i = 0; i < shells.n; i++) {
        own_free char *to = xasprintf("%s%s", world, shells.w[i]);
        TRY(show(shim, to, (struct mount_how){.ro = true}));
    }
    return NULL;
}

/* Nothing of any fleet's own folders is seen but what is put there again; and every place is root's. */
static err_t hide(const char *world, const char *path) {
    own_free char *place = NULL, *there = path_of("%s", path);
    TRY(inside(world, there, &place));
    return tmpfs(place, "mode=0711,size=1m", MS_NOEXEC);
}

static err_t show_folders(const struct ward *d, const char *world, const struct bare_trees *trees) {
    const struct conf_agent *c = &d->box->conf;
    own_free char *home = path_of(DIR_LIB "/agents/%s/harness", c->name);
    own_free char *door = path_of(DIR_RUN "/shim/%s", c->name);
    own_free char *in_home = NULL, *in_door = NULL;
    const struct {
        int tree;
        const char *name;
    } rows[] = {{trees->project, "project"},
                {trees->scratch, "scratch"},
                {trees->inbox, "inbox"},
                {trees->outbox, "outbox"}};
    TRY(hide(world, DIR_LIB));
    TRY(hide(world, DIR_RUN));
    TRY(inside(world, home, &in_home));
    TRY(inside(world, "/cage/shim", &in_door));
    TRY(show(home, in_home, (struct mount_how){.noexec = true}));
    TRY(show(door, in_door, (struct mount_how){.ro = true}));
    for (size_t i = 0; i < COUNT(rows); i++) {
        own_free char *at = path_of(DIR_RUN "/mnt/%s/%s", c->name, rows[i].name), *place = NULL;
        TRY(inside(world, at, &place));
        TRY(mount_put(rows[i].tree, place));
    }
    return NULL;
}

static err_t loopback_up(void) {
    own_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
        return err_sys(errno, "bring its loopback up");
    return NULL;
}

static err_t enter(const char *world) {
    if (mount(NULL, world, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
        return err_sys(errno, "make %s read-only", world);
    if (chdir(world) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
        chdir("/") < 0)
        return err_sys(errno, "enter %s", world);
    return NULL;
}

/* `new` has told of it; here it is there, or a release brought another version. */
static void on_program(void *ctx, const char *line) {
    (void)ctx, (void)line;
}

err_t bare_unshare(const struct ward *d, struct bare_trees *ret) {
    *ret = (struct bare_trees){-1, -1, -1, -1, NULL};
    TRY(programs_get(&d->w->conf, &d->box->conf, on_program, NULL, &ret->programs));
    TRY(bare_project(d, true, &ret->project));
    TRY(bare_scratch(d, true, &ret->scratch));
    TRY(bare_inbox(d, &ret->inbox));
    TRY(bare_outbox(d, true, &ret->outbox));
    if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC) < 0)
        return err_sys(errno, "make namespaces");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return err_sys(errno, "make the mounts private");
    return NULL;
}

err_t bare_harness_world(const struct ward *d, const struct bare_trees *trees) {
    own_free char *world = path_of(DIR_RUN "/stage/%s.world", d->box->conf.name);
    own_free char *binary = path_of(DIR_LIB "/bin/agent-cage"), *shim = path_of(DIR_LIB "/bin/shim");
    umask(022);
    TRY(fs_dir(world, 0, 0, 0755));
    TRY(tmpfs(world, "mode=0755,size=1m", 0));
    TRY(copy_root(world));
    TRY(make_own(world));
    TRY(show_binary(world, binary));
    TRY(show_programs(world, trees->programs));
    TRY(show_folders(d, world, trees));
    TRY(show_shells(world, shim));
    TRY(loopback_up());
    return enter(world);
}
