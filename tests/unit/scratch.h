/* A folder of its own for each test: setup, teardown, and a file in it. For cmocka_unit_test_setup_teardown(). And what is
 * judged as root alone. */
#ifndef UNIT_SCRATCH_H
#define UNIT_SCRATCH_H

#include "base/fs.h"
#include "base/own.h"
#include "base/paths.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char scratch_dir[] = "/tmp/agent-cage-unit-XXXXXX"; /* also where the test stands */
static int scratch = -1;                                   /* the same, opened */

static inline int scratch_up(void **state) {
    (void)state;
    memcpy(scratch_dir + sizeof scratch_dir - 7, "XXXXXX", 6);
    if (!mkdtemp(scratch_dir) || chdir(scratch_dir) < 0)
        return -1;
    scratch = open(scratch_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return scratch < 0;
}

static inline int scratch_down(void **state) {
    (void)state;
    own_closep(&scratch);
    if (chdir("/") < 0)
        return -1;
    own_err err_t e = fs_remove(scratch_dir);
    return e != NULL;
}

/* The same, and it is the root below which the fleet's folders are; the warden's own is there. */
static inline int scratch_fleet_up(void **state) {
    if (scratch_up(state) || paths_set(scratch_dir))
        return -1;
    own_free char *dir = path_of(DIR_LIB "/warden");
    own_err err_t e = fs_dirs(dir);
    return e != NULL;
}

static inline int scratch_fleet_down(void **state) {
    own_err err_t e = paths_set("");
    return scratch_down(state) || e;
}

/* An ordinary user cannot: not judged. */
#define AS_ROOT()                                                                                            \
    do {                                                                                                     \
        if (geteuid())                                                                                       \
            skip();                                                                                          \
    } while (0)

#endif
