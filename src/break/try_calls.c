/* Attempts by system call: arguments are sharp (bad pointers, descriptors, flags), so that a kernel without the filter
 * answers something else than the filter does. */
#include "break/try.h"

#include "base/own.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

long try_fail(int error) {
    errno = error;
    return -1;
}

long try_read_parent(void) {
    static char here[8];
    struct iovec local = {here, sizeof here}, remote = {here, sizeof here};
    return process_vm_readv(getppid(), &local, 1, &remote, 1, 0);
}

/* OK if any family outside the declared ones can be opened in any type. */
long try_foreign_families(void) {
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};
    int seen = EAFNOSUPPORT;
    for (int family = 0; family < 48; family++) {
        if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK)
            continue;
        for (size_t i = 0; i < COUNT(types); i++) {
            if (socket(family, types[i], 0) >= 0)
                return 0;
            if (errno != EAFNOSUPPORT)
                seen = errno;
        }
    }
    return try_fail(seen);
}

long try_int80(long number, long argument) {
#ifdef __x86_64__
    long answer = number;
    __asm__ volatile("int $0x80" : "+a"(answer) : "b"(argument) : "memory", "r8", "r9", "r10", "r11");
    if ((int)answer < 0)
        return try_fail(-(int)answer);
    return answer;
#else
    (void)number, (void)argument;
    return try_fail(ENOSYS); /* this architecture has no such gate */
#endif
}

/* A filter of one's own that allows everything, put over the cage's. */
static bool stack_allowing(void) {
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, allow};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

long try_stacked_vsock(void) {
    return stack_allowing() ? socket(AF_VSOCK, SOCK_STREAM, 0) : 0;
}

long try_stacked_unshare(void) {
    return stack_allowing() ? unshare(CLONE_NEWUSER) : 0;
}

static long ended_well(long pid) {
    int status;
    if (pid <= 0)
        return pid;
    return waitpid((pid_t)pid, &status, 0) < 0 || status ? try_fail(ECHILD) : 0;
}

long try_clone(unsigned long flags) {
    long pid = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        _exit(0);
    return ended_well(pid);
}

long try_clone3_newuser(void) {
    struct clone_args a = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &a, sizeof a);
    if (pid == 0)
        _exit(0);
    return ended_well(pid);
}

static void *nothing(void *p) {
    return p;
}

long try_threads_and_fork(void) {
    pthread_t thread[8];
    for (size_t i = 0; i < COUNT(thread); i++) {
        int e = pthread_create(&thread[i], NULL, nothing, NULL);
        if (e)
            return try_fail(e);
    }
    for (size_t i = 0; i < COUNT(thread); i++)
        pthread_join(thread[i], NULL);
    long pid = fork();
    if (pid == 0)
        _exit(0);
    return ended_well(pid);
}

/* Calls newer than the table, each with arguments that no kernel takes. Those that do not answer ENOSYS are named. */
long see_newest_calls(char *answer) {
    for (long n = 462; n <= 475; n++) {
        long said = syscall(n, -1, BAD, -1, -1, -1, -1);
        if (said >= 0 || errno != ENOSYS)
            answer_add(answer, "%ld", n);
    }
    return answer_done(answer);
}
