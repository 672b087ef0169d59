/* Attempts on what else runs: the host's processes, its shared memory, its services; and the limits of one's own. */
#include "break/try.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TASKS_MAX = 3000, DESCRIPTORS_MAX = 16384 };

static bool number(const struct facts *f, const char *key, uint64_t *ret) {
    const char *text = fact(f, key, 0);
    own_err err_t e = text ? parse_u64(text, INT32_MAX, ret) : err_new(EXIT_USAGE, "%s is missing", key);
    return !e;
}

/* Signal 0 to a process outside. */
long try_signal(const struct facts *f) {
    uint64_t pid;
    return number(f, "pid", &pid) ? kill((pid_t)pid, 0) : try_fail(EINVAL);
}

long try_proc_entry(const struct facts *f) {
    const char *pid = fact(f, "pid", 0);
    if (!pid)
        return try_fail(EINVAL);
    own_free char *path = xasprintf("/proc/%s", pid);
    return access(path, F_OK);
}

long try_shm_file(const struct facts *f) {
    const char *name = fact(f, "shm", 0);
    if (!name)
        return try_fail(EINVAL);
    own_free char *path = xasprintf("/dev/shm/%s", name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

long try_shm_segment(const struct facts *f) {
    uint64_t key;
    return number(f, "segment", &key) ? shmget((key_t)key, 0, 0) : try_fail(EINVAL);
}

/* What a desktop or a server has that takes orders, by path and by variable. */
long see_services(char *answer) {
    static const char *const paths[] = {"/run/dbus/system_bus_socket",
                                        "/run/systemd/private",
                                        "/run/systemd/journal",
                                        "/run/podman/podman.sock",
                                        "/run/docker.sock",
                                        "/var/run/docker.sock",
                                        "/run/containerd",
                                        "/run/user",
                                        "/tmp/.X11-unix",
                                        "/run/cups",
                                        "/run/snapd.socket",
                                        "/run/agent-cage",
                                        "/var/lib/agent-cage"};
    static const char *const names[] = {"SSH_AUTH_SOCK",   "GPG_AGENT_INFO",  "DBUS_SESSION_BUS_ADDRESS",
                                        "DISPLAY",         "WAYLAND_DISPLAY", "PULSE_SERVER",
                                        "XDG_RUNTIME_DIR", "DOCKER_HOST"};
    for (size_t i = 0; i < COUNT(paths); i++)
        if (!access(paths[i], F_OK))
            answer_add(answer, "%s", paths[i]);
    for (size_t i = 0; i < COUNT(names); i++)
        if (getenv(names[i]))
            answer_add(answer, "%s", names[i]);
    return answer_done(answer);
}

static void *stay(void *until) {
    char byte;
    (void)!read(*(int *)until, &byte, 1);
    return NULL;
}

/* Threads, which count as processes do and cost less, until there can be no more, all at once. */
long see_processes_end(char *answer) {
    int until[2], error = 0;
    pthread_attr_t small;
    if (pipe(until))
        return -1;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, (size_t)sysconf(_SC_THREAD_STACK_MIN));
    for (int n = 0; n < TASKS_MAX && !error; n++) {
        pthread_t thread;
        error = pthread_create(&thread, &small, stay, &until[0]);
    }
    answer_add(answer, "%s", error ? strerrorname_np(error) : "OK");
    return 0; /* the process ends, and they with it */
}

/* With the number where it is more than a cage may have. */
long see_descriptors_end(char *answer) {
    int last = 2, fd;
    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        last = fd;
    answer_add(answer, last < DESCRIPTORS_MAX ? "%s" : "%s at %d", strerrorname_np(errno), last + 1);
    return 0;
}

long see_line(const char *path, char *answer) {
    own_free char *line = NULL;
    own_err err_t e = fs_read_line(path, &line);
    if (e)
        return try_fail(e->errnum ? e->errnum : ENOENT);
    answer_add(answer, "%s", line);
    return 0;
}

static err_t read_number(const char *path, uint64_t *ret) {
    own_free char *line = NULL;
    TRY(fs_read_line(path, &line));
    return parse_u64(line, INT32_MAX, ret);
}

long see_bound(const char *path, const char *host, char *answer) {
    uint64_t own = 0, hosts = 0;
    own_err err_t e = read_number(path, &own);
    own_err err_t bad = e ? NULL : read_number(host, &hosts);
    if (e || bad)
        return try_fail((e ? e : bad)->errnum ? (e ? e : bad)->errnum : EINVAL);
    answer_add(answer, own < hosts ? "a part" : "all");
    return 0;
}
