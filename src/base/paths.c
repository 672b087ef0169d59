#include "base/paths.h"
#include "base/own.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char root_dir[201];

err_t paths_set(const char *root) {
    size_t n = strlen(root);
    while (n && root[n - 1] == '/')
        n--;
    if (n && root[0] != '/')
        return err_new(EXIT_USAGE, "AGENT_CAGE_ROOT must be an absolute path");
    if (n >= sizeof root_dir || strstr(root, "/../") || (n >= 3 && !strncmp(root + n - 3, "/..", 3)))
        return err_new(EXIT_USAGE, "AGENT_CAGE_ROOT must be shorter than %zu bytes and hold no '..'",
                       sizeof root_dir);
    memcpy(root_dir, root, n);
    root_dir[n] = 0;
    return NULL;
}

err_t paths_open(void) {
    const char *root = getenv("AGENT_CAGE_ROOT");
    return paths_set(root ? root : "");
}

const char *paths_root(void) {
    return root_dir;
}

char *path_of(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *rest = NULL;
    if (vasprintf(&rest, fmt, ap) < 0)
        abort();
    va_end(ap);
    char *whole = xasprintf("%s%s", root_dir, rest);
    free(rest);
    return whole;
}
