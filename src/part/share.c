#include "part/share.h"
#include "base/log.h"
#include "base/own.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *dir, *name; /* below the home */
} shared[] = {{".claude", "shell-snapshots"}, {".codex", "shell_snapshots"}};

/* True: it is there, or something else is, which then is somebody's will. */
static bool made(int failed) {
    return !failed || errno == EEXIST;
}

void share_folders(const char *home, const char *scratch) {
    for (size_t i = 0; i < COUNT(shared); i++) {
        own_free char *dir = xasprintf("%s/%s", home, shared[i].dir);
        own_free char *link = xasprintf("%s/%s", dir, shared[i].name);
        own_free char *to = xasprintf("%s/.%s", scratch, shared[i].name);
        if (!made(mkdir(dir, 0700)) || !made(mkdir(to, 0700)) || !made(symlink(to, link)))
            log_warn("%s is not shared: %d", link, errno);
    }
}
