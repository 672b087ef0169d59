/*
 * The system calls of a daemon. Three answers: what its loop needs passes; what no daemon of ours ever does,
 * and an intruder would, kills the process; all else is ENOSYS, as on a kernel that lacks it, so that a newer
 * libc takes its old way instead of failing. Calls of another architecture (32-bit, x32) kill.
 */
#include "base/lockin.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define CALL(name) SCMP_SYS(name)

static const int passes[] = {
    /* descriptors */
    CALL(read),
    CALL(write),
    CALL(readv),
    CALL(writev),
    CALL(pread64),
    CALL(pwrite64),
    CALL(preadv),
    CALL(pwritev),
    CALL(preadv2),
    CALL(pwritev2),
    CALL(lseek),
    CALL(close),
    CALL(close_range),
    CALL(dup),
    CALL(dup2),
    CALL(dup3),
    CALL(fcntl),
    CALL(pipe2),
    CALL(copy_file_range),
    CALL(memfd_create),
    /* files, as far as Landlock and the account go */
    CALL(open),
    CALL(openat),
    CALL(openat2),
    CALL(stat),
    CALL(fstat),
    CALL(lstat),
    CALL(newfstatat),
    CALL(statx),
    CALL(statfs),
    CALL(fstatfs),
    CALL(access),
    CALL(faccessat),
    CALL(faccessat2),
    CALL(readlink),
    CALL(readlinkat),
    CALL(getdents64),
    CALL(getcwd),
    CALL(flock),
    CALL(fsync),
    CALL(fdatasync),
    CALL(ftruncate),
    CALL(fallocate),
    CALL(fadvise64),
    CALL(unlink),
    CALL(unlinkat),
    CALL(rename),
    CALL(renameat),
    CALL(renameat2),
    CALL(mkdir),
    CALL(mkdirat),
    CALL(rmdir),
    CALL(fchmod),
    CALL(fchown),
    CALL(umask),
    CALL(utimensat),
    /* memory; mapping and protecting in calls_with[] */
    CALL(brk),
    CALL(munmap),
    CALL(mremap),
    CALL(madvise),
    CALL(msync),
    /* the loop and time */
    CALL(epoll_create1),
    CALL(epoll_ctl),
    CALL(epoll_wait),
    CALL(epoll_pwait),
    CALL(epoll_pwait2),
    CALL(eventfd2),
    CALL(timerfd_create),
    CALL(timerfd_settime),
    CALL(timerfd_gettime),
    CALL(signalfd4),
    CALL(poll),
    CALL(ppoll),
    CALL(select),
    CALL(pselect6),
    CALL(clock_gettime),
    CALL(clock_getres),
    CALL(clock_nanosleep),
    CALL(nanosleep),
    CALL(gettimeofday),
    CALL(time),
    CALL(restart_syscall),
    /* links */
    CALL(sendmsg),
    CALL(recvmsg),
    CALL(sendto),
    CALL(recvfrom),
    CALL(accept),
    CALL(accept4),
    CALL(listen),
    CALL(getsockopt),
    CALL(setsockopt),
    CALL(getsockname),
    CALL(getpeername),
    CALL(shutdown),
    /* itself */
    CALL(rt_sigaction),
    CALL(rt_sigprocmask),
    CALL(rt_sigreturn),
    CALL(rt_sigpending),
    CALL(sigaltstack),
    CALL(getpid),
    CALL(gettid),
    CALL(getppid),
    CALL(getuid),
    CALL(geteuid),
    CALL(getgid),
    CALL(getegid),
    CALL(getresuid),
    CALL(getresgid),
    CALL(getgroups),
    CALL(exit),
    CALL(exit_group),
    CALL(futex),
    CALL(set_robust_list),
    CALL(rseq),
    CALL(membarrier),
    CALL(sched_yield),
    CALL(sched_getaffinity),
    CALL(getcpu),
    CALL(getrandom),
    CALL(getrlimit),
    CALL(getrusage),
    CALL(sysinfo),
    CALL(uname),
    CALL(times),
};

/* Only with these arguments. Comparing all 64 bits is the strict way: the kernel may look at 32 of them. */
static const struct call_with {
    int call;
    struct scmp_arg_cmp arg;
} calls_with[] = {
    {CALL(mmap), {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}},
    {CALL(mprotect), {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}},
    {CALL(socketpair), {0, SCMP_CMP_EQ, AF_UNIX, 0}},
    {CALL(prlimit64), {2, SCMP_CMP_EQ, 0, 0}}, /* read only */
    {CALL(ioctl), {1, SCMP_CMP_EQ, FIONREAD, 0}},
    {CALL(ioctl), {1, SCMP_CMP_EQ, FIONBIO, 0}},
    {CALL(ioctl), {1, SCMP_CMP_EQ, TCGETS, 0}}, /* isatty(3) */
    {CALL(prctl), {0, SCMP_CMP_EQ, PR_SET_NAME, 0}},
    {CALL(prctl), {0, SCMP_CMP_EQ, PR_GET_DUMPABLE, 0}},
    {CALL(prctl), {0, SCMP_CMP_EQ, PR_GET_NO_NEW_PRIVS, 0}},
};

