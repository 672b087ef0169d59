/*
 * What a program has drawn on a terminal, as the person would see it: programs that draw move about and say again only what
 * changed, so a text is read off the screen and not out of the bytes. Cells are ASCII ('?' for what is not); colours, modes
 * and questions to the terminal are passed over. The cells lie in pages of their own, as a credential does (secret.h): a
 * log-in draws one.
 */
#ifndef AGENT_SCREEN_H
#define AGENT_SCREEN_H

#include "base/err.h"
#include "proto/msg.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    SCREEN_ROWS = 64,
    SCREEN_COLUMNS = 1024
}; /* so wide that no address and no token is broken into lines */

struct screen;

err_t screen_new(struct screen **ret);
void screen_free(struct screen *s); /* the cells are cleared; NULL is fine */

void screen_feed(struct screen *s, const char *p, size_t n);

/* The first text on the screen that begins with `with` and goes on with bytes of `set`; points into s until the next feed. */
bool screen_find(const struct screen *s, const char *with, const char *set, struct bytes *ret);

/* The rest of the line behind `with`, without blanks at its end. */
bool screen_behind(const struct screen *s, const char *with, struct bytes *ret);

/* The first text on the lines under the one that holds `text`, without blanks around it. */
bool screen_below(const struct screen *s, const char *text, struct bytes *ret);

/* The lowest line that is not empty. */
bool screen_last(const struct screen *s, struct bytes *ret);

#endif
