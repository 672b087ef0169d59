/* What rooms and our daemons stand on: the kernel's means, security modules, core files, disk, clock. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/lockin.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/paths.h"
#include "cage/image.h"
#include "cli/doctor.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { LANDLOCK_WHOLE = 6 };                 /* the last ABI that base/lockin_files.c makes use of */
#define WORKBENCH_BYTES (UINT64_C(3) << 30)  /* while it is made */
#define WALL_LEAST_MS INT64_C(1735689600000) /* 2025-01-01: no clock that is right says less */

/* The line of a file, NULL when there is none; the caller frees. */
static char *line_of(const char *path) {
    char *line = NULL;
    err_free(fs_read_line(path, &line));
    return line;
}

/* A number in a file, `absent` when there is none. */
static uint64_t number_of(const char *path, uint64_t absent) {
    own_free char *line = line_of(path);
    if (line)
        err_free(parse_u64(line, UINT64_MAX, &absent));
    return absent;
}

static enum standing look_kernel(const struct doctor *d, struct finding *f) {
    (void)d;
    struct utsname u;
    unsigned major = 0, minor = 0;
    if (uname(&u) < 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2)
        return STANDS_NOTE;
    buf_printf(&f->found, "%s %s, %s", u.sysname, u.release, u.machine);
    return major > 5 || (major == 5 && minor >= 12) ? STANDS_OK : STANDS_LACKS;
}

static enum standing look_landlock(const struct doctor *d, struct finding *f) {
    (void)d;
    int abi = lockin_landlock_abi();
    if (!abi) {
        buf_adds(&f->found, "this kernel has no Landlock, or leaves it out");
        return STANDS_NOTE;
    }
    buf_printf(&f->found, "ABI %d%s", abi,
               abi < LANDLOCK_WHOLE ? "; the newer rules are held by seccomp alone" : "");
    return STANDS_OK;
}

static enum standing look_seccomp(const struct doctor *d, struct finding *f) {
    (void)d;
    static const struct {
        uint32_t action;
        const char *name;
    } needed[] = {{SECCOMP_RET_KILL_PROCESS, "kill"}, {SECCOMP_RET_ERRNO, "errno"}};
    for (size_t i = 0; i < COUNT(needed); i++)
        if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &needed[i].action) < 0) {
            buf_printf(&f->found, "the kernel cannot answer a call with `%s`", needed[i].name);
            return STANDS_LACKS;
        }
    buf_adds(&f->found, "filters of system calls work");
    return STANDS_OK;
}

static enum standing look_namespaces(const struct doctor *d, struct finding *f) {
    (void)d;
    uint64_t most = number_of("/proc/sys/user/max_user_namespaces", 0);
    if (!most) {
        buf_adds(&f->found, "user namespaces are switched off");
        return STANDS_LACKS;
    }
    if (!number_of("/proc/sys/kernel/unprivileged_userns_clone", 1) ||
        number_of("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0)) {
        buf_adds(&f->found, "user namespaces are root's alone");
        f->means = "sealed runs by ordinary users cannot be made; pods can";
        f->mend = "sysctl kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0";
        return STANDS_NOTE;
    }
    buf_printf(&f->found, "at most %llu user namespaces", (unsigned long long)most);
    return STANDS_OK;
}

/* Neither hinders; both are told, since a denial of theirs looks like a fault of ours. */
static enum standing look_modules(const struct doctor *d, struct finding *f) {
    (void)d;
    own_free char *selinux = line_of("/sys/fs/selinux/enforce"),
                  *apparmor = line_of("/sys/module/apparmor/parameters/enabled");
    bool is_apparmor = apparmor && !strcmp(apparmor, "Y");
    if (selinux)
        buf_printf(&f->found, "SELinux, %s; rooms run without a label of their own",
                   !strcmp(selinux, "1") ? "enforcing" : "permissive");
    if (is_apparmor)
        buf_printf(&f->found, "%sAppArmor", selinux ? "; " : "");
    if (!selinux && !is_apparmor)
        buf_adds(&f->found, "neither SELinux nor AppArmor");
    return STANDS_OK;
}

/* core(5): a program in the pattern gets the memory as root, and a limit of 0 does not stop that. */
static enum standing look_core(const struct doctor *d, struct finding *f) {
    (void)d;
    own_free char *pattern = line_of("/proc/sys/kernel/core_pattern");
    buf_printf(&f->found, "core files go to %s", pattern && *pattern ? pattern : "nowhere");
    return pattern && *pattern == '|' ? STANDS_NOTE : STANDS_OK;
}

static enum standing look_disk(const struct doctor *d, struct finding *f) {
    own_free char *lib = path_of(DIR_LIB), *near = doctor_nearest(lib);
    uint64_t left = 0, size = 0, need = d->fleet.disk_reserve;
    err_t e = fs_space(near, &left, &size);
    if (e) {
        buf_adds(&f->found, err_text(e));
        err_free(e);
        return STANDS_LACKS;
    }
    if (!image_have_workbench(d->fleet.image_dir))
        need += WORKBENCH_BYTES;
    buf_printf(&f->found, "%.1f GiB free of %.1f where %s is; %.1f are wanted", (double)left / (1 << 30),
               (double)size / (1 << 30), lib, (double)need / (1 << 30));
    return left >= need ? STANDS_OK : left >= d->fleet.disk_reserve ? STANDS_NOTE : STANDS_LACKS;
}

static enum standing look_clock(const struct doctor *d, struct finding *f) {
    (void)d;
    char now[CLOCK_ISO_MAX];
    clock_iso(now, clock_wall_ms());
    buf_adds(&f->found, now);
    if (clock_wall_ms() < WALL_LEAST_MS)
        return STANDS_LACKS;
    struct timex t = {0};
    if (adjtimex(&t) < 0 || !(t.status & STA_UNSYNC)) {
        buf_adds(&f->found, ", synchronised");
        return STANDS_OK;
    }
    buf_adds(&f->found, ", not known to be synchronised");
    f->means = "times in the audit log may be off; nothing else depends on it while certificates are taken";
    return STANDS_NOTE;
}

static enum standing look_init(const struct doctor *d, struct finding *f) {
    buf_adds(&f->found, d->host.systemd ? "systemd" : "no systemd: `agent-cage up` supervises the fleet");
    return STANDS_OK;
}

const struct check doctor_kernel_checks[] = {
    {"kernel", look_kernel, "idmapped mounts came with Linux 5.12: no pod can be made",
     "boot a newer kernel"},
    {"Landlock", look_landlock,
     "our daemons are kept from other files by their accounts' permissions alone, and no agent with a "
     "harness's program is sealed",
     "boot with lsm=landlock,… in front of the list in /sys/kernel/security/lsm (Linux 5.13 or later)"},
    {"seccomp", look_seccomp, "no part of the fleet starts", "boot a kernel with CONFIG_SECCOMP_FILTER"},
    {"user namespaces", look_namespaces, "no pod can be made: its uids could not be mapped",
     "sysctl user.max_user_namespaces=15000"},
    {"security modules", look_modules, "", ""},
    {"core files", look_core,
     "the memory of a program that crashes in a cage is given to that program, which runs as root",
     "sysctl kernel.core_pattern=core"},
    {"disk", look_disk,
     "rooms are frozen when free space falls below the reserve (disk_reserve in agent-cage.conf)",
     "free some space, or put image_dir on another disk"},
    {"clock", look_clock, "certificates of the model's API will be refused",
     "set the clock: timedatectl set-ntp true"},
    {"init", look_init, "", ""},
    {0},
};
