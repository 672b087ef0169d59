#include "break/posture.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/proc.h"
#include "cage/cgroup.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const struct {
    const char *name, *path;
} files[] = {
    {"protected_symlinks", "/proc/sys/fs/protected_symlinks"},
    {"protected_fifos", "/proc/sys/fs/protected_fifos"},
    {"protected_regular", "/proc/sys/fs/protected_regular"},
    {"legacy_tiocsti", "/proc/sys/dev/tty/legacy_tiocsti"},
    {"yama_ptrace_scope", "/proc/sys/kernel/yama/ptrace_scope"},
    {"io_uring_disabled", "/proc/sys/kernel/io_uring_disabled"},
    {"unprivileged_bpf_disabled", "/proc/sys/kernel/unprivileged_bpf_disabled"},
    {"perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid"},
    {"kptr_restrict", "/proc/sys/kernel/kptr_restrict"},
    {"dmesg_restrict", "/proc/sys/kernel/dmesg_restrict"},
    {"unprivileged_userns_clone", "/proc/sys/kernel/unprivileged_userns_clone"},
    {"apparmor_restrict_userns", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"},
    {"max_user_namespaces", "/proc/sys/user/max_user_namespaces"},
    {"core_pattern", "/proc/sys/kernel/core_pattern"},
    {"security_modules", "/sys/kernel/security/lsm"},
};

static struct posture *add(struct posture *ret, size_t *n, const char *name, const char *value) {
    struct posture *p = &ret[(*n)++];
    *p = (struct posture){.name = name};
    snprintf(p->value, sizeof p->value, "%.90s", value);
    p->value[strcspn(p->value, "\n")] = 0;
    return p;
}

static void add_output(struct posture *ret, size_t *n, const char *name, const char *const *argv) {
    own_buf struct buf out = {0};
    own_err err_t e = proc_must(&(struct proc_spec){.argv = argv, .out = &out, .timeout_ms = 20000});
    const char *number =
        strpbrk(buf_text(&out), "0123456789"); /* "podman version 4.3.1", "nftables v1.0.6 (…)" */
    add(ret, n, name, e || !number ? "" : number);
}

static void add_groups(struct posture *ret, size_t *n) {
    struct cgroup_host h;
    own_err err_t e = cgroup_detect("", &h);
    add(ret, n, "control_groups", e ? "" : cgroup_kind_name(h.kind));
}

void posture_read(struct posture ret[POSTURE_MAX], size_t *ret_n) {
    struct utsname u;
    size_t n = 0;
    add(ret, &n, "kernel", uname(&u) ? "" : u.release);
    add(ret, &n, "machine", uname(&u) ? "" : u.machine);
    add_output(ret, &n, "podman", (const char *const[]){"podman", "--version", NULL});
    add_output(ret, &n, "nft", (const char *const[]){"nft", "--version", NULL});
    add_groups(ret, &n);
    add(ret, &n, "by", geteuid() == 0 ? "root" : "an ordinary user");
    for (size_t i = 0; i < COUNT(files); i++) {
        own_free char *line = NULL;
        own_err err_t e = fs_read_line(files[i].path, &line);
        add(ret, &n, files[i].name, e ? "" : line);
    }
    *ret_n = n;
}
