/*
 * race PROJECT N: the way of a project into a cage, as far as the engine: checked, pinned, cloned (cage/project.h, cage/mount.h),
 * while somebody else turns PROJECT between a folder whose file "id" reads "mine" and a link; until N starts got through, which most
 * do not (a refusal is quick, and the next try finds the link still there). Beside it the careless way: checked, then opened by its
 * path once more. Prints what was served, as JSON.
 */
#include "base/own.h"
#include "base/parse.h"
#include "cage/mount.h"
#include "cage/project.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TRIES_EACH = 10000 };
enum served { MINE, ASTRAY, REFUSED, SERVED };

static enum served read_id(int dir) {
    char id[8] = "";
    own_fd int fd = openat(dir, "id", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, id, sizeof id - 1) < 0)
        return REFUSED;
    return strcmp(id, "mine") ? ASTRAY : MINE;
}

static enum served by_pin(const char *path) {
    struct project p = {.fd = -1};
    own_fd int tree = -1;
    own_err err_t refused = project_open(path, MODE_SEALED, &p);
    own_err err_t failed = refused ? NULL : mount_clone(p.fd, &(struct mount_how){.userns = -1}, &tree);
    project_close(&p);
    return refused || failed ? REFUSED : read_id(tree);
}

static enum served by_path(const char *path) {
    struct project p = {.fd = -1};
    own_err err_t refused = project_open(path, MODE_SEALED, &p);
    project_close(&p);
    own_fd int again = refused ? -1 : open(path, O_PATH | O_CLOEXEC);
    return again < 0 ? REFUSED : read_id(again);
}

int main(int argc, char **argv) {
    unsigned long count[SERVED] = {0}, careless = 0;
    uint64_t n = 0;
    own_err err_t bad = argc == 3 ? parse_u64(argv[2], 100000000, &n) : err_new(EXIT_USAGE, "race PROJECT N");
    if (bad)
        die(TAKE(bad));
    for (uint64_t i = 0; i < TRIES_EACH * n && count[MINE] + count[ASTRAY] < n; i++) {
        count[by_pin(argv[1])]++;
        careless += by_path(argv[1]) == ASTRAY;
    }
    printf("{\"mine\": %lu, \"astray\": %lu, \"refused\": %lu, \"careless\": %lu}\n", count[MINE],
           count[ASTRAY], count[REFUSED], careless);
    return 0;
}
