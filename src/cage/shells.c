#include "cage/shells.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const folders[] = {"/bin",      "/usr/bin",        "/usr/local/bin",   "/sbin",
                                      "/usr/sbin", "/usr/local/sbin", "/usr/lib/git-core"};
static const char *const names[] = {"sh",    "bash", "dash",    "rbash", "zsh",      "rzsh", "ksh",
                                    "ksh93", "mksh", "lksh",    "fish",  "csh",      "tcsh", "ash",
                                    "yash",  "posh", "busybox", "git",   "git-shell"};

/* The path that a descriptor has, as /proc tells it. */
static err_t path_of_fd(int fd, char out[PATH_MAX]) {
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n < 0)
        return err_sys(errno, "%s cannot be read", link);
    out[n] = 0;
    return NULL;
}

/* Where `path` really is, links followed inside the tree alone; added once if it is a program. */
static err_t add_real(int root, const char *root_path, const char *path, struct words *ret) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    own_fd int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    struct stat st;
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                   ? NULL
                   : err_sys(errno, "the workbench's %s cannot be looked at", path);
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !(st.st_mode & 0111))
        return NULL;
    char real[PATH_MAX];
    TRY(path_of_fd(fd, real));
    size_t n = strlen(root_path);
    if (strncmp(real, root_path, n) || real[n] != '/')
        return err_new(EXIT_FAILED, "the workbench's %s is outside of it", path);
    if (!words_has(ret, real + n))
        words_add(ret, real + n);
    return NULL;
}

static err_t add_listed(int root, const char *root_path, struct words *ret) {
    own_buf struct buf text = {0};
    own_free char *file = xasprintf("%s/etc/shells", root_path);
    own_err err_t e = fs_read(file, 65536, &text);
    if (e) /* a tree need not have one */
        return NULL;
    char *at = text.p;
    for (char *line; (line = strsep(&at, "\n"));)
        if (line[0] == '/')
            TRY(add_real(root, root_path, line, ret));
    return NULL;
}

err_t shells_find(const char *root, struct words *ret) {
    own_fd int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(errno, "the workbench %s cannot be opened", root);
    char root_path[PATH_MAX];
    TRY(path_of_fd(fd, root_path));
    own_words struct words found = {0};
    for (size_t i = 0; i < COUNT(folders); i++)
        for (size_t k = 0; k < COUNT(names); k++) {
            own_free char *path = xasprintf("%s/%s", folders[i], names[k]);
            TRY(add_real(fd, root_path, path, &found));
        }
    TRY(add_listed(fd, root_path, &found));
    if (!words_has(&found, "/usr/bin/bash") && !words_has(&found, "/bin/bash"))
        return err_new(EXIT_FAILED, "the workbench %s has no bash", root);
    *ret = found;
    found = (struct words){0};
    return NULL;
}

bool shells_has(const char *program) {
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program + (*program == '-');
    bool ours = false, usual = !slash;
    for (size_t i = 0; i < COUNT(names); i++)
        ours = ours || !strcmp(names[i], name);
    for (size_t i = 0; slash && i < COUNT(folders); i++)
        usual = usual || (strlen(folders[i]) == (size_t)(slash - program) &&
                          !memcmp(folders[i], program, (size_t)(slash - program)));
    return ours && usual;
}