static const struct call_with network[] = {
    {CALL(socket), {0, SCMP_CMP_EQ, AF_INET, 0}},
    {CALL(socket), {0, SCMP_CMP_EQ, AF_INET6, 0}},
};
static const int network_passes[] = {CALL(connect), CALL(bind), CALL(sendmmsg), CALL(recvmmsg), CALL(mlock)};

static const int kills[] = {
    /* become or make another process */
    CALL(execve),
    CALL(execveat),
    CALL(fork),
    CALL(vfork),
    CALL(clone),
    CALL(clone3),
    /* reach into another one */
    CALL(ptrace),
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(process_madvise),
    CALL(pidfd_open),
    CALL(pidfd_getfd),
    CALL(pidfd_send_signal),
    CALL(kcmp),
    CALL(kill),
    CALL(tkill),
    /* change what it is */
    CALL(setuid),
    CALL(setgid),
    CALL(setreuid),
    CALL(setregid),
    CALL(setresuid),
    CALL(setresgid),
    CALL(setgroups),
    CALL(setfsuid),
    CALL(setfsgid),
    CALL(capset),
    CALL(personality),
    CALL(setns),
    CALL(unshare),
    CALL(chroot),
    CALL(pivot_root),
    CALL(modify_ldt),
    /* change the machine */
    CALL(mount),
    CALL(umount2),
    CALL(open_tree),
    CALL(move_mount),
    CALL(fsopen),
    CALL(fsmount),
    CALL(mount_setattr),
    CALL(swapon),
    CALL(swapoff),
    CALL(reboot),
    CALL(kexec_load),
    CALL(kexec_file_load),
    CALL(init_module),
    CALL(finit_module),
    CALL(delete_module),
    CALL(settimeofday),
    CALL(clock_settime),
    CALL(adjtimex),
    CALL(sethostname),
    CALL(setdomainname),
    CALL(iopl),
    CALL(ioperm),
    CALL(acct),
    CALL(quotactl),
    CALL(syslog),
    /* wide surfaces that nothing here uses */
    CALL(bpf),
    CALL(perf_event_open),
    CALL(io_uring_setup),
    CALL(io_uring_enter),
    CALL(io_uring_register),
    CALL(userfaultfd),
    CALL(keyctl),
    CALL(add_key),
    CALL(request_key),
    CALL(open_by_handle_at),
    CALL(name_to_handle_at),
    CALL(lookup_dcookie),
    CALL(vmsplice),
    CALL(mknod),
    CALL(mknodat),
};

static int add_all(scmp_filter_ctx f, uint32_t action, const int *calls, size_t n) {
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = seccomp_rule_add(f, action, calls[i], 0);
    return r;
}

static int add_with(scmp_filter_ctx f, const struct call_with *rules, size_t n) {
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = seccomp_rule_add_array(f, SCMP_ACT_ALLOW, rules[i].call, 1, &rules[i].arg);
    return r;
}

/* 0 or a negative errno, as libseccomp returns it. */
static int build(scmp_filter_ctx f, const struct lockin_spec *spec) {
    enum lockin_calls calls = spec->calls;
    int r = seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (r == 0) /* no_new_privs is a step of its own: it must not come as a side effect */
        r = seccomp_attr_set(f, SCMP_FLTATR_CTL_NNP, 0);
    if (r == 0)
        seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree; not in every version */
    if (r == 0)
        r = add_all(f, SCMP_ACT_ALLOW, passes, COUNT(passes));
    if (r == 0)
        r = add_with(f, calls_with, COUNT(calls_with));
    if (r == 0) /* abort() */
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, CALL(tgkill), 1,
                             SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
    if (r == 0 && spec->splices)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, CALL(splice), 0);
    if (r == 0 && calls == LOCKIN_NETWORK)
        r = add_with(f, network, COUNT(network));
    if (r == 0 && calls == LOCKIN_NETWORK)
        r = add_all(f, SCMP_ACT_ALLOW, network_passes, COUNT(network_passes));
    if (r == 0)
        r = add_all(f, SCMP_ACT_KILL_PROCESS, kills, COUNT(kills));
    return r;
}

err_t lockin_calls(struct lockin_run *run) {
    if (run->spec->calls == LOCKIN_SPAWNER)
        return NULL;
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (!f)
        return err_new(EXIT_FAILED, "libseccomp does not know this machine");
    int r = build(f, run->spec);
    if (r == 0)
        r = seccomp_load(f);
    seccomp_release(f);
    return r ? err_sys(-r, "load the filter of system calls") : NULL;
}
