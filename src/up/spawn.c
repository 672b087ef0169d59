#include "up/spawn.h"
#include "base/own.h"
#include "base/paths.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

err_t spawn_warden(pid_t *ret_pid) {
    own_free char *binary = path_of(DIR_LIB "/bin/agent-cage");
    own_free char *root = xasprintf("AGENT_CAGE_ROOT=%s", paths_root());
    const char *argv[] = {"agent-cage", "warden", NULL};
    const char *env[] = {"PATH=" PROC_PATH, "LC_ALL=C.UTF-8", "HOME=/root", root, NULL};
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(errno, "fork");
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        setsid();
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (null < 0 || dup2(null, 0) < 0 || chdir("/") < 0)
            _exit(EXIT_FAILED);
        fds_close_from(3, NULL, 0);
        execve(binary, (char *const *)argv, (char *const *)env);
        _exit(EXIT_FAILED);
    }
    *ret_pid = pid;
    return NULL;
}

bool spawn_outdated(pid_t pid) {
    own_free char *binary = path_of(DIR_LIB "/bin/agent-cage"), *exe = xasprintf("/proc/%d/exe", (int)pid);
    struct stat a, b;
    return stat(binary, &a) == 0 && stat(exe, &b) == 0 && (a.st_ino != b.st_ino || a.st_dev != b.st_dev);
}
