#include "harness/tools.h"
#include "base/buf.h"
#include "base/own.h"
#include "harness/json_line.h"

#include <stdlib.h>
#include <string.h>

enum { COMMANDS = 2 }; /* of `telling`: "command" and "cmd" */

static struct tool *find(struct tools *t, const char *call) {
    for (size_t i = 0; i < t->n; i++)
        if (!strcmp(t->open[i].call, call))
            return &t->open[i];
    return NULL;
}

/* Words as a line for people; nothing runs it. */
static void join(struct buf *out, const json_t *words) {
    for (size_t i = 0; i < json_array_size(words); i++)
        buf_printf(out, "%s%s", i ? " " : "", json_words(json_array_get(words, i), ""));
}

/* True: what is shown is a command that the harness says it runs. */
static bool shown(struct buf *out, const json_t *input) {
    static const char *const telling[] = {"command", "cmd",     "file_path",  "path",
                                          "url",     "pattern", "description"};
    for (size_t i = 0; i < COUNT(telling); i++) {
        const json_t *v = json_at(input, telling[i]);
        if (json_is_string(v))
            buf_adds(out, json_string_value(v));
        else if (json_is_array(v))
            join(out, v);
        if (out->len)
            return i < COMMANDS;
    }
    own_free char *all = input && json_object_size(input) ? json_dumps(input, JSON_COMPACT) : NULL;
    buf_adds(out, all ? all : "");
    return false;
}

static void say_tool(struct from_agent *up, const char *kind, const struct tool *tool, int64_t status,
                     const char *text) {
    size_t n = strnlen(text, TOOL_TEXT_MAX);
    while (n && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    say_event(up, kind, tool->call, tool->name, status, text, n);
}

void tools_start(struct tools *t, struct from_agent *up, const char *call, const char *name,
                 const json_t *input) {
    struct tool tool;
    snprintf(tool.call, sizeof tool.call, "%s", call);
    snprintf(tool.name, sizeof tool.name, "%s", name);
    if (find(t, tool.call))
        return;
    if (t->n == TOOLS_MAX)
        tools_end(t, up, t->open[0].call, 0, "");
    t->open[t->n++] = tool;
    own_buf struct buf text = {0};
    bool command = shown(&text, input);
    say_tool(up, "tool_start", &tool, command, buf_text(&text));
}

void tools_end(struct tools *t, struct from_agent *up, const char *call, int64_t status, const char *text) {
    char key[sizeof t->open[0].call];
    snprintf(key, sizeof key, "%s", call);
    struct tool *tool = find(t, key);
    if (!tool)
        return;
    say_tool(up, "tool_end", tool, status, text);
    size_t after = t->n - (size_t)(tool - t->open) - 1;
    memmove(tool, tool + 1, after * sizeof *tool);
    t->n--;
}

void tools_end_all(struct tools *t, struct from_agent *up, int64_t status) {
    while (t->n)
        tools_end(t, up, t->open[0].call, status, "");
}
