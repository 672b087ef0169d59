#include "cli/self.h"
#include "base/escape.h"
#include "base/own.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "agent-cage"

static const char *called = NAME;

static bool on_path(void) {
    const char *path = getenv("PATH");
    for (const char *p = path ? path : ""; *p;) {
        size_t n = strcspn(p, ":");
        own_free char *file = xasprintf("%.*s/" NAME, (int)n, p);
        if (n && access(file, X_OK) == 0)
            return true;
        p += n + (p[n] == ':');
    }
    return false;
}

/* One word to a shell and to a terminal, where it is shown as it is and copied from. */
static bool is_plain(const char *path) {
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+.,:@%/";
    return !path[strspn(path, set)];
}

void self_called(const char *argv0) {
    called = strchr(argv0, '/') && is_plain(argv0) && !on_path() ? argv0 : NAME;
}

const char *self_name(void) {
    return called;
}

/* The next hint's name at or behind p, NULL: there is none. */
static const char *next_hint(const char *p) {
    static const char *const heads[] = {"`" NAME " ", "`sudo " NAME " "};
    const char *first = NULL;
    for (size_t i = 0; i < COUNT(heads); i++) {
        const char *at = strstr(p, heads[i]);
        const char *name = at ? at + strlen(heads[i]) - strlen(NAME " ") : NULL;
        if (name && (!first || name < first))
            first = name;
    }
    return first;
}

void self_hints(struct buf *out, const char *text) {
    for (const char *at; (at = next_hint(text)); text = at + strlen(NAME)) {
        buf_add(out, text, (size_t)(at - text));
        buf_adds(out, called);
    }
    buf_adds(out, text);
}

void self_print(FILE *to, const char *text) {
    own_buf struct buf hints = {0};
    self_hints(&hints, text);
    escape_print(to, ESCAPE_TEXT, buf_text(&hints));
}

void self_print_plain(FILE *to, const char *text) {
    own_buf struct buf hints = {0};
    self_hints(&hints, text);
    fputs(buf_text(&hints), to);
}
