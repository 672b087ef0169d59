#include "executor/environ.h"
#include "base/own.h"
#include "base/proc.h"

#include <stdbool.h>

static const struct {
    const char *name, *value; /* value NULL: given at the start */
    bool fallback;            /* the asker's value, if there is one, counts */
} declared[] = {
    {"HOME", NULL, false},     {"TMPDIR", NULL, false},    {"USER", NULL, false},
    {"LOGNAME", NULL, false},  {"PATH", PROC_PATH, false}, {"SHELL", "/bin/bash", false},
    {"LANG", "C.UTF-8", true},
};

struct environ {
    char *line[COUNT(declared)];
};

struct environ *environ_new(const char *home, const char *tmpdir, const char *user) {
    const char *const given[] = {home, tmpdir, user, user};
    struct environ *e = xcalloc(1, sizeof *e);
    for (size_t i = 0; i < COUNT(declared); i++)
        e->line[i] = xasprintf("%s=%s", declared[i].name, declared[i].value ? declared[i].value : given[i]);
    return e;
}

static bool has_name(const char *line, const char *name) {
    size_t n = strlen(name);
    return !strncmp(line, name, n) && line[n] == '=';
}

/* May this line stand beside the declared ones? */
static bool addable(const char *line) {
    if (!strchr(line, '=') || line[0] == '=')
        return false;
    for (size_t i = 0; i < COUNT(declared); i++)
        if (has_name(line, declared[i].name))
            return declared[i].fallback;
    return true;
}

static bool replaced(const char *name, const struct list *added) {
    for (size_t i = 0; i < added->n; i++)
        if (has_name(added->v[i].p, name))
            return true;
    return false;
}

char **environ_make(const struct environ *e, const struct list *added) {
    char **table = xmalloc((COUNT(declared) + added->n + 1) * sizeof *table);
    size_t n = 0;
    for (size_t i = 0; i < COUNT(declared); i++)
        if (!declared[i].fallback || !replaced(declared[i].name, added))
            table[n++] = e->line[i];
    for (size_t i = 0; i < added->n; i++)
        if (addable(added->v[i].p))
            table[n++] = (char *)(uintptr_t)added->v[i].p;
    table[n] = NULL;
    return table;
}

void environ_free(struct environ *e) {
    if (!e)
        return;
    for (size_t i = 0; i < COUNT(declared); i++)
        free(e->line[i]);
    free(e);
}
