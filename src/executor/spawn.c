/*
 * The child is made with CLONE_VM on a small stack of ours and tells in `struct child` how far it came. The
 * parent waits until the child let go of the shared memory (by exec or by its end), as with vfork; but vfork
 * waits without end, and whoever runs under this uid could stop the child just then (SIGSTOP, a folder on a
 * file system that never answers) and the broker with it. So the wait is our own: the kernel clears
 * `child.shares` and wakes it as a futex (CLONE_CHILD_CLEARTID), and after START_MS the child is killed.
 * Until then the parent does nothing but wait: both share errno and the heap.
 */
#include "executor/spawn.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum step { STEP_NONE, STEP_PREPARE, STEP_CGROUP, STEP_CWD, STEP_EXEC };

enum { STACK_SIZE = 32 * 1024, START_MS = 5000 };

struct child {
    const struct spawn *what; /* without an exe: a probe */
    volatile enum step step;  /* where it failed */
    volatile int error;
    _Atomic uint32_t shares; /* 1 while it uses our memory, then 0 */
};

static _Alignas(64) char child_stack[STACK_SIZE];

/* AddressSanitizer knows nothing of the child's stack; what runs there is not instrumented. */
#define ON_CHILD_STACK __attribute__((no_sanitize("address")))

/* execve, and through /bin/sh when the kernel does not know the format. Returns errno. */
ON_CHILD_STACK static int exec_file(const struct spawn *s, const char *file) {
    char **argv = s->args.argv;
    execve(file, argv, s->env);
    if (errno != ENOEXEC)
        return errno;
    char *name = argv[0];
    argv[-1] = (char *)(uintptr_t) "sh";
    argv[0] = (char *)(uintptr_t)file;
    execve("/bin/sh", argv - 1, s->env);
    int error = errno;
    argv[0] = name;
    return error;
}

/* Tries `name` in each folder of the path; as execvp: EACCES is kept in mind, other refusals end the search. */
ON_CHILD_STACK static int exec_in_path(const struct spawn *s) {
    char file[PATH_MAX];
    int kept = ENOENT;
    size_t name = strlen(s->exe);
    for (const char *dir = s->path, *next; dir; dir = next) {
        const char *colon = strchr(dir, ':');
        size_t n = colon ? (size_t)(colon - dir) : strlen(dir);
        next = colon ? colon + 1 : NULL;
        if (!n || n + name + 2 > sizeof file)
            continue;
        snprintf(file, sizeof file, "%.*s/%s", (int)n, dir, s->exe);
        int error = exec_file(s, file);
        if (error == EACCES)
            kept = error;
        else if (error != ENOENT && error != ENOTDIR)
            return error;
    }
    return kept;
}

ON_CHILD_STACK static _Noreturn void fail(struct child *c, enum step step, int error) {
    c->error = error;
    c->step = step;
    _exit(EXIT_NOTFOUND);
}

ON_CHILD_STACK static void take_terminal(void) {
    for (int fd = 0; fd < 3; fd++)
        if (ioctl(fd, TIOCSCTTY, 0) == 0)
            return;
}

ON_CHILD_STACK static _Noreturn int run_child(void *arg) {
    struct child *c = arg;
    const struct spawn *s = c->what;
    if (s->procs >= 0 && write(s->procs, "0", 1) != 1)
        fail(c, STEP_CGROUP, errno);
    if (!s->exe)
        _exit(0);
    setsid();
    for (int i = 0; i < 3; i++)
        if (dup2(s->fds[i], i) < 0)
            fail(c, STEP_PREPARE, errno);
    close_range(3, ~0u, 0); /* all are close-on-exec; this holds even if one was not */
    if (s->tty)
        take_terminal();
    if (chdir(s->cwd) < 0)
        fail(c, STEP_CWD, errno);
    /* exec gives handled signals their default action; SIGPIPE alone is ignored in this process. */
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    fail(c, STEP_EXEC, strchr(s->exe, '/') ? exec_file(s, s->exe) : exec_in_path(s));
}

/* clone3 has no wrapper that takes CLONE_INTO_CGROUP. The child begins on its stack with a call. */
static long clone_into(struct clone_args *args, struct child *c) {
    int (*run)(void *) = run_child;
    long ret;
#if defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_clone3;
    register long x0 __asm__("x0") = (long)args;
    register long x1 __asm__("x1") = (long)sizeof *args;
    __asm__ volatile("svc 0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, %[c]\n\t"
                     "blr %[run]\n\t"
                     "brk 0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x1), "r"(x8), [c] "r"(c), [run] "r"(run)
                     : "memory", "cc");
    ret = x0;
#else /* x86-64; the assembler refuses it elsewhere */
    __asm__ volatile("syscall\n\t"
                     "testq %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xorl %%ebp, %%ebp\n\t"
                     "movq %[c], %%rdi\n\t"
                     "call *%[run]\n\t"
                     "hlt\n"
                     "1:"
                     : "=a"(ret)
                     : "0"((long)SYS_clone3), "D"(args), "S"(sizeof *args), [c] "r"(c), [run] "r"(run)
                     : "rcx", "r11", "memory", "cc");
#endif
    return ret;
}

