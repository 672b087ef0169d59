/* One-shot runs of root. */
#include "base/fs.h"
#include "base/ids.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/paths.h"
#include "sealed/ground.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>

enum { RUNS_AT_ONCE = 64 };

err_t ground_of_root(struct ground *g) {
    TRY(conf_fleet_read(&g->conf));
    g->run = path_of(DIR_RUN "/sealed");
    g->lib = path_of(DIR_LIB "/sealed");
    g->label = xasprintf("%s#sealed", paths_root());
    TRY(fs_dirs(g->run));
    TRY(fs_dir(g->run, 0, 0, 0711));
    TRY(fs_dirs(g->lib));
    return fs_dir(g->lib, 0, 0, 0700);
}

/* The range that belongs to place n; from the fleet's block at its first use. */
static err_t range_of(const struct ground *g, unsigned n, uint32_t *ret) {
    own_free char *path = xasprintf("%s/uid-%u", g->lib, n), *line = NULL;
    own_err err_t none = fs_read_line(path, &line);
    uint64_t base;
    if (!none) {
        TRY(parse_u64(line, UINT32_MAX, &base));
        *ret = (uint32_t)base;
        return NULL;
    }
    own_free char *dir = path_of(DIR_LIB "/warden");
    TRY(fs_dir(dir, 0, 0, 0700));
    TRY(ids_next_range(g->conf.prefix, dir, ret));
    own_free char *text = xasprintf("%" PRIu32 "\n", *ret);
    return fs_write(path, text, strlen(text), 0, 0, 0600);
}

err_t ground_ids_of_root(const struct ground *g, uint32_t *ret_base, int *ret_lock) {
    for (unsigned n = 0; n < RUNS_AT_ONCE; n++) {
        own_free char *path = xasprintf("%s/place-%u", g->lib, n);
        own_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return err_sys(errno, "open %s", path);
        if (flock(fd, LOCK_EX | LOCK_NB))
            continue; /* another run has it */
        TRY(range_of(g, n, ret_base));
        *ret_lock = TAKE_FD(fd);
        return NULL;
    }
    return err_new(EXIT_FAILED, "%d sealed runs are going on already", RUNS_AT_ONCE);
}
