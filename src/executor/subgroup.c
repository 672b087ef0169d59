#include "executor/subgroup.h"
#include "base/own.h"
#include "cage/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH = CGROUP_DEPTH, KILL_PASSES = 100 }; /* a workload may nest groups, but no deeper */

static void name_of(char out[32], uint64_t n) {
    snprintf(out, 32, "cmd-%llu", (unsigned long long)n);
}

int subgroup_new(int parent, struct subgroup *ret) {
    static uint64_t last;
    char name[32];
    do
        name_of(name, ++last);
    while (mkdirat(parent, name, 0755) < 0 && errno == EEXIST);
    int folder = openat(parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder < 0)
        return errno;
    int events = openat(folder, "cgroup.events", O_RDONLY | O_CLOEXEC);
    if (events < 0) {
        int error = errno;
        close(folder);
        unlinkat(parent, name, AT_REMOVEDIR);
        return error;
    }
    *ret = (struct subgroup){parent, events, folder, last, false};
    return 0;
}

static int open_folder(const struct subgroup *g) {
    char name[32];
    name_of(name, g->n);
    return openat(g->parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

void subgroup_used(struct subgroup *g) {
    own_closep(&g->folder);
}

int subgroup_procs(const struct subgroup *g) {
    own_fd int folder = open_folder(g);
    return folder < 0 ? -1 : openat(folder, "cgroup.procs", O_WRONLY | O_CLOEXEC);
}

enum { EVENTS_SIZE = 128 };

/* What the kernel says of it; errno's word when it says nothing: ENODEV for one that was removed. */
static int read_events(const struct subgroup *g, char text[EVENTS_SIZE]) {
    ssize_t n = pread(g->events, text, EVENTS_SIZE - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    return n < 0 ? errno : 0;
}

bool subgroup_empty(const struct subgroup *g) {
    char text[EVENTS_SIZE];
    int error = read_events(g, text);
    return error ? error == ENODEV : strstr(text, "populated 0") != NULL;
}

bool subgroup_again(struct subgroup *g) {
    char text[EVENTS_SIZE];
    if (g->killed || read_events(g, text) || !strstr(text, "populated 0"))
        return false;
    struct stat st;
    own_fd int folder = open_folder(g);
    if (folder < 0 || fstat(folder, &st) < 0 || st.st_nlink != 2) /* one more for each group below */
        return false;
    g->folder = TAKE_FD(folder);
    return true;
}

/* Calls each() for every group below the folder `at`, named from the one that it is in; the deepest first. */
static void walk(int at, int depth, void (*each)(int parent, const char *name, void *ctx), void *ctx) {
    int fd = depth ? openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return;
    for (struct dirent *d; (d = readdir(dir));) {
        if (d->d_type != DT_DIR || d->d_name[0] == '.')
            continue;
        own_fd int below = openat(fd, d->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (below >= 0)
            walk(below, depth - 1, each, ctx);
        each(fd, d->d_name, ctx);
    }
    closedir(dir);
}

struct lister {
    void (*each)(void *ctx, pid_t pid);
    void *ctx;
};

static void list_one(int parent, const char *name, void *ctx) {
    struct lister *l = ctx;
    own_fd int folder = openat(parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int fd = folder < 0 ? -1 : openat(folder, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    own_file FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    char line[32];
    while (f && fgets(line, sizeof line, f)) {
        long pid = strtol(line, NULL, 10);
        if (pid > 0) /* 0: in a PID namespace that we do not see */
            l->each(l->ctx, (pid_t)pid);
    }
}

void subgroup_list(const struct subgroup *g, void (*each)(void *ctx, pid_t pid), void *ctx) {
    struct lister l = {each, ctx};
    own_fd int folder = open_folder(g);
    if (folder < 0)
        return;
    walk(folder, DEPTH, list_one, &l);
    list_one(folder, ".", &l);
}

static void kill_one(void *ctx, pid_t pid) {
    (void)ctx;
    kill(pid, SIGKILL);
}

void subgroup_kill(struct subgroup *g) {
    g->killed = true;
    own_fd int folder = open_folder(g), fd = openat(folder, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "1", 1) == 1)
        return;
    for (int i = 0; i < KILL_PASSES && !subgroup_empty(g); i++)
        subgroup_list(g, kill_one, NULL);
}

static void remove_one(int parent, const char *name, void *ctx) {
    (void)ctx;
    unlinkat(parent, name, AT_REMOVEDIR);
}

void subgroup_end(struct subgroup *g) {
    if (g->events < 0)
        return;
    char name[32];
    name_of(name, g->n);
    if (unlinkat(g->parent, name, AT_REMOVEDIR) < 0 && errno == EBUSY) {
        own_fd int folder = open_folder(g);
        if (folder >= 0)
            walk(folder, DEPTH, remove_one, NULL);
        unlinkat(g->parent, name, AT_REMOVEDIR);
    }
    own_closep(&g->events);
    own_closep(&g->folder);
    *g = SUBGROUP_NONE;
}
