#include "cli/chat/history.h"
#include "base/own.h"
#include "base/paths.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* With a root of its own: the fleet's. $HOME counts when it is ours: sudo may leave another person's there. */
static char *file(void) {
    const char *home = getenv("HOME");
    struct stat st;
    if (*paths_root() || !home || home[0] != '/' || stat(home, &st) < 0 || st.st_uid != geteuid())
        home = "/root";
    return xasprintf("%s%s/.local/state/agent-cage/history", paths_root(), home);
}

/* Makes the folders above the file, each for its owner alone. */
static void make_folders(const char *path) {
    own_free char *copy = xstrdup(path);
    for (char *p = copy + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(copy, 0700);
            *p = '/';
        }
}

void history_read(History *h) {
    own_free char *path = file();
    struct stat st;
    own_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return;
    own_free char *by_number = xasprintf("/proc/self/fd/%d", fd);
    HistEvent ev;
    history(h, &ev, H_LOAD, by_number); /* libedit reads a history by name alone */
}

void history_write(History *h) {
    own_free char *path = file();
    make_folders(path);
    own_free char *fresh = xasprintf("%s.%d", path, (int)getpid());
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    FILE *f = fdopen(fd, "w");
    HistEvent ev;
    bool kept = f && history(h, &ev, H_SAVE_FP, f) != -1;
    if (f)
        kept = fclose(f) == 0 && kept;
    else
        close(fd);
    if (!kept || rename(fresh, path) < 0)
        unlink(fresh);
}
