#include "cage/project.h"

#include "base/escape.h"
#include "base/own.h"
#include "base/paths.h"
#include "cage/host.h"
#include "cage/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Folders that are the system's: a cage that may write there, or what is made there as root, is no project. */
static const char *const system_folders[] = {
    "/",    "/bin", "/boot",    "/dev",     "/etc",     "/home",    "/lib",      "/lib64", "/media",
    "/mnt", "/opt", "/proc",    "/root",    "/run",     "/sbin",    "/srv",      "/sys",   "/tmp",
    "/usr", "/var", "/var/lib", "/var/tmp", "/usr/bin", "/usr/lib", "/usr/local"};
/* What a folder with a person's keys or accounts holds. */
static const char *const private_folders[] = {".ssh", ".gnupg", ".aws", ".config/gh", ".claude"};

static bool same_inode(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* By inode: another spelling, or a bind mount of it, is the same folder. */
static err_t not_system(const char *shown, const struct stat *st) {
    struct stat other;
    for (size_t i = 0; i < COUNT(system_folders); i++)
        if (!stat(system_folders[i], &other) && same_inode(&other, st))
            return err_new(EXIT_POLICY,
                           "the project %s is the system's own folder %s; make a folder for the project",
                           shown, system_folders[i]);
    return NULL;
}

/* Does a walk from the folder `from` (taken) up to the root meet `st`? */
static bool meets(int from, const struct stat *st) {
    own_fd int at = from;
    struct stat here, last = {0};
    while (at >= 0 && !fstat(at, &here) && !same_inode(&here, &last)) {
        if (same_inode(&here, st))
            return true;
        last = here;
        int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = up;
    }
    return false;
}

/* Is `st` the folder `path` or one above it? */
static bool is_at_or_above(const struct stat *st, const char *path) {
    return meets(open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), st);
}

/* The fleet's own folders: neither one of them, nor one that holds them, nor one in them. */
static err_t not_own(const char *shown, int fd, const struct stat *st) {
    static const char *const own[] = {DIR_ETC, DIR_RUN, DIR_LIB};
    for (size_t i = 0; i < COUNT(own); i++) {
        own_free char *path = path_of("%s", own[i]);
        struct stat other;
        if (is_at_or_above(st, path) || (!stat(path, &other) && meets(fcntl(fd, F_DUPFD_CLOEXEC, 3), &other)))
            return err_new(EXIT_POLICY, "the project %s is agent-cage's own folder, or holds it", shown);
    }
    return NULL;
}

/* Is it a private folder of this account, or in one? A link in its place, or a stranger's folder, would be a way to have
 * other people's projects refused. */
static bool in_private(int fd, const struct passwd *p) {
    uid_t owner = host_below_a_user() ? 0 : p->pw_uid;
    for (size_t i = 0; i < COUNT(private_folders); i++) {
        own_free char *path = xasprintf("%s/%s", p->pw_dir, private_folders[i]);
        struct stat st;
        if (!lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == owner &&
            meets(fcntl(fd, F_DUPFD_CLOEXEC, 3), &st))
            return true;
    }
    return false;
}

/* No account's home, nor anything above one, nor its keys. The accounts are /etc/passwd's: a home of root and of people. */
static err_t not_a_home(const char *shown, int fd, const struct stat *st) {
    own_file FILE *f = fopen("/etc/passwd", "re");
    for (struct passwd *p; f && (p = fgetpwent(f));) {
        bool person = !p->pw_uid || (p->pw_uid >= 1000 && p->pw_uid < 60000);
        if (person && p->pw_dir[0] == '/' && in_private(fd, p))
            return err_new(EXIT_POLICY,
                           "the project %s is a private folder of %s, or in one (.ssh and the like)", shown,
                           p->pw_name);
        if (person && p->pw_dir[0] == '/' && p->pw_dir[1] && is_at_or_above(st, p->pw_dir))
            return err_new(
                EXIT_POLICY,
                "the project %s is, or holds, the home folder of %s; a sealed cage gets a folder of its own",
                shown, p->pw_name);
    }
    return NULL;
}

static err_t sealed_checks(const char *shown, int fd, const struct stat *st, bool again) {
    if (host_below_a_user()) { /* uid 0 is the person here, and root is nobody */
        if (st->st_uid)
            return err_new(EXIT_POLICY, "the project %s is not yours; copy it, and give the copy", shown);
    } else if (!st->st_uid)
        return err_new(
            EXIT_POLICY,
            "the project %s belongs to root; hostile code gets nothing of root's: chown it to a person",
            shown);
    for (size_t i = 0; !again && i < COUNT(private_folders); i++)
        if (!faccessat(fd, private_folders[i], F_OK, AT_SYMLINK_NOFOLLOW))
            return err_new(EXIT_POLICY, "the project %s holds %s, which no hostile code may read", shown,
                           private_folders[i]);
    return not_a_home(shown, fd, st);
}

static err_t checks(const char *shown, enum mode mode, bool again, struct project *p) {
    struct stat st;
    if (fstat(p->fd, &st))
        return err_sys(errno, "the project %s", shown);
    if (!S_ISDIR(st.st_mode))
        return err_new(EXIT_POLICY, "the project %s is not a folder", shown);
    TRY(not_system(shown, &st));
    TRY(not_own(shown, p->fd, &st));
    if (mode == MODE_SEALED)
        TRY(sealed_checks(shown, p->fd, &st, again));
    p->uid = st.st_uid;
    p->gid = st.st_gid;
    if (!st.st_uid && mode != MODE_SEALED)
        snprintf(p->warning, sizeof p->warning,
                 "the project %.120s belongs to root: what commands make in it will be root's files", shown);
    return NULL;
}

static err_t open_checked(const char *path, enum mode mode, bool again, struct project *ret) {
    char shown[300];
    struct project p = {.fd = -1};
    escape_into(shown, sizeof shown, ESCAPE_LINE, path, strlen(path));
    if (path[0] != '/' || strlen(path) >= PATH_MAX)
        return err_new(EXIT_USAGE, "the project %s is not an absolute path", shown);
    TRY(err_wrap(mount_pin(path, &p.fd), "the project"));
    err_t e = checks(shown, mode, again, &p);
    if (e) {
        close(p.fd);
        return e;
    }
    *ret = p;
    return NULL;
}

err_t project_open(const char *path, enum mode mode, struct project *ret) {
    return open_checked(path, mode, false, ret);
}

err_t project_again(const char *path, enum mode mode, struct project *ret) {
    return open_checked(path, mode, true, ret);
}

void project_close(struct project *p) {
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}
