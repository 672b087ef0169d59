/*
 * Output is any bytes; what is said to the manager is TEXT: valid UTF-8 without NUL. Cutting happens between
 * characters, so a character that a buffer's edge falls into comes out whole or is counted as left out.
 */
#ifndef AGENT_TEXT_H
#define AGENT_TEXT_H

#include "base/buf.h"

#include <stddef.h>

/* The most of p[0..n) that does not end inside a character that more bytes could complete (n - 3 at least).
 */
size_t text_whole(const char *p, size_t n);

/* How many bytes at p belong to a character that began before it (0 to 3, at most n). */
size_t text_rest(const char *p, size_t n);

/* Appends p[0..n) as TEXT: each invalid byte and each NUL becomes U+FFFD. At most 3 * n bytes. */
void text_clean(struct buf *out, const char *p, size_t n);

#endif
