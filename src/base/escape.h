/*
 * Hostile text made harmless where it is shown. Input is any bytes. Invalid UTF-8, C0 and C1 controls, ESC,
 * DEL, bidi controls (U+061C, U+200E..F, U+202A..E, U+2066..9), zero-width and line-separator characters come
 * out as \xNN or \u{N}; printable text passes.
 */
#ifndef BASE_ESCAPE_H
#define BASE_ESCAPE_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum escape_mode {
    ESCAPE_LINE, /* newline and tab are escaped too: one line stays one line */
    ESCAPE_TEXT  /* newline and tab pass; CR before LF is dropped, other CR is escaped */
};

void escape_text(struct buf *out, enum escape_mode mode, const void *text, size_t len);

/* The same, printed; what is printed of others' text goes to a terminal by this. */
void escape_print(FILE *to, enum escape_mode mode, const char *text);

/* As above, into a fixed place; always NUL-terminated; cut at a whole escape. Returns out. */
char *escape_into(char *out, size_t size, enum escape_mode mode, const void *text, size_t len);

/* Bytes as JSON-valid UTF-8: each invalid byte becomes U+FFFD; nothing else changes. */
void escape_utf8(struct buf *out, const void *text, size_t len);
bool utf8_valid(const void *text, size_t len);

#endif
