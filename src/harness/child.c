#include "harness/child.h"
#include "base/own.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Nothing but async-signal-safe calls: between fork and exec. */
static _Noreturn void become(const char *path, char *const argv[], char *const env[], int dir,
                             const int io[3], bool terminal, int ruleset, int tell, pid_t parent) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL); /* ignored ones would stay so */
    if (setsid() >= 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent && fchdir(dir) == 0 &&
        dup2(io[0], 0) >= 0 && dup2(io[1], 1) >= 0 && dup2(io[2], 2) >= 0 &&
        (!terminal || ioctl(0, TIOCSCTTY, 0) == 0) &&
        (ruleset < 0 || syscall(SYS_landlock_restrict_self, ruleset, 0) == 0)) {
        fds_close_from(3, &tell, 1);
        execve(path, argv, env);
    }
    int why = errno;
    (void)!write(tell, &why, sizeof why);
    _exit(EXIT_FAILED);
}

/* 0 when the exec took place (which closed the pipe), else its errno. */
static int wait_for_exec(int told) {
    int why = 0;
    ssize_t n;
    do
        n = read(told, &why, sizeof why);
    while (n < 0 && errno == EINTR);
    return n == sizeof why ? why : 0;
}

/* Forks and execs in `dir`; `told` and `tell` are the ends of a pipe, and `tell` is closed. */
static err_t launch(const char *path, char *const argv[], char *const env[], int dir, const int io[3],
                    bool terminal, int ruleset, int told, int *tell, pid_t *ret) {
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return err_sys(errno, "start a process");
    if (pid == 0)
        become(path, argv, env, dir, io, terminal, ruleset, *tell, parent);
    own_closep(tell);
    int why = wait_for_exec(told);
    if (why) {
        waitpid(pid, NULL, 0);
        return err_sys(why, "start %s", path);
    }
    *ret = pid;
    return NULL;
}

err_t child_start(const char *path, char *const argv[], char *const env[], const char *dir, bool with_input,
                  struct child *ret) {
    own_fd int where = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (where < 0)
        return err_sys(errno, "the project folder %s", dir);
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1}, exec[2] = {-1, -1};
    bool input =
        with_input ? pipe2(in, O_CLOEXEC) == 0 : (in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;
    bool piped =
        input && pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0 && pipe2(exec, O_CLOEXEC) == 0;
    err_t e = piped ? NULL : err_sys(errno, "pipes for a command");
    own_fd int in_read = in[0], in_write = in[1];
    own_fd int out_read = out[0], out_write = out[1], err_read = err[0], err_write = err[1];
    own_fd int told = exec[0], tell = exec[1];
    if (e)
        return e;
    pid_t pid;
    TRY(launch(path, argv, env, where, (const int[]){in_read, out_write, err_write}, false, -1, told, &tell,
               &pid));
    fcntl(out_read, F_SETFL, O_RDONLY | O_NONBLOCK);
    fcntl(err_read, F_SETFL, O_RDONLY | O_NONBLOCK);
    if (with_input)
        fcntl(in_write, F_SETFL, O_WRONLY | O_NONBLOCK);
    *ret = (struct child){pid, TAKE_FD(out_read), TAKE_FD(err_read), TAKE_FD(in_write)};
    return NULL;
}

err_t child_start_on(const char *path, char *const argv[], char *const env[], const char *dir, int slave,
                     int ruleset, pid_t *ret) {
    own_fd int where = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int exec[2];
    if (where < 0 || pipe2(exec, O_CLOEXEC) < 0)
        return err_sys(errno, "the folder %s", dir);
    own_fd int told = exec[0], tell = exec[1];
    return launch(path, argv, env, where, (const int[]){slave, slave, slave}, true, ruleset, told, &tell,
                  ret);
}
