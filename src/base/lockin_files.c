/*
 * Landlock (landlock(7)): from here on this process opens only what lies below the listed paths, and, where
 * the kernel knows how, makes no TCP connection and signals nobody outside. Raw system calls: the library is
 * younger than the kernels we run on. What is open already (links, log) is not touched by it.
 */
#include "base/lockin.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Older kernel headers end at ABI 2 (REFER); the numbers are the kernel's interface. */
enum {
    FS_TRUNCATE = 1 << 14,  /* ABI 3 */
    FS_IOCTL_DEV = 1 << 15, /* ABI 5 */
    NET_BIND_TCP = 1 << 0,  /* ABI 4 */
    NET_CONNECT_TCP = 1 << 1,
    SCOPE_ABSTRACT_UNIX = 1 << 0, /* ABI 6 */
    SCOPE_SIGNAL = 1 << 1,
};

struct ruleset {
    uint64_t fs, net, scope;
};

#define READ_RIGHTS (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FILE_RIGHTS (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | (uint64_t)FS_TRUNCATE)
#define WRITE_RIGHTS                                                                                         \
    (READ_RIGHTS | FILE_RIGHTS | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |            \
     LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REFER)

/* What each ABI can take away. */
static const struct abi {
    int from;
    size_t size; /* of the struct that it takes */
    uint64_t fs, net, scope;
    const char *lacks; /* what is missing below it */
} abis[] = {
    {1, 8, (1 << 13) - 1, 0, 0, ""},
    {2, 8, LANDLOCK_ACCESS_FS_REFER, 0, 0,
     ""}, /* without it every rename between folders is refused anyway */
    {3, 8, FS_TRUNCATE, 0, 0, "truncate(2) is not restricted (Linux 6.2 does)"},
    {4, 16, 0, NET_BIND_TCP | NET_CONNECT_TCP, 0,
     "TCP is held off by seccomp alone (Linux 6.7 adds Landlock)"},
    {5, 16, FS_IOCTL_DEV, 0, 0, "device ioctls are held off by seccomp alone (Linux 6.10 adds Landlock)"},
    {6, 24, 0, 0, SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL,
     "signals to its own account's other processes are held off by seccomp alone (Linux 6.12 adds Landlock)"},
};

int lockin_landlock_abi(void) {
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi < 0 ? 0 : (int)abi;
}

static void say(struct lockin_run *run, const char *what) {
    buf_printf(run->lacks, "%s: %s\n", run->spec->part, what);
}

/* Gathers all that this kernel can take away; *ret_size is the size of the attribute. */
static struct ruleset gather(struct lockin_run *run, int abi, size_t *ret_size) {
    struct ruleset all = {0};
    for (size_t i = 0; i < COUNT(abis); i++)
        if (abi >= abis[i].from) {
            all.fs |= abis[i].fs;
            all.net |= abis[i].net;
            all.scope |= abis[i].scope;
            *ret_size = abis[i].size;
        } else if (*abis[i].lacks) {
            say(run, abis[i].lacks);
        }
    if (run->spec->calls == LOCKIN_NETWORK)
        all.net &= ~(uint64_t)NET_CONNECT_TCP;
    return all;
}

static err_t allow(int ruleset, const char *path, uint64_t rights, bool must) {
    own_fd int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && !must)
        return NULL;
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(errno, "open %s", path);
    if (!S_ISDIR(st.st_mode))
        rights &= FILE_RIGHTS;
    struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return err_sys(errno, "allow %s", path);
    return NULL;
}

static err_t allow_all(int ruleset, const struct lockin_spec *spec, uint64_t handled) {
    TRY(allow(ruleset, "/dev/null", FILE_RIGHTS & handled, false));
    TRY(allow(ruleset, "/dev/urandom", READ_RIGHTS, false));
    for (size_t i = 0; i < LOCKIN_PATHS_MAX && spec->read[i]; i++)
        TRY(allow(ruleset, spec->read[i], READ_RIGHTS, false));
    for (size_t i = 0; i < LOCKIN_PATHS_MAX && spec->write[i]; i++)
        TRY(allow(ruleset, spec->write[i], WRITE_RIGHTS & handled, true));
    return NULL;
}

err_t lockin_files(struct lockin_run *run) {
    if (run->spec->calls == LOCKIN_SPAWNER)
        return NULL;
    int abi = lockin_landlock_abi();
    if (abi == 0) {
        say(run, "this kernel has no Landlock: only the account's permissions keep it from other files "
                 "(Linux 5.13 "
                 "has it; the boot parameter lsm= may leave it out)");
        return NULL;
    }
    size_t size = 0;
    struct ruleset all = gather(run, abi, &size);
    own_fd int ruleset = (int)syscall(SYS_landlock_create_ruleset, &all, size, 0);
    if (ruleset < 0)
        return err_sys(errno, "make a Landlock ruleset");
    TRY(allow_all(ruleset, run->spec, all.fs));
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        return err_sys(errno, "restrict itself by Landlock");
    return NULL;
}

err_t lockin_writes(const char *const paths[], int *ret_ruleset) {
    int abi = lockin_landlock_abi();
    struct ruleset held = {.fs = abis[0].fs & ~(uint64_t)(LANDLOCK_ACCESS_FS_EXECUTE | READ_RIGHTS)};
    held.fs |= abi >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0;
    held.fs |= abi >= 3 ? FS_TRUNCATE : 0;
    own_fd int ruleset = abi ? (int)syscall(SYS_landlock_create_ruleset, &held, abis[0].size, 0) : -1;
    if (abi && ruleset < 0)
        return err_sys(errno, "make a Landlock ruleset");
    for (; abi && *paths; paths++)
        TRY(allow(ruleset, *paths, held.fs, false));
    *ret_ruleset = TAKE_FD(ruleset);
    return NULL;
}

err_t lockin_sockets_can(void) {
    if (lockin_landlock_abi() >= 2)
        return NULL;
    return err_new(EXIT_POLICY,
                   "this kernel cannot keep sockets out of folders that two rooms see (Landlock of Linux "
                   "5.19 or later; the boot parameter lsm= may leave it out)");
}

err_t lockin_sockets(const char *const below[]) {
    TRY(lockin_sockets_can());
    const struct ruleset held = {.fs = LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REFER};
    own_fd int ruleset = (int)syscall(SYS_landlock_create_ruleset, &held, abis[0].size, 0);
    if (ruleset < 0)
        return err_sys(errno, "make a Landlock ruleset");
    TRY(allow(ruleset, "/", LANDLOCK_ACCESS_FS_REFER, true)); /* held only because every ruleset holds it */
    for (; *below; below++)
        TRY(allow(ruleset, *below, LANDLOCK_ACCESS_FS_MAKE_SOCK, false));
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        return err_sys(errno, "restrict itself by Landlock");
    return NULL;
}