static long start(struct child *c, int cgroup) {
    c->shares = 1;
    if (cgroup < 0) { /* also where a filter answers clone3 with ENOSYS */
        long pid = clone(run_child, child_stack + STACK_SIZE, CLONE_VM | CLONE_CHILD_CLEARTID | SIGCHLD, c,
                         NULL, NULL, &c->shares);
        return pid < 0 ? -errno : pid;
    }
    struct clone_args args = {.flags = CLONE_VM | CLONE_CHILD_CLEARTID | CLONE_INTO_CGROUP,
                              .exit_signal = SIGCHLD,
                              .child_tid = (uint64_t)(uintptr_t)&c->shares,
                              .stack = (uint64_t)(uintptr_t)child_stack,
                              .stack_size = STACK_SIZE,
                              .cgroup = (uint64_t)cgroup};
    long pid = clone_into(&args, c);
    return pid == -ENOENT ? -ENODEV : pid; /* either says that the cgroup was removed */
}

/* Until the child shares nothing with us any more. False: it had to be killed for that. No signal comes meanwhile: errno is the
 * child's too, and an interrupted wait would write EINTR over why its exec failed. */
static bool await(struct child *c, pid_t pid) {
    int64_t end = clock_mono_ns() + START_MS * 1000000LL;
    for (bool killed = false;;) {
        int64_t left = end - clock_mono_ns();
        if (!killed && left <= 0) {
            kill(pid, SIGKILL);
            killed = true;
        }
        struct timespec wait = {killed ? 1 : left / 1000000000, killed ? 0 : left % 1000000000};
        if (!c->shares)
            return !killed;
        syscall(SYS_futex, &c->shares, FUTEX_WAIT, 1, &wait, NULL, 0);
    }
}

/* Makes the child and waits for it. *ret_let_go as await() tells; nothing of both when there is no child. */
static long start_and_await(struct child *c, int cgroup, bool *ret_let_go) {
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    long pid = start(c, cgroup);
    *ret_let_go = pid >= 0 && await(c, (pid_t)pid);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return pid;
}

static err_t err_because(int errnum, err_t e) {
    e->errnum = errnum;
    return e;
}

static err_t explain(const struct spawn *s, enum step step, int error) {
    char text[160];
    const char *shown = step == STEP_CWD ? s->cwd : s->exe;
    escape_into(text, sizeof text, ESCAPE_LINE, shown, strlen(shown));
    if (step == STEP_CWD)
        return err_as(err_sys(error, "cannot enter the folder %s", text), EXIT_POLICY);
    if (step == STEP_EXEC && error == ENOENT && !strchr(s->exe, '/'))
        return err_because(error, err_new(EXIT_NOTFOUND, "%s: command not found", text));
    if (step == STEP_EXEC)
        return err_as(err_sys(error, "%s", text), error == ENOENT ? EXIT_NOTFOUND : EXIT_POLICY);
    return err_sys(error, step == STEP_CGROUP ? "cannot put %s into its group" : "cannot prepare %s", text);
}

err_t spawn(const struct spawn *s, pid_t *ret_pid) {
    struct child c = {.what = s};
    bool let_go;
    long pid = start_and_await(&c, s->cgroup, &let_go);
    if (pid == -EAGAIN || pid == -ENOMEM)
        return err_sys((int)-pid, "no new process can be made: the room's limit of processes or memory is "
                                  "reached; end what runs there");
    if (pid < 0)
        return err_sys((int)-pid, "no new process can be made");
    if (!let_go) {
        waitpid((pid_t)pid, NULL, 0);
        return err_sys(ETIMEDOUT, "the command could not be started: its folder or its file does not answer");
    }
    if (c.step == STEP_NONE) {
        *ret_pid = (pid_t)pid;
        return NULL;
    }
    waitpid((pid_t)pid, NULL, 0);
    return explain(s, c.step, c.error);
}

int spawn_probe(int cgroup, int procs) {
    const struct spawn nothing = {.procs = procs};
    struct child c = {.what = &nothing};
    bool let_go;
    long pid = start_and_await(&c, cgroup, &let_go);
    if (pid < 0)
        return (int)-pid;
    waitpid((pid_t)pid, NULL, 0);
    return c.error;
}
