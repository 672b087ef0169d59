/*
 * What this program is called, for hints: a message says `agent-cage VERB`, and before `make install` there may be no
 * such word, only a path to what was built.
 */
#ifndef CLI_SELF_H
#define CLI_SELF_H

#include "base/buf.h"

#include <stdio.h>

/* At the start. argv0 is kept: it lives as long as the process. */
void self_called(const char *argv0);

/* "agent-cage" where PATH has it, or it was called so; else the path by which it was called, if that is
 * plain: it is printed as it is, and goes into a shell. */
const char *self_name(void);

/* Adds text; behind a ` (and `sudo) in it "agent-cage" becomes self_name(). Not escaped. */
void self_hints(struct buf *out, const char *text);

/* Prints text with its hints; what means something to a terminal is escaped, a newline is none of it (ESCAPE_TEXT). */
void self_print(FILE *to, const char *text);

/* The same of a text that is escaped already. */
void self_print_plain(FILE *to, const char *text);

#endif
