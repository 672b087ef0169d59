#include "executor/sweep.h"
#include "base/own.h"
#include "base/procstat.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

enum { PASSES = 64 };

struct proc {
    pid_t pid;
    struct procstat stat;
    bool below;
};

struct table {
    struct proc *v;
    size_t n, cap;
};

static void read_all(struct table *t) {
    DIR *dir = opendir("/proc");
    if (!dir)
        return;
    t->n = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        struct proc p = {.pid = (pid_t)strtol(d->d_name, NULL, 10)};
        if (p.pid <= 0 || !procstat_read(p.pid, &p.stat))
            continue;
        if (t->n == t->cap)
            t->v = xrealloc(t->v, t->cap = t->cap ? t->cap * 2 : 256, sizeof *t->v);
        t->v[t->n++] = p;
    }
    closedir(dir);
}

static int by_pid(const void *a, const void *b) {
    const struct proc *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Marks what is below top. Numbers wrap, so a parent may come later in the table: until nothing changes. */
static void mark(struct table *t, pid_t top) {
    if (!t->n)
        return;
    qsort(t->v, t->n, sizeof *t->v, by_pid);
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < t->n; i++) {
            struct proc *p = &t->v[i], key = {.pid = p->stat.parent};
            if (p->below)
                continue;
            const struct proc *up = bsearch(&key, t->v, t->n, sizeof key, by_pid);
            if (p->stat.parent == top || (up && up->below))
                p->below = changed = true;
        }
    }
}

/* fresh: only those that are not stopped yet. */
static size_t walk(struct table *t, pid_t top, bool fresh, void (*each)(void *ctx, pid_t pid), void *ctx) {
    read_all(t);
    mark(t, top);
    size_t found = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct proc *p = &t->v[i];
        bool stopped = p->stat.state == 'T' || p->stat.state == 't';
        if (!p->below || procstat_dead(&p->stat) || (fresh && stopped))
            continue;
        found++;
        each(ctx, p->pid);
    }
    return found;
}

size_t sweep_list(pid_t top, void (*each)(void *ctx, pid_t pid), void *ctx) {
    struct table t = {0};
    size_t n = walk(&t, top, false, each, ctx);
    free(t.v);
    return n;
}

static void stop_one(void *ctx, pid_t pid) {
    (void)ctx;
    kill(pid, SIGSTOP);
}

static void kill_one(void *ctx, pid_t pid) {
    (void)ctx;
    kill(pid, SIGKILL);
}

void sweep_kill(pid_t top) {
    struct table t = {0};
    for (int i = 0; i < PASSES && walk(&t, top, true, stop_one, NULL); i++)
        ;
    walk(&t, top, false, kill_one, NULL);
    free(t.v);
}
