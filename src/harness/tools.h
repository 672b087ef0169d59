/* The tool calls of a turn that are under way: each start is said once, and so is each end, whatever a program tells. */
#ifndef HARNESS_TOOLS_H
#define HARNESS_TOOLS_H

#include "harness/harness.h"

#include <jansson.h>

enum { TOOLS_MAX = 128, TOOL_TEXT_MAX = 4096 };

struct tools {
    struct tool {
        char call[129], name[129];
    } open[TOOLS_MAX];
    size_t n;
};

/* input: what it is called with; shown as its "command" (a string, or words) where it has one, else as JSON. May be NULL. */
void tools_start(struct tools *t, struct from_agent *up, const char *call, const char *name,
                 const json_t *input);

/* status 0: it succeeded. One that was not started, or has ended, is passed over. */
void tools_end(struct tools *t, struct from_agent *up, const char *call, int64_t status, const char *text);

/* The turn is over: those that are still open end with this status. */
void tools_end_all(struct tools *t, struct from_agent *up, int64_t status);

#endif
