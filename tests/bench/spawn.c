/*
 * Starts a command many times and measures each, from where a harness would: it can first enter the namespaces of a
 * room's process and become the room's uid, so that what it starts there is the shim.
 *
 *   spawn [-e PID] [-u UID] [-d DIR] [-r] [-n TIMES] [-j AT_ONCE] -- COMMAND …
 *
 *   -e PID   enter all namespaces of PID first
 *   -u UID   become UID:UID, without groups and capabilities
 *   -d DIR   start in DIR; -r removes it once there
 *   -n, -j   how often, and how many at once (default 1, 1)
 *
 * TIMES 1: becomes the command itself. Else prints one JSON object: times, ended (each exit status or signal and how
 * often), and the microseconds of each start-to-end in order. Static, so that it needs nothing of the room.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

struct running {
    pid_t pid;
    int64_t start;
};

static void must(int ok, const char *what) {
    if (ok)
        return;
    perror(what);
    exit(125);
}

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

static long number(const char *text) {
    return strtol(text, NULL, 10);
}

static void enter(pid_t pid) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    must(fd >= 0, "pidfd_open");
    must(setns(fd, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWPID |
                       CLONE_NEWCGROUP) == 0 ||
             setns(fd, CLONE_NEWNS | CLONE_NEWNET) == 0, /* a bare room has these two alone */
         "setns");
    close(fd);
    /* The pid namespace is for children only: the rest happens in one. */
    pid_t child = fork();
    must(child >= 0, "fork");
    if (!child)
        return;
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    exit(WEXITSTATUS(status));
}

static void become(uid_t uid) {
    must(setgroups(0, NULL) == 0, "setgroups");
    must(setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0, "become the room's uid");
}

static void many(char **command, int times, int at_once) {
    struct running *slots = calloc((size_t)at_once, sizeof *slots);
    int64_t *took = calloc((size_t)times, sizeof *took);
    int started = 0, ended = 0, alive = 0, statuses[512] = {0};
    must(slots && took, "memory");
    while (ended < times) {
        while (started < times && alive < at_once) {
            int slot = 0;
            while (slots[slot].pid)
                slot++;
            slots[slot].start = now_us();
            must(posix_spawn(&slots[slot].pid, command[0], NULL, NULL, command, environ) == 0, command[0]);
            started++, alive++;
        }
        int status;
        pid_t pid = wait(&status);
        must(pid > 0, "wait");
        int slot = 0;
        while (slots[slot].pid != pid)
            slot++;
        took[ended++] = now_us() - slots[slot].start;
        slots[slot].pid = 0;
        alive--;
        statuses[WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status)]++;
    }
    printf("{\"times\": %d, \"ended\": {", times);
    const char *comma = "";
    for (int i = 0; i < 512; i++)
        if (statuses[i]) {
            printf("%s\"%s%d\": %d", comma, i < 256 ? "exit " : "signal ", i & 255, statuses[i]);
            comma = ", ";
        }
    printf("}, \"us\": [");
    for (int i = 0; i < times; i++)
        printf("%s%ld", i ? "," : "", (long)took[i]);
    printf("]}\n");
}

int main(int argc, char **argv) {
    long pid = 0, uid = -1, times = 1, at_once = 1;
    const char *dir = NULL;
    int remove_it = 0, c;
    while ((c = getopt(argc, argv, "+e:u:d:rn:j:")) != -1) {
        if (c == 'e')
            pid = number(optarg);
        else if (c == 'u')
            uid = number(optarg);
        else if (c == 'd')
            dir = optarg;
        else if (c == 'r')
            remove_it = 1;
        else if (c == 'n')
            times = number(optarg);
        else if (c == 'j')
            at_once = number(optarg);
        else
            return 2;
    }
    if (optind == argc || times < 1 || at_once < 1)
        return 2;
    if (pid)
        enter((pid_t)pid);
    if (uid > 0)
        become((uid_t)uid);
    must(!dir || chdir(dir) == 0, "chdir");
    must(!remove_it || rmdir(dir) == 0, "rmdir");
    if (times > 1) {
        many(argv + optind, (int)times, (int)at_once);
        return 0;
    }
    execv(argv[optind], argv + optind);
    must(0, argv[optind]);
}
