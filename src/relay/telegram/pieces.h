/*
 * A long text as messages of a chat: lengths are counted in UTF-16 units, as the Bot API counts. Cut between paragraphs
 * where that leaves no piece small, else between lines, words, characters, in this order; a fenced block that is cut is
 * closed in one piece and opened again in the next. Pure.
 */
#ifndef TELEGRAM_PIECES_H
#define TELEGRAM_PIECES_H

#include "base/buf.h"
#include "proto/msg.h"

#include <stdbool.h>

/* Of valid UTF-8. */
size_t pieces_units(struct bytes text);

/* Hostile text made fit to be shown: ESCAPE_TEXT, and no tg: link a client would open. "(nothing)" for blanks alone. */
void pieces_tame(struct buf *out, struct bytes text);

/* Takes the next piece, at most `units` long (64 at least), off *rest; false: there is none. `fence`: what it must begin
 * with, "" at first; 64 bytes. */
enum { PIECES_FENCE_MAX = 64 };
bool pieces_next(struct bytes *rest, size_t units, char fence[PIECES_FENCE_MAX], struct buf *out);

#endif
