/*
 * The environment of a command: declared by the room, plus what the asker was allowed to add. A declared
 * name cannot be replaced from outside, but for those marked as a default (language, terminal).
 */
#ifndef EXECUTOR_ENVIRON_H
#define EXECUTOR_ENVIRON_H

#include "proto/msg.h"

struct environ;

/* user: what USER and LOGNAME say. All are copied. */
struct environ *environ_new(const char *home, const char *tmpdir, const char *user);

/* The NULL-ended table; the caller frees the table, whose strings are e's and added's. */
char **environ_make(const struct environ *e, const struct list *added);

void environ_free(struct environ *e);

#endif
