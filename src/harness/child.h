/* Starts a program of the room: its own session and process group, two pipes, nothing inherited; it dies with
 * the room. */
#ifndef HARNESS_CHILD_H
#define HARNESS_CHILD_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

/* Descriptors are non-blocking, close-on-exec, and the caller's. */
struct child {
    pid_t pid;    /* also its process group */
    int out, err; /* the read ends of its standard output and error */
    int in;       /* the write end of its standard input; -1: that is /dev/null */
};

/* argv[0] is the name that it is told. The error says what failed, an exec too. */
err_t child_start(const char *path, char *const argv[], char *const env[], const char *dir, bool with_input,
                  struct child *ret);

/* The same on a terminal, `slave`, which becomes its own; `ruleset`: what it may write (lockin_writes), -1: whatever the room may. */
err_t child_start_on(const char *path, char *const argv[], char *const env[], const char *dir, int slave,
                     int ruleset, pid_t *ret);

#endif
